package conformance

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// control is the content of a control event.
type control struct {
	StreamNextOffset string
	StreamCursor     *string
	UpToDate         bool
	StreamClosed     bool
}

// event is one server-sent event, or a comment, as it came.
type event struct {
	kind    string   // event type; ":" for a comment; "!" for bytes that are no event
	lines   []string // what follows "data:", before the client takes a space off
	data    string   // the lines as a client joins them
	control control
	at      time.Time
}

// feed is an open SSE response. A goroutine reads it, so a test may look away.
type feed struct {
	c      *client
	Header http.Header
	events chan event
	cancel context.CancelFunc
	bytes  atomic.Int64
	err    error // of the end; valid once events is closed
}

// sse opens a live read, which has to be accepted.
func (c *client) sse(path, query string, headers ...string) *feed {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	c.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL+c.full(path)+"?"+query+sse, nil)
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.Fatalf("SSE of %s: %v", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		c.Fatalf("SSE of %s: status %d, %s", path, resp.StatusCode, short(string(body)))
	}
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		c.Errorf("SSE of %s: content type %q", path, got)
	}
	f := &feed{c: c, Header: resp.Header, events: make(chan event, 10_000), cancel: cancel}
	go f.read(resp.Body)
	return f
}

func (f *feed) read(body io.ReadCloser) {
	defer close(f.events)
	defer body.Close()
	r := bufio.NewReader(body)
	var block []string
	for {
		line, err := r.ReadString('\n')
		f.bytes.Add(int64(len(line)))
		if err != nil {
			if line != "" || len(block) > 0 {
				f.events <- event{kind: "!", data: strings.Join(append(block, line), "\n"), at: time.Now()}
			}
			f.err = err
			return
		}
		line = strings.TrimSuffix(line, "\n")
		if line != "" {
			block = append(block, line)
			continue
		}
		if len(block) > 0 {
			f.events <- parseEvent(block)
			block = nil
		}
	}
}

// parseEvent reads the lines of one block. It is strict: these servers write
// events, data and comments and nothing else.
func parseEvent(block []string) event {
	e := event{at: time.Now()}
	comments := 0
	for _, line := range block {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case strings.ContainsRune(line, '\r'):
			return event{kind: "!", data: line, at: e.at}
		case name == "":
			comments++
		case name == "event":
			e.kind = strings.TrimPrefix(value, " ")
		case name == "data":
			e.lines = append(e.lines, value)
		case name == "id", name == "retry":
		default:
			return event{kind: "!", data: line, at: e.at}
		}
	}
	if comments == len(block) {
		e.kind = ":"
		return e
	}
	joined := make([]string, len(e.lines))
	for i, line := range e.lines {
		joined[i] = strings.TrimPrefix(line, " ")
	}
	e.data = strings.Join(joined, "\n")
	if e.kind == "control" {
		if err := json.Unmarshal([]byte(e.data), &e.control); err != nil {
			return event{kind: "!", data: e.data, at: e.at}
		}
	}
	return e
}

// take gives the next event of any kind, or ok false at the end.
func (f *feed) take(limit time.Duration) (e event, ok bool) {
	f.c.Helper()
	select {
	case e, ok = <-f.events:
		if e.kind == "!" {
			f.c.Fatalf("SSE: %s is no event that belongs here", short(e.data))
		}
		return e, ok
	case <-time.After(limit):
		f.c.Fatalf("SSE: no event within %s", limit)
		return e, false
	}
}

// next gives the next data or control event.
func (f *feed) next() event {
	f.c.Helper()
	return f.by(time.Now().Add(patience))
}

// by gives the next data or control event, which has to come before the deadline.
func (f *feed) by(deadline time.Time) event {
	f.c.Helper()
	for {
		e, ok := f.take(time.Until(deadline))
		if !ok {
			f.c.Fatalf("SSE: the response ended (%v) while an event was awaited", f.err)
		}
		switch e.kind {
		case "data", "control":
			return e
		case ":":
		default:
			f.c.Fatalf("SSE: event of type %q", e.kind)
		}
	}
}

// control gives the next event, which must be a control.
func (f *feed) control() control {
	f.c.Helper()
	e := f.next()
	if e.kind != "control" {
		f.c.Fatalf("SSE: event %s %s, want control", e.kind, short(e.data))
	}
	if e.control.StreamNextOffset == "" {
		f.c.Errorf("SSE: control %s without streamNextOffset", e.data)
	}
	if e.control.StreamClosed && (e.control.StreamCursor != nil || !e.control.UpToDate) {
		f.c.Errorf("SSE: control %s of a closed stream, want upToDate and no cursor", e.data)
	}
	if !e.control.StreamClosed && (e.control.StreamCursor == nil || *e.control.StreamCursor == "") {
		f.c.Errorf("SSE: control %s without streamCursor", e.data)
	}
	return e.control
}

// pair gives the next data event and the control after it, skipping controls.
func (f *feed) pair() (event, control) {
	f.c.Helper()
	for deadline := time.Now().Add(patience); ; {
		e := f.by(deadline)
		if e.kind == "data" {
			return e, f.control()
		}
		if e.control.StreamClosed {
			f.c.Fatalf("SSE: the stream is closed (%s) before the data came", e.data)
		}
	}
}

// until collects data until the joined text is as wanted, and gives the control
// after it.
func (f *feed) until(want string, decode func(string) string) control {
	f.c.Helper()
	var got strings.Builder
	for {
		e, ctl := f.pair()
		got.WriteString(decode(e.data))
		if got.String() == want {
			return ctl
		}
		if !strings.HasPrefix(want, got.String()) {
			f.c.Fatalf("SSE: got %s, want %s", short(got.String()), short(want))
		}
	}
}

func plain(s string) string { return s }

func unbase64(s string) string {
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "\n", ""))
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	return string(b)
}

// ends demands that the response ends as it should within the limit, and gives
// the events that came before.
func (f *feed) ends(limit time.Duration) []event {
	f.c.Helper()
	deadline := time.Now().Add(limit)
	var rest []event
	for {
		e, ok := f.take(time.Until(deadline))
		if !ok {
			if f.err != io.EOF {
				f.c.Errorf("SSE: the response was cut (%v), want a clean end", f.err)
			}
			return rest
		}
		rest = append(rest, e)
	}
}

// quiet demands that no data comes for a while.
func (f *feed) quiet(d time.Duration) {
	f.c.Helper()
	end := time.After(d)
	for {
		select {
		case e, ok := <-f.events:
			if !ok {
				f.c.Fatalf("SSE: the response ended: %v", f.err)
			}
			if e.kind == "data" || e.kind == "!" {
				f.c.Fatalf("SSE: %s %s where nothing was to come", e.kind, short(e.data))
			}
		case <-end:
			return
		}
	}
}
