package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/stream"
)

// Whoever watches a stream hears of every change of it, and of nothing else.
func TestEveryChangeWakes(t *testing.T) {
	closing := &stream.Append{Path: "a", Close: true}
	last := dstest.Text("a", "last")
	last.Close = true
	twice := dstest.Text("a", "")
	twice.Data, twice.Producer = []byte("x"), &stream.Producer{ID: "p"}
	fork := func(source stream.ID) *stream.Create {
		return &stream.Create{Path: "f", Fork: &stream.ForkRequest{SourcePath: "a", Source: source, AtTail: true}}
	}
	for _, c := range []struct {
		name   string
		before stream.Command // if it is to happen before the watch
		forked bool
		change stream.Command
		wakes  bool
	}{
		{name: "append", change: dstest.Text("a", "x"), wakes: true},
		{name: "close", change: closing, wakes: true},
		{name: "last data and close", change: last, wakes: true},
		{name: "delete", change: &stream.Delete{Path: "a"}, wakes: true},
		{name: "soft delete", forked: true, change: &stream.Delete{Path: "a"}, wakes: true},
		{name: "close again", before: closing, change: closing},
		{name: "duplicate", before: twice, change: twice},
		{name: "change of another stream", change: dstest.CreateText("b", "x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := dstest.OpenEngine(t, dstest.NewDisk(), small())
				id := dstest.MustApply(t, e, dstest.CreateText("a", "")).Meta.ID
				if c.forked {
					dstest.MustApply(t, e, fork(id))
				}
				if c.before != nil {
					dstest.MustApply(t, e, c.before)
				}
				snap, err := e.Stat("a", true)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				woken := 0
				stop := e.Watch(snap, func() { woken++ })
				defer stop()
				dstest.MustApply(t, e, c.change)
				synctest.Wait()
				if (woken > 0) != c.wakes {
					t.Errorf("woken %d times, should be woken: %v", woken, c.wakes)
				}
			})
		})
	}
}

// A stream that ends at a fixed time wakes its watchers, who do not hold it back.
func TestFixedEndWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := dstest.OpenEngine(t, dstest.NewDisk(), small())
		mortal := dstest.CreateText("a", "")
		mortal.Lifetime = stream.Until(time.Now().Add(time.Second), "then")
		dstest.MustApply(t, e, mortal)
		snap, err := e.Stat("a", true)
		if err != nil {
			t.Fatal(err)
		}
		woken := 0
		defer e.Watch(snap, func() { woken++ })()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if woken == 0 {
			t.Error("not woken at the end of the stream")
		}
	})
}
