package store_test

import (
	"testing"
	"testing/synctest"

	"durablestreams/internal/dstest"
	"durablestreams/store"
)

// begin applies an append and says later whether it has been answered.
func begin(e *store.Engine, text string) (answered func() bool) {
	w := dstest.NewWaiter()
	e.Apply(dstest.Text("a", text), w)
	return func() bool {
		synctest.Wait()
		select {
		case <-w.Done:
			return true
		default:
			return false
		}
	}
}

// While somebody is about to add more, a batch is not begun, whether the
// committer was idle or in a sync; two who cork in turns do not hold it up.
func TestCork(t *testing.T) {
	for _, c := range []struct {
		name string
		busy bool // the committer is in a sync when the append comes
	}{{"idle", false}, {"in a sync", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := dstest.NewDisk()
				e := dstest.OpenEngine(t, disk, small())
				dstest.MustApply(t, e, dstest.CreateText("a", ""))
				release := func() {}
				if c.busy {
					h := holdJournal(disk)
					begin(e, "first;")()
					begin(e, "before the cork;")()
					release = func() { h.letGo(disk) }
				}
				e.Cork()
				one := begin(e, "one;")
				release()
				if one() {
					t.Error("the batch was begun under the cork")
				}
				for range 2 {
					e.Cork()
					e.Uncork()
					synctest.Wait()
				}
				if !one() {
					t.Error("the ends of two other corks did not let the batch begin")
				}
				two := begin(e, "two;")
				if two() {
					t.Error("the next batch was begun under the first cork")
				}
				e.Uncork()
				if !two() {
					t.Error("the batch was not begun at the end of the cork")
				}
			})
		})
	}
}
