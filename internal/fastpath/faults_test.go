//go:build linux

package fastpath_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams/internal/dstest/fakestore"
	"durablestreams/internal/fastpath"
	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// faulty is a store whose faults hang on a stream's name.
type faulty struct{ *fakestore.Store }

func withFaults(s *fakestore.Store) protocol.Store { return faulty{s} }

func (f faulty) InMemory(path stream.Path, _ uint64) bool {
	return !strings.HasPrefix(string(path), "cold")
}

func (f faulty) Stat(path stream.Path, touch bool) (stream.Snapshot, error) {
	if strings.HasSuffix(string(path), "panic-stat") {
		panic("stat went wrong")
	}
	return f.Store.Stat(path, touch)
}

func (f faulty) Apply(cmd stream.Command, done stream.Completion) {
	if a, ok := cmd.(*stream.Append); ok && strings.HasSuffix(string(a.Path), "panic-apply") {
		panic("apply went wrong")
	}
	f.Store.Apply(cmd, done)
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
		switch strings.TrimPrefix(string(b.path), "cold-") {
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

// A panic costs its own connection only, and is logged.
func TestPanicsCutTheirConnection(t *testing.T) {
	s := start(t, config{wrap: withFaults, fast: fastpath.Options{Loops: 1}, protocol: protocol.Options{MaxReads: 1}})
	other := s.dial()
	for _, request := range []string{
		"GET " + root + "panic-stat HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET " + root + "panic-stat?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET " + root + "cold-panic-stat HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET " + root + "cold-panic-stat?offset=-1&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST " + root + "panic-apply HTTP/1.1\r\nHost: x\r\n" + text + "\r\nContent-Length: 1\r\n\r\nx",
		"POST " + root + "cold-panic-apply HTTP/1.1\r\nHost: x\r\n" + text + "\r\nContent-Length: 1\r\n\r\nx",
		"PUT " + root + "fork HTTP/1.1\r\nHost: x\r\nStream-Forked-From: " + root + "panic-stat\r\n\r\n",
	} {
		s.dial().send("%s", request).closed()
		other.get("none").answer("GET", 404)
		s.do(201, "PUT", "p"+time.Now().Format("150405.000000000"), "", text) // the worker is free again
	}
	l := s.log.String()
	for _, want := range []string{"stat went wrong", "apply went wrong", "faults_test.go"} {
		if !strings.Contains(l, want) {
			t.Errorf("%q is not in the log:\n%s", want, l)
		}
	}
}

// B93: an answer that cannot be completed is cut, never ended politely.
func TestBrokenReadsAreCut(t *testing.T) {
	s := start(t, config{wrap: withFaults})
	for _, name := range []string{"panic-read", "error-read", "short-read", "cold-panic-read", "cold-error-read", "cold-short-read"} {
		s.do(201, "PUT", name, strings.Repeat("x", 250_000), text)
		for _, query := range []string{"", "?offset=-1&live=long-poll"} {
			c := s.dial().get(name + query)
			b, err := io.ReadAll(c.head("GET", 200).Body)
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
	s := start(t, config{wrap: withFaults})
	s.store.Do(func() { s.store.BlockSize = 1000 })
	for _, name := range []string{"error-read", "cold-error-read"} {
		s.do(201, "PUT", name, "x", text)
		_, body := s.sse(name+"?offset=-1&live=sse", "upToDate")
		s.do(204, "POST", name, strings.Repeat("x", 2000), text)
		if _, err := io.Copy(io.Discard, body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s ends with %v", name, err)
		}
	}
}

// gated is a store whose calls for one stream wait for the test.
type gated struct {
	*fakestore.Store
	armed   atomic.Int32 // how many calls pass before one is held; negative: none is held
	all     atomic.Bool  // every one is held
	arrived chan struct{}
	let     chan struct{}
}

func newGated(s *fakestore.Store) *gated {
	g := &gated{Store: s, arrived: make(chan struct{}), let: make(chan struct{})}
	g.armed.Store(-1)
	return g
}

func (g *gated) InMemory(path stream.Path, _ uint64) bool { return path != "cold" }

func (g *gated) Stat(path stream.Path, touch bool) (stream.Snapshot, error) {
	snap, err := g.Store.Stat(path, touch)
	g.hold(path)
	return snap, err
}

func (g *gated) Apply(cmd stream.Command, done stream.Completion) {
	if a, ok := cmd.(*stream.Append); ok {
		g.hold(a.Path)
	}
	g.Store.Apply(cmd, done)
}

func (g *gated) hold(path stream.Path) {
	if path == "cold" && (g.armed.Add(-1) == -1 || g.all.Load()) {
		g.arrived <- struct{}{}
		<-g.let
	}
}

func startGated(t *testing.T, cfg config) (*server, *gated) {
	var g *gated
	cfg.wrap = func(f *fakestore.Store) protocol.Store {
		g = newGated(f)
		return g
	}
	return start(t, cfg), g
}

// A change that comes while a worker looks at the stream is not lost.
func TestWakeDuringAWorkersStep(t *testing.T) {
	s, g := startGated(t, config{protocol: protocol.Options{KeepAlive: time.Hour, SSEMaxAge: time.Hour}})
	s.do(201, "PUT", "cold", "", text)
	g.armed.Store(2) // the first two looks give head and control, the third finds nothing to do
	c := s.dial().get("cold?offset=-1&live=sse")
	body := bufio.NewReader(c.head("GET", 200).Body)
	<-g.arrived
	s.store.Apply(&stream.Append{Path: "cold", ContentType: "text/plain", HasBody: true, Data: []byte("late")}, nobody{})
	g.let <- struct{}{}
	waitFor(t, body, "data:late")
}

type nobody struct{}

func (nobody) Complete(stream.Result, error) {}

// One client that has sent very much leaves room for the others.
func TestTurns(t *testing.T) {
	var g *gated
	var r *recorder
	s := start(t, config{fast: fastpath.Options{Loops: 1}, wrap: func(f *fakestore.Store) protocol.Store {
		g = newGated(f)
		r = &recorder{gated: g}
		return r
	}})
	greedy, other := s.dial(), s.dial()
	s.dial().get("loop") // which the loop itself looks at, and waits
	<-g.arrived
	greedy.send("%s", strings.Repeat("HEAD "+root+"greedy HTTP/1.1\r\nHost: x\r\n\r\n", 500))
	other.get("other")
	g.let <- struct{}{}
	for range 500 {
		greedy.answer("HEAD", 404)
	}
	other.answer("GET", 404)
	if at := r.index("other"); at < 0 || at > 200 {
		t.Errorf("the other one came after %d requests", at)
	}
}

// recorder notes which streams are asked for, and stops the loop at "loop".
type recorder struct {
	*gated
	mu    sync.Mutex
	asked []string
}

// index is how many streams were asked for before the first time this one was.
func (r *recorder) index(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Index(r.asked, path)
}

func (r *recorder) Stat(path stream.Path, touch bool) (stream.Snapshot, error) {
	if path == "loop" {
		r.arrived <- struct{}{}
		<-r.let
	}
	r.mu.Lock()
	r.asked = append(r.asked, string(path))
	r.mu.Unlock()
	return r.gated.Stat(path, touch)
}

// While the disk is slow for some, the loop serves the others.
func TestLoopsDoNotWaitForTheDisk(t *testing.T) {
	for name, request := range map[string]string{
		"read": "GET " + root + "cold HTTP/1.1\r\nHost: x\r\n\r\n",
		"head": "HEAD " + root + "cold HTTP/1.1\r\nHost: x\r\n\r\n",
		"live": "GET " + root + "cold?offset=-1&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\n",
		"fork": "PUT " + root + "f HTTP/1.1\r\nHost: x\r\nStream-Forked-From: " + root + "cold\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, g := startGated(t, config{fast: fastpath.Options{Loops: 1}, protocol: protocol.Options{MaxReads: 1}})
			other := s.dial()
			s.do(201, "PUT", "cold", "x", text)
			g.armed.Store(0)
			c := s.dial().send("%s", request)
			<-g.arrived
			other.get("none").answer("GET", 404)
			if strings.HasPrefix(request, "GET") || strings.HasPrefix(request, "HEAD") {
				other.put("meanwhile").answer("PUT", 201) // readers do not keep writers out
			}
			g.let <- struct{}{}
			method, _, _ := strings.Cut(request, " ")
			c.answer(method, map[string]int{"GET": 200, "HEAD": 200, "PUT": 201, "POST": 204}[method])
		})
	}
}

// A client that goes while a worker has its request leaves nothing behind.
func TestClientGoesWhileAWorkerIsBusy(t *testing.T) {
	s, g := startGated(t, config{})
	s.do(201, "PUT", "cold", strings.Repeat("x", 300_000), text)
	for _, query := range []string{"", "?offset=-1&live=sse", "?offset=-1&live=long-poll"} {
		g.armed.Store(0)
		c := s.dial().get("cold" + query)
		<-g.arrived
		c.SetLinger(0)
		c.Close()
		if query != "" {
			s.open.wait(t, 0) // the feed is closed when the worker is back
		}
		g.let <- struct{}{}
		s.open.wait(t, 0)
		s.watches.wait(t, 0)
		s.reads.wait(t, 0)
	}
}

// Cutting does not wait for a worker, nor for a client that takes nothing.
func TestShutdownCuts(t *testing.T) {
	for name, query := range map[string]string{"read": "", "long-poll": "?offset=-1&live=long-poll", "SSE": "?offset=-1&live=sse"} {
		t.Run(name, func(t *testing.T) { shutdownCuts(t, query) })
	}
}

func shutdownCuts(t *testing.T, query string) {
	s, g := startGated(t, config{protocol: protocol.Options{PageSize: 1 << 30, MaxBody: 1 << 30}, fast: fastpath.Options{StallTimeout: time.Hour}})
	s.stuck("big", 24<<20)
	s.do(201, "PUT", "cold", strings.Repeat("x", 300_000), text)
	g.armed.Store(0)
	busy := s.dial().get("cold" + query)
	<-g.arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.cut = true
	ended := make(chan error)
	go func() { ended <- s.fast.Shutdown(ctx) }()
	s.open.wait(t, 0)
	busy.closed()
	g.let <- struct{}{}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown: %v", err)
	}
	s.reads.wait(t, 0)
	s.dial().get("none").answer("GET", 404) // now net/http has the port alone
}

// stuck starts a reader of size bytes that takes nothing beyond the head.
func (s *server) stuck(name string, size int) *conn {
	s.t.Helper()
	s.do(201, "PUT", name, "", text)
	s.store.Apply(&stream.Append{Path: stream.Path(name), ContentType: "text/plain", HasBody: true, Data: make([]byte, size)}, nobody{})
	c := s.dial()
	if err := c.SetReadBuffer(4096); err != nil {
		s.t.Fatal(err)
	}
	c.r = bufio.NewReaderSize(c, 1024)
	c.get(name)
	if _, err := c.r.Peek(12); err != nil { // the answer is on its way
		s.t.Fatal(err)
	}
	return c
}

// Readers that take their time hold no worker.
func TestStuckReadersLeaveWorkersFree(t *testing.T) {
	s := start(t, config{protocol: protocol.Options{PageSize: 1 << 30, MaxReads: 1}, fast: fastpath.Options{Loops: 1}})
	stuck := []*conn{s.stuck("big", 24<<20), s.stuck("big2", 24<<20)}
	s.do(201, "PUT", "a", strings.Repeat("x", 200_000), text)
	s.do(200, "GET", "a", "")
	s.do(204, "DELETE", "a", "")
	for _, c := range stuck {
		c.Close()
	}
}

// A reader that takes nothing for too long is dropped.
func TestStuckReadersAreDropped(t *testing.T) {
	s := start(t, config{protocol: protocol.Options{PageSize: 1 << 30}, fast: fastpath.Options{StallTimeout: 300 * time.Millisecond}})
	s.stuck("big", 24<<20)
	s.open.wait(t, 0)
	s.reads.wait(t, 0)
}
