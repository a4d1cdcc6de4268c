package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"durablestreams/internal/journal"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func TestAppendAndReplay(t *testing.T) {
	fs := newMem(t)
	j, got := mustOpen(t, fs, smallSegments, 0)
	wantRecords(t, got, nil)
	if j.LastLSN() != 0 {
		t.Fatalf("last LSN of an empty journal is %d", j.LastLSN())
	}
	b := journal.NewBatch(10)
	b.AddBytes(7, []byte("one"))
	b.AddBytes(0, nil)
	b.Add(255, func(dst []byte) []byte { return append(dst, "three"...) })
	if lsn, err := j.Append(b); err != nil || lsn != 1 {
		t.Fatalf("append: %d, %v", lsn, err)
	}
	if lsn := mustAppend(t, j, "four"); lsn != 4 || j.LastLSN() != 4 {
		t.Fatalf("append gave %d, last is %d", lsn, j.LastLSN())
	}
	closeSound(t, j, fs, 0)
	want := []record{{1, 7, "one"}, {2, 0, ""}, {3, 255, "three"}, {4, 1, "four"}}
	for from := range uint64(5) {
		j, got := mustOpen(t, fs, smallSegments, from)
		wantRecords(t, got, want[from:])
		closeSound(t, j, fs, from)
	}
}

func TestRealFiles(t *testing.T) {
	at := t.TempDir() + "/journal"
	for round := range 4 {
		want := 0
		j, err := journal.Open(vfs.Default, at, &journal.Options{SegmentSize: 8 << 10}, 0, func(lsn uint64, _ byte, b []byte) error {
			if want++; int(lsn) != want || string(b) != body(want) {
				t.Fatalf("record %d is %q, want number %d", lsn, b, want)
			}
			return nil
		})
		if err != nil || want != round*100 {
			t.Fatalf("round %d: %d records, %v", round, want, err)
		}
		fill(t, j, want+1, want+100)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBatch(t *testing.T) {
	b := journal.NewBatch(0)
	first := b.AddBytes(1, []byte("first"))
	second := b.Add(2, func(dst []byte) []byte { return append(dst, bytes.Repeat([]byte("x"), 1000)...) })
	if b.Records() != 2 || b.Len() != 40+5+5+5+1000+1 {
		t.Fatalf("batch has %d records, %d bytes", b.Records(), b.Len())
	}
	fs := newMem(t)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	before := j.Room()
	if _, err := j.Append(b); err != nil {
		t.Fatal(err)
	}
	if string(b.Body(first)) != "first" || len(b.Body(second)) != 1000 || cap(b.Body(first)) != 5 {
		t.Fatalf("bodies are %q and %d bytes", b.Body(first), len(b.Body(second)))
	}
	if used := before - j.Room(); used != b.Len() {
		t.Fatalf("append took %d bytes of room, Len is %d", used, b.Len())
	}
	if _, err := j.Append(b); !errors.Is(err, journal.ErrBatch) {
		t.Fatalf("second append: %v", err)
	}
	if _, err := j.Append(journal.NewBatch(0)); !errors.Is(err, journal.ErrBatch) {
		t.Fatalf("append of nothing: %v", err)
	}
	mustPanic(t, func() { b.AddBytes(1, nil) })
	mustAppend(t, j, "still fine")
	closeSound(t, j, fs, 0)
}

func mustPanic(t *testing.T, do func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	do()
}

func TestBatchEncodesWithoutCopy(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		b := journal.NewBatch(4 * 300)
		for range 4 {
			b.Add(1, func(dst []byte) []byte { return append(dst, "some bytes"...) })
		}
	}); n > 2 {
		t.Fatalf("a batch takes %v allocations", n)
	}
}

func TestReplayedBodiesMayBeKept(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, &journal.Options{SegmentSize: 1 << 20}, 0)
	fill(t, j, 1, 5000)
	closeSound(t, j, fs, 0)
	var kept [][]byte
	j, err := journal.Open(fs, dir, smallSegments, 0, func(_ uint64, _ byte, b []byte) error {
		kept = append(kept, b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range kept {
		if string(b) != body(i+1) {
			t.Fatalf("body %d became %q", i+1, b)
		}
	}
	closeSound(t, j, fs, 0)
}

// TestOneWriteOneSync counts what an append does to the file system.
func TestOneWriteOneSync(t *testing.T) {
	var ops []errorfs.OpKind
	fs := errorfs.Wrap(newMem(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
		ops = append(ops, op.Kind)
		return nil
	}))
	j, _ := mustOpen(t, fs, smallSegments, 0)
	for range 3 {
		ops = nil
		mustAppend(t, j, "a", "b")
		if len(ops) != 2 || ops[0] != errorfs.OpFileWriteAt || ops[1] != errorfs.OpFileSyncData {
			t.Fatalf("append did %v", ops)
		}
	}
	closeSound(t, j, fs, 0)
}

func TestCloseIsIdempotent(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	fill(t, j, 1, 3)
	closeSound(t, j, fs, 0)
	closeSound(t, j, fs, 0)
	if _, err := j.Append(batchOf("x")); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("append: %v", err)
	}
	if err := j.Release(3); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("release: %v", err)
	}
	if err := j.Prepare(0); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("prepare: %v", err)
	}
	if j.Room() != 0 || j.LastLSN() != 3 {
		t.Fatalf("room %d, last LSN %d", j.Room(), j.LastLSN())
	}
}

