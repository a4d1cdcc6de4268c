package protocol_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/fakestore"
	"durablestreams/internal/protocol"
)

// client drives a core as an adapter would.
type client struct {
	t     *testing.T
	core  *protocol.Core
	store *fakestore.Store
	log   *strings.Builder
}

func newClient(t *testing.T, opt *protocol.Options) *client {
	t.Helper()
	fake := &fakestore.Store{}
	return newClientOn(t, opt, fake, fake)
}

// newClientOn drives a core on a store that stands before fake.
func newClientOn(t *testing.T, opt *protocol.Options, store protocol.Store, fake *fakestore.Store) *client {
	t.Helper()
	c := &client{t: t, store: fake, log: &strings.Builder{}}
	var o protocol.Options
	if opt != nil {
		o = *opt
	}
	o.Logger = slog.New(slog.NewTextHandler(c.log, nil))
	var err error
	if c.core, err = protocol.New(store, &o); err != nil {
		t.Fatal(err)
	}
	return c
}

// fields is a request's header.
type fields map[string][]string

func (f fields) Values(name string) []string { return f[name] }

// answer is a response with its whole body.
type answer struct {
	*protocol.Response
	t    *testing.T
	line string
	body string
}

// request builds a request from "METHOD path?query", where a path that does not
// start with a slash is a stream's, header lines, and a body that starts with
// "=".
func (c *client) request(line string, args []string) (*protocol.Request, string) {
	method, target, _ := strings.Cut(line, " ")
	path, query, _ := strings.Cut(target, "?")
	if !strings.HasPrefix(path, "/") {
		path = c.core.Root() + path
	}
	header, body := fields{}, ""
	for _, arg := range args {
		if b, ok := strings.CutPrefix(arg, "="); ok {
			body = b
			continue
		}
		name, value, _ := strings.Cut(arg, ":")
		name = textproto.CanonicalMIMEHeaderKey(name)
		header[name] = append(header[name], strings.TrimPrefix(value, " "))
	}
	return &protocol.Request{Method: method, Path: path, Query: query, Host: "ds.example", Header: header,
		ContentLength: int64(len(body))}, body
}

// do makes a whole request that does not stay open.
func (c *client) do(line string, args ...string) *answer {
	c.t.Helper()
	req, body := c.request(line, args)
	op, res := c.core.Begin(req)
	if op == nil {
		return c.read(line, res)
	}
	switch op.Mode() {
	case protocol.Write:
		done := make(chan struct{})
		op.Submit([]byte(body), func() { close(done) })
		<-done
		res = op.Response()
	case protocol.Read:
		res = op.Read()
	case protocol.ControlMode:
		res = op.Serve([]byte(body))
	case protocol.Live:
		l := c.open(line, args...)
		act := l.next()
		l.feed.Close()
		return c.read(line, act.Response)
	}
	return c.read(line, res)
}

// read takes the body of a response and checks its length.
func (c *client) read(line string, res *protocol.Response) *answer {
	c.t.Helper()
	defer res.Close()
	a := &answer{Response: res, t: c.t, line: line}
	b := append([]byte(nil), res.Body...)
	for res.Rest != nil {
		block, err := res.Rest.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			c.t.Fatalf("%s: body: %v", line, err)
		}
		b = append(b, block...)
	}
	if a.body = string(b); res.Length >= 0 && res.Length != int64(len(b)) {
		c.t.Errorf("%s: Length %d, body has %d bytes", line, res.Length, len(b))
	}
	return a
}

// want checks the status and fields, given as "Name: value"; "Name:" alone means
// that the field is not there.
func (a *answer) want(status int, lines ...string) *answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Errorf("%s: status %d, want %d; body %q", a.line, a.Status, status, a.body)
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		if got := a.field(name); got != strings.TrimSpace(value) {
			a.t.Errorf("%s: %s is %q, want %q", a.line, name, got, strings.TrimSpace(value))
		}
	}
	return a
}

