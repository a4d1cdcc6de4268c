package stream_test

import (
	"testing"
	"time"

	"durablestreams/stream"
)

func until(t *testing.T, s string) stream.Lifetime {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return stream.Until(at, s)
}

// A repeated PUT asks for the same stream, or not.
func TestCreateAgain(t *testing.T) {
	a := func(change func(*stream.Create)) *stream.Create {
		c := &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(60), ID: 9, Incarnation: 9}
		if change != nil {
			change(c)
		}
		return c
	}
	first := func(c *stream.Create) { c.ID, c.Incarnation = 1, 1001 }
	at := func(s string) func(*stream.Create) {
		return func(c *stream.Create) { c.Lifetime = until(t, s) }
	}
	for _, c := range []struct {
		name          string
		first, second func(*stream.Create)
		close         bool // by an append in between
		want          stream.Kind
	}{
		{name: "same"},
		{name: "other type", second: func(c *stream.Create) { c.ContentType = "text/html" }, want: stream.ConfigMismatch},
		{name: "other window", second: func(c *stream.Create) { c.Lifetime = stream.Sliding(61) }, want: stream.ConfigMismatch},
		{name: "no window", second: func(c *stream.Create) { c.Lifetime = stream.Lifetime{} }, want: stream.ConfigMismatch},
		{name: "fixed end instead", second: at("2030-01-01T00:00:00Z"), want: stream.ConfigMismatch},
		{name: "same instant, other spelling", first: at("2030-01-01T00:00:00Z"), second: at("2030-01-01T01:00:00.000+01:00")},
		{name: "other instant", first: at("2030-01-01T00:00:00Z"), second: at("2030-01-01T00:00:00.000000001Z"), want: stream.ConfigMismatch},
		{name: "body does not count", second: func(c *stream.Create) { c.Data = []byte("x") }},
		{name: "bad body does not count", second: func(c *stream.Create) { c.BodyErr = &stream.Error{Kind: stream.InvalidJSON} }},
		{name: "closed now", second: func(c *stream.Create) { c.Closed = true }, want: stream.ConfigMismatch},
		{name: "closed both", first: func(c *stream.Create) { c.Closed = true }, second: func(c *stream.Create) { c.Closed = true }},
		{name: "open again", first: func(c *stream.Create) { c.Closed = true }, want: stream.ConfigMismatch},
		{name: "open again after a close", close: true, want: stream.ConfigMismatch},
		{name: "closed like it is by now", close: true, second: func(c *stream.Create) { c.Closed = true }},
		{name: "a fork", second: func(c *stream.Create) { c.Fork = &stream.ForkRequest{SourcePath: "b", AtTail: true} }, want: stream.ConfigMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			cur := a(c.first)
			first(cur)
			s := made(t, cur, nil)
			if c.close {
				add(t, s, closing(text("")), 1)
			}
			before := image(s)
			r, res, err := stream.DecideCreate(s, nil, a(c.second), same, 2)
			wantKind(t, err, c.want)
			if r.Kind != 0 || image(s) != before {
				t.Errorf("a repeated create changes something: %v", r.Kind)
			}
			if err == nil && (res.Outcome != stream.Exists || res.Meta.ID != 1 || res.Tail != s.TailOffset() || res.Closed != s.Closed) {
				t.Errorf("answered %+v", res)
			}
		})
	}
}

func TestCreateAnswers(t *testing.T) {
	c := &stream.Create{Path: "a", ContentType: "text/plain", Data: []byte("abc"), Closed: true, ID: 4, Incarnation: 77}
	r, res, err := stream.DecideCreate(nil, nil, c, same, 10)
	wantKind(t, err, "")
	if res.Outcome != stream.Created || res.Tail != (stream.Offset{Pos: 3, Inc: 77}) || !res.Closed || r.Kind != stream.RecordCreate || r.Pos != 0 {
		t.Errorf("%+v, record %+v", res, r)
	}
	_, _, err = stream.DecideCreate(nil, nil, &stream.Create{BodyErr: &stream.Error{Kind: stream.InvalidJSON}}, same, 10)
	wantKind(t, err, stream.InvalidJSON)
	gone := plain(t, 1, "x")
	gone.AddFork()
	gone.Fold(&stream.Record{Kind: stream.RecordDelete})
	_, _, err = stream.DecideCreate(gone, nil, c, same, 10)
	wantKind(t, err, stream.PathInUse)
	old := made(t, &stream.Create{Path: "a", Lifetime: stream.Sliding(1), ID: 1, Incarnation: 1}, nil)
	old.AddFork()
	_, _, err = stream.DecideCreate(old, nil, c, same, second)
	wantKind(t, err, stream.PathInUse)
}

