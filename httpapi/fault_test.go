package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"durablestreams/httpapi"
	"durablestreams/internal/dstest/fakestore"
	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// faulty is a store whose faults hang on a stream's name.
type faulty struct{ *fakestore.Store }

func (f faulty) Stat(path stream.Path, touch bool) (stream.Snapshot, error) {
	if path == "panic-stat" {
		panic("stat went wrong")
	}
	return f.Store.Stat(path, touch)
}

func (f faulty) Read(snap stream.Snapshot, from, to uint64) stream.Blocks {
	return &badBlocks{f.Store.Read(snap, from, to), snap.Path, 0}
}

type badBlocks struct {
	stream.Blocks
	path stream.Path
	n    int
}

func (b *badBlocks) Next() ([]byte, error) {
	if b.n++; b.n == 2 {
		switch b.path {
		case "panic-read":
			panic("read went wrong")
		case "error-read":
			return nil, errors.New("bad sector")
		case "short-read":
			return nil, io.EOF
		}
	}
	return b.Blocks.Next()
}

func withFaults(s *fakestore.Store) protocol.Store { return faulty{s} }

func TestPanicsAnswer500(t *testing.T) {
	s := start(t, nil, nil, withFaults)
	c := s.dial().send("GET %spanic-stat HTTP/1.1\r\nHost: x\r\n\r\n", root)
	res, body := c.answer("GET", 500)
	if !strings.Contains(body, `"internal"`) || strings.Contains(body, "went wrong") || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%q", body)
	}
	c.closed()
	if l := s.log.String(); !strings.Contains(l, "stat went wrong") || !strings.Contains(l, "fault_test.go") {
		t.Errorf("the log has no stack: %s", l)
	}
	s.do(201, "PUT", "a", "x", text) // the process is well
}

// B93: an answer that cannot be completed is cut, never ended politely.
func TestBrokenReadsAreCut(t *testing.T) {
	s := start(t, nil, nil, withFaults)
	for _, name := range []string{"panic-read", "error-read", "short-read"} {
		s.do(201, "PUT", name, strings.Repeat("x", 300_000), text)
		for _, query := range []string{"", "?offset=-1&live=long-poll"} {
			c := s.dial().send("GET %s%s%s HTTP/1.1\r\nHost: x\r\n\r\n", root, name, query)
			res, err := http.ReadResponse(c.r, nil)
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("%s: %v %v", name, res, err)
			}
			b, err := io.ReadAll(res.Body)
			if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Trim(string(b), "x") != "" {
				t.Errorf("%s: ends after %d bytes with %v, or has others than the stream's", name, len(b), err)
			}
		}
	}
	if l := s.log.String(); !strings.Contains(l, "bad sector") || !strings.Contains(l, "read went wrong") {
		t.Errorf("log: %s", l)
	}
	s.do(201, "PUT", "a", "x", text)
}

func TestBrokenSSEIsCut(t *testing.T) {
	s := start(t, nil, nil, withFaults)
	s.do(201, "PUT", "error-read", "x", text)
	c := s.dial().send("GET %serror-read?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n", root)
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(res.Body)
	waitFor(t, body, "upToDate")
	s.store.Do(func() { s.store.BlockSize = 1000 })
	s.do(204, "POST", "error-read", strings.Repeat("x", 2000), text)
	if _, err := io.Copy(io.Discard, body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ends with %v", err)
	}
}

// spy tells when a watch ends.
type spy struct {
	*fakestore.Store
	stopped chan struct{}
}

func (s spy) Watch(snap stream.Snapshot, wake func()) func() {
	stop := s.Store.Watch(snap, wake)
	return func() { stop(); s.stopped <- struct{}{} }
}

// B14: a reader that never reads costs nobody else anything and is dropped.
func TestOneStuckReader(t *testing.T) {
	stopped := make(chan struct{}, 4)
	s := start(t, nil, &httpapi.Options{StallTimeout: 500 * time.Millisecond}, func(f *fakestore.Store) protocol.Store { return spy{f, stopped} })
	s.do(201, "PUT", "a", "", text)
	stuck := s.dial()
	if err := stuck.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	stuck.send("GET %sa?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n", root)
	good := s.dial().send("GET %sa?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n", root)
	res, err := http.ReadResponse(good.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(res.Body)
	waitFor(t, body, "upToDate")
	big := strings.Repeat("x", 1<<20)
	for i := range 20 {
		mark := fmt.Sprintf("mark %d!", i)
		s.do(204, "POST", "a", "\n"+mark+"\n"+big, text)
		waitFor(t, body, mark)
	}
	select {
	case <-stopped:
	case <-time.After(15 * time.Second):
		t.Error("the stuck reader is not dropped")
	}
	if s.store.Watches() != 1 {
		t.Errorf("%d watches", s.store.Watches())
	}
}

// HTTP/2 counts deadlines per stream: neither a quiet answer nor a slow body
// may run into the one of net/http's server.
func TestHTTP2OutlivesDeadlines(t *testing.T) {
	const stall = 300 * time.Millisecond
	core, err := protocol.New(&fakestore.Store{}, &protocol.Options{KeepAlive: time.Hour, LongPollTimeout: 3 * stall})
	if err != nil {
		t.Fatal(err)
	}
	opt := &httpapi.Options{StallTimeout: stall}
	ts := httptest.NewUnstartedServer(nil)
	ts.Config = httpapi.NewServer(httpapi.Handler(core, opt), opt)
	ts.EnableHTTP2 = true
	ts.StartTLS()
	defer ts.Close()
	defer core.Drain()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	do := func(status int, method, path string, body io.Reader) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, ts.URL+root+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "text/plain")
		res, err := ts.Client().Do(req)
		if err != nil || res.StatusCode != status || res.ProtoMajor != 2 {
			t.Fatalf("%s %s: %v %v", method, path, res, err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	res := do(201, "PUT", "a", nil)
	if !strings.HasPrefix(res.Header.Get("Location"), "https://") {
		t.Errorf("Location %q", res.Header.Get("Location"))
	}
	sse := bufio.NewReader(do(200, "GET", "a?offset=-1&live=sse", nil).Body)
	waitFor(t, sse, "upToDate")
	do(204, "GET", "a?offset=now&live=long-poll", nil) // three times the deadline
	pr, pw := io.Pipe()
	go func() {
		tick := time.NewTicker(stall / 3)
		defer tick.Stop()
		for range 9 {
			<-tick.C
			io.WriteString(pw, "x")
		}
		pw.Close()
	}()
	do(204, "POST", "a", pr)
	waitFor(t, sse, "data:xxxxxxxxx")
}

func TestErrorLogIsLimited(t *testing.T) {
	out := &syncBuilder{}
	srv := httpapi.NewServer(nil, &httpapi.Options{Logger: logger(out)})
	for i := range 1000 {
		srv.ErrorLog.Print("Accept error ", i)
	}
	if n := strings.Count(out.String(), "Accept error"); n == 0 || n > 50 {
		t.Errorf("%d lines of 1000", n)
	}
	if srv.ErrorLog.Flags()&log.LstdFlags != 0 {
		t.Error("lines have two times")
	}
}
