package archive

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/salvage"
)

// Compactions need space before they give any, and Pebble tries what failed again at
// once, flushes too. So that they neither take the last byte from those that must not
// fail nor turn a full disk into a hot loop, its files are written through spaceFS. A
// disk that fails otherwise, or does not let the archive write any more, is the end.

// Free bytes that background work leaves to others: compactions to flushes, and
// flushes to the few bytes of the manifest. If somebody else takes those, the
// manifest waits: for Pebble its failure would be the end.
const (
	keepForFlush    = 1 << 20
	keepForManifest = 256 << 10
)

// Categories that Pebble gives the files of its background work.
const (
	compactionCategory = "pebble-compaction"
	flushCategory      = "pebble-memtable-flush"
	manifestCategory   = "pebble-manifest"
)

const (
	checkEvery   = 128 << 10              // bytes written between looks at the disk
	compactAgain = 3 * time.Second        // after one that did not fit
	flushAgain   = 100 * time.Millisecond // the same for a flush, which is needed

	complainAgain = 10 * time.Second // a full disk must not be filled by the log
)

// spaceFS refuses to fill the disk.
type spaceFS struct {
	vfs.FS
	dir    string
	closed chan struct{}

	compaction, flush budget

	fatal  func(error)   // may be nil
	broken chan struct{} // closed when the disk has failed
	once   sync.Once     // guards why
	why    error         // once broken is closed

	damaged atomic.Bool // a table is: from now on blocks are checked first

	complained atomic.Int64 // when, in Unix nanoseconds; 0 never

	mu        sync.Mutex
	trusted   bool
	untrusted []string // files to be removed once the archive is trusted
}

// budget is what one kind of work may take.
type budget struct {
	keep    uint64
	again   time.Duration
	refused atomic.Int64 // when, in Unix nanoseconds; 0 never
}

// failed lets the next one wait.
func (b *budget) failed() { b.refused.Store(time.Now().UnixNano()) }

// wait is for how long. The clock may have been set.
func (b *budget) wait() time.Duration {
	since := time.Duration(time.Now().UnixNano() - b.refused.Load())
	if since < 0 {
		return b.again
	}
	return b.again - since
}

// failed notes that background work could not write a file. Where nothing is short,
// that is the end of the disk.
func (s *spaceFS) failed(b *budget, err error) error {
	if err == nil {
		return nil
	}
	b.failed()
	if isDamage(err) && !outOfRoom(err) || errors.Is(err, os.ErrPermission) {
		s.once.Do(func() {
			s.why = fmt.Errorf("archive: %w", err)
			close(s.broken)
			if s.fatal != nil {
				s.fatal(s.why)
			}
		})
	}
	return err
}

func newSpaceFS(fs vfs.FS, dir string) *spaceFS {
	s := &spaceFS{FS: fs, dir: dir, closed: make(chan struct{}), broken: make(chan struct{})}
	s.compaction.keep, s.compaction.again = keepForFlush, compactAgain
	s.flush.keep, s.flush.again = keepForManifest, flushAgain
	return s
}

// inUse says whether the archive has been opened.
func (s *spaceFS) inUse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trusted
}

// complain says whether it is time to tell again that there is no space.
func (s *spaceFS) complain() bool {
	now, last := time.Now().UnixNano(), s.complained.Load()
	return (now-last >= int64(complainAgain) || now < last) && s.complained.CompareAndSwap(last, now)
}

// room fails if there is not even space for the manifest.
func (s *spaceFS) room() error {
	usage, err := s.GetDiskUsage(s.dir)
	if err == nil && usage.AvailBytes < keepForManifest {
		return fmt.Errorf("%d bytes are left on the disk: %w", usage.AvailBytes, syscall.ENOSPC)
	}
	return nil
}