// The refusals of a fork, in their order.
func TestForkRefusals(t *testing.T) {
	living := func(t *testing.T) *stream.State { return plain(t, 1, "hello") }
	deleted := func(t *testing.T) *stream.State {
		s := living(t)
		s.AddFork()
		s.Fold(&stream.Record{Kind: stream.RecordDelete})
		return s
	}
	expired := func(forks int) func(t *testing.T) *stream.State {
		return func(t *testing.T) *stream.State {
			s := made(t, &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(1), ID: 1, Incarnation: 1, Data: []byte("hello")}, nil)
			for range forks {
				s.AddFork()
			}
			return s
		}
	}
	closed := func(t *testing.T) *stream.State { s := living(t); add(t, s, closing(text("")), 1); return s }
	for _, c := range []struct {
		name string
		src  func(t *testing.T) *stream.State
		typ  string
		req  stream.ForkRequest
		body bool
		want stream.Kind
	}{
		{"fine", living, "", stream.ForkRequest{Source: 1, Point: 3}, false, ""},
		{"of a closed stream", closed, "", stream.ForkRequest{Source: 1, AtTail: true}, false, ""},
		{"no source", func(*testing.T) *stream.State { return nil }, "", stream.ForkRequest{Source: 1}, false, stream.ForkSourceNotFound},
		{"expired source", expired(0), "", stream.ForkRequest{Source: 1}, false, stream.ForkSourceNotFound},
		{"expired source with forks", expired(1), "", stream.ForkRequest{Source: 1}, false, stream.ForkSourceGone},
		{"deleted source", deleted, "text/html", stream.ForkRequest{Source: 2, Err: &stream.Error{Kind: stream.InvalidOffset}}, false, stream.ForkSourceGone},
		{"type first", living, "text/html", stream.ForkRequest{Source: 2, Err: &stream.Error{Kind: stream.InvalidOffset}}, true, stream.ContentTypeMismatch},
		{"point next", living, "text/plain", stream.ForkRequest{Source: 2, Err: &stream.Error{Kind: stream.InvalidOffset}}, true, stream.InvalidOffset},
		{"another source by now", living, "", stream.ForkRequest{Source: 2, Point: 3}, true, stream.ForkSourceNotFound},
		{"beyond the end", living, "", stream.ForkRequest{Source: 1, Point: 6}, true, stream.InvalidOffset},
		{"bad body", living, "", stream.ForkRequest{Source: 1, Point: 5}, true, stream.InvalidJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := c.src(t)
			create := &stream.Create{Path: "f", ContentType: c.typ, Fork: &c.req, ID: 2, Incarnation: 2}
			create.Fork.SourcePath = "a"
			if c.body {
				create.BodyErr = &stream.Error{Kind: stream.InvalidJSON}
			}
			before := image(src)
			r, res, err := stream.DecideCreate(nil, src, create, same, second)
			wantKind(t, err, c.want)
			if image(src) != before {
				t.Error("deciding changed the source")
			}
			if err == nil && (r.Meta.ContentType != "text/plain" || res.Closed || r.Meta.Fork.Depth != 1) {
				t.Errorf("fork %+v", r.Meta)
			}
		})
	}
}

