package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"durablestreams/httpapi"
	"durablestreams/internal/dstest/fakestore"
	"durablestreams/internal/protocol"
)

const root = "/durable-streams/v1/stream/"

// server is a whole server on a local port.
type server struct {
	t     *testing.T
	addr  string
	core  *protocol.Core
	store *fakestore.Store
	log   *syncBuilder
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

func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// start runs a server. wrap, if not nil, gets between it and the store.
func start(t *testing.T, popt *protocol.Options, opt *httpapi.Options, wrap func(*fakestore.Store) protocol.Store) *server {
	t.Helper()
	s := &server{t: t, store: &fakestore.Store{BlockSize: 100_000}, log: &syncBuilder{}}
	var p protocol.Options
	if popt != nil {
		p = *popt
	}
	p.Logger = logger(s.log)
	var o httpapi.Options
	if opt != nil {
		o = *opt
	}
	o.Logger = logger(s.log)
	var store protocol.Store = s.store
	if wrap != nil {
		store = wrap(s.store)
	}
	var err error
	if s.core, err = protocol.New(store, &p); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(nil)
	ts.Config = httpapi.NewServer(httpapi.Handler(s.core, &o), &o)
	ts.Start()
	s.addr = ts.Listener.Addr().String()
	t.Cleanup(func() {
		s.core.Drain()
		ts.CloseClientConnections()
		ts.Close()
	})
	return s
}

// conn is a plain socket to the server.
type conn struct {
	*net.TCPConn
	t *testing.T
	r *bufio.Reader
}

func (s *server) dial() *conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	return &conn{TCPConn: c.(*net.TCPConn), t: s.t, r: bufio.NewReader(c)}
}

// send writes bytes as they are. A peer that has already hung up is no error.
func (c *conn) send(format string, args ...any) *conn {
	fmt.Fprintf(c, format, args...)
	return c
}

// answer reads one response; want is its status. The body is read whole.
func (c *conn) answer(method string, want int) (*http.Response, string) {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Errorf("body: %v", err)
	}
	if res.StatusCode != want {
		c.t.Errorf("status %d, want %d; %q", res.StatusCode, want, b)
	}
	return res, string(b)
}

// closed checks that the server hangs up now.
func (c *conn) closed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); len(rest) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
		c.t.Errorf("the connection stays open or brings %q (%v)", rest, err)
	}
}

// do makes one request on a connection of its own.
func (s *server) do(status int, method, path, body string, header ...string) (*http.Response, string) {
	s.t.Helper()
	if path != "*" && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "http://") {
		path = root + path
	}
	c := s.dial()
	defer c.Close()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: ds.example\r\nContent-Length: %d\r\n", method, path, len(body))
	for _, h := range header {
		head += h + "\r\n"
	}
	c.send("%s\r\n%s", head, body)
	return c.answer(method, status)
}

const text = "Content-Type: text/plain"

// B54, N31
func TestChunkedBodies(t *testing.T) {
	s := start(t, nil, nil, nil)
	const chunks = "5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n"
	for i, method := range []string{"PUT", "POST"} {
		c := s.dial().send("%s %sa HTTP/1.1\r\nHost: x\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\n%s", method, root, text, chunks)
		c.answer(method, []int{201, 204}[i])
		c.closed()
	}
	if _, body := s.do(200, "GET", "a", ""); body != "hello!hello!" {
		t.Errorf("body %q", body)
	}
}

// B55
func TestSmuggling(t *testing.T) {
	s := start(t, nil, nil, nil)
	s.do(201, "PUT", "a", "", text)
	const second = "POST " + root + "a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\nsmuggled"
	c := s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n%s", root, text, second)
	if res, _ := c.answer("POST", 204); !res.Close {
		t.Error("no Connection: close")
	}
	c.closed()
	for _, head := range []string{"Content-Length: 3\r\nContent-Length: 4", "Content-Length: 3, 4", "Content-Length: +3", "Content-Length: -1"} {
		c := s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\n%s\r\n\r\nxyz%s", root, text, head, second)
		c.answer("POST", 400)
		c.closed()
	}
	if _, body := s.do(200, "GET", "a", ""); strings.Contains(body, "smuggled") || strings.Contains(body, "x") {
		t.Errorf("body %q", body)
	}
}

