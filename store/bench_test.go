package store_test

import (
	"sync"
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

// BenchmarkApply measures the engine's own work for an append of 256 bytes, in
// memory, with batches of 64.
func BenchmarkApply(b *testing.B) {
	e, err := store.Open(vfs.NewMem(), "data", &store.Options{SegmentSize: 16 << 20})
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
