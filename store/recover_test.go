package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// look describes everything that can be seen of a path.
func look(e *store.Engine, p stream.Path) string {
	data, snap, err := dstest.ReadAll(e, p)
	switch {
	case errors.Is(err, stream.NotFound):
		return "not found"
	case errors.Is(err, stream.Gone):
		return "gone"
	case err != nil:
		return err.Error()
	}
	if len(data) > 100 {
		data = fmt.Appendf(nil, "%d bytes", len(data))
	}
	if snap.Closed {
		return string(data) + " closed"
	}
	return string(data)
}

func lookAll(t *testing.T, e *store.Engine, want map[stream.Path]string, when string) {
	t.Helper()
	for p, w := range want {
		if got := look(e, p); got != w {
			t.Errorf("%s: %s is %q, want %q", when, p, got, w)
		}
	}
}

// fork makes a fork of what is at source now.
func fork(t *testing.T, e *store.Engine, p, source stream.Path, point uint64, data string) {
	t.Helper()
	snap, err := e.Stat(source, false)
	if err != nil {
		t.Fatal(err)
	}
	c := dstest.Fork(p, snap, point)
	c.Data = []byte(data)
	dstest.MustApply(t, e, c)
}

func remove(t *testing.T, e *store.Engine, paths ...stream.Path) {
	t.Helper()
	for _, p := range paths {
		dstest.MustApply(t, e, &stream.Delete{Path: p})
	}
}

// richHistory leaves streams of every kind, and says what must be seen of them.
func richHistory(t *testing.T, e *store.Engine) map[stream.Path]string {
	t.Helper()
	create := func(p stream.Path, data string) { dstest.MustApply(t, e, dstest.CreateText(p, data)) }
	// A path with one stream after another.
	for i := range 3 {
		create("again", fmt.Sprint("life ", i))
		if i < 2 {
			remove(t, e, "again")
		}
	}
	create("over", "x")
	remove(t, e, "over")
	// A chain of forks over deleted sources.
	create("s", "hello")
	fork(t, e, "f", "s", 3, "F")
	dstest.MustApply(t, e, dstest.Text("s", " world"))
	fork(t, e, "g", "f", 4, "G")
	remove(t, e, "s", "f")
	// A source that lost its fork, one that went with it, and a path used again.
	create("kept", "k")
	fork(t, e, "kept-fork", "kept", 1, "x")
	create("went", "w")
	fork(t, e, "went-fork", "went", 1, "x")
	remove(t, e, "went")
	remove(t, e, "kept-fork", "went-fork")
	create("went", "new")
	// Closed, with a producer.
	create("closed", "c")
	last := dstest.Text("closed", "!")
	last.Close, last.Producer = true, &stream.Producer{ID: "p"}
	dstest.MustApply(t, e, last)
	return map[stream.Path]string{
		"again": "life 2", "over": "not found", "s": "gone", "f": "gone", "g": "helFG",
		"kept": "k", "kept-fork": "not found", "went": "new", "went-fork": "not found", "closed": "c! closed",
	}
}

// checkAfter recovers from a disk, twice, and looks at everything.
func checkAfter(t *testing.T, disk *dstest.Disk, o *store.Options, want map[stream.Path]string, when string) {
	t.Helper()
	dstest.CheckDisk(t, disk)
	for range 2 {
		e, err := store.Open(disk, dstest.Dir, o)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		lookAll(t, e, want, when)
		if err := e.Close(); err != nil {
			t.Fatalf("%s: close: %v", when, err)
		}
		dstest.CheckDisk(t, disk)
		when += ", after another start"
	}
	// What refers to what is sound only if everything can be deleted.
	e, err := store.Open(disk, dstest.Dir, o)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	for p, w := range want {
		if w != "not found" && w != "gone" {
			remove(t, e, p)
		}
	}
	for p := range want {
		if got := look(e, p); got != "not found" {
			t.Errorf("%s: %s is %q when all is deleted", when, p, got)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatalf("%s: close: %v", when, err)
	}
	r, err := store.Check(disk, dstest.Dir)
	if err != nil || !r.OK() || r.Streams != 0 || r.Chunks != 0 {
		t.Errorf("%s: all was deleted, check says %+v, %v", when, r, err)
	}
}

// The power goes at every change that a flush makes in the archive. The flush is
// so large that the archive writes it in several pieces, so some pictures have
// the streams in the archive and the journal from its beginning.
func TestPartialFlush(t *testing.T) {
	disk := dstest.NewDisk()
	o := &store.Options{SegmentSize: 4 << 20, CacheSize: 1 << 20}
	e := dstest.OpenEngine(t, disk, o)
	want := richHistory(t, e)
	big := bytes.Repeat([]byte("0123456789abcdef"), 300<<10/16)
	for i := range 3 {
		p := stream.Path(fmt.Sprint("big", i))
		dstest.MustApply(t, e, &stream.Create{Path: p, ContentType: "text/plain", Data: big})
		want[p] = fmt.Sprintf("%d bytes", len(big))
	}
	small := &store.Options{SegmentSize: 64 << 10, CacheSize: 1 << 20}
	rng := rand.New(rand.NewPCG(1, 2))
	pictures := 0
	disk.OnOp(func(op dstest.Op) error {
		if op.Name != "sync" || !strings.Contains(op.Path, "MANIFEST") {
			return nil
		}
		pictures++
		after := disk.Crash(rng, dstest.Loss{})
		// The archive's own goroutine is here, which must not end with the test.
		done := make(chan struct{})
		go func() {
			defer close(done)
			checkAfter(t, after, small, want, fmt.Sprintf("power cut %d", pictures))
		}()
		<-done
		return nil
	})
	err := e.Close()
	disk.OnOp(nil)
	if err != nil {
		t.Fatal(err)
	}
	if pictures < 3 {
		t.Errorf("the flush took %d steps: too few to cut the power within it", pictures)
	}
	checkAfter(t, disk, small, want, "no power cut")
}
