package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"durablestreams/internal/journal"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// failNth fails one operation of a kind.
type failNth struct {
	kind  errorfs.OpKind
	nth   int // from 0
	err   error
	fired bool
}

func (f *failNth) String() string { return "failNth" }

func (f *failNth) MaybeError(op errorfs.Op) error {
	if op.Kind != f.kind {
		return nil
	}
	f.nth--
	if f.nth == -1 {
		f.fired = true
		return f.err
	}
	return nil
}

// TestFaults fails every single operation of a history once, and checks that
// no acknowledged record is lost and that failures are final where they must.
func TestFaults(t *testing.T) {
	kinds := map[string]errorfs.OpKind{
		"create": errorfs.OpCreate, "open": errorfs.OpOpen, "opendir": errorfs.OpOpenDir, "list": errorfs.OpList,
		"mkdir": errorfs.OpMkdirAll, "rename": errorfs.OpRename, "remove": errorfs.OpRemove,
		"preallocate": errorfs.OpFilePreallocate, "write": errorfs.OpFileWriteAt, "read": errorfs.OpFileReadAt,
		"sync": errorfs.OpFileSync, "syncdata": errorfs.OpFileSyncData, "stat": errorfs.OpFileStat,
	}
	for name, kind := range kinds {
		for _, injected := range []error{syscall.EIO, syscall.ENOSPC} {
			t.Run(fmt.Sprintf("%s/%v", name, injected), func(t *testing.T) {
				for nth := 0; ; nth++ {
					fail := &failNth{kind: kind, nth: nth, err: injected}
					faultyHistory(t, fail)
					if !fail.fired {
						if nth == 0 && kind != errorfs.OpFilePreallocate {
							t.Fatal("the history has no such operation")
						}
						return
					}
				}
			})
		}
	}
}

// faultyHistory appends, prepares, releases and reopens while one operation
// fails, and then checks what a sound disk gives back.
func faultyHistory(t *testing.T, fail *failNth) {
	mem := newMem(t)
	fs, opts := errorfs.Wrap(mem, fail), &journal.Options{SegmentSize: 4096, MaxFree: 1}
	acked, tried, released := 0, 0, 0
	for range 2 {
		j, _, err := open(fs, opts, uint64(released))
		if err != nil {
			if !errors.Is(err, fail.err) {
				t.Fatalf("open: %v", err)
			}
			continue
		}
		tried = int(j.LastLSN())
		acked = tried
		for i := range 70 {
			if i%20 == 10 {
				err = j.Prepare(500)
			} else if i == 55 {
				released = acked - 10
				err = j.Release(uint64(released))
			}
			if err != nil && !errors.Is(err, fail.err) {
				t.Fatalf("step %d: %v", i, err)
			}
			_, err := j.Append(batchOf(body(acked + 1)))
			if err == nil {
				acked++
				tried = acked
				continue
			}
			if !errors.Is(err, fail.err) {
				t.Fatalf("append: %v", err)
			}
			if errors.Is(err, journal.ErrFailed) {
				tried = acked + 1
				break
			}
		}
		if err := j.Close(); err != nil && !errors.Is(err, fail.err) {
			t.Fatalf("close: %v", err)
		}
	}
	j, got := mustOpen(t, mem, opts, uint64(released))
	if last := int(j.LastLSN()); last != acked && last != tried {
		t.Fatalf("%d records are left, %d were acknowledged, %d tried", last, acked, tried)
	}
	wantRecords(t, got, numbered(released+1, int(j.LastLSN())))
	fill(t, j, int(j.LastLSN())+1, int(j.LastLSN())+30)
	closeSound(t, j, mem, uint64(released))
}

