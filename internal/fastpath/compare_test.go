//go:build linux

package fastpath_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// talk is what one client sends on one connection.
type talk struct {
	raw     string
	cuts    []int    // where it is cut into writes
	methods []string // of its requests, in order
	half    bool     // the client ends its side at once; else the server ends the connection
}

// reply is an answer as far as it is to be the same.
type reply struct {
	method   string
	status   int
	header   http.Header
	body     string
	encoding string // of the transfer
	close    bool
	err      string // it ends early, or is none
}

// converse sends raw in pieces and reads all the answers.
func (s *server) converse(t testing.TB, tk talk) (replies []reply) {
	c := s.dialFor(t)
	defer c.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		at := 0
		for _, cut := range append(slices.Clone(tk.cuts), len(tk.raw)) {
			_, _ = io.WriteString(c.TCPConn, tk.raw[at:cut])
			at = cut
		}
		if tk.half {
			_ = c.CloseWrite()
		}
	}()
	all, _ := io.ReadAll(c.r)
	c.Close()
	<-sent
	r := bufio.NewReader(bytes.NewReader(all))
	for n := 0; ; {
		if _, err := r.Peek(1); err != nil {
			return replies
		}
		re := reply{method: "GET"}
		if n < len(tk.methods) {
			re.method = tk.methods[n]
		}
		res, err := http.ReadResponse(r, &http.Request{Method: re.method})
		if err != nil {
			left, _ := io.ReadAll(r)
			return append(replies, reply{err: fmt.Sprintf("%v %.100q", err, left)})
		}
		b, err := io.ReadAll(res.Body)
		re.status, re.header, re.body, re.close = res.StatusCode, res.Header, string(b), res.Close
		re.encoding, re.err = fmt.Sprint(res.TransferEncoding), fmt.Sprint(err)
		if replies = append(replies, re); re.status != 100 {
			n++
		}
	}
}

// difference is something in which the two adapters may differ.
type difference struct {
	why string
	fix func(r *reply)
}

var (
	offsets = regexp.MustCompile(`_[0-9A-Za-z]{8,}|"[0-9a-f]+:`)
)

// differences lists all that may differ between an answer of the fast path and
// one of net/http.
var differences = []difference{
	{"time goes on", func(r *reply) { r.header.Del("Date") }},
	{"net/http takes the Content-Type from a 304", func(r *reply) {
		if r.status == 304 {
			r.header.Del("Content-Type")
		}
	}},
	{"and cursors with it", func(r *reply) { r.header.Del("Stream-Cursor") }},
	{"a stream's incarnation is random: it is in offsets and tags", func(r *reply) {
		for name, values := range r.header {
			for i, v := range values {
				r.header[name][i] = offsets.ReplaceAllString(v, "#")
			}
		}
		r.body = offsets.ReplaceAllString(r.body, "#")
	}},
}

func (r reply) normal() string {
	r.header = r.header.Clone()
	for _, d := range differences {
		d.fix(&r)
	}
	lines := []string{}
	for name, values := range r.header {
		lines = append(lines, fmt.Sprintf("%s: %q", http.CanonicalHeaderKey(name), values))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s -> %d close=%v %s err=%s\n%s\n%.2000q %d", r.method, r.status, r.close, r.encoding, r.err,
		strings.Join(lines, "\n"), r.body, len(r.body))
}

func compare(t testing.TB, got, want []reply) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("answer %d is missing: %s", i, want[i].normal())
		case i >= len(want):
			t.Errorf("answer %d is one too many: %s", i, got[i].normal())
		case got[i].normal() != want[i].normal():
			t.Errorf("answer %d: %s\nwant: %s", i, got[i].normal(), want[i].normal())
		}
	}
}
