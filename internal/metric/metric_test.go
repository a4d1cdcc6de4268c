package metric_test

import (
	"reflect"
	"sync"
	"testing"

	"durablestreams/internal/metric"
)

func TestHistogram(t *testing.T) {
	a, b := metric.New(metric.Powers(3)), metric.New(metric.Powers(3))
	for _, v := range []int64{0, 1, 2, 3, 8} {
		a.Observe(v)
	}
	b.Observe(9)
	b.Observe(4)
	want := metric.Snapshot{Bounds: []int64{1, 2, 4, 8}, Counts: []uint64{2, 3, 5, 6}, Count: 7, Sum: 27}
	if got := metric.Sum(a, b); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestDurationsRise(t *testing.T) {
	bounds := metric.Durations()
	for i := range bounds[1:] {
		if bounds[i] >= bounds[i+1] {
			t.Errorf("%d is not below %d", bounds[i], bounds[i+1])
		}
	}
}

func TestNothingIsLost(t *testing.T) {
	h := metric.New(metric.Powers(2))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for v := range int64(1000) {
				h.Observe(v)
			}
		})
	}
	wg.Wait()
	if s := metric.Sum(h); s.Count != 4000 || s.Sum != 4*999*500 || s.Counts[0] != 8 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkObserve(b *testing.B) {
	h := metric.New(metric.Durations())
	for b.Loop() {
		h.Observe(400_000)
	}
}