// B56
func TestExpectContinue(t *testing.T) {
	s := start(t, nil, nil, nil)
	s.do(201, "PUT", "a", "", text)
	s.do(200, "POST", "a", "x", text, "Producer-Id: p", "Producer-Epoch: 2", "Producer-Seq: 0")
	s.dial().send("PUT %sa HTTP/1.1\r\nHost: x\r\nContent-Type: text/html\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", root).answer("PUT", 409)
	for _, tt := range []struct {
		path, length string
		status       int
	}{
		{"missing", "Content-Length: 3", 404},
		{"missing", "Transfer-Encoding: chunked", 404},
		{"a", "Content-Length: 99999999999999", 413},
		{"a", "Content-Length: 16777217", 413},
		{"a", "Content-Length: 3\r\nProducer-Id: p\r\nProducer-Epoch: 1\r\nProducer-Seq: 0", 403},
		{"a", "Content-Length: 3\r\nProducer-Id: p\r\nProducer-Epoch: 3\r\nProducer-Seq: 1", 400},
		{"a", "Transfer-Encoding: chunked\r\nProducer-Id: p\r\nProducer-Epoch: 2\r\nProducer-Seq: 2", 409},
	} {
		c := s.dial().send("POST %s%s HTTP/1.1\r\nHost: x\r\n%s\r\n%s\r\nExpect: 100-continue\r\n\r\n", root, tt.path, text, tt.length)
		c.answer("POST", tt.status)
		c.closed()
	}
	c := s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", root, text)
	c.answer("POST", 100)
	c.send("abc").answer("POST", 204)
	s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 99999999999999\r\n\r\nabc", root, text).answer("POST", 413)
}

// B59
func TestBodyBreaksOff(t *testing.T) {
	s := start(t, nil, nil, nil)
	res, _ := s.do(201, "PUT", "a", "", text)
	for _, method := range []string{"POST", "PUT"} {
		for _, framing := range []string{"Content-Length: 100\r\n\r\npartial", "Transfer-Encoding: chunked\r\n\r\n7\r\npartial\r\n", "Transfer-Encoding: chunked\r\n\r\n7\r\npart"} {
			path := map[string]string{"POST": "a", "PUT": "n"}[method]
			c := s.dial().send("%s %s%s HTTP/1.1\r\nHost: x\r\n%s\r\n%s", method, root, path, text, framing)
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			c.answer(method, 400)
			c.closed()
			gone := s.dial().send("%s %s%s HTTP/1.1\r\nHost: x\r\n%s\r\n%s", method, root, path, text, framing)
			gone.Close()
		}
	}
	c := s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", root, text)
	c.answer("POST", 400)
	after, _ := s.do(200, "HEAD", "a", "")
	if after.Header.Get("Stream-Next-Offset") != res.Header.Get("Stream-Next-Offset") {
		t.Error("a part was appended")
	}
	s.do(404, "HEAD", "n", "")
}

func TestChunkedBodyOverTheLimit(t *testing.T) {
	s := start(t, &protocol.Options{MaxBody: 100_000}, nil, nil)
	s.do(201, "PUT", "a", "", text)
	part := strings.Repeat("x", 50_000)
	c := s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\n", root, text)
	for range 3 {
		c.send("%x\r\n%s\r\n", len(part), part)
	}
	c.answer("POST", 413)
	c = s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\n", root, text)
	for range 2 {
		c.send("%x\r\n%s\r\n", len(part), part)
	}
	c.send("0\r\n\r\n").answer("POST", 204)
	if _, body := s.do(200, "GET", "a", ""); body != part+part {
		t.Errorf("%d bytes", len(body))
	}
}

