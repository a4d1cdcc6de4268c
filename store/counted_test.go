package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/stream"
)

// Whatever becomes of a change, what it was counted for is given back: else an
// engine that has been up for long would be busy for ever.
func TestNothingStaysCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := dstest.OpenEngine(t, dstest.NewDisk(), still())
		in := func(p stream.Path) *stream.Append {
			a := dstest.Text("a", "data")
			a.Path = p
			return a
		}
		twice := in("a")
		twice.Producer = &stream.Producer{ID: "p"}
		large := in("a")
		large.Data = make([]byte, 300<<10)
		mortal := dstest.CreateText("mortal", "data")
		mortal.Lifetime = stream.Sliding(2)
		for _, c := range []struct {
			name  string
			cmd   stream.Command
			dry   bool
			tails int64 // afterwards
		}{
			{"create", dstest.CreateText("a", "data"), false, 4},
			{"create again", dstest.CreateText("a", "data"), false, 4},
			{"append", in("a"), false, 8},
			{"append of a producer", twice, false, 12},
			{"its duplicate", twice, false, 12},
			{"large append", large, false, 12 + 300<<10},
			{"append to nothing", in("none"), false, 12 + 300<<10},
			{"delete of nothing", &stream.Delete{Path: "none"}, false, 12 + 300<<10},
			{"append, only asked", in("a"), true, 12 + 300<<10},
			{"create, only asked", dstest.CreateText("b", "data"), true, 12 + 300<<10},
			{"delete, only asked", &stream.Delete{Path: "a"}, true, 12 + 300<<10},
			{"create of one that expires", mortal, false, 16 + 300<<10},
			{"delete", &stream.Delete{Path: "a"}, false, 4},
		} {
			w := dstest.NewWaiter()
			if c.dry {
				e.Probe(c.cmd, w)
			} else {
				e.Apply(c.cmd, w)
			}
			<-w.Done
			synctest.Wait()
			if queued, tails := e.Queued(), e.Unflushed(); queued != 0 || tails != c.tails {
				t.Fatalf("after %s %d bytes are queued and %d in tails, want 0 and %d", c.name, queued, tails, c.tails)
			}
		}
		time.Sleep(time.Second) // a read renews, and the renewal is journaled
		if _, err := e.Stat("mortal", true); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if queued, tails := e.Queued(), e.Unflushed(); queued != 0 || tails != 4 {
			t.Errorf("after a renewal %d bytes are queued and %d in tails, want 0 and 4", queued, tails)
		}
		dstest.MustApply(t, e, dstest.CreateText("a", "more"))
		flush(t, e, nothing, nothing)
		if tails := e.Unflushed(); tails != 0 {
			t.Errorf("%d bytes are in tails after a flush", tails)
		}
		dstest.MustApply(t, e, in("mortal"))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if queued, tails := e.Queued(), e.Unflushed(); queued != 0 || tails != 0 {
			t.Errorf("after a stream has expired %d bytes are queued and %d in tails", queued, tails)
		}
	})
}
