package journal_test

import (
	"fmt"
	"testing"

	"durablestreams/internal/journal"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BenchmarkAppend writes batches of 256-byte records to a real disk.
func BenchmarkAppend(b *testing.B) {
	for _, records := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			j, err := journal.Open(vfs.Default, b.TempDir(), nil, 0, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			content := make([]byte, 256)
			b.SetBytes(int64(records) * 256)
			for b.Loop() {
				batch := journal.NewBatch(records * 262)
				for range records {
					batch.AddBytes(1, content)
				}
				last, err := j.Append(batch)
				if err != nil {
					b.Fatal(err)
				}
				if last%4096 == 1 {
					if err := j.Release(j.LastLSN()); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*records), "µs/record")
		})
	}
}

// BenchmarkOpen reads a journal of a million records.
func BenchmarkOpen(b *testing.B) {
	fs := vfs.NewMem()
	j, err := journal.Open(fs, "journal", &journal.Options{SegmentSize: 64 << 20}, 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	for range 1000 {
		batch := journal.NewBatch(1000 * 262)
		for range 1000 {
			batch.AddBytes(1, make([]byte, 256))
		}
		if _, err := j.Append(batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(1000 * 1000 * 256)
	for b.Loop() {
		if err := journal.Check(fs, "journal", 0); err != nil {
			b.Fatal(err)
		}
	}
}
