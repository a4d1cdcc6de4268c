package store_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// still are options under which the engine flushes only when it closes.
func still() *store.Options {
	return &store.Options{SegmentSize: 2 << 20, CacheSize: 1 << 20, FlushInterval: time.Hour}
}

// small is the same for little data.
func small() *store.Options {
	o := still()
	o.SegmentSize = 64 << 10
	return o
}

func nothing() {}

func flush(t *testing.T, e *store.Engine, beforeApply, beforeSettle func()) {
	t.Helper()
	if err := e.FlushInSteps(beforeApply, beforeSettle); err != nil {
		t.Fatal(err)
	}
}

// A reader sees the same bytes wherever they are, also if they move between any
// two of its steps.
func TestReadAcrossFlush(t *testing.T) {
	const archived, inMemory = 100 << 10, 600 << 10
	for n := range 10 {
		before, between := n/5, n%5
		e := dstest.OpenEngine(t, dstest.NewDisk(), still())
		dstest.MustApply(t, e, dstest.CreateText("a", string(pattern(0, archived))))
		flush(t, e, nothing, nothing)
		for pos := archived; pos < inMemory; pos += 50 << 10 {
			dstest.MustApply(t, e, dstest.Text("a", string(pattern(pos, 50<<10))))
		}
		snap, err := e.Stat("a", false)
		if err != nil {
			t.Fatal(err)
		}
		blocks := e.Read(snap, 0, snap.Tail)
		var got []byte
		next := func() bool {
			b, err := blocks.Next()
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("after %d bytes: %v", len(got), err)
			}
			got = append(got, b...)
			return err == nil
		}
		some := func(n int) func() {
			return func() {
				for range n {
					next()
				}
			}
		}
		flush(t, e, some(before), some(between))
		for next() {
		}
		if !bytes.Equal(got, pattern(0, int(snap.Tail))) {
			t.Errorf("%d steps before and %d within the move: %d bytes, want %d, the same", before, between, len(got), snap.Tail)
		}
		if err := blocks.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A stream ends at every moment of its flush.
func TestDeletedDuringFlush(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "replaced": true} {
		for moment := range 3 {
			disk := dstest.NewDisk()
			e := dstest.OpenEngine(t, disk, small())
			dstest.MustApply(t, e, &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(100), Data: []byte("x")})
			flush(t, e, nothing, nothing)
			dstest.MustApply(t, e, dstest.Text("a", "y"))
			end := func(m int) func() {
				return func() {
					if m != moment {
						return
					}
					remove(t, e, "a")
					if again {
						dstest.MustApply(t, e, dstest.CreateText("a", "new"))
					}
				}
			}
			end(0)()
			flush(t, e, end(1), end(2))
			want := "not found"
			if again {
				want = "new"
			}
			if got := look(e, "a"); got != want {
				t.Errorf("%s at moment %d: reads %q", name, moment, got)
			}
			checkAfter(t, disk.Crash(nil, dstest.Loss{}), small(), map[stream.Path]string{"a": want}, "crash")
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			checkAfter(t, disk, small(), map[stream.Path]string{"a": want}, "restart")
		}
	}
}

// A stream that nobody uses stays in memory while it is on its way into the
// archive: whoever loaded it again meanwhile would not know under which deadline
// it stands there.
func TestIdleDuringFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := still()
		o.IdleAfter = time.Second
		e := dstest.OpenEngine(t, dstest.NewDisk(), o)
		dstest.MustApply(t, e, &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(100)})
		flush(t, e, nothing, nothing)
		time.Sleep(5 * time.Second)
		if err := e.Renew("a"); err != nil {
			t.Fatal(err)
		}
		flush(t, e, func() {
			time.Sleep(5 * time.Second)
			if got := look(e, "a"); got != "" {
				t.Errorf("reads %q", got)
			}
		}, nothing)
		dstest.MustApply(t, e, dstest.Text("a", "x"))
	})
}
