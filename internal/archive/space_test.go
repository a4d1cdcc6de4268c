package archive_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/archive"
	"durablestreams/stream"
)

// roomFS is a file system that says how much is free.
type roomFS struct {
	vfs.FS
	free, total uint64
}

func (r *roomFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: r.free, TotalBytes: r.total}, nil
}

// write writes n bytes into a new file and says how that went and how long the
// file took to come.
func write(t *testing.T, fs vfs.FS, category vfs.DiskWriteCategory, n int) (waited time.Duration, err error) {
	t.Helper()
	begin := time.Now()
	f, err := fs.Create("file", category)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	waited = time.Since(begin)
	_, err = f.Write(make([]byte, n))
	return waited, err
}

func TestBackgroundWorkLeavesRoom(t *testing.T) {
	const size = 100 << 10
	tests := []struct {
		category vfs.DiskWriteCategory
		free     uint64
		full     bool
	}{
		{archive.CompactionCategory, archive.KeepForFlush + size, false},
		{archive.CompactionCategory, archive.KeepForFlush + size - 1, true},
		{archive.FlushCategory, archive.KeepForManifest + size, false},
		{archive.FlushCategory, archive.KeepForManifest + size - 1, true},
		{vfs.WriteCategoryUnspecified, 0, false}, // the manifest's
	}
	for _, tt := range tests {
		fs := archive.NewSpaceFS(&roomFS{FS: vfs.NewMem(), free: tt.free}, "")
		_, err := write(t, fs, tt.category, size)
		if errors.Is(err, syscall.ENOSPC) != tt.full || err != nil && !tt.full {
			t.Errorf("%s with %d free: %v", tt.category, tt.free, err)
		}
	}
}

// A file that grows is looked at again and again.
func TestBackgroundWorkStopsInTheMiddle(t *testing.T) {
	room := &roomFS{FS: vfs.NewMem(), free: 1 << 30}
	f, err := archive.NewSpaceFS(room, "").Create("file", archive.CompactionCategory)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4<<10)
	if _, err := f.Write(block); err != nil {
		t.Fatal(err)
	}
	room.free = 0
	for n := 0; err == nil; n += len(block) {
		if n > archive.CheckEvery {
			t.Fatal("it goes on without room")
		}
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}

// What did not fit is tried again slowly, and not at all when the archive closes.
func TestBackgroundWorkWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := &roomFS{FS: vfs.NewMem()}
		fs := archive.NewSpaceFS(room, "")
		for i, want := range []time.Duration{0, archive.CompactAgain, archive.CompactAgain} {
			if waited, err := write(t, fs, archive.CompactionCategory, 1); waited != want || err == nil {
				t.Errorf("compaction %d waited %v, want %v; %v", i, waited, want, err)
			}
		}
		for i, want := range []time.Duration{0, archive.FlushAgain} {
			if waited, err := write(t, fs, archive.FlushCategory, 1); waited != want || err == nil {
				t.Errorf("flush %d waited %v, want %v; %v", i, waited, want, err)
			}
		}
		if waited, err := write(t, fs, vfs.WriteCategoryUnspecified, 1); waited != 0 || err != nil {
			t.Errorf("the manifest waited %v; %v", waited, err)
		}
		time.AfterFunc(time.Second, fs.Close)
		if waited, _ := write(t, fs, archive.CompactionCategory, 1); waited != time.Second {
			t.Errorf("closing, a compaction waited %v", waited)
		}
	})
}

// A clock that is set does not change how long that takes.
func TestBackgroundWorkWaitsByAClockThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := archive.NewSpaceFS(&roomFS{FS: vfs.NewMem()}, "")
		if _, err := write(t, fs, archive.FlushCategory, 1); err == nil {
			t.Fatal("there is room")
		}
		fs.SetClockBack(time.Hour)
		if waited, _ := write(t, fs, archive.FlushCategory, 1); waited > archive.FlushAgain {
			t.Errorf("after the clock was set back a flush waits %v", waited)
		}
	})
}

// brokenFS fails one operation on files of background work.
type brokenFS struct {
	vfs.FS
	op  string
	err error
}

func (b *brokenFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if b.op == "create" {
		return nil, b.err
	}
	f, err := b.FS.Create(name, c)
	return &brokenFile{f, b}, err
}

type brokenFile struct {
	vfs.File
	fs *brokenFS
}

func (f *brokenFile) fail(op string) error {
	if f.fs.op == op {
		return f.fs.err
	}
	return nil
}