// fileSize is the largest file to write: a part of the disk, so that rewriting
// one fits where another was deleted. 0 stands for Pebble's own sizes.
func (s *spaceFS) fileSize() int64 {
	const part, least, most = 64, 128 << 10, 2 << 20
	usage, err := s.GetDiskUsage(s.FS.PathDir(s.dir))
	if err != nil || usage.TotalBytes/part > most {
		return 0
	}
	return max(int64(usage.TotalBytes/part), least)
}

// Remove implements vfs.FS. Pebble removes what its manifest does not name, and it
// takes a manifest with a damaged end for a short one. So nothing that holds data
// goes before the archive has turned out to be what it should be.
func (s *spaceFS) Remove(name string) error {
	if !strings.HasSuffix(name, salvage.TableExt) && !strings.HasPrefix(s.PathBase(name), salvage.ManifestPrefix) {
		return s.FS.Remove(name)
	}
	s.mu.Lock()
	trusted := s.trusted
	if !trusted {
		s.untrusted = append(s.untrusted, name)
	}
	s.mu.Unlock()
	if trusted {
		return s.FS.Remove(name)
	}
	return nil
}

// trust lets removals happen, the ones asked for so far included.
func (s *spaceFS) trust() {
	s.mu.Lock()
	names := s.untrusted
	s.trusted, s.untrusted = true, nil
	s.mu.Unlock()
	for _, name := range names {
		_ = s.FS.Remove(name) // the next start asks again
	}
}

// Open implements vfs.FS.
func (s *spaceFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, salvage.TableExt) {
		return f, err
	}
	checked, err := salvage.Checked(f, s.PathBase(name), &s.damaged)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return checked, nil
}

// Create implements vfs.FS. Work that did not fit a moment ago waits here.
func (s *spaceFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	var b *budget
	switch category {
	case compactionCategory:
		b = &s.compaction
	case flushCategory:
		b = &s.flush
	case manifestCategory:
		f, err := s.FS.Create(name, category)
		if err != nil {
			return nil, err
		}
		return &manifestFile{File: f, fs: s}, nil
	default:
		return s.FS.Create(name, category)
	}
	if wait := b.wait(); wait > 0 {
		select {
		case <-time.After(wait):
		case <-s.closed:
		}
	}
	f, err := s.FS.Create(name, category)
	if err != nil {
		return nil, s.failed(b, err)
	}
	return &spaceFile{File: f, fs: s, budget: b, unchecked: checkEvery}, nil
}

// spaceFile is a file of background work. It has one writer.
type spaceFile struct {
	vfs.File
	fs        *spaceFS
	budget    *budget
	unchecked int64 // bytes written since the last look
}

// Write implements vfs.File.
func (f *spaceFile) Write(p []byte) (int, error) {
	if f.unchecked += int64(len(p)); f.unchecked >= checkEvery {
		f.unchecked = 0
		usage, err := f.fs.GetDiskUsage(f.fs.dir)
		if err == nil && usage.AvailBytes < f.budget.keep+uint64(len(p)) {
			f.budget.failed()
			return 0, fmt.Errorf("%d bytes are left on the disk: %w", usage.AvailBytes, syscall.ENOSPC)
		}
	}
	n, err := f.File.Write(p)
	return n, f.fs.failed(f.budget, err)
}

// Sync implements vfs.File.
func (f *spaceFile) Sync() error { return f.fs.failed(f.budget, f.File.Sync()) }

// SyncData implements vfs.File.
func (f *spaceFile) SyncData() error { return f.fs.failed(f.budget, f.File.SyncData()) }

// manifestFile is a file whose writes wait for space once the archive is in use; a
// start fails instead.
type manifestFile struct {
	vfs.File
	fs *spaceFS
}

// Write implements vfs.File.
func (f *manifestFile) Write(p []byte) (written int, err error) {
	for {
		n, err := f.File.Write(p[written:])
		written += n
		if err == nil || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) || !f.fs.inUse() {
			return written, err
		}
		select {
		case <-time.After(flushAgain):
		case <-f.fs.closed:
			return written, err
		}
	}
}
