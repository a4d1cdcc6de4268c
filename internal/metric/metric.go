// Package metric has what packages count with beyond plain atomics: a histogram that
// costs some nanoseconds a value. Who shows the figures, and under which names, is
// decided elsewhere.
//
// Everything may be used by any number of goroutines at once.
package metric

import (
	"sync/atomic"
	"time"
)

// Histogram counts values by size. The zero value counts nothing but their sum; make
// one with [New].
type Histogram struct {
	bounds []int64
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Int64
}

// Durations are bounds for times from 50 µs to 10 s, in nanoseconds.
func Durations() []int64 {
	return []int64{5e4, 1e5, 25e4, 5e5, 1e6, 25e5, 5e6, 1e7, 25e6, 5e7, 1e8, 25e7, 5e8, 1e9, 25e8, 5e9, 1e10}
}

// Powers are the powers of two from 1 to 2^n.
func Powers(n int) []int64 {
	bounds := make([]int64, n+1)
	for i := range bounds {
		bounds[i] = 1 << i
	}
	return bounds
}

// New gives a histogram with these upper bounds, which rise.
func New(bounds []int64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts a value.
func (h *Histogram) Observe(v int64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(v)
}

// Took counts the time since began.
func (h *Histogram) Took(began time.Time) { h.Observe(int64(time.Since(began))) }

// Snapshot is what a histogram has counted.
type Snapshot struct {
	Bounds []int64
	Counts []uint64 // of values up to each bound, those up to the one before included
	Count  uint64
	Sum    int64
}

// Sum adds up several histograms with the same bounds, one at least. Values that
// come meanwhile may be in a part of it.
func Sum(all ...*Histogram) Snapshot {
	s := Snapshot{Bounds: all[0].bounds, Counts: make([]uint64, len(all[0].bounds))}
	for _, h := range all {
		total := uint64(0)
		for i := range h.counts {
			total += h.counts[i].Load()
			if i < len(s.Counts) {
				s.Counts[i] += total
			}
		}
		s.Count += total
		s.Sum += h.sum.Load()
	}
	return s
}
