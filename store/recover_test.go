package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
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
	r, err := store.Check(disk, dstest.Dir, nil)
	if err != nil || !r.OK() || r.Streams != 0 || r.Chunks != 0 {
		t.Errorf("%s: all was deleted, check says %+v, %v", when, r, err)
	}
}

// A flush puts one stream after another into the archive; the power goes
// between any two of them, with the journal as it was.
func TestPartialFlush(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, small())
	want := richHistory(t, e)
	for left := 1; left > 0; {
		var err error
		if left, err = e.FlushFirst(); err != nil {
			t.Fatal(err)
		}
		checkAfter(t, disk.Crash(nil, dstest.Loss{}), small(), want, fmt.Sprintf("power cut with %d streams to go", left))
	}
	// Everything is in the archive, nothing says so.
	remove(t, e, "again", "g")
	want["again"], want["s"], want["f"], want["g"] = "not found", "not found", "not found", "not found"
	dstest.MustApply(t, e, dstest.CreateText("again", "life 3"))
	want["again"] = "life 3"
	for left := 1; left > 0; {
		var err error
		if left, err = e.FlushFirst(); err != nil {
			t.Fatal(err)
		}
		checkAfter(t, disk.Crash(nil, dstest.Loss{}), small(), want, fmt.Sprintf("later power cut with %d streams to go", left))
	}
}

// The power goes at every change that a real flush makes in the archive.
func TestPowerCutDuringFlush(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, small())
	want := richHistory(t, e)
	rng := rand.New(rand.NewPCG(1, 2))
	pictures := 0
	var mu sync.Mutex
	disk.OnOp(func(op dstest.Op) error {
		if !op.Changes() || !strings.Contains(op.Path, "archive") {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		pictures++
		after := disk.Crash(rng, dstest.Loss{Keep: 50})
		// The archive's own goroutine is here, which must not end with the test.
		done := make(chan struct{})
		go func() {
			defer close(done)
			checkAfter(t, after, small(), want, fmt.Sprintf("power cut at %s of %s", op.Name, op.Path))
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
		t.Errorf("the flush made %d changes: too few to cut the power within it", pictures)
	}
	checkAfter(t, disk, small(), want, "no power cut")
}
