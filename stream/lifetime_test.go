package stream_test

import (
	"math"
	"testing"
	"time"

	"durablestreams/stream"
)

// No lifetime, however large, ends a stream at its birth by overflow.
func TestDeadlines(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for _, c := range []struct {
		name string
		l    stream.Lifetime
		want int64
	}{
		{"never", stream.Lifetime{}, stream.Never},
		{"zero", stream.Sliding(0), now},
		{"a minute", stream.Sliding(60), now + 60*second},
		{"the last that fits", stream.Sliding(uint64((math.MaxInt64 - now) / second)), now + (math.MaxInt64-now)/second*second},
		{"one more", stream.Sliding(uint64((math.MaxInt64-now)/second) + 1), stream.Never},
		{"nanoseconds overflow", stream.Sliding(9223372037), stream.Never},
		{"MaxTTL", stream.Sliding(stream.MaxTTL), stream.Never},
		{"MaxUint64", stream.Sliding(math.MaxUint64), stream.Never},
		{"instant", until(t, "2030-01-01T00:00:00.5Z"), time.Date(2030, 1, 1, 0, 0, 0, 5e8, time.UTC).UnixNano()},
		{"before 1970", until(t, "1960-01-01T00:00:00Z"), time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()},
		{"year 9999", until(t, "9999-12-31T23:59:59Z"), stream.Never},
		{"year 0", until(t, "0000-01-01T00:00:00Z"), math.MinInt64},
	} {
		if got := c.l.Deadline(now); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		if c.want == stream.Never {
			s := &stream.State{Meta: &stream.Meta{Lifetime: c.l}, TouchedAt: now}
			if s.Expired(math.MaxInt64 - 1) {
				t.Errorf("%s: expired", c.name)
			}
		}
	}
}

func TestLifetimeEqual(t *testing.T) {
	list := []stream.Lifetime{{}, stream.Sliding(0), stream.Sliding(1), until(t, "1970-01-01T00:00:00Z"),
		until(t, "1970-01-01T00:00:00.000000001Z"), until(t, "1970-01-01T00:00:01Z")}
	for i, a := range list {
		for j, b := range list {
			if a.Equal(b) != (i == j) {
				t.Errorf("%+v equal to %+v: %v", a, b, a.Equal(b))
			}
		}
	}
	if !until(t, "1970-01-01T00:00:00Z").Equal(until(t, "1970-01-01T05:30:00+05:30")) {
		t.Error("spellings of one instant differ")
	}
}

// Records and reads renew a window, and time never runs backwards in a state.
func TestRenewal(t *testing.T) {
	s := made(t, &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(10), ID: 1, Incarnation: 1}, nil)
	steps := []struct {
		do   func()
		want int64
	}{
		{func() {}, 10 * second},
		{func() { s.Touch(5 * second) }, 15 * second},
		{func() { s.Touch(4 * second) }, 15 * second},
		{func() { add(t, s, text("x"), 6*second) }, 16 * second},
		{func() { r := stream.DecideTouch(s, 9*second); s.Fold(&r) }, 19 * second},
		{func() { r := stream.DecideTouch(s, 8*second); s.Fold(&r) }, 19 * second},
		{func() { s.AddFork() }, 19 * second},
	}
	for i, step := range steps {
		step.do()
		if got := s.Deadline(); got != step.want {
			t.Errorf("step %d: deadline %d, want %d", i, got, step.want)
		}
	}
}
