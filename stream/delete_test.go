package stream_test

import (
	"slices"
	"testing"

	"durablestreams/stream"
)

// family is a stream of the given number that is deleted or has forks.
func family(t *testing.T, id stream.ID, deleted bool, forks int) *stream.State {
	t.Helper()
	s := plain(t, id, "x")
	for range forks {
		s.AddFork()
	}
	if deleted {
		s.Fold(&stream.Record{Kind: stream.RecordDelete})
	}
	return s
}

// What a deletion takes with it.
func TestDelete(t *testing.T) {
	type line = []*stream.State
	of := func(id stream.ID, deleted bool, forks int) *stream.State { return family(t, id, deleted, forks) }
	for _, c := range []struct {
		name      string
		s         *stream.State
		ancestors line
		want      stream.Kind
		soft      bool
		collected []stream.ID
		unref     stream.ID
	}{
		{name: "nothing there", want: stream.NotFound},
		{name: "deleted before", s: of(1, true, 1), want: stream.Gone},
		{name: "plain", s: of(1, false, 0)},
		{name: "with a fork", s: of(1, false, 1), soft: true},
		{name: "fork of a living stream", s: of(2, false, 0), ancestors: line{of(1, false, 1)}, unref: 1},
		{name: "fork with forks", s: of(2, false, 1), ancestors: line{of(1, true, 1)}, soft: true},
		{name: "last fork", s: of(2, false, 0), ancestors: line{of(1, true, 1)}, collected: []stream.ID{1}},
		{name: "last but one fork", s: of(2, false, 0), ancestors: line{of(1, true, 2)}, unref: 1},
		{name: "chain", s: of(4, false, 0), ancestors: line{of(3, true, 1), of(2, true, 1), of(1, false, 1)}, collected: []stream.ID{3, 2}, unref: 1},
		{name: "whole chain", s: of(4, false, 0), ancestors: line{of(3, true, 1), of(2, true, 1), of(1, true, 1)}, collected: []stream.ID{3, 2, 1}},
		{name: "chain to a shared source", s: of(4, false, 0), ancestors: line{of(3, true, 1), of(2, true, 2), of(1, true, 1)}, collected: []stream.ID{3}, unref: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := image(c.s)
			r, res, err := stream.DecideDelete(c.s, c.ancestors, false, 7)
			wantKind(t, err, c.want)
			if image(c.s) != before {
				t.Error("deciding changed the state")
			}
			if r.Soft != c.soft || !slices.Equal(r.Collected, c.collected) || r.Unref != c.unref {
				t.Errorf("record %+v", r)
			}
			if err == nil && (r.Kind != stream.RecordDelete || r.ID != c.s.ID || r.Expired || res.Outcome != stream.Deleted) {
				t.Errorf("record %+v, answer %+v", r, res)
			}
			// Nothing is said about what an expired stream may not be asked.
			if _, _, err := stream.DecideDelete(c.s, c.ancestors, true, 7); err == nil {
				t.Error("a stream without a lifetime expired")
			}
		})
	}
}

func TestExpire(t *testing.T) {
	s := made(t, &stream.Create{Path: "a", Lifetime: stream.Sliding(2), ID: 1, Incarnation: 1}, nil)
	if _, _, err := stream.DecideDelete(s, nil, true, 2*second-1); err == nil {
		t.Error("expired a nanosecond early")
	}
	r, _, err := stream.DecideDelete(s, nil, true, 2*second)
	if err != nil || !r.Expired || r.Soft {
		t.Errorf("%+v, %v", r, err)
	}
	if _, _, err := stream.DecideDelete(s, nil, false, 2*second); err == nil || err.Kind != stream.NotFound {
		t.Errorf("DELETE of an expired stream: %v", err)
	}
	s.AddFork()
	if _, _, err := stream.DecideDelete(s, nil, false, 2*second); err == nil || err.Kind != stream.Gone {
		t.Errorf("DELETE of an expired source: %v", err)
	}
	if r, _, err := stream.DecideDelete(s, nil, true, 2*second); err != nil || !r.Soft {
		t.Errorf("expired source: %+v, %v", r, err)
	}
}

// Who may look at a stream, by what it is.
func TestAccess(t *testing.T) {
	brief := func(forks int) *stream.State {
		s := made(t, &stream.Create{Path: "a", Lifetime: stream.Sliding(1), ID: 1, Incarnation: 1}, nil)
		for range forks {
			s.AddFork()
		}
		return s
	}
	for _, c := range []struct {
		name string
		s    *stream.State
		now  int64
		want error
	}{
		{"none", nil, 0, stream.NotFound},
		{"living", brief(0), second - 1, nil},
		{"expired", brief(0), second, stream.NotFound},
		{"expired with a fork", brief(1), second, stream.Gone},
		{"deleted with a fork", family(t, 1, true, 1), 0, stream.Gone},
	} {
		err := stream.Access(c.s, c.now)
		if e, ok := err.(*stream.Error); (err == nil) != (c.want == nil) || ok && e.Kind != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