// TestFailureIsFinal checks that a journal never writes after a failed write
// or sync, also if the disk has recovered.
func TestFailureIsFinal(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWriteAt, errorfs.OpFileSyncData} {
		for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
			mem := newMem(t)
			var armed bool
			changes := 0
			fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if armed && op.Kind == kind {
					armed = false
					return cause
				}
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					changes++
				}
				return nil
			}))
			j, _ := mustOpen(t, fs, smallSegments, 0)
			fill(t, j, 1, 5)
			armed = true
			if _, err := j.Append(batchOf("lost")); !errors.Is(err, journal.ErrFailed) || !errors.Is(err, cause) {
				t.Fatalf("append: %v", err)
			}
			changes = 0
			for range 3 {
				if _, err := j.Append(batchOf("refused")); !errors.Is(err, journal.ErrFailed) || !errors.Is(err, cause) {
					t.Fatalf("append after failure: %v", err)
				}
			}
			if changes != 0 || j.LastLSN() != 5 || j.Room() != 0 {
				t.Fatalf("%d changes after a failure, last LSN %d, room %d", changes, j.LastLSN(), j.Room())
			}
			closeSound(t, j, mem, 0)
		}
	}
}

// diskFull is a file system with no space for new files while full is set;
// what was filled before can be written over.
type diskFull struct{ full bool }

func (d *diskFull) String() string { return "diskFull" }

func (d *diskFull) MaybeError(op errorfs.Op) error {
	grows := op.Kind == errorfs.OpFilePreallocate || op.Kind == errorfs.OpFileWriteAt
	if d.full && grows && len(op.Path) > 4 && op.Path[len(op.Path)-4:] == ".tmp" {
		return syscall.ENOSPC
	}
	return nil
}

func TestDiskFull(t *testing.T) {
	mem, disk := newMem(t), &diskFull{}
	fs := errorfs.Wrap(mem, disk)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	if err := j.Prepare(0); err != nil || j.Stats().Spares != 1 {
		t.Fatalf("prepare: %v, %+v", err, j.Stats())
	}
	disk.full = true
	n := 0
	for room := j.Room(); room >= batchOf(body(n+1)).Len(); room = j.Room() {
		n++
		fill(t, j, n, n) // what Room promises is there
	}
	if n < 40 {
		t.Fatalf("%d records fitted into two segments", n)
	}
	_, err := j.Append(batchOf(body(n+1), body(n+2)))
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, journal.ErrFailed) {
		t.Fatalf("append: %v", err)
	}
	if err := j.Prepare(0); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, journal.ErrFailed) {
		t.Fatalf("prepare: %v", err)
	}
	noLeftovers(t, mem)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// A restart with a full disk still reads everything.
	j, got := mustOpen(t, fs, smallSegments, 0)
	wantRecords(t, got, numbered(1, n))
	if _, err := j.Append(batchOf("x")); !errors.Is(err, syscall.ENOSPC) || j.Room() != 0 {
		t.Fatalf("append: %v, room %d", err, j.Room())
	}
	disk.full = false
	if err := j.Prepare(4000); err != nil || j.Room() < 4000 {
		t.Fatalf("prepare with space again: %v, room %d", err, j.Room())
	}
	disk.full = true
	mustAppend(t, j, ofLen(j.Room()))
	disk.full = false
	closeSound(t, j, mem, 0)
	j, got = mustOpen(t, mem, smallSegments, uint64(n))
	if len(got) != 1 {
		t.Fatalf("%d records came back", len(got))
	}
	closeSound(t, j, mem, uint64(n))
}

// ofLen is a body whose batch has a Len of n bytes.
func ofLen(n int64) string { return string(bytes.Repeat([]byte("r"), int(n)-45)) }

// TestRoomIsExact fills exactly what Room promises, in one batch and in many.
func TestRoomIsExact(t *testing.T) {
	for _, pieces := range []int64{1, 2, 3, 7} {
		mem, disk := newMem(t), &diskFull{}
		j, _ := mustOpen(t, errorfs.Wrap(mem, disk), smallSegments, 0)
		fill(t, j, 1, 9)
		if err := j.Prepare(0); err != nil {
			t.Fatal(err)
		}
		disk.full = true
		piece := j.Room() / pieces &^ 7
		for range pieces {
			mustAppend(t, j, ofLen(piece))
		}
		closeSound(t, j, mem, 0)
	}
}

