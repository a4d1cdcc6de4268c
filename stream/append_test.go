package stream_test

import (
	"fmt"
	"testing"

	"durablestreams/stream"
)

// The refusals of an append, in their order: what comes first wins over all
// that is wrong besides.
func TestAppendRefusals(t *testing.T) {
	bad := func(a *stream.Append) *stream.Append { a.BodyErr = &stream.Error{Kind: stream.InvalidJSON}; return a }
	other := func(a *stream.Append) *stream.Append { a.ContentType = "text/html"; return a }
	open := func(t *testing.T) *stream.State {
		s := plain(t, 1, "x")
		add(t, s, withSeq(by(text("y"), "p", 3, 0), "m"), 1)
		return s
	}
	closed := func(t *testing.T) *stream.State {
		s := open(t)
		add(t, s, closing(text("")), 2)
		return s
	}
	for _, c := range []struct {
		name string
		s    func(t *testing.T) *stream.State
		a    *stream.Append
		want stream.Kind
	}{
		{"no stream", func(*testing.T) *stream.State { return nil }, text("z"), stream.NotFound},
		{"deleted", func(t *testing.T) *stream.State {
			s := open(t)
			s.Fold(&stream.Record{Kind: stream.RecordDelete})
			return s
		}, text("z"), stream.Gone},
		{"deleted and closed", func(t *testing.T) *stream.State {
			s := closed(t)
			s.Fold(&stream.Record{Kind: stream.RecordDelete})
			return s
		}, closing(text("")), stream.Gone},
		{"fine", open, text("z"), ""},
		{"closed, all wrong", closed, other(bad(by(text("z"), "p", 0, 9))), stream.Closed},
		{"closed, with data and close", closed, closing(text("z")), stream.Closed},
		{"closed, close again", closed, closing(text("")), ""},
		{"closed, close by a producer that did not", closed, closing(by(text(""), "p", 3, 1)), stream.Closed},
		{"closed, a producer's old triple", closed, by(text("y"), "p", 3, 0), stream.Closed},
		{"type, body, producer wrong", open, other(bad(by(text("z"), "p", 0, 0))), stream.ContentTypeMismatch},
		{"type does not count without a body", open, other(closing(text(""))), ""},
		{"body and producer wrong", open, bad(by(text("z"), "p", 0, 0)), stream.InvalidJSON},
		{"producer and seq wrong", open, withSeq(by(text("z"), "p", 2, 0), "a"), stream.ProducerFenced},
		{"duplicate before seq", open, withSeq(by(text("y"), "p", 3, 0), "a"), ""},
		{"new epoch not from 0", open, by(text("z"), "p", 4, 1), stream.ProducerEpochStart},
		{"new epoch", open, by(text("z"), "p", 4, 0), ""},
		{"gap", open, by(text("z"), "p", 3, 2), stream.ProducerGap},
		{"unknown not from 0", open, by(text("z"), "q", 0, 1), stream.ProducerGap},
		{"seq equal", open, withSeq(text("z"), "m"), stream.SeqRegression},
		{"seq smaller", open, withSeq(text("z"), "lzzz"), stream.SeqRegression},
		{"seq a prefix", open, withSeq(text("z"), ""), stream.SeqRegression},
		{"seq longer", open, withSeq(text("z"), "m0"), ""},
		{"seq compares bytes", open, withSeq(text("z"), "\xff"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.s(t)
			before := image(s)
			_, _, err := stream.DecideAppend(s, c.a, same, 5)
			wantKind(t, err, c.want)
			if image(s) != before {
				t.Error("deciding changed the state")
			}
		})
	}
}

// What a producer is told, triple by triple.
func TestProducerAnswers(t *testing.T) {
	s := plain(t, 1, "")
	for _, c := range []struct {
		epoch, seq uint64
		want       stream.Kind
		outcome    stream.Outcome
		highest    uint64
		expected   uint64 // of a gap
		current    uint64 // epoch of a fencing
	}{
		{epoch: 0, seq: 1, want: stream.ProducerGap, expected: 0},
		{epoch: 0, seq: 0, outcome: stream.Appended},
		{epoch: 0, seq: 0, outcome: stream.Duplicate, highest: 0},
		{epoch: 0, seq: 2, want: stream.ProducerGap, expected: 1},
		{epoch: 0, seq: 1, outcome: stream.Appended, highest: 1},
		{epoch: 0, seq: 2, outcome: stream.Appended, highest: 2},
		{epoch: 0, seq: 0, outcome: stream.Duplicate, highest: 2},
		{epoch: 7, seq: 1, want: stream.ProducerEpochStart},
		{epoch: 7, seq: 0, outcome: stream.Appended, highest: 0},
		{epoch: 0, seq: 3, want: stream.ProducerFenced, current: 7},
		{epoch: 0, seq: 0, want: stream.ProducerFenced, current: 7},
		{epoch: 7, seq: 0, outcome: stream.Duplicate, highest: 0},
		{epoch: stream.MaxProducerInt, seq: 0, outcome: stream.Appended},
		{epoch: stream.MaxProducerInt, seq: stream.MaxProducerInt, want: stream.ProducerGap, expected: 1},
	} {
		r, res, err := stream.DecideAppend(s, by(text("x"), "p", c.epoch, c.seq), same, 1)
		wantKind(t, err, c.want)
		switch {
		case err != nil:
			if err.Expected != c.expected || err.Epoch != c.current || err.Producer == nil || err.Producer.Seq != c.seq {
				t.Errorf("%d/%d: refused with %+v", c.epoch, c.seq, err)
			}
			if err.Kind == stream.ProducerGap && err.Received != c.seq {
				t.Errorf("%d/%d: received %d", c.epoch, c.seq, err.Received)
			}
		case res.Outcome != c.outcome || res.Highest != c.highest:
			t.Errorf("%d/%d: outcome %d, highest %d", c.epoch, c.seq, res.Outcome, res.Highest)
		}
		if (r.Kind != 0) != (c.outcome == stream.Appended) {
			t.Errorf("%d/%d: record %v", c.epoch, c.seq, r.Kind)
		}
		if r.Kind != 0 {
			s.Fold(&r)
		}
	}
}

