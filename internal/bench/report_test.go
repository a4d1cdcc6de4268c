package bench

import (
	"strings"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	for got, want := range map[string]string{
		span(0):              "0 ns",
		span(999):            "999 ns",
		span(1234):           "1.23 µs",
		span(45_678_000):     "45.7 ms",
		span(-45_678_000):    "-45.7 ms",
		span(120e9):          "120 s",
		size(0):              "0.00 B",
		size(1023):           "1023 B",
		size(1 << 20):        "1.00 MiB",
		size(-3 << 29):       "-1.50 GiB",
		number(0):            "0",
		number(12.345):       "12.3",
		number(999):          "999",
		number(1000):         "1,000",
		number(-1234567.8):   "-1,234,568",
		number(123456):       "123,456",
		digits(0.001):        "0.00",
		benchmarkName("a b"): "A-b",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Both servers of a comparison may have the same URL: their order tells them apart.
func TestCompareSameURL(t *testing.T) {
	var results []Result
	for round, count := range []int64{100, 200, 150, 150, 400, 100} { // ratios 0.5, 1, 4
		results = append(results, Result{Name: "append", URL: "http://a", Round: round/2 + 1, Count: count, Elapsed: time.Second})
	}
	ratios := compare(results, "http://a", "http://a")
	if len(ratios) != 1 || ratios[0] != (Ratio{"append", "rate", 1, 0.5, 4, 3}) {
		t.Errorf("%+v", ratios)
	}
	if compare(results, "http://a", "") != nil {
		t.Error("one server is compared")
	}
}

func TestTrend(t *testing.T) {
	r := Result{Elapsed: 8500 * time.Millisecond, start: int64(100 * time.Second)}
	var points []point
	for i := range 9 {
		points = append(points, point{int64(100*time.Second) + int64(i)*int64(time.Second), int64(1000 + 100*i)})
	}
	r.trend([]int64{10, 10, 9, 9, 8, 8, 5, 5, 1}, points, time.Second)
	if len(r.Samples) != 8 || r.Samples[0] != (Sample{time.Second, 1100, 10}) || r.Samples[7] != (Sample{8 * time.Second, 1800, 5}) {
		t.Errorf("%+v", r.Samples)
	}
	want := []Metric{
		{"rate of the last quarter against the first", "%", 50},
		{"memory in the first quarter", "B", 1150},
		{"memory in the third quarter", "B", 1550},
		{"memory in the last quarter", "B", 1750},
	}
	for i, m := range r.Metrics {
		if m != want[i] {
			t.Errorf("%+v, want %+v", m, want[i])
		}
	}
	var p page
	r.text(&p)
	if !strings.Contains(p.String(), "at       1s          10/s  RSS 1.07 KiB") {
		t.Error(p.String())
	}
}
