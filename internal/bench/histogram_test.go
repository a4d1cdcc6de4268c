package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHistogramBuckets(t *testing.T) {
	last := -1
	for _, v := range []int64{0, 1, 127, 128, 255, 256, 257, 258, 1000, 1 << 20, 1<<20 + 1<<13, 1 << 40, math.MaxInt64 - 1, math.MaxInt64} {
		i := bucketOf(v)
		if i < last || i >= buckets {
			t.Fatalf("bucket of %d is %d, the one before %d of %d", v, i, last, buckets)
		}
		last = i
		top := bucketTop(i)
		if top < v || float64(top-v) > float64(v)/(1<<subBits) {
			t.Errorf("bucket of %d ends at %d", v, top)
		}
		if bucketOf(top) != i || top < math.MaxInt64 && bucketOf(top+1) != i+1 {
			t.Errorf("bucket %d of %d does not end at %d", i, v, top)
		}
	}
}

func TestHistogramQuantiles(t *testing.T) {
	distributions := map[string]func(r *rand.Rand) int64{
		"uniform":     func(r *rand.Rand) int64 { return r.Int64N(1e6) },
		"exponential": func(r *rand.Rand) int64 { return int64(r.ExpFloat64() * 1e5) },
		"two humps":   func(r *rand.Rand) int64 { return 1000 + r.Int64N(50) + (r.Int64N(100)/97)*1e9 },
		"constant":    func(*rand.Rand) int64 { return 123456789 },
	}
	for name, draw := range distributions {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(3, 4))
			var values []int64
			var whole, a, b histogram
			for i := range 20_000 {
				v := draw(random)
				values = append(values, v)
				whole.record(v)
				if i%3 == 0 {
					a.record(v)
				} else {
					b.record(v)
				}
			}
			slices.Sort(values)
			a.add(&b)
			for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
				exact := values[min(max(int(math.Ceil(q*float64(len(values)))), 1), len(values))-1]
				got := whole.quantile(q)
				if got < exact || float64(got-exact) > float64(exact)/(1<<subBits) {
					t.Errorf("quantile %v is %d, exactly %d", q, got, exact)
				}
				if both := a.quantile(q); both != got {
					t.Errorf("quantile %v of two parts is %d, of the whole %d", q, both, got)
				}
			}
			if whole.min != values[0] || whole.max != values[len(values)-1] || a.min != whole.min || a.max != whole.max {
				t.Errorf("from %d to %d, exactly %d to %d", whole.min, whole.max, values[0], values[len(values)-1])
			}
		})
	}
}

func TestHistogramOfNothing(t *testing.T) {
	var h, other histogram
	h.add(&other)
	if h.quantile(0.5) != 0 || h.mean() != 0 || h.quantiles() != (Quantiles{}) {
		t.Errorf("%+v", h.quantiles())
	}
	h.record(-5)
	if h.min != 0 || h.max != 0 || h.count != 1 {
		t.Errorf("a negative value is not counted as zero: %+v", h.quantiles())
	}
}

func BenchmarkHistogram(b *testing.B) {
	var h histogram
	v := int64(1)
	for b.Loop() {
		v = v*6364136223846793005 + 1442695040888963407
		h.record(v >> 40)
	}
}