// TestPrepareCountsTheCarriedFrame opens without space, so that the last frame
// waits to be written again, and then wants an exact fit.
func TestPrepareCountsTheCarriedFrame(t *testing.T) {
	mem, disk := newMem(t), &diskFull{}
	fs := errorfs.Wrap(mem, disk)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	fill(t, j, 1, 20)
	closeSound(t, j, mem, 0)
	disk.full = true
	j, _ = mustOpen(t, fs, smallSegments, 0)
	disk.full = false
	if err := j.Prepare(4096 - 64); err != nil {
		t.Fatal(err)
	}
	disk.full = true
	if j.Room() < 4096-64 {
		t.Fatalf("room is %d", j.Room())
	}
	mustAppend(t, j, ofLen(4096-64))
	closeSound(t, j, mem, 0)
}

// noLeftovers checks that no half-made file is there.
func noLeftovers(t *testing.T, fs vfs.FS) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if len(name) > 4 && name[len(name)-4:] == ".tmp" {
			t.Fatalf("%s was left behind", name)
		}
	}
}

// TestReleaseHelpsAFullDisk goes on with what recovery itself gives up.
func TestReleaseHelpsAFullDisk(t *testing.T) {
	mem, disk := newMem(t), &diskFull{}
	fs := errorfs.Wrap(mem, disk)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	fill(t, j, 1, 60)
	closeSound(t, j, mem, 0)
	disk.full = true
	j, got := mustOpen(t, fs, smallSegments, 60)
	wantRecords(t, got, nil)
	if s := j.Stats(); s.Rolls != 1 || s.Recycled == 0 {
		t.Fatalf("nothing was reused: %+v", s)
	}
	fill(t, j, 61, 80)
	closeSound(t, j, mem, 60)
}

func TestPrepareForALargeBatch(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	if err := j.Prepare(0); err != nil {
		t.Fatal(err)
	}
	if err := j.Prepare(50_000); err != nil || j.Room() < 50_000 {
		t.Fatalf("prepare: %v, room %d", err, j.Room())
	}
	spares := j.Stats().Spares
	if err := j.Prepare(40_000); err != nil || j.Stats().Spares != spares {
		t.Fatalf("prepare again: %v, %+v", err, j.Stats())
	}
	fill(t, j, 1, 50)
	if s := j.Stats(); s.Rolls != 2 || j.Room() < 50_000 {
		t.Fatalf("the large spare was taken for small batches: %+v", s)
	}
	if err := j.Prepare(1<<30 + 1); !errors.Is(err, journal.ErrBatch) {
		t.Fatalf("prepare for too much: %v", err)
	}
	closeSound(t, j, fs, 0)
}

func TestSegmentsShrinkWithTheDisk(t *testing.T) {
	for _, tt := range []struct{ avail, want int64 }{
		{1 << 40, 2 << 20}, {16 << 20, 2 << 20}, {8<<20 + 5000, 1 << 20}, {1 << 20, 256 << 10}, {0, 256 << 10},
	} {
		mem := newMem(t)
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: uint64(tt.avail), TotalBytes: 1 << 41})
		j, _ := mustOpen(t, mem, &journal.Options{SegmentSize: 2 << 20}, 0)
		if got := j.Stats().SegmentBytes; got != tt.want {
			t.Errorf("with %d bytes available the segment has %d, want %d", tt.avail, got, tt.want)
		}
		closeSound(t, j, mem, 0)
	}
}

// While the last recovered frame waits for a file to be repeated in, nobody knows
// that it is durable, so it is not noted.
func TestNoNoteOfACarriedFrame(t *testing.T) {
	mem := newMem(t)
	disk := &diskFull{}
	fs := errorfs.Wrap(mem, disk)
	o := &journal.Options{SegmentSize: 4096, MaxFree: -1}
	j, _ := mustOpen(t, fs, o, 0)
	fill(t, j, 1, 3)
	closeSound(t, j, fs, 0)
	disk.full = true
	j, _ = mustOpen(t, fs, o, 0)
	if err := j.Note(); err != nil {
		t.Fatal(err)
	}
	closeSound(t, j, fs, 0)
	f := &files{t: t, fs: mem}
	_, err := journal.Scan(mem, dir, &journal.Visitor{
		Segment: func(s journal.SegmentInfo) error { f.segs = append(f.segs, s); return nil },
		Frame:   func(fr journal.FrameInfo) error { f.frames = append(f.frames, fr); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	f.flip(2, 60) // as if its sync had failed
	_, got := mustOpen(t, mem, o, 0)
	wantRecords(t, got, numbered(1, 2))
}
