package history

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Follow reads a stream by SSE and writes down every pair of events as a read of
// its own. It ends with the answer, or when more says no. The error tells that the
// answer broke off.
func (c *Client) Follow(ctx context.Context, op *Op, more func(seen *Op) bool) error {
	op.Client, op.Life, op.Kind, op.Ask.Live = c.ID, c.Life, Read, "sse"
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.Rec.Begin(op)
	res, err := c.HTTP.RoundTrip(c.request(waiting, op))
	if err != nil {
		c.failed(op, err, ctx.Err() == nil && waiting.Err() != nil)
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, err := io.ReadAll(res.Body)
		a, err := c.answer(op, res, body, err)
		c.Rec.Done(op, a)
		return err
	}
	f := &follower{c: c, ctx: ctx, late: func() bool { return ctx.Err() == nil && waiting.Err() != nil }, op: op, more: more, from: op.Ask.From, base64: res.Header.Get("Stream-Sse-Data-Encoding") == "base64"}
	return f.run(res.Body)
}

// follower takes an SSE answer apart.
type follower struct {
	c      *Client
	ctx    context.Context
	late   func() bool
	op     *Op
	more   func(*Op) bool
	base64 bool
	from   string
	last   Answer // pair of events

	event   string
	lines   []string
	data    Bytes // of a data event whose control event has not come yet
	pending bool
}

func (f *follower) run(body io.Reader) error {
	r := bufio.NewReader(body)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return f.end(err)
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "":
			if !f.dispatch() {
				return nil
			}
		case strings.HasPrefix(line, "event:"):
			f.event = strings.TrimPrefix(line[len("event:"):], " ")
		case strings.HasPrefix(line, "data:"):
			f.lines = append(f.lines, strings.TrimPrefix(line[len("data:"):], " "))
		}
	}
}

// end notes what the end of the answer tells.
func (f *follower) end(err error) error {
	switch {
	case f.pending:
		f.note(part(f.data))
	case f.late():
		f.note(Answer{Status: noAnswer})
	case err != io.EOF && f.ctx.Err() != nil && f.c.Exact && f.last.UpToDate && !f.last.Closed:
		f.silence()
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// silence notes what it means that a client has heard nothing more until now: it
// has heard everything.
func (f *follower) silence() {
	op := f.note(Answer{Status: 200, Next: f.from, UpToDate: true})
	f.c.Rec.NotBefore(op, op.End)
}

// dispatch takes one event. It says whether to go on.
func (f *follower) dispatch() bool {
	event, text := f.event, strings.Join(f.lines, "\n")
	f.event, f.lines = "", nil
	switch event {
	case "data":
		f.data, f.pending = f.decode(text), true
	case "control":
		var control struct {
			StreamNextOffset       string
			UpToDate, StreamClosed bool
		}
		a := Answer{Status: 200, Data: f.data}
		if err := json.Unmarshal([]byte(text), &control); err != nil {
			a.Code = fmt.Sprintf("control event %q", text)
		}
		a.Next, a.UpToDate, a.Closed = control.StreamNextOffset, control.UpToDate, control.StreamClosed
		return f.more(f.note(a))
	}
	return true
}

func (f *follower) decode(text string) Bytes {
	switch {
	case f.base64:
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return Bytes("not base64: " + text)
		}
		return Bytes(b)
	case strings.HasPrefix(text, "["):
		return stored(jsonType, []byte(text))
	}
	return Bytes(text)
}

// note writes a pair of events down.
func (f *follower) note(a Answer) *Op {
	f.data, f.pending = "", false
	op := &Op{Client: f.op.Client, Life: f.op.Life, Kind: Read, Path: f.op.Path, Ask: Ask{From: f.from, Live: "sse"}}
	f.c.Rec.Seen(op, f.op, a)
	if a.Next != "" {
		f.from = a.Next
	}
	f.last = a
	return op
}
