package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	text     = "text/plain"
	jsonType = "application/json"
	octet    = "application/octet-stream"
)

const (
	fromStart = "offset=-1"
	fromNow   = "offset=now"
	longPoll  = "&live=long-poll"
	sse       = "&live=sse"
)

// from is the query that reads from an offset.
func from(offset string) string { return "offset=" + url.QueryEscape(offset) }

// closing are the headers of a close.
func closing(more ...string) []string { return append([]string{"Stream-Closed", "true"}, more...) }

// producer are the headers of an idempotent append.
func producer(id string, epoch, seq int64, more ...string) []string {
	return append([]string{"Producer-Id", id, "Producer-Epoch", strconv.FormatInt(epoch, 10), "Producer-Seq", strconv.FormatInt(seq, 10)}, more...)
}

// reply is an answer that has been read to its end, or the error instead.
type reply struct {
	c      *client
	what   string
	Status int
	Header http.Header
	Body   string
	Err    error
	Took   time.Duration
}

// send makes one request and never fails the test itself, so it may be called
// from any goroutine. Headers are names and values in turn; a name may repeat.
func (c *client) send(method, path, query, body string, headers ...string) *reply {
	target := c.BaseURL + c.full(path)
	if query != "" {
		target += "?" + query
	}
	return c.sendURL(method, target, body, headers...)
}

func (c *client) sendURL(method, target, body string, headers ...string) *reply {
	r := &reply{c: c, what: method + " " + strings.TrimPrefix(target, c.BaseURL)}
	begin := time.Now()
	var payload io.Reader
	if body != "" {
		payload = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(c.Context(), method, target, payload)
	if err != nil {
		r.Err = err
		return r
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		r.Err = err
		return r
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	r.Status, r.Header, r.Body, r.Err, r.Took = resp.StatusCode, resp.Header, string(content), err, time.Since(begin)
	return r
}

func withType(ctype string, headers []string) []string {
	if ctype == "" {
		return headers
	}
	return append([]string{"Content-Type", ctype}, headers...)
}

func (c *client) put(path, ctype, body string, headers ...string) *reply {
	return c.send(http.MethodPut, path, "", body, withType(ctype, headers)...)
}

func (c *client) post(path, ctype, body string, headers ...string) *reply {
	return c.send(http.MethodPost, path, "", body, withType(ctype, headers)...)
}

func (c *client) get(path, query string, headers ...string) *reply {
	return c.send(http.MethodGet, path, query, "", headers...)
}

func (c *client) head(path string, headers ...string) *reply {
	return c.send(http.MethodHead, path, "", "", headers...)
}

func (c *client) delete(path string, headers ...string) *reply {
	return c.send(http.MethodDelete, path, "", "", headers...)
}

// create makes a new stream with a path of its own.
func (c *client) create(name, ctype, body string, headers ...string) (path string) {
	c.Helper()
	path = c.path(name)
	c.put(path, ctype, body, headers...).is(201)
	return path
}

// add appends and gives the new tail.
func (c *client) add(path, ctype, body string, headers ...string) (tail string) {
	c.Helper()
	return c.post(path, ctype, body, headers...).is(204).tail()
}

// closes ends a stream and gives its final offset.
func (c *client) closes(path string) (tail string) {
	c.Helper()
	return c.post(path, "", "", closing()...).is(204).header("Stream-Closed", "true").tail()
}

// later makes a request in the background.
func (c *client) later(request func() *reply) func() *reply {
	done := make(chan *reply, 1)
	go func() { done <- request() }()
	return func() *reply {
		c.Helper()
		select {
		case r := <-done:
			return r
		case <-time.After(patience + c.LongPollTimeout):
			c.Fatalf("no answer to the request in the background")
			return nil
		}
	}
}

// is demands one of the statuses and stops the test otherwise.
func (r *reply) is(statuses ...int) *reply {
	r.c.Helper()
	if r.Err != nil {
		r.c.Fatalf("%s: %v (status %d)", r.what, r.Err, r.Status)
	}
	if !slices.Contains(statuses, r.Status) {
		r.c.Fatalf("%s: status %d, want %s; body %s", r.what, r.Status, oneOf(statuses), short(r.Body))
	}
	return r
}

// refused demands an error status together with what every error carries.
func (r *reply) refused(statuses ...int) *reply {
	r.c.Helper()
	r.is(statuses...)
	if r.Status < 400 || r.c.LooseErrors {
		return r
	}
	r.header("Cache-Control", "no-store")
	if strings.HasPrefix(r.what, "HEAD ") {
		return r.body("")
	}
	var content struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(r.Body), &content); err != nil || content.Error.Code == "" || content.Error.Message == "" {
		r.c.Errorf(`%s: status %d with body %s, want {"error":{"code","message"}}`, r.what, r.Status, short(r.Body))
	}
	if got := r.Header.Get("Content-Type"); got != jsonType {
		r.c.Errorf("%s: error of type %q, want %q", r.what, got, jsonType)
	}
	return r
}

// header demands a header's value.
func (r *reply) header(name, want string) *reply {
	r.c.Helper()
	if got := r.Header.Values(name); len(got) != 1 || got[0] != want {
		r.c.Errorf("%s: status %d with %s %q, want %q", r.what, r.Status, name, got, want)
	}
	return r
}

// with demands that headers are there.
func (r *reply) with(names ...string) *reply {
	r.c.Helper()
	for _, name := range names {
		if r.Header.Get(name) == "" {
			r.c.Errorf("%s: status %d without %s", r.what, r.Status, name)
		}
	}
	return r
}

// without demands that headers are absent.
func (r *reply) without(names ...string) *reply {
	r.c.Helper()
	for _, name := range names {
		if got := r.Header.Values(name); len(got) > 0 {
			r.c.Errorf("%s: status %d with %s %q, want none", r.what, r.Status, name, got)
		}
	}
	return r
}

// body demands the exact body.
func (r *reply) body(want string) *reply {
	r.c.Helper()
	if r.Body != want {
		r.c.Errorf("%s: body %s, want %s", r.what, short(r.Body), short(want))
	}
	return r
}

// tail gives the answer's Stream-Next-Offset, which must be there.
func (r *reply) tail() string {
	r.c.Helper()
	offset := r.Header.Get("Stream-Next-Offset")
	if offset == "" {
		r.c.Fatalf("%s: status %d without Stream-Next-Offset", r.what, r.Status)
	}
	return offset
}

// messages gives the elements of a JSON array, each with its bytes.
func (r *reply) messages() []string {
	r.c.Helper()
	list, err := split(r.Body)
	if err != nil {
		r.c.Fatalf("%s: body %s is no JSON array: %v", r.what, short(r.Body), err)
	}
	return list
}

// split takes a JSON array apart without touching its elements.
func split(array string) ([]string, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(array), &raw); err != nil {
		return nil, err
	}
	list := make([]string, len(raw))
	for i, m := range raw {
		list[i] = string(m)
	}
	return list, nil
}

