//go:build linux

package fastpath_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams/httpapi"
	"durablestreams/internal/dstest/fakestore"
	"durablestreams/internal/fastpath"
	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

const (
	root = "/durable-streams/v1/stream/"
	text = "Content-Type: text/plain"

	// patience is how long a test waits for what must come.
	patience = 20 * time.Second
)

// config says what kind of server a test wants. The zero value is one on the
// fast path with a fake store.
type config struct {
	plain    bool // net/http only
	protocol protocol.Options
	fast     fastpath.Options
	store    protocol.Store
	wrap     func(*fakestore.Store) protocol.Store
}

// server is a whole server on a local port.
type server struct {
	t       testing.TB
	addr    string
	core    *protocol.Core
	store   *fakestore.Store // nil if the test brought its own
	fast    *fastpath.Server
	http    *http.Server
	log     *syncBuilder
	open    *gauge // connections on the fast path
	slow    *gauge // connections of net/http
	stopNow func() // which the test's end does otherwise
	cut     bool   // Shutdown is to say that it had to cut

	watches *gauge // of streams
	reads   *gauge // that are open
	pending *gauge // changes that the store has
}

func start(t testing.TB, cfg config) *server {
	t.Helper()
	s := &server{t: t, log: &syncBuilder{}, open: newGauge(), slow: newGauge(), watches: newGauge(), reads: newGauge(), pending: newGauge()}
	logger := slog.New(slog.NewTextHandler(s.log, nil))
	store := cfg.store
	if store == nil {
		s.store = &fakestore.Store{BlockSize: 100_000}
		store = s.store
		if cfg.wrap != nil {
			store = cfg.wrap(s.store)
		}
	}
	cfg.protocol.Logger = logger
	if cfg.protocol.Control == nil {
		cfg.protocol.Control = echo{}
	}
	var err error
	if s.core, err = protocol.New(counted{store, s}, &cfg.protocol); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	ln = tuned{ln}
	cfg.fast.Logger = logger
	if !cfg.plain {
		if s.fast, err = fastpath.New(s.core, &cfg.fast); err != nil {
			t.Fatal(err)
		}
		ln = fastpath.Split(ln, s.fast, s.open.add)
	}
	ho := &httpapi.Options{StallTimeout: cfg.fast.StallTimeout, HeaderTimeout: cfg.fast.HeaderTimeout,
		IdleTimeout: cfg.fast.IdleTimeout, Logger: logger}
	s.http = httpapi.NewServer(httpapi.Handler(s.core, ho), ho)
	s.http.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.slow.add(1)
		case http.StateClosed, http.StateHijacked:
			s.slow.add(-1)
		}
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(ln) }()
	alive.Add(1)
	s.stopNow = sync.OnceFunc(func() { s.stop(served) })
	t.Cleanup(s.stopNow)
	return s
}

// echo is a control API with one endpoint that sends bodies back.
type echo struct{}

func (echo) Methods(path string) []string {
	if path == "echo" {
		return []string{"GET", "HEAD", "PUT", "POST"}
	}
	return nil
}

func (echo) Needs(string) (stream.Right, stream.Path) { return 0, "" }

func (echo) Serve(r *protocol.ControlRequest) (protocol.ControlAnswer, error) {
	return protocol.ControlAnswer{Status: 200, Type: "text/plain", Body: append([]byte("echo of "), r.Body...)}, nil
}

// tuned is a listener whose connections are set up as a server's are.
type tuned struct{ net.Listener }

func (l tuned) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		httpapi.LimitUnsent(c)
	}
	return c, err
}

// counted counts what a store is asked for.
type counted struct {
	protocol.Store
	s *server
}

func (c counted) Watch(snap stream.Snapshot, wake func()) (stop func()) {
	stopInner, once := c.Store.Watch(snap, wake), sync.Once{}
	c.s.watches.add(1)
	return func() {
		stopInner()
		once.Do(func() { c.s.watches.add(-1) })
	}
}

func (c counted) Read(snap stream.Snapshot, from, to uint64) stream.Blocks {
	c.s.reads.add(1)
	return &countedBlocks{Blocks: c.Store.Read(snap, from, to), n: c.s.reads}
}

func (c counted) Apply(cmd stream.Command, done stream.Completion) {
	c.s.pending.add(1)
	c.Store.Apply(cmd, countedDone{done, c.s.pending})
}

type countedDone struct {
	stream.Completion
	n *gauge
}

func (c countedDone) Complete(res stream.Result, err error) {
	c.n.add(-1)
	c.Completion.Complete(res, err)
}

type countedBlocks struct {
	stream.Blocks
	n    *gauge
	once sync.Once
}

func (b *countedBlocks) Close() error {
	b.once.Do(func() { b.n.add(-1) })
	return b.Blocks.Close()
}

