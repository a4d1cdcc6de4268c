package journal_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// errPower is what a powerFS returns once it is off.
var errPower = errors.New("power is off")

// errDisk is the failure that a powerFS injects into a sync.
var errDisk = errors.New("disk failed")

const sector = 512

// piece is a part of a write, inside one sector, that a power cut may take
// back or ruin.
type piece struct {
	off      int64
	old, now []byte
}

// powerFS is a file system that stops after a number of changes, in the middle
// of one if it must, and then shows what a killed process or a power cut leaves
// behind. It is used by one goroutine.
type powerFS struct {
	vfs.FS
	mem       *vfs.MemFS
	rng       *rand.Rand
	countdown int // changes until it stops; negative means never
	off       bool
	failSync  int // file syncs until one fails; negative means never

	nodes map[string]*node // by path
}

// node is what a powerFS knows about the content of a file.
type node struct {
	pending []piece // written, not synced
	lost    []piece // a sync failed: in memory, called clean, not on disk
}

func newPowerFS(mem *vfs.MemFS, rng *rand.Rand) *powerFS {
	return &powerFS{FS: mem, mem: mem, rng: rng, countdown: -1, failSync: -1, nodes: map[string]*node{}}
}

// kill is the file system after the process was killed: nothing is lost, and
// what was not synced still is not.
func (p *powerFS) kill() *powerFS {
	return &powerFS{FS: p.mem, mem: p.mem, rng: p.rng, countdown: -1, failSync: -1, nodes: p.nodes}
}

// cut is the file system after a power cut. What was not synced survives at
// random: directory entries and 4 KiB blocks with the given probability, and
// then every sector of an unsynced write as old, new, zeros or noise.
func (p *powerFS) cut(percent int, tear bool) *powerFS {
	mem := p.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: p.rng})
	for _, path := range slices.Sorted(maps.Keys(p.nodes)) {
		n := p.nodes[path]
		if tear {
			patch(mem, path, n.pending, p.torn)
		}
		patch(mem, path, n.lost, func(pc piece) []byte { return pc.old })
	}
	return newPowerFS(mem, p.rng)
}

// torn is one outcome for an unsynced piece.
func (p *powerFS) torn(pc piece) []byte {
	switch p.rng.IntN(4) {
	case 0:
		return pc.old
	case 1:
		return pc.now
	case 2:
		return make([]byte, len(pc.now))
	}
	noise := make([]byte, len(pc.now))
	for i := range noise {
		noise[i] = byte(p.rng.Uint32())
	}
	return noise
}

// patch overwrites pieces of a file, if it is there, and makes them durable.
func patch(mem *vfs.MemFS, path string, pieces []piece, content func(piece) []byte) {
	if _, err := mem.Stat(path); err != nil || len(pieces) == 0 {
		return
	}
	f, err := mem.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		panic(err)
	}
	for _, pc := range pieces {
		if _, err := f.WriteAt(content(pc), pc.off); err != nil {
			panic(err)
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		panic(err)
	}
}

// step counts a change. It says whether the change still happens and what the
// caller is told.
func (p *powerFS) step() (happens bool, err error) {
	if p.off {
		return false, errPower
	}
	if p.countdown != 0 {
		p.countdown--
		return true, nil
	}
	p.off = true
	return p.rng.IntN(2) == 0, errPower
}

// change runs a change under step.
func (p *powerFS) change(do func() error) error {
	happens, err := p.step()
	if happens {
		if failure := do(); failure != nil && err == nil {
			err = failure
		}
	}
	return err
}

func (p *powerFS) MkdirAll(dir string, perm os.FileMode) error {
	return p.change(func() error { return p.FS.MkdirAll(dir, perm) })
}

func (p *powerFS) Rename(from, to string) error {
	return p.change(func() error {
		if n := p.nodes[from]; n != nil {
			if len(n.pending) > 0 {
				panic("renamed before sync: " + from)
			}
			p.nodes[to] = n
			delete(p.nodes, from)
		}
		return p.FS.Rename(from, to)
	})
}

func (p *powerFS) Remove(path string) error {
	return p.change(func() error { return p.FS.Remove(path) })
}

func (p *powerFS) Link(from, to string) error {
	return p.change(func() error { return p.FS.Link(from, to) })
}

func (p *powerFS) List(dir string) ([]string, error) {
	if p.off {
		return nil, errPower
	}
	return p.FS.List(dir)
}

func (p *powerFS) Open(path string, opts ...vfs.OpenOption) (vfs.File, error) {
	if p.off {
		return nil, errPower
	}
	return p.FS.Open(path, opts...)
}

func (p *powerFS) OpenDir(path string) (vfs.File, error) {
	return p.opened(path, func() (vfs.File, error) { return p.FS.OpenDir(path) })
}

func (p *powerFS) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	delete(p.nodes, path)
	return p.opened(path, func() (vfs.File, error) { return p.FS.Create(path, c) })
}

func (p *powerFS) OpenReadWrite(path string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return p.opened(path, func() (vfs.File, error) { return p.FS.OpenReadWrite(path, c, opts...) })
}

func (p *powerFS) opened(path string, open func() (vfs.File, error)) (f vfs.File, err error) {
	err = p.change(func() error {
		f, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	n := p.nodes[path]
	if n == nil {
		n = &node{}
		p.nodes[path] = n
	}
	return &powerFile{File: f, fs: p, node: n}, nil
}

// powerFile is a file of a powerFS.
type powerFile struct {
	vfs.File
	fs   *powerFS
	node *node
}

func (f *powerFile) WriteAt(b []byte, off int64) (int, error) {
	err := f.fs.change(func() error {
		f.remember(b, off)
		_, err := f.File.WriteAt(b, off)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// remember notes the pieces of a write that is about to happen.
func (f *powerFile) remember(b []byte, off int64) {
	old := make([]byte, len(b))
	_, _ = f.File.ReadAt(old, off) // short at the end of the file: zeros
	for i := int64(0); i < int64(len(b)); {
		n := min(sector-(off+i)%sector, int64(len(b))-i)
		now := append([]byte(nil), b[i:i+n]...)
		f.node.pending = append(f.node.pending, piece{off: off + i, old: old[i : i+n], now: now})
		i += n
	}
	f.node.lost = slices.DeleteFunc(f.node.lost, func(pc piece) bool {
		// A write makes the whole of a piece dirty again.
		return pc.off < off+int64(len(b)) && off < pc.off+int64(len(pc.old))
	})
}

func (f *powerFile) Sync() error { return f.sync() }

func (f *powerFile) SyncData() error { return f.sync() }

func (f *powerFile) sync() error {
	return f.fs.change(func() error {
		if f.fs.failSync--; f.fs.failSync == -1 {
			f.node.lost = append(f.node.lost, f.node.pending...)
			f.node.pending = nil
			return errDisk
		}
		f.node.pending = nil
		return f.File.Sync()
	})
}
