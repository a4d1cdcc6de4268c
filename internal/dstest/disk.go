package dstest

import (
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Op is a call on a [Disk] that may fail or mark a moment.
type Op struct {
	Name string // create, open, remove, rename, link, mkdir, dir, write, sync, read, truncate
	Path string
	N    int64 // bytes of a read or write
}

// Changes reports whether the call changes what is on the disk or what a crash
// would keep of it.
func (o Op) Changes() bool { return o.Name != "open" && o.Name != "read" }

// Disk is an in-memory file system for tests. It can show what a power cut at
// one exact moment leaves behind, fail any call, and be full. It may be used
// from many goroutines.
type Disk struct {
	vfs.FS // the same as mem, for what needs no wrapping
	mem    *vfs.MemFS

	// barrier is held for reading by every change, so that a crash sees none
	// half done.
	barrier sync.RWMutex

	mu       sync.Mutex
	hook     func(Op) error
	capacity int64 // bytes; 0: no limit
	nodes    map[string]*node
	order    map[string]uint64 // when a name got its file, if its directory was not synced since
	replaced map[string]bool   // names in order that had another file before
	namings  uint64
}

// node is what the disk knows about a file beside its content. Disk.mu guards it.
type node struct {
	size    int64
	pending []piece // written since the last sync
}

// piece is what a write has overwritten.
type piece struct {
	off  int64
	old  []byte
	size int64 // of the file before
}

// undo takes the unsynced writes back.
func (n *node) undo(content []byte) []byte {
	content = slices.Clone(content)
	for _, p := range slices.Backward(n.pending) {
		copy(content[p.off:], p.old)
		content = content[:p.size]
	}
	return content
}

// NewDisk gives an empty disk.
func NewDisk() *Disk { return wrap(vfs.NewCrashableMem()) }

func wrap(mem *vfs.MemFS) *Disk {
	return &Disk{FS: mem, mem: mem, nodes: map[string]*node{}, order: map[string]uint64{}, replaced: map[string]bool{}}
}

// OnOp calls hook before every call, from the goroutine that makes it. An error
// from it is the call's result. nil removes the hook.
func (d *Disk) OnOp(hook func(Op) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = hook
}

// SetCapacity limits the bytes of all files together; 0 lifts the limit. It
// counts only what was written since the disk was made.
func (d *Disk) SetCapacity(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = n
}

// Used is the number of bytes in all files.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total()
}

func (d *Disk) total() (n int64) {
	for _, f := range d.nodes {
		n += f.size
	}
	return n
}

func (d *Disk) before(op Op) error {
	d.mu.Lock()
	hook := d.hook
	d.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op)
}

// change runs a change of the disk.
func (d *Disk) change(op Op, do func() error) error {
	if err := d.before(op); err != nil {
		return err
	}
	d.barrier.RLock()
	defer d.barrier.RUnlock()
	return do()
}

// node gives the node of a path. The caller holds mu.
func (d *Disk) node(path string) *node {
	n := d.nodes[path]
	if n == nil {
		n = &node{}
		if info, err := d.mem.Stat(path); err == nil {
			n.size = info.Size()
		}
		d.nodes[path] = n
	}
	return n
}

// write accounts for bytes that are about to be written.
func (d *Disk) write(n *node, f vfs.File, off int64, p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if more := off + int64(len(p)) - n.size; more > 0 && d.capacity > 0 && d.total()+more > d.capacity {
		return syscall.ENOSPC
	}
	pc := piece{off: off, size: n.size, old: make([]byte, min(int64(len(p)), max(0, n.size-off)))}
	if len(pc.old) > 0 {
		if _, err := f.ReadAt(pc.old, off); err != nil {
			return err
		}
	}
	n.pending = append(n.pending, pc)
	n.size = max(n.size, off+int64(len(p)))
	return nil
}

func (d *Disk) forget(prefix string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.nodes {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			delete(d.nodes, path)
		}
	}
}

// GetDiskUsage implements vfs.FS.
func (d *Disk) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.capacity == 0 {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	used := d.total()
	free := uint64(max(d.capacity-used, 0))
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: uint64(d.capacity), UsedBytes: uint64(used)}, nil
}

func (d *Disk) exists(path string) bool {
	_, err := d.mem.Stat(path)
	return err == nil
}

// named notes that a name has got a node.
func (d *Disk) named(path string, n *node, replaced bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[path] = n
	d.ordered(path)
	if replaced {
		d.replaced[path] = true
	}
}

// ordered notes when a name was made. The caller holds mu.
func (d *Disk) ordered(path string) {
	d.namings++
	d.order[path] = d.namings
}

func (d *Disk) nodeOf(path string) *node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.node(path)
}