// field gives a field in any spelling; a doubled one is an error.
func (a *answer) field(name string) string {
	a.t.Helper()
	value, n := "", 0
	for _, f := range a.Fields {
		if strings.EqualFold(f.Name, name) {
			value, n = f.Value, n+1
		}
	}
	if n > 1 {
		a.t.Errorf("%s: %s is sent %d times", a.line, name, n)
	}
	return value
}

// text checks the body.
func (a *answer) text(want string) *answer {
	a.t.Helper()
	if a.body != want {
		a.t.Errorf("%s: body %q, want %q", a.line, short(a.body), short(want))
	}
	return a
}

// code checks the error code of the body.
func (a *answer) code(want string) *answer {
	a.t.Helper()
	var e struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || e.Error.Code != want || e.Error.Message == "" {
		a.t.Errorf("%s: error body %q (%v), want code %q", a.line, a.body, err, want)
	}
	return a
}

func (a *answer) next() string { return a.field("Stream-Next-Offset") }

func short(s string) string {
	if len(s) > 200 {
		return s[:100] + "…" + s[len(s)-100:]
	}
	return s
}

// live is a live read that is stepped by hand; waiting takes virtual time.
type live struct {
	t    *testing.T
	feed *protocol.Feed
	wake chan struct{}
	core *protocol.Core
}

func (c *client) open(line string, args ...string) *live {
	c.t.Helper()
	req, _ := c.request(line, args)
	op, res := c.core.Begin(req)
	if op == nil {
		c.t.Fatalf("%s: refused with %d", line, res.Status)
	}
	l := &live{t: c.t, wake: make(chan struct{}, 1), core: c.core}
	l.feed = op.Open(func() {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	})
	return l
}

// next steps until there is something to send, or the end.
func (l *live) next() protocol.Action {
	l.t.Helper()
	for range 10_000 {
		act, err := l.feed.Step(time.Now())
		if err != nil {
			l.t.Fatalf("step: %v", err)
		}
		if act.Response != nil || len(act.Frame) > 0 || act.Done {
			return act
		}
		if act.Wait.IsZero() {
			l.t.Fatal("a step gave nothing to do")
		}
		timer := time.NewTimer(time.Until(act.Wait))
		select {
		case <-l.wake:
		case <-timer.C:
		case <-l.core.Draining():
		}
		timer.Stop()
	}
	l.t.Fatal("the feed spins")
	return protocol.Action{}
}

// event is one SSE event; a comment has no name.
type event struct{ name, data string }

// events parses a frame as a client would.
func events(t *testing.T, frame []byte) []event {
	t.Helper()
	s := string(frame)
	if !strings.HasSuffix(s, "\n\n") {
		t.Errorf("frame ends inside an event: %q", short(s))
	}
	var list []event
	for block := range strings.SplitSeq(strings.TrimSuffix(s, "\n\n"), "\n\n") {
		var e event
		var lines []string
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "event":
				e.name = value
			case "data":
				lines = append(lines, value)
			case "":
			default:
				t.Errorf("SSE field %q", name)
			}
		}
		e.data = strings.Join(lines, "\n")
		list = append(list, e)
	}
	return list
}

// control is the data of a control event.
type control struct {
	StreamNextOffset, StreamCursor string
	UpToDate, StreamClosed         bool
}

// sse splits a frame into its data, if it has any, and its control event.
func sse(t *testing.T, frame []byte) (data string, c control) {
	t.Helper()
	list := events(t, frame)
	last := list[len(list)-1]
	if last.name != "control" {
		t.Fatalf("a frame ends with %q", last.name)
	}
	if err := json.Unmarshal([]byte(last.data), &c); err != nil {
		t.Fatalf("control event %q: %v", last.data, err)
	}
	for _, e := range list[:len(list)-1] {
		if e.name != "data" {
			t.Errorf("event %q before a control event", e.name)
		}
		data += e.data
	}
	return data, c
}
