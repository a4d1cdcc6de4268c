package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/httpapi"
	"durablestreams/internal/dstest/fakestore"
	"durablestreams/internal/protocol"
)

// pipes is a listener in memory, so that waits take virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// piped is a server inside a bubble.
type piped struct {
	t     *testing.T
	pipes *pipes
	core  *protocol.Core
	store *fakestore.Store
	srv   *http.Server
}

// bubble runs f with a server in virtual time.
func bubble(t *testing.T, opt *protocol.Options, f func(t *testing.T, s *piped)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &piped{t: t, pipes: &pipes{conns: make(chan net.Conn), done: make(chan struct{})}, store: &fakestore.Store{BlockSize: 1 << 20}}
		var err error
		if s.core, err = protocol.New(s.store, opt); err != nil {
			t.Fatal(err)
		}
		s.srv = httpapi.NewServer(httpapi.Handler(s.core, nil), nil)
		go s.srv.Serve(s.pipes)
		f(t, s)
		s.core.Drain()
		if err := s.srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n := s.store.Watches(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
		if use := s.core.Use(); use != (protocol.Use{}) {
			t.Errorf("what was taken is not given back: %+v", use)
		}
	})
}

func (s *piped) dial() (net.Conn, *bufio.Reader) {
	here, there := net.Pipe()
	s.pipes.conns <- there
	s.t.Cleanup(func() { here.Close() })
	return here, bufio.NewReader(here)
}

// do makes a request and reads the answer.
func (s *piped) do(status int, method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	c, r := s.dial()
	defer c.Close()
	go fmt.Fprintf(c, "%s %s%s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", method, root, path,
		strings.Join(append(header, "X: y"), "\r\n"), len(body), body)
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		s.t.Errorf("%s %s: %d, want %d; %q, %v", method, path, res.StatusCode, status, b, err)
	}
	res.Body = io.NopCloser(strings.NewReader(string(b)))
	return res
}

// get sends the head of a GET and reads that of the answer.
func (s *piped) get(path string) (net.Conn, *http.Response) {
	s.t.Helper()
	c, r := s.dial()
	fmt.Fprintf(c, "GET %s%s HTTP/1.1\r\nHost: x\r\n\r\n", root, path)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return c, res
}

// waitFor reads until the text has come.
func waitFor(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), text) {
		line, err := r.ReadString('\n')
		seen.WriteString(line)
		if err != nil {
			t.Fatalf("%v after %q", err, seen.String())
		}
	}
}

// B12: a deadline that was set once would make a quiet answer deaf.
func TestQuietSSEHearsLateData(t *testing.T) {
	opt := &protocol.Options{KeepAlive: time.Hour, SSEMaxAge: 10 * time.Minute}
	bubble(t, opt, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "", text)
		begin := time.Now()
		_, res := s.get("a?offset=-1&live=sse")
		if time.Since(begin) > 0 {
			t.Errorf("the head came after %v", time.Since(begin))
		}
		body := bufio.NewReader(res.Body)
		waitFor(t, body, "upToDate")
		for range 5 {
			time.Sleep(95 * time.Second)
			s.do(204, "POST", "a", "late", text)
			waitFor(t, body, "data:late")
		}
	})
}

func TestSlowReaderGetsAll(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		const size = 500_000
		s.do(201, "PUT", "a", strings.Repeat("x", size), text)
		begin := time.Now()
		_, res := s.get("a")
		got, buf := 0, make([]byte, 2<<10)
		for got < size {
			n, err := io.ReadFull(res.Body, buf[:min(len(buf), size-got)])
			if got += n; err != nil {
				t.Fatalf("cut after %d bytes and %v: %v", got, time.Since(begin), err)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestStuckReadersAreDropped(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "x", text)
		c, res := s.get("a?offset=-1&live=sse")
		waitFor(t, bufio.NewReader(res.Body), "upToDate")
		s.do(204, "POST", "a", strings.Repeat("x", 200_000), text)
		time.Sleep(29 * time.Second)
		if s.store.Watches() != 1 {
			t.Error("dropped too early")
		}
		time.Sleep(2 * time.Second)
		if s.store.Watches() != 0 {
			t.Error("not dropped")
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Log(err) // closed
		}
	})
}

