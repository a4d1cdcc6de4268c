package archive_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/archive"
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