// stop ends the server and looks for what it has left behind.
func (s *server) stop(served chan error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.core.Drain()
	if s.fast != nil {
		if err := s.fast.Shutdown(ctx); (err != nil) != s.cut {
			s.t.Errorf("shutdown: %v", err)
		}
	}
	soon, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(soon) != nil {
		_ = s.http.Close() // a client that has gone silent
	}
	<-served
	s.open.wait(s.t, 0)
	s.slow.wait(s.t, 0)
	s.watches.wait(s.t, 0)
	s.reads.wait(s.t, 0)
	if use := s.core.Use(); use != (protocol.Use{}) {
		s.t.Errorf("what was taken is not given back: %+v", use)
	}
	if alive.Add(-1) == 0 {
		noGoroutines(s.t)
	}
}

// alive is the number of servers.
var alive atomic.Int32

// noGoroutines waits until no goroutine of the fast path is left.
func noGoroutines(t testing.TB) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	buf := make([]byte, 1<<20)
	for {
		stacks := string(buf[:runtime.Stack(buf, true)])
		left := ""
		for g := range strings.SplitSeq(stacks, "\n\n") {
			if strings.Contains(g, "internal/fastpath.") && !strings.Contains(g, "noGoroutines") {
				left = g
			}
		}
		if left == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("a goroutine is left:\n%s", left)
			return
		}
	}
}

// gauge is a number that tests wait for.
type gauge struct {
	mu      sync.Mutex
	n, most int64
	change  chan struct{}
}

func newGauge() *gauge { return &gauge{change: make(chan struct{})} }

func (g *gauge) add(delta int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n += delta
	g.most = max(g.most, g.n)
	close(g.change)
	g.change = make(chan struct{})
}

// now is what the gauge stands at.
func (g *gauge) now() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// highest is the most there ever was.
func (g *gauge) highest() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}

func (g *gauge) wait(t testing.TB, want int64) {
	t.Helper()
	deadline := time.After(patience)
	for {
		g.mu.Lock()
		n, change := g.n, g.change
		g.mu.Unlock()
		if n == want {
			return
		}
		select {
		case <-change:
		case <-deadline:
			t.Errorf("the gauge stands at %d, want %d", n, want)
			return
		}
	}
}

type syncBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// conn is a plain socket to the server.
type conn struct {
	*net.TCPConn
	t testing.TB
	r *bufio.Reader
}

func (s *server) dial() *conn {
	s.t.Helper()
	c := s.dialFor(s.t)
	s.t.Cleanup(func() { c.Close() })
	return c
}

// dialFor makes a connection that the caller closes.
func (s *server) dialFor(t testing.TB) *conn {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		t.Fatal(err)
	}
	return &conn{TCPConn: c.(*net.TCPConn), t: t, r: bufio.NewReader(c)}
}

// send writes bytes. A peer that has already hung up is no error.
func (c *conn) send(format string, args ...any) *conn {
	fmt.Fprintf(c, format, args...)
	return c
}

// get sends a GET.
func (c *conn) get(path string) *conn {
	return c.send("GET %s%s HTTP/1.1\r\nHost: x\r\n\r\n", root, path)
}

// post sends an append of text.
func (c *conn) post(path, body string) *conn {
	return c.send("POST %s%s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", root, path, text, len(body), body)
}

// put sends a creation of a text stream.
func (c *conn) put(path string) *conn {
	return c.send("PUT %s%s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", root, path, text)
}

// answer reads one response; want is its status. The body is read whole.
func (c *conn) answer(method string, want int) (*http.Response, string) {
	c.t.Helper()
	res := c.head(method, want)
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Errorf("body: %v", err)
	}
	return res, string(b)
}

// head reads the head of a response.
func (c *conn) head(method string, want int) *http.Response {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	if res.StatusCode != want {
		c.t.Errorf("status %d, want %d", res.StatusCode, want)
	}
	return res
}

// closed checks that the server hangs up now.
func (c *conn) closed() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	if len(rest) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
		c.t.Errorf("the connection stays open or brings %q (%v)", rest, err)
	}
}

// do makes one request on a connection of its own.
func (s *server) do(status int, method, path, body string, header ...string) (*http.Response, string) {
	s.t.Helper()
	c := s.dial()
	defer c.Close()
	head := fmt.Sprintf("%s %s%s HTTP/1.1\r\nHost: ds.example\r\n", method, root, path)
	if method == "PUT" || method == "POST" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	for _, h := range header {
		head += h + "\r\n"
	}
	c.send("%s\r\n%s", head, body)
	return c.answer(method, status)
}

// sse opens an SSE answer and reads until the text has come.
func (s *server) sse(path, until string) (*conn, *bufio.Reader) {
	s.t.Helper()
	c := s.dial().get(path)
	body := bufio.NewReader(c.head("GET", 200).Body)
	waitFor(s.t, body, until)
	return c, body
}

// waitFor reads until the text has come and gives what was read.
func waitFor(t testing.TB, r *bufio.Reader, want string) string {
	t.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), want) {
		line, err := r.ReadString('\n')
		seen.WriteString(line)
		if err != nil {
			t.Fatalf("%v, no %q after %q", err, want, seen.String()[max(0, seen.Len()-2000):])
		}
	}
	return seen.String()
}