func TestStalledBody(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "", text)
		for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			c, r := s.dial()
			begin := time.Now()
			fmt.Fprintf(c, "POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\n%s\r\n\r\n5\r\nab", root, text, framing)
			res, err := http.ReadResponse(r, nil)
			if err != nil || res.StatusCode != 408 || time.Since(begin) != 30*time.Second {
				t.Errorf("after %v: %v %v", time.Since(begin), res, err)
			}
			io.Copy(io.Discard, res.Body)
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("the connection stays open: %v", err)
			}
		}
		if res := s.do(200, "GET", "a", ""); res.ContentLength != 0 {
			t.Error("a part was appended")
		}
	})
}

func TestSlowBodyIsTaken(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "", text)
		c, r := s.dial()
		fmt.Fprintf(c, "POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 10\r\n\r\n", root, text)
		for range 10 {
			time.Sleep(20 * time.Second)
			fmt.Fprint(c, "x")
		}
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 204 {
			t.Fatalf("%v %v", res, err)
		}
		// The next request of the connection may come late as well.
		time.Sleep(100 * time.Second)
		fmt.Fprintf(c, "GET %sa HTTP/1.1\r\nHost: x\r\n\r\n", root)
		if res, err := http.ReadResponse(r, nil); err != nil || res.ContentLength != 10 {
			t.Errorf("%v %v", res, err)
		}
	})
}

func TestUnwantedBodyIsNotWaitedFor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		c, r := s.dial()
		fmt.Fprintf(c, "GET %sa HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", root)
		begin := time.Now()
		if _, err := io.Copy(io.Discard, r); err != nil || time.Since(begin) > 31*time.Second {
			t.Errorf("open for %v: %v", time.Since(begin), err)
		}
	})
}

func TestSlowHeadAndIdleConnections(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		begin := time.Now()
		c, r := s.dial()
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost:")
		if io.Copy(io.Discard, r); time.Since(begin) > 11*time.Second {
			t.Errorf("a head may take %v", time.Since(begin))
		}
		c, res := s.get("none")
		io.Copy(io.Discard, res.Body)
		begin = time.Now()
		if io.Copy(io.Discard, c); time.Since(begin) != 2*time.Minute {
			t.Errorf("idle for %v", time.Since(begin))
		}
	})
}

func TestLongPollOverHTTP(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "", text)
		begin := time.Now()
		s.do(204, "GET", "a?offset=now&live=long-poll", "")
		if time.Since(begin) != 30*time.Second {
			t.Errorf("204 after %v", time.Since(begin))
		}
		go func() {
			time.Sleep(time.Second)
			s.do(204, "POST", "a", "x", text)
		}()
		begin = time.Now()
		s.do(200, "GET", "a?offset=now&live=long-poll", "")
		if time.Since(begin) != time.Second {
			t.Errorf("200 after %v", time.Since(begin))
		}
	})
}

// A client that goes takes its watch along.
func TestClientGoes(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "", text)
		c, res := s.get("a?offset=-1&live=sse")
		waitFor(t, bufio.NewReader(res.Body), "upToDate")
		poll, _ := s.dial()
		fmt.Fprintf(poll, "GET %sa?offset=now&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\n", root)
		synctest.Wait()
		if n := s.store.Watches(); n != 2 {
			t.Errorf("%d watches, want 2", n)
		}
		c.Close()
		poll.Close()
		synctest.Wait()
		if n := s.store.Watches(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

// B99
func TestShutdown(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "", text)
		s.do(201, "PUT", "b", "", text)
		type end struct {
			status int
			body   string
			err    error
		}
		ends := make(chan end)
		for i := range 40 {
			go func() {
				_, res := s.get("a?offset=-1&live=" + []string{"sse", "long-poll"}[i%2])
				b, err := io.ReadAll(res.Body)
				ends <- end{res.StatusCode, string(b), err}
			}()
		}
		synctest.Wait()
		s.store.Do(func() { s.store.Held = true })
		posted := make(chan bool)
		go func() {
			s.do(204, "POST", "b", "x", text)
			close(posted)
		}()
		synctest.Wait()
		begin := time.Now()
		s.core.Drain()
		stopped := make(chan error)
		go func() { stopped <- s.srv.Shutdown(t.Context()) }()
		for range 40 {
			e := <-ends
			if e.err != nil || e.status != 204 && (e.status != 200 || !strings.HasSuffix(e.body, "}\n\n")) {
				t.Errorf("a live read ends with %+v", e)
			}
		}
		s.store.Release()
		<-posted
		if err := <-stopped; err != nil || time.Since(begin) > time.Second {
			t.Errorf("stopped after %v: %v", time.Since(begin), err)
		}
	})
}

