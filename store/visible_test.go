package store_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// held stops the journal's syncs until it is let go.
type held struct{ gate chan struct{} }

func holdJournal(disk *dstest.Disk) *held {
	h := &held{gate: make(chan struct{})}
	disk.OnOp(func(op dstest.Op) error {
		if op.Name == "sync" && strings.Contains(op.Path, "journal/") {
			<-h.gate
		}
		return nil
	})
	return h
}

func (h *held) letGo(disk *dstest.Disk) {
	disk.OnOp(nil)
	close(h.gate)
}

// While a change is on its way to the disk nobody sees it, and no answer rests
// on it.
func TestNothingBeforeItIsDurable(t *testing.T) {
	type command = stream.Command
	read := func(t *testing.T, e *store.Engine, p stream.Path, want string) {
		t.Helper()
		if got := look(e, p); got != want {
			t.Errorf("before the sync %s is %q, want %q", p, got, want)
		}
	}
	producer := func(data string, seq uint64) *stream.Append {
		a := dstest.Text("a", data)
		a.Producer = &stream.Producer{ID: "p", Seq: seq}
		return a
	}
	closing := &stream.Append{Path: "a", Close: true}
	ask := func(source stream.ID) *stream.Create {
		return &stream.Create{Path: "f", Fork: &stream.ForkRequest{SourcePath: "a", Source: source, AtTail: true}}
	}
	for _, c := range []struct {
		name   string
		first  func(id stream.ID) command
		then   func(id stream.ID) command
		before string // what "a" shows meanwhile
		want   stream.Kind
		after  string
	}{
		{"append and its duplicate", func(stream.ID) command { return producer("x", 0) }, func(stream.ID) command { return producer("x", 0) }, "old", "", "oldx"},
		{"append and a gap after it", func(stream.ID) command { return producer("x", 0) }, func(stream.ID) command { return producer("z", 2) }, "old", stream.ProducerGap, "oldx"},
		{"close and close again", func(stream.ID) command { return closing }, func(stream.ID) command { return closing }, "old", "", "old closed"},
		{"close and an append", func(stream.ID) command { return closing }, func(stream.ID) command { return dstest.Text("a", "x") }, "old", stream.Closed, "old closed"},
		{"delete and an append", func(stream.ID) command { return &stream.Delete{Path: "a"} }, func(stream.ID) command { return dstest.Text("a", "x") }, "old", stream.NotFound, "not found"},
		{"delete and delete again", func(stream.ID) command { return &stream.Delete{Path: "a"} }, func(stream.ID) command { return &stream.Delete{Path: "a"} }, "old", stream.NotFound, "not found"},
		{"delete and a new stream", func(stream.ID) command { return &stream.Delete{Path: "a"} }, func(stream.ID) command { return dstest.CreateText("a", "new") }, "old", "", "new"},
		{"delete and a fork", func(stream.ID) command { return &stream.Delete{Path: "a"} }, func(id stream.ID) command { return ask(id) }, "old", stream.ForkSourceNotFound, "not found"},
		{"delete and a fork to its path", func(stream.ID) command { return &stream.Delete{Path: "a"} }, func(stream.ID) command {
			return &stream.Create{Path: "a", Fork: &stream.ForkRequest{SourcePath: "none", AtTail: true}}
		}, "old", stream.ForkSourceNotFound, "not found"},
		{"append and the same fork again", func(stream.ID) command { return dstest.Text("s", "x") }, func(id stream.ID) command {
			return &stream.Create{Path: "g", Fork: &stream.ForkRequest{SourcePath: "s", Source: id + 1, AtTail: true, AskedOffset: "now"}}
		}, "old", stream.ConfigMismatch, "old"},
		{"fork and a delete", func(id stream.ID) command { return ask(id) }, func(stream.ID) command { return &stream.Delete{Path: "a"} }, "old", "", "gone"},
		{"create and create again", func(stream.ID) command { return dstest.CreateText("b", "x") }, func(stream.ID) command { return dstest.CreateText("b", "y") }, "old", "", "old"},
		{"create and create another", func(stream.ID) command { return dstest.CreateText("b", "x") },
			func(stream.ID) command { return &stream.Create{Path: "b", ContentType: "a/b"} }, "old", stream.ConfigMismatch, "old"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := dstest.NewDisk()
				e := dstest.OpenEngine(t, disk, small())
				id := dstest.MustApply(t, e, dstest.CreateText("a", "old")).Meta.ID
				dstest.MustApply(t, e, dstest.CreateText("s", ""))
				dstest.MustApply(t, e, &stream.Create{Path: "g", Fork: &stream.ForkRequest{SourcePath: "s", Source: id + 1, AtTail: true}})
				h := holdJournal(disk)
				first, then := dstest.NewWaiter(), dstest.NewWaiter()
				e.Apply(c.first(id), first)
				synctest.Wait()
				e.Apply(c.then(id), then)
				synctest.Wait()
				for name, w := range map[string]*dstest.Waiter{"first": first, "second": then} {
					select {
					case <-w.Done:
						t.Errorf("the %s is answered before the sync: %+v, %v", name, w.Res, w.Err)
					default:
					}
				}
				read(t, e, "a", c.before)
				read(t, e, "b", "not found")
				read(t, e, "f", "not found")
				h.letGo(disk)
				synctest.Wait()
				if <-first.Done; first.Err != nil {
					t.Errorf("first: %v", first.Err)
				}
				<-then.Done
				if c.want == "" && then.Err != nil || c.want != "" && !errors.Is(then.Err, c.want) {
					t.Errorf("second: %v, want %s", then.Err, string(c.want))
				}
				if got := look(e, "a"); got != c.after {
					t.Errorf("in the end a is %q, want %q", got, c.after)
				}
			})
		})
	}
}