func TestOptions(t *testing.T) {
	for _, size := range []int64{-1, 1<<30 + 1} {
		if _, _, err := open(newMem(t), &journal.Options{SegmentSize: size}, 0); err == nil {
			t.Fatalf("segment size %d was taken", size)
		}
	}
}

func TestReleaseRecycles(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, &journal.Options{SegmentSize: 4096, MaxFree: 2}, 0)
	fill(t, j, 1, 200)
	if s := j.Stats(); s.Segments != 8 || s.FirstLSN != 1 || s.LastLSN != 200 || s.SegmentBytes != 8*4096 {
		t.Fatalf("stats before: %+v", s)
	}
	if err := j.Release(25); err != nil || j.Stats().Segments != 8 {
		t.Fatalf("release of a part of a segment: %v, %+v", err, j.Stats())
	}
	if err := j.Release(26); err != nil || j.Stats().Segments != 7 || j.Stats().FirstLSN != 27 || j.Stats().Spares != 1 {
		t.Fatalf("release of a segment: %v, %+v", err, j.Stats())
	}
	if err := j.Release(200); err != nil {
		t.Fatal(err)
	}
	if s := j.Stats(); s.Segments != 1 || s.Spares != 2 || s.Recycled != 2 || s.FirstLSN != 183 {
		t.Fatalf("stats after: %+v", s)
	}
	fill(t, j, 201, 220)
	if s := j.Stats(); s.Spares != 1 {
		t.Fatalf("a new segment did not take a spare: %+v", s)
	}
	closeSound(t, j, fs, 200)
	names, err := fs.List(dir)
	if err != nil || len(names) != 4 { // the head file, the segments and a spare
		t.Fatalf("files left: %v, %v", names, err)
	}
	j, got := mustOpen(t, fs, smallSegments, 200)
	wantRecords(t, got, numbered(201, 220))
	closeSound(t, j, fs, 200)
}

// TestRestartsDoNotPileUp opens again and again, with little or nothing in
// between.
func TestRestartsDoNotPileUp(t *testing.T) {
	fs := newMem(t)
	for i := range 20 {
		j, got := mustOpen(t, fs, smallSegments, 0)
		wantRecords(t, got, numbered(1, (i+1)/2))
		if i%2 == 0 {
			fill(t, j, i/2+1, i/2+1)
		}
		if s := j.Stats(); s.Segments > i/2+2 || s.Spares > 2 {
			t.Fatalf("open %d: %+v", i, s)
		}
		closeSound(t, j, fs, 0)
	}
	for range 20 {
		j, _ := mustOpen(t, fs, smallSegments, 10)
		if s := j.Stats(); s.Segments > 2 || s.Spares > 2 {
			t.Fatalf("opens without appends: %+v", s)
		}
		closeSound(t, j, fs, 10)
	}
}

func TestLargeFrameGetsItsOwnSegment(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	large := string(bytes.Repeat([]byte("y"), 100_000))
	mustAppend(t, j, "small")
	mustAppend(t, j, large)
	mustAppend(t, j, "small again")
	want := []record{{1, 1, "small"}, {2, 1, large}, {3, 1, "small again"}}
	for range 3 { // the large frame is also the last one once
		closeSound(t, j, fs, 0)
		var got []record
		j, got = mustOpen(t, fs, smallSegments, 0)
		wantRecords(t, got, want)
		want = append(want, record{uint64(len(want) + 1), 1, large})
		mustAppend(t, j, large)
	}
	if err := j.Release(j.LastLSN()); err != nil {
		t.Fatal(err)
	}
	if s := j.Stats(); s.SpareBytes > 2*4096 {
		t.Fatalf("an oversized file was kept: %+v", s)
	}
	closeSound(t, j, fs, 0+j.LastLSN())
}

// TestConcurrentUse lets a flusher prepare and release beside the committer.
func TestConcurrentUse(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, &journal.Options{SegmentSize: 16 << 10}, 0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			last := j.LastLSN()
			if err := errors.Join(j.Prepare(1000), j.Release(last-last/4)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if s := j.Stats(); s.Segments < 1 || j.Room() < 0 {
				t.Error(s)
				return
			}
		}
	})
	fill(t, j, 1, 3000)
	close(done)
	wg.Wait()
	closeSound(t, j, fs, 3000)
	j, got := mustOpen(t, fs, smallSegments, 2500)
	wantRecords(t, got, numbered(2501, 3000))
	closeSound(t, j, fs, 2500)
}

func ExampleJournal() {
	fs := vfs.NewMem()
	j, err := journal.Open(fs, "journal", &journal.Options{SegmentSize: 1 << 20}, 0, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := journal.NewBatch(64)
	b.AddBytes(1, []byte("hello"))
	span := b.Add(2, func(dst []byte) []byte { return append(dst, "world"...) })
	first, err := j.Append(b)
	fmt.Println(first, err, string(b.Body(span)), j.LastLSN())
	fmt.Println(j.Close())
	// Output:
	// 1 <nil> world 2
	// <nil>
}