// A repeated PUT of a fork, after all that can have happened to its source.
func TestForkAgain(t *testing.T) {
	ask := func(f stream.ForkRequest) *stream.Create {
		f.SourcePath = "a"
		return &stream.Create{Path: "f", Fork: &f, ID: 3, Incarnation: 3}
	}
	atTail := stream.ForkRequest{Source: 1, AtTail: true}
	at := func(offset string, sub, point uint64) stream.ForkRequest {
		return stream.ForkRequest{Source: 1, AskedOffset: offset, AskedSub: sub, Point: point}
	}
	grown := func(t *testing.T, s *stream.State) { add(t, s, text(" world"), 1) }
	gone := func(_ *testing.T, s *stream.State) { s.Fold(&stream.Record{Kind: stream.RecordDelete}) }
	none := func(*testing.T, *stream.State) {}
	for _, c := range []struct {
		name          string
		first, second stream.ForkRequest
		between       func(t *testing.T, source *stream.State)
		change        func(*stream.Create)
		want          stream.Kind
	}{
		{"at the tail", atTail, atTail, none, nil, ""},
		{"at the tail, source has grown", atTail, atTail, grown, nil, ""},
		{"at the tail, source is gone", atTail, atTail, gone, nil, ""},
		{"at an offset", at("o", 0, 3), at("o", 0, 3), none, nil, ""},
		{"at an offset, source has grown", at("o", 0, 3), at("o", 0, 3), grown, nil, ""},
		{"at an offset, source is gone and the point cannot be found", at("o", 2, 3),
			stream.ForkRequest{AskedOffset: "o", AskedSub: 2, Err: &stream.Error{Kind: stream.Gone}}, gone, nil, ""},
		{"named differently, same point", at("o", 2, 3), at("p", 0, 3), none, nil, ""},
		{"the tail as an offset", atTail, at("o", 0, 5), none, nil, ""},
		{"the tail as an offset, source has grown", atTail, at("o", 0, 5), grown, nil, ""},
		{"an offset that was the tail, as the tail", at("o", 0, 5), atTail, none, nil, ""},
		{"an offset that was the tail, as the tail later", at("o", 0, 5), atTail, grown, nil, stream.ConfigMismatch},
		{"other point", at("o", 0, 3), at("p", 0, 2), none, nil, stream.ConfigMismatch},
		{"other sub-offset", at("o", 1, 3), at("o", 2, 4), none, nil, stream.ConfigMismatch},
		{"other point of a source that is gone", at("o", 0, 3), stream.ForkRequest{AskedOffset: "p", Err: &stream.Error{Kind: stream.Gone}}, gone, nil, stream.ConfigMismatch},
		{"other source", atTail, atTail, none, func(c *stream.Create) { c.Fork.SourcePath = "b" }, stream.ConfigMismatch},
		{"not a fork", atTail, atTail, none, func(c *stream.Create) { c.Fork = nil; c.ContentType = "text/plain" }, stream.ConfigMismatch},
		{"type named", atTail, atTail, none, func(c *stream.Create) { c.ContentType = "text/plain" }, ""},
		{"other type", atTail, atTail, none, func(c *stream.Create) { c.ContentType = "text/html" }, stream.ConfigMismatch},
		{"closed", atTail, atTail, none, func(c *stream.Create) { c.Closed = true }, stream.ConfigMismatch},
		{"other lifetime", atTail, atTail, none, func(c *stream.Create) { c.Lifetime = stream.Sliding(5) }, stream.ConfigMismatch},
		{"lifetime of the source, named", atTail, atTail, none, func(c *stream.Create) { c.Lifetime = stream.Sliding(100) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := made(t, &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(100), Data: []byte("hello"), ID: 1, Incarnation: 1}, nil)
			f := made(t, ask(c.first), src)
			add(t, f, text("own"), 1)
			c.between(t, src)
			again := ask(c.second)
			if c.change != nil {
				c.change(again)
			}
			source := src
			if again.Fork != nil && again.Fork.SourcePath != "a" {
				source = nil
			}
			r, res, err := stream.DecideCreate(f, source, again, same, 2)
			wantKind(t, err, c.want)
			if r.Kind != 0 || err == nil && (res.Outcome != stream.Exists || res.Tail != f.TailOffset()) {
				t.Errorf("record %v, answer %+v", r.Kind, res)
			}
		})
	}
}

// The table of §4.2: the lifetime of a fork, by what its source has and what
// was asked for.
func TestForkLifetimes(t *testing.T) {
	fixedA, fixedB := "2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z"
	for _, c := range []struct {
		name        string
		source, ask stream.Lifetime
		want        stream.Lifetime
	}{
		{"none, none", stream.Lifetime{}, stream.Lifetime{}, stream.Lifetime{}},
		{"none, window", stream.Lifetime{}, stream.Sliding(5), stream.Sliding(5)},
		{"none, fixed", stream.Lifetime{}, until(t, fixedA), until(t, fixedA)},
		{"window, none", stream.Sliding(9), stream.Lifetime{}, stream.Sliding(9)},
		{"window, window", stream.Sliding(9), stream.Sliding(99), stream.Sliding(99)},
		{"window, fixed", stream.Sliding(9), until(t, fixedA), until(t, fixedA)},
		{"fixed, none", until(t, fixedA), stream.Lifetime{}, until(t, fixedA)},
		{"fixed, window", until(t, fixedA), stream.Sliding(5), stream.Sliding(5)},
		{"fixed, later fixed", until(t, fixedA), until(t, fixedB), until(t, fixedB)},
	} {
		src := made(t, &stream.Create{Path: "a", Lifetime: c.source, ID: 1, Incarnation: 1}, nil)
		f := made(t, &stream.Create{Path: "f", Lifetime: c.ask, ID: 2, Incarnation: 2, Fork: &stream.ForkRequest{SourcePath: "a", Source: 1, AtTail: true}}, src)
		if !f.Lifetime.Equal(c.want) {
			t.Errorf("%s: %+v", c.name, f.Lifetime)
		}
	}
}

func TestForkDepth(t *testing.T) {
	s := plain(t, 1, "x")
	for i := stream.ID(2); i < 2+stream.MaxForkDepth; i++ {
		s = forkOf(t, s, i, s.Tail, "y")
	}
	if s.Fork.Depth != stream.MaxForkDepth || len(s.Fork.Lineage) != stream.MaxForkDepth {
		t.Fatalf("depth %d, lineage %d", s.Fork.Depth, len(s.Fork.Lineage))
	}
	_, _, err := stream.DecideCreate(nil, s, &stream.Create{Path: "g", Fork: &stream.ForkRequest{SourcePath: "f", Source: s.ID}}, same, 0)
	wantKind(t, err, stream.ForkTooDeep)
}