// A commit may take longer than a body may stall.
func TestSlowCommitLeavesTheConnectionWell(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "", text)
		s.store.Do(func() { s.store.Held = true })
		c, r := s.dial()
		fmt.Fprintf(c, "POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 1\r\n\r\nx", root, text)
		time.Sleep(40 * time.Second)
		s.store.Do(func() { s.store.Held = false })
		s.store.Release()
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 204 {
			t.Fatalf("%v %v", res, err)
		}
		begin := time.Now()
		fmt.Fprintf(c, "GET %sa?offset=now&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\n", root)
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 204 || time.Since(begin) != 30*time.Second {
			t.Errorf("after %v: %v %v", time.Since(begin), res, err)
		}
	})
}

// What bodies take while they come is bounded for all together, and given back
// however they end.
func TestBodiesInFlight(t *testing.T) {
	bubble(t, &protocol.Options{MaxBody: 200 << 10, MaxInflight: 600 << 10}, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "", text)
		large := strings.Repeat("x", 150<<10)
		var held []net.Conn
		for _, framing := range []string{"Content-Length: 160000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n27100\r\n"} {
			c, _ := s.dial()
			fmt.Fprintf(c, "POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\n%s%s", root, text, framing, large[:140<<10])
			held = append(held, c)
		}
		synctest.Wait()
		if n := s.core.Use().Inflight; n < 280<<10 || n > 450<<10 {
			t.Errorf("two halves of bodies hold %d bytes", n)
		}
		res := s.do(503, "POST", "a", large, text)
		if res.Header.Get("Retry-After") == "" || !res.Close {
			t.Errorf("refused with %v", res.Header)
		}
		s.do(204, "POST", "a", "short", text)
		for _, c := range held {
			c.Close()
		}
		synctest.Wait()
		if n := s.core.Use().Inflight; n != 0 {
			t.Errorf("%d bytes are never given back", n)
		}
		s.do(204, "POST", "a", large, text)
		if n := s.core.Use().Inflight; n != 0 {
			t.Errorf("%d bytes are not given back after an append", n)
		}
	})
}

// A body that holds much and comes byte by byte is not waited for.
func TestTricklingBody(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		s.do(201, "PUT", "a", "", text)
		c, r := s.dial()
		fmt.Fprintf(c, "POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 1000000\r\n\r\n%s", root, text, strings.Repeat("x", 900_000))
		begin := time.Now()
		go func() {
			for {
				time.Sleep(20 * time.Second)
				if _, err := c.Write([]byte{'x'}); err != nil {
					return
				}
			}
		}()
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 408 || time.Since(begin) > 2*time.Minute {
			t.Errorf("after %v: %v %v", time.Since(begin), res, err)
		}
		c.Close()
		time.Sleep(time.Minute)
	})
}

// Where there are many live readers and time, they end one after the other, so that
// not all clients come back at once.
func TestManyReadersEndSpreadOut(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *piped) {
		const readers = 100 // 50 ms worth of ends
		s.do(201, "PUT", "a", "", text)
		ends := make(chan time.Time)
		for i := range readers {
			go func() {
				_, res := s.get("a?offset=-1&live=" + []string{"sse", "long-poll"}[i%2])
				if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode == 200 && !strings.HasSuffix(string(b), "}\n\n") {
					t.Errorf("a live read ends with %d %q %v", res.StatusCode, b, err)
				}
				ends <- time.Now()
			}()
		}
		synctest.Wait()
		begin := time.Now()
		s.core.DrainWithin(time.Second)
		moments := map[time.Time]bool{}
		for range readers {
			at := <-ends
			moments[at] = true
			if d := at.Sub(begin); d > 50*time.Millisecond {
				t.Errorf("an end after %v", d)
			}
		}
		if len(moments) < readers/2 {
			t.Errorf("only %d different moments", len(moments))
		}
	})
}