func (f *brokenFile) Write(p []byte) (int, error) { return len(p), f.fail("write") }
func (f *brokenFile) Sync() error                 { return f.fail("sync") }
func (f *brokenFile) SyncData() error             { return f.fail("sync data") }

// A disk that fails, or that may not be written any more, is the end; one that is short
// of something is tried again.
func TestBackgroundWorkFails(t *testing.T) {
	for err, fatal := range map[error]bool{syscall.EIO: true, syscall.EROFS: true, syscall.EACCES: true, syscall.EPERM: true,
		syscall.ENOSPC: false, syscall.EDQUOT: false, syscall.EMFILE: false, syscall.ENFILE: false, syscall.ENOMEM: false} {
		for _, op := range []string{"create", "write", "sync", "sync data"} {
			synctest.Test(t, func(t *testing.T) {
				fs := archive.NewSpaceFS(&brokenFS{vfs.NewMem(), op, err}, "")
				var told []error
				fs.OnFatal(func(err error) { told = append(told, err) })
				begin := time.Now()
				for range 3 { // as Pebble does
					f, err := fs.Create("file", archive.FlushCategory)
					if err == nil {
						_, _ = f.Write(make([]byte, 10))
						_, _ = f.SyncData(), f.Sync()
					}
				}
				if len(told) > 1 || (len(told) == 1) != fatal || fatal && !errors.Is(told[0], err) {
					t.Errorf("%s fails by %v: told %v, want the end: %v", op, err, told, fatal)
				}
				if took := time.Since(begin); took < 2*archive.FlushAgain {
					t.Errorf("%s fails by %v: tried three times within %v", op, err, took)
				}
			})
		}
	}
}

func TestFileSize(t *testing.T) {
	for total, want := range map[uint64]int64{1 << 20: 128 << 10, 64 << 20: 1 << 20, 128 << 20: 2 << 20, 1 << 40: 0} {
		if got := archive.NewSpaceFS(&roomFS{FS: vfs.NewMem(), total: total}, "a/b").FileSize(); got != want {
			t.Errorf("on a disk of %d: %d, want %d", total, got, want)
		}
	}
	if got := archive.NewSpaceFS(vfs.NewMem(), "a/b").FileSize(); got != 0 {
		t.Errorf("on a disk of unknown size: %d", got)
	}
}

// fullFS takes a few bytes of a write and is full then, until there is room.
type fullFS struct {
	vfs.FS
	room chan struct{} // closed: there is
}

func (f *fullFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return &fullFile{File: file, fs: f}, err
}

type fullFile struct {
	vfs.File
	fs *fullFS
}

func (f *fullFile) Write(p []byte) (int, error) {
	select {
	case <-f.fs.room:
		return f.File.Write(p)
	default:
	}
	n, err := f.File.Write(p[:len(p)/2])
	if err == nil {
		err = syscall.ENOSPC
	}
	return n, err
}

// On a disk without any space the manifest waits, also in the middle of a write,
// and goes on by itself; it does not keep the archive from closing.
func TestManifestWaits(t *testing.T) {
	const content = "of what files there are"
	for _, closing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			full := &fullFS{FS: vfs.NewMem(), room: make(chan struct{})}
			fs := archive.NewSpaceFS(full, "")
			fs.Trust()
			f, err := fs.Create("MANIFEST", archive.ManifestCategory)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Minute, func() {
				if closing {
					fs.Close()
				} else {
					close(full.room)
				}
			})
			begin := time.Now()
			n, err := f.Write([]byte(content))
			if waited := time.Since(begin); waited < time.Minute || waited > time.Minute+archive.FlushAgain {
				t.Errorf("waited %v", waited)
			}
			if closing {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("closing: %v", err)
				}
				return
			}
			info, serr := full.FS.Stat("MANIFEST")
			if err != nil || serr != nil || n != len(content) || info.Size() != int64(n) {
				t.Errorf("%d bytes, %v; %v, %v", n, err, info, serr)
			}
		})
	}
}

// Giving space back is not begun where there is none to do so.
func TestReclaimWithoutRoom(t *testing.T) {
	room := &roomFS{FS: vfs.NewMem(), free: 1 << 30, total: 1 << 30}
	a, err := archive.Open(room, "archive", archive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, free := range []uint64{archive.KeepForManifest - 1, archive.KeepForManifest} {
		room.free = free
		err := a.Reclaim(t.Context(), []stream.ID{1})
		if full := free < archive.KeepForManifest; errors.Is(err, syscall.ENOSPC) != full || err != nil && !full {
			t.Errorf("with %d free: %v", free, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
