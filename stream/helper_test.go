package stream_test

import (
	"errors"
	"testing"
	"time"

	"durablestreams/stream"
)

const second = int64(time.Second)

func same(a, b string) bool { return a == b }

// made is a stream that was created at time 0.
func made(t testing.TB, c *stream.Create, src *stream.State) *stream.State {
	t.Helper()
	r, _, err := stream.DecideCreate(nil, src, c, same, 0)
	if err != nil {
		t.Fatalf("create %+v: %v", c, err)
	}
	s := &stream.State{}
	s.Fold(&r)
	if src != nil {
		src.AddFork()
	}
	return s
}

// plain is an open text stream with some data.
func plain(t testing.TB, id stream.ID, data string) *stream.State {
	t.Helper()
	return made(t, &stream.Create{Path: "a", ContentType: "text/plain", Data: []byte(data), ID: id, Incarnation: stream.Incarnation(1000 + id)}, nil)
}

// forkOf is a fork at a position.
func forkOf(t testing.TB, src *stream.State, id stream.ID, point uint64, data string) *stream.State {
	t.Helper()
	return made(t, &stream.Create{Path: "f", ID: id, Incarnation: stream.Incarnation(1000 + id), Data: []byte(data),
		Fork: &stream.ForkRequest{SourcePath: src.Path, Source: src.ID, Point: point, AskedOffset: src.OffsetAt(point).String()}}, src)
}

// add appends to a stream, which must be right.
func add(t testing.TB, s *stream.State, a *stream.Append, now int64) stream.Result {
	t.Helper()
	r, res, err := stream.DecideAppend(s, a, same, now)
	if err != nil {
		t.Fatalf("append %+v: %v", a, err)
	}
	if r.Kind != 0 {
		s.Fold(&r)
	}
	return res
}

func text(data string) *stream.Append {
	return &stream.Append{ContentType: "text/plain", HasBody: data != "", Data: []byte(data)}
}

func by(a *stream.Append, id string, epoch, seq uint64) *stream.Append {
	a.Producer = &stream.Producer{ID: id, Epoch: epoch, Seq: seq}
	return a
}

func closing(a *stream.Append) *stream.Append {
	a.Close = true
	return a
}

func withSeq(a *stream.Append, seq string) *stream.Append {
	a.Seq = &seq
	return a
}

// wantKind checks the kind of a refusal; "" is none.
func wantKind(t *testing.T, err *stream.Error, kind stream.Kind) {
	t.Helper()
	switch {
	case err == nil && kind == "":
	case err == nil:
		t.Errorf("taken, want %s", string(kind))
	case kind == "":
		t.Errorf("refused: %v", err)
	case !errors.Is(err, kind):
		t.Errorf("refused with %v, want %s", err, string(kind))
	}
}

// image is everything that a state knows, as bytes.
func image(s *stream.State) string {
	if s == nil {
		return ""
	}
	return string(s.AppendTo(nil)) + string(s.AppendProducers(nil))
}

func fixedTime() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 5e8, time.UTC) }
