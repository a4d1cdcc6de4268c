package tenant_test

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/dstest"
	"durablestreams/internal/tenant"
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

// BenchmarkApply measures what counting costs the engine for an append of 256 bytes, in
// memory, with batches of 64.
func BenchmarkApply(b *testing.B) {
	for _, c := range []struct{ name, table string }{
		{"uncounted", ""},
		{"counted", "#"},
		{"bounded", "tenant a bytes=1000GiB"},
		{"paced", "tenant a bytes=1000GiB appends=1000000000 append-bytes=1000GiB"},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := &store.Options{SegmentSize: 16 << 20}
			if c.table != "" {
				table, err := tenant.Parse(c.table)
				if err != nil {
					b.Fatal(err)
				}
				o.Ledger = tenant.NewLedger(table)
			}
			e, err := store.Open(vfs.NewMem(), dstest.Dir, o)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			if _, err := dstest.Apply(e, dstest.CreateText("a", "")); err != nil {
				b.Fatal(err)
			}
			const batch = 64
			data := make([]byte, 256)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += batch {
				var wg sync.WaitGroup
				wg.Add(batch)
				e.Cork()
				for range batch {
					e.Apply(&stream.Append{Path: "a", ContentType: "text/plain", HasBody: true, Data: data}, pending{&wg})
				}
				e.Uncork()
				wg.Wait()
			}
		})
	}
}

// BenchmarkCharge measures what an append's charge costs by itself.
func BenchmarkCharge(b *testing.B) {
	for _, c := range []struct{ name, table string }{
		{"counted", ""},
		{"bounded", "tenant a bytes=1000GiB"},
		{"paced", "tenant a bytes=1000GiB appends=1000000000 append-bytes=1000GiB"},
	} {
		b.Run(c.name, func(b *testing.B) {
			table, err := tenant.Parse(c.table)
			if err != nil {
				b.Fatal(err)
			}
			a, refusal := tenant.NewLedger(table).Create("a", 0, false)
			if refusal != nil {
				b.Fatal(refusal)
			}
			b.ReportAllocs()
			for b.Loop() {
				_ = a.Append(256, false)
			}
		})
	}
}