// The triple that closed a stream is answered again; nobody else's is.
func TestCloser(t *testing.T) {
	s := plain(t, 1, "x")
	add(t, s, by(text("a"), "p", 0, 0), 1)
	add(t, s, closing(by(text("end"), "p", 0, 1)), 2)
	for i := range 2 {
		res := add(t, s, closing(by(text("end"), "p", 0, 1)), 3)
		if res.Outcome != stream.Duplicate || res.Highest != 1 || !res.Closed || res.Tail.Pos != 5 {
			t.Errorf("the closer's triple again, %d: %+v", i, res)
		}
	}
	for _, a := range []*stream.Append{by(text("a"), "p", 0, 0), by(text("z"), "p", 0, 2), by(text("z"), "q", 0, 1),
		closing(by(text("end"), "p", 1, 1)), closing(by(text(""), "p", 0, 3))} {
		_, _, err := stream.DecideAppend(s, a, same, 4)
		wantKind(t, err, stream.Closed)
		// A client that waits for the numbers below its own must not wait for ever.
		if err != nil && (err.Tail != s.TailOffset() || err.Producer == nil || err.Expected != a.Producer.Seq || err.Received != a.Producer.Seq) {
			t.Errorf("closed: %+v", err)
		}
	}
}

func TestStreamFull(t *testing.T) {
	s := plain(t, 1, "")
	s.Tail = stream.MaxPosition - 3
	_, res, err := stream.DecideAppend(s, text("abc"), same, 1)
	wantKind(t, err, "")
	if o, perr := stream.ParseOffset(res.Tail.String()); perr != nil || o != res.Tail {
		t.Errorf("the last offset does not parse: %v", perr)
	}
	_, _, err = stream.DecideAppend(s, text("abcd"), same, 1)
	wantKind(t, err, stream.StreamFull)
}

// A stream remembers a bounded number of producers and forgets the one that was
// idle the longest.
func TestProducerLimit(t *testing.T) {
	s := plain(t, 1, "")
	id := func(i int) string { return fmt.Sprintf("%05d", (i*7919)%stream.MaxProducers) }
	for i := range stream.MaxProducers {
		add(t, s, by(text("x"), id(i), 5, 0), int64(i))
	}
	add(t, s, by(text("x"), id(0), 5, 1), stream.MaxProducers) // the oldest is used again
	if n := s.ProducerCount(); n != stream.MaxProducers {
		t.Fatalf("%d producers", n)
	}
	add(t, s, by(text("x"), "new", 0, 0), stream.MaxProducers+1)
	if n := s.ProducerCount(); n != stream.MaxProducers {
		t.Fatalf("%d producers after one more", n)
	}
	if res := add(t, s, by(text("x"), id(0), 5, 1), stream.MaxProducers+2); res.Outcome != stream.Duplicate {
		t.Errorf("a producer in use was forgotten: %+v", res)
	}
	if res := add(t, s, by(text("x"), "new", 0, 0), stream.MaxProducers+2); res.Outcome != stream.Duplicate {
		t.Errorf("the new producer is not known: %+v", res)
	}
	_, _, err := stream.DecideAppend(s, by(text("x"), id(1), 5, 1), same, stream.MaxProducers+3)
	wantKind(t, err, stream.ProducerGap) // forgotten: it counts as new
	if res := add(t, s, by(text("x"), id(2), 5, 0), stream.MaxProducers+3); res.Outcome != stream.Duplicate {
		t.Errorf("the second oldest was forgotten too: %+v", res)
	}
}

// A fork starts with no producers and no Stream-Seq.
func TestForkInheritsNoWriters(t *testing.T) {
	s := plain(t, 1, "x")
	add(t, s, withSeq(by(text("y"), "p", 3, 0), "m"), 1)
	f := forkOf(t, s, 2, 2, "")
	if res := add(t, f, withSeq(by(text("z"), "p", 0, 0), "a"), 1); res.Outcome != stream.Appended {
		t.Errorf("first append of a known producer to a fork: %+v", res)
	}
}