// B61
func TestMethodsOnTheWire(t *testing.T) {
	s := start(t, nil, nil, nil)
	for method, status := range map[string]int{"PATCH": 405, "TRACE": 405, "FOO": 501} {
		res, body := s.do(status, method, "a", "secret")
		if res.Header.Get("Allow") == "" || strings.Contains(body, "secret") {
			t.Errorf("%s: Allow %q, body %q", method, res.Header.Get("Allow"), body)
		}
	}
	res, _ := s.do(204, "OPTIONS", "*", "")
	if res.Header.Get("Access-Control-Allow-Methods") == "" {
		t.Error("OPTIONS * is not ours")
	}
}

// B62, B63
func TestPathsOnTheWire(t *testing.T) {
	s := start(t, nil, nil, nil)
	for _, path := range []string{"x//y", "x/../y", "x/./y", "/durable-streams/v1/stream/../stream/y", "//durable-streams/v1/stream/y", "x/%2e%2e/y", "x%zz"} {
		for _, method := range []string{"PUT", "POST", "GET"} {
			c := s.dial()
			if !strings.HasPrefix(path, "/") {
				path = root + path
			}
			c.send("%s %s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 0\r\n\r\n", method, path, text)
			res, err := http.ReadResponse(c.r, nil)
			if err != nil || res.StatusCode/100 != 4 {
				t.Errorf("%s %s: %v %v", method, path, res, err)
			}
		}
	}
	s.do(201, "PUT", "x%2Fb", "one", text)
	s.do(404, "GET", "x/b", "")
	res, _ := s.do(201, "PUT", "a%3Fb", "q", text)
	location := res.Header.Get("Location")
	if location != "http://ds.example"+root+"a%3Fb" {
		t.Errorf("Location %q", location)
	}
	if _, body := s.do(200, "GET", location, ""); body != "q" { // the absolute form
		t.Errorf("body %q", body)
	}
	s.do(404, "GET", "http://ds.example", "")
	s.do(400, "GET", "http://ds.example"+root+"a%3Fb?offset=", "")
}

func TestHugeHead(t *testing.T) {
	s := start(t, nil, nil, nil)
	s.do(431, "GET", "a", "", "X-Large: "+strings.Repeat("x", 100<<10))
}

// Many requests on one connection, one after another and pipelined.
func TestKeepAlive(t *testing.T) {
	s := start(t, nil, nil, nil)
	c := s.dial()
	c.send("PUT %sa HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", root, text)
	c.answer("PUT", 201)
	for range 20 {
		c.send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 1\r\n\r\nx", root, text)
	}
	for range 20 {
		c.answer("POST", 204)
	}
	c.send("DELETE %sa HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", root).answer("DELETE", 204)
	c.send("GET %sa HTTP/1.1\r\nHost: x\r\n\r\n", root).answer("GET", 404)
	c.send("HEAD %sa HTTP/1.1\r\nHost: x\r\n\r\n", root).answer("HEAD", 404)
	c.send("GET %sa HTTP/1.1\r\nHost: x\r\n\r\n", root).answer("GET", 404)
}

// A client that ends its own side while it waits may still be reading: it gets
// no answer that nobody has made.
func TestHalfClosedLiveRead(t *testing.T) {
	s := start(t, nil, nil, nil)
	s.do(201, "PUT", "a", "x", text)
	c := s.dial().send("GET %sa?offset=now&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\n", root)
	for s.store.Watches() == 0 {
		<-time.After(time.Millisecond)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.closed()
	// With an answer at hand it gets that one.
	c = s.dial().send("GET %sa?offset=-1&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\n", root)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if res, body := c.answer("GET", 200); body != "x" || res.Header.Get("Stream-Next-Offset") == "" {
		t.Errorf("%q %v", body, res.Header)
	}
}