// Create implements vfs.FS.
func (d *Disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	var f vfs.File
	n := &node{}
	err := d.change(Op{Name: "create", Path: name}, func() (err error) {
		replaced := d.exists(name)
		if f, err = d.mem.Create(name, c); err == nil {
			d.named(name, n, replaced)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d, path: name, n: n}, nil
}

// Open implements vfs.FS.
func (d *Disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := d.before(Op{Name: "open", Path: name}); err != nil {
		return nil, err
	}
	f, err := d.mem.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d, path: name, n: d.nodeOf(name)}, nil
}

// OpenReadWrite implements vfs.FS.
func (d *Disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	var f vfs.File
	err := d.change(Op{Name: "create", Path: name}, func() (err error) {
		f, err = d.mem.OpenReadWrite(name, c, opts...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d, path: name, n: d.nodeOf(name)}, nil
}

// OpenDir implements vfs.FS.
func (d *Disk) OpenDir(name string) (vfs.File, error) {
	if err := d.before(Op{Name: "open", Path: name}); err != nil {
		return nil, err
	}
	f, err := d.mem.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d, path: name, dir: true}, nil
}

// Link implements vfs.FS.
func (d *Disk) Link(from, to string) error {
	return d.change(Op{Name: "link", Path: to}, func() error {
		err := d.mem.Link(from, to)
		if err == nil {
			d.named(to, d.nodeOf(from), false)
		}
		return err
	})
}

// Remove implements vfs.FS.
func (d *Disk) Remove(name string) error {
	err := d.change(Op{Name: "remove", Path: name}, func() error { return d.mem.Remove(name) })
	if err == nil {
		d.forget(name)
	}
	return err
}

// RemoveAll implements vfs.FS.
func (d *Disk) RemoveAll(name string) error {
	err := d.change(Op{Name: "remove", Path: name}, func() error { return d.mem.RemoveAll(name) })
	if err == nil {
		d.forget(name)
	}
	return err
}

// Rename implements vfs.FS.
func (d *Disk) Rename(from, to string) error {
	return d.change(Op{Name: "rename", Path: to}, func() error {
		n, replaced := d.nodeOf(from), d.exists(to)
		err := d.mem.Rename(from, to)
		if err == nil {
			d.forget(from)
			d.named(to, n, replaced)
		}
		return err
	})
}

// ReuseForWrite implements vfs.FS.
func (d *Disk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(from, to); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(to, c)
}

// MkdirAll implements vfs.FS.
func (d *Disk) MkdirAll(dir string, perm os.FileMode) error {
	return d.change(Op{Name: "mkdir", Path: dir}, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.exists(dir) {
			d.ordered(dir)
		}
		return d.mem.MkdirAll(dir, perm)
	})
}

// Lock implements vfs.FS.
func (d *Disk) Lock(name string) (io.Closer, error) {
	var c io.Closer
	err := d.change(Op{Name: "create", Path: name}, func() (err error) {
		c, err = d.mem.Lock(name)
		return err
	})
	return c, err
}

// Unwrap implements vfs.FS.
func (d *Disk) Unwrap() vfs.FS { return d.mem }

// diskFile is an open file of a Disk.
type diskFile struct {
	vfs.File
	d    *Disk
	path string
	dir  bool
	n    *node
	off  int64
}

func (f *diskFile) Read(p []byte) (int, error) {
	if err := f.d.before(Op{Name: "read", Path: f.path, N: int64(len(p))}); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *diskFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.d.before(Op{Name: "read", Path: f.path, N: int64(len(p))}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *diskFile) Write(p []byte) (n int, err error) {
	err = f.d.change(Op{Name: "write", Path: f.path, N: int64(len(p))}, func() (err error) {
		if err = f.d.write(f.n, f.File, f.off, p); err != nil {
			return err
		}
		n, err = f.File.Write(p)
		f.off += int64(n)
		return err
	})
	return n, err
}

func (f *diskFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.d.change(Op{Name: "write", Path: f.path, N: int64(len(p))}, func() (err error) {
		if err = f.d.write(f.n, f.File, off, p); err != nil {
			return err
		}
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *diskFile) sync(do func() error) error {
	return f.d.change(Op{Name: "sync", Path: f.path}, func() error {
		if err := do(); err != nil {
			return err
		}
		if f.dir {
			f.d.syncedDir(f.path)
			return nil
		}
		f.d.mu.Lock()
		defer f.d.mu.Unlock()
		f.n.pending = nil
		return nil
	})
}

// syncedDir forgets what was replaced in a directory.
func (d *Disk) syncedDir(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.order {
		if d.mem.PathDir(path) == strings.TrimSuffix(dir, "/") {
			delete(d.order, path)
			delete(d.replaced, path)
		}
	}
}

func (f *diskFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *diskFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *diskFile) SyncTo(int64) (full bool, err error) {
	// Starting to write back promises nothing.
	return false, f.d.change(Op{Name: "sync", Path: f.path}, func() error { return nil })
}

// Loss says what a power cut does to what was not synced.
type Loss struct {
	// Keep is the percentage of the unsynced 4 KiB blocks that survive. Of the
	// unsynced names the first ones survive, as on a file system that journals
	// its directories: none at 0, all at 100, else a random number.
	Keep int
	// Tear also ruins unsynced 512-byte sectors: each is old, new, zeros or
	// noise.
	Tear bool
}

// Crash gives the disk as a power cut at this moment leaves it. The disk itself
// goes on. The outcome depends on rng alone.
func (d *Disk) Crash(rng *rand.Rand, loss Loss) *Disk {
	d.barrier.Lock()
	defer d.barrier.Unlock()
	safe := d.mem.CrashClone(vfs.CrashCloneCfg{})
	if loss.Keep <= 0 && !loss.Tear {
		return wrap(safe)
	}
	live := d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
	d.mu.Lock()
	defer d.mu.Unlock()
	m := merger{safe: safe, live: live, rng: rng, loss: loss, nodes: d.nodes, order: d.order, replaced: d.replaced}
	switch {
	case loss.Keep >= 100:
		m.last = d.namings
	case loss.Keep > 0 && d.namings > 0 && len(d.order) > 0:
		first := d.namings
		for _, seq := range d.order {
			first = min(first, seq)
		}
		m.last = first - 1 + rng.Uint64N(d.namings-first+2)
	}
	m.dir("/")
	return wrap(safe)
}

// merger puts some of what was not synced into the safe picture of a disk.
type merger struct {
	safe, live *vfs.MemFS
	rng        *rand.Rand
	loss       Loss
	nodes      map[string]*node
	order      map[string]uint64
	last       uint64 // naming that survives
	replaced   map[string]bool
}

func (m *merger) keep() bool { return m.rng.IntN(100) < m.loss.Keep }

func (m *merger) dir(path string) {
	names, err := m.live.List(path)
	if err != nil {
		return
	}
	slices.Sort(names)
	for _, name := range names {
		full := m.live.PathJoin(path, name)
		info, err := m.live.Stat(full)
		if err != nil {
			continue
		}
		if m.order[full] > m.last {
			continue
		}
		if info.IsDir() {
			must(m.safe.MkdirAll(full, 0o755))
			m.dir(full)
		} else {
			m.file(full)
		}
	}
	f, err := m.safe.OpenDir(path)
	must(err)
	must(f.Sync())
	must(f.Close())
}

// file puts a file into the picture, with some of its unsynced blocks.
func (m *merger) file(path string) {
	now := readFile(m.live, path)
	old := now
	if n := m.nodes[path]; n != nil {
		old = n.undo(now)
	}
	content := slices.Clone(old)
	for off := 0; off < len(now); off += 4096 {
		end := min(off+4096, len(now))
		block := now[off:end]
		if end <= len(old) && string(old[off:end]) == string(block) || !m.keep() {
			continue
		}
		if grow := end - len(content); grow > 0 {
			content = append(content, make([]byte, grow)...)
		}
		for s := off; s < end; s += 512 {
			m.sector(content[s:min(s+512, end)], now[s:min(s+512, end)])
		}
	}
	writeFile(m.safe, path, content)
}

// sector decides one unsynced sector: dst holds what was synced.
func (m *merger) sector(dst, now []byte) {
	if string(dst) == string(now) {
		return
	}
	if !m.loss.Tear {
		copy(dst, now)
		return
	}
	switch m.rng.IntN(4) {
	case 0:
		copy(dst, now)
	case 1:
		clear(dst)
	case 2:
		for i := range dst {
			dst[i] = byte(m.rng.Uint32())
		}
	}
}

func readFile(fs vfs.FS, path string) []byte {
	f, err := fs.Open(path)
	must(err)
	defer f.Close()
	info, err := f.Stat()
	must(err)
	b := make([]byte, info.Size())
	if len(b) > 0 {
		_, err = f.ReadAt(b, 0)
		must(err)
	}
	return b
}

func writeFile(fs vfs.FS, path string, content []byte) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	must(err)
	_, err = f.Write(content)
	must(err)
	must(f.Sync())
	must(f.Close())
}

// must stops a test whose file system in memory has failed, which it cannot.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Edit replaces the content of a file, synced.
func (d *Disk) Edit(path string, change func([]byte) []byte) {
	d.Put(path, change(readFile(d.mem, path)))
}

// Put makes a file, synced, in a directory that is there.
func (d *Disk) Put(path string, content []byte) {
	writeFile(d.mem, path, content)
	dir, err := d.mem.OpenDir(d.mem.PathDir(path))
	must(err)
	must(dir.Sync())
	must(dir.Close())
}

// Files lists the files of a directory in the order of their names.
func (d *Disk) Files(dir string) []string {
	names, err := d.mem.List(dir)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}
