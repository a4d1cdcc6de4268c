package store_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
	"durablestreams/stream"
)

// pending lets many appends be under way at once, as connections do.
type pending struct{ wg *sync.WaitGroup }

func (p pending) Complete(_ stream.Result, err error) {
	if err != nil {
		panic(err)
	}
	p.wg.Done()
}

// watchful is an observer of one kind.
type watchful struct {
	version    uint64
	interested bool
	rows       []store.Row
}

func (w *watchful) Version() uint64                               { return atomic.LoadUint64(&w.version) }
func (w *watchful) Interested(stream.Path) bool                   { return w.interested }
func (w *watchful) Published(stream.Path)                         {}
func (w *watchful) Decided(_ store.Change, put func([]store.Row)) { put(w.rows) }

// BenchmarkApply measures the engine's own work for an append of 256 bytes, in
// memory, with batches of 64.
func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name     string
		observer store.Observer
	}{
		{"alone", nil},
		{"nobody-interested", &watchful{}},
		{"others-interested", &watchful{version: 1}},
		{"observed", &watchful{version: 1, interested: true}},
		{"with-a-row", &watchful{version: 1, interested: true, rows: []store.Row{row("mark/of/some/length/a", "0123456789012345678901234567890123")}}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkApply(b, c.observer) })
	}
}

func benchmarkApply(b *testing.B, observer store.Observer) {
	e, err := store.Open(vfs.NewMem(), "data", &store.Options{SegmentSize: 16 << 20, Observer: observer})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	if _, err := apply(e, &stream.Create{Path: "a", ContentType: "text/plain"}); err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	cmd := &stream.Append{Path: "a", ContentType: "text/plain", HasBody: true, Data: make([]byte, 256)}
	b.ReportAllocs()
	b.SetBytes(256)
	n := 0
	for b.Loop() {
		wg.Add(1)
		e.Apply(cmd, pending{&wg})
		if n++; n%64 == 0 {
			wg.Wait()
		}
	}
	wg.Wait()
}
