package bench

import (
	"math"
	"math/bits"
)

// subBits sets how fine a histogram is: 2^subBits steps for every doubling, so that a
// quantile is at most 1/2^subBits (0.8 %) above the true value.
const subBits = 7

// buckets covers every non-negative int64: values below 2^(subBits+1) one by one, then
// 2^subBits steps for each of the remaining powers of two.
const buckets = (64 - subBits) << subBits

// histogram counts durations in nanoseconds in steps that grow with the value, with
// the exact smallest, largest and sum beside them. It never allocates after its
// making. Not for use by several goroutines at once.
//
// A library (HdrHistogram) would bring a dependency, ranges fixed in advance and an
// error return for each value; what is needed here is these few lines.
type histogram struct {
	counts   [buckets]int64
	count    int64
	sum      float64
	min, max int64
}

// bucketOf gives the index of a value's bucket.
func bucketOf(v int64) int {
	shift := max(bits.Len64(uint64(v))-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// bucketTop gives the largest value of a bucket.
func bucketTop(i int) int64 {
	shift := max(i>>subBits-1, 0)
	return (int64(i-shift<<subBits)+1)<<shift - 1
}

// record counts one value; one below zero counts as zero.
func (h *histogram) record(v int64) {
	v = max(v, 0)
	h.counts[bucketOf(v)]++
	if h.count == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.count++
	h.sum += float64(v)
}

// add counts everything that another histogram counted.
func (h *histogram) add(o *histogram) {
	if o.count == 0 {
		return
	}
	for i, n := range &o.counts {
		h.counts[i] += n
	}
	if h.count == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.count += o.count
	h.sum += o.sum
}

// quantile gives the value that a share q of all values does not exceed, rounded up
// to its bucket's end but never above the largest value seen.
func (h *histogram) quantile(q float64) int64 {
	if h.count == 0 {
		return 0
	}
	rank := min(max(int64(math.Ceil(q*float64(h.count))), 1), h.count)
	for i, n := range &h.counts {
		if rank -= n; rank <= 0 {
			return max(min(bucketTop(i), h.max), h.min)
		}
	}
	return h.max
}

func (h *histogram) mean() float64 {
	if h.count == 0 {
		return 0
	}
	return h.sum / float64(h.count)
}

// Quantiles describes a set of durations, in nanoseconds.
type Quantiles struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ns"`
	Min   int64   `json:"min_ns"`
	P50   int64   `json:"p50_ns"`
	P90   int64   `json:"p90_ns"`
	P99   int64   `json:"p99_ns"`
	P999  int64   `json:"p999_ns"`
	Max   int64   `json:"max_ns"`
}

func (h *histogram) quantiles() Quantiles {
	return Quantiles{
		Count: h.count, Mean: h.mean(), Min: h.min, Max: h.max,
		P50: h.quantile(0.50), P90: h.quantile(0.90), P99: h.quantile(0.99), P999: h.quantile(0.999),
	}
}