// content reads a stream of bytes from its start to its tail.
func (c *client) content(path string) string {
	c.Helper()
	var all strings.Builder
	c.pages(path, func(r *reply) { all.WriteString(r.Body) })
	return all.String()
}

// messages reads a JSON stream from its start to its tail.
func (c *client) messages(path string) []string {
	c.Helper()
	list := []string{}
	c.pages(path, func(r *reply) { list = append(list, r.messages()...) })
	return list
}

// pages reads from the start until an answer claims to be up to date.
func (c *client) pages(path string, page func(*reply)) {
	c.Helper()
	offset := "-1"
	for range 100_000 {
		r := c.get(path, from(offset)).is(200)
		page(r)
		if r.Header.Get("Stream-Up-To-Date") != "" {
			r.header("Stream-Up-To-Date", "true")
			return
		}
		r.without("Stream-Closed")
		next := r.tail()
		if next == offset {
			c.Fatalf("%s: a page that leads nowhere: %q again", r.what, next)
		}
		offset = next
	}
	c.Fatalf("reading %s does not end", path)
}

// same compares lists of messages.
func (c *client) same(what string, got, want []string) {
	c.Helper()
	if !slices.Equal(got, want) {
		c.Errorf("%s: got %s, want %s", what, short(fmt.Sprint(len(got), " ", got)), short(fmt.Sprint(len(want), " ", want)))
	}
}

// short makes a body fit for a message.
func short(s string) string {
	if len(s) > 300 {
		return fmt.Sprintf("%q... (%d bytes)", s[:300], len(s))
	}
	return strconv.Quote(s)
}

func oneOf(statuses []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(statuses), " ", " or "), "[]")
}
