//go:build linux

package fastpath_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// busy reads a refusal that says when to come again.
func (c *conn) busy() {
	c.t.Helper()
	res, body := c.answer("GET", 503)
	if res.Header.Get("Retry-After") != "1" || !strings.Contains(body, `"code":"busy"`) {
		c.t.Errorf("%v %q", res.Header, body)
	}
}

// slowly makes a connection whose client takes little at a time.
func (s *server) slowly() *conn {
	s.t.Helper()
	small := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		cerr := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return errors.Join(cerr, err)
	}}
	nc, err := small.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { nc.Close() })
	return &conn{TCPConn: nc.(*net.TCPConn), t: s.t, r: bufio.NewReaderSize(nc, 64)}
}

// fill makes a stream of one large JSON message, past the adapters.
func (s *server) fill(name string, size int) {
	s.t.Helper()
	s.do(201, "PUT", name, "", "Content-Type: application/json")
	data := []byte(`"` + strings.Repeat("x", size) + "\",\n")
	s.store.Apply(&stream.Append{Path: stream.Path(name), ContentType: "application/json", HasBody: true, Data: data}, nobody{})
}

func TestTooManyLiveReads(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.protocol.MaxLive = 2
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		first, _ := s.sse("a?offset=-1&live=sse", "upToDate")
		s.dial().get("a?offset=now&live=long-poll")
		s.watches.wait(t, 2)
		for _, live := range []string{"sse", "long-poll"} {
			c := s.dial().get("a?offset=now&live=" + live)
			c.busy()
			c.closed() // or who waits in vain would keep others from connecting
		}
		s.do(201, "PUT", "b", "", text)
		first.Close()
		s.watches.wait(t, 1)
		s.sse("a?offset=-1&live=sse", "upToDate")
	})
}

func TestTooManyLargeReads(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.protocol = protocol.Options{PageSize: 1 << 30, MaxSends: 1}
		s := start(t, cfg)
		stuck := s.stuck("big", 24<<20)
		c := s.dial()
		c.get("big").busy()
		c.get("big?offset=-1&live=long-poll").busy()
		c.get("big?offset=now").answer("GET", 200)
		stuck.Close()
		s.reads.wait(t, 0)
		res := c.get("big").head("GET", 200)
		if n, err := io.Copy(io.Discard, res.Body); n != 24<<20 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// Clients that take nothing cost no more than the options say, whatever they asked
// for, and are told to wait; when they have been dropped all is well.
func TestUnsentAnswersAreBounded(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.protocol = protocol.Options{MaxUnsent: 32 << 20}
		cfg.fast.StallTimeout = 500 * time.Millisecond
		s := start(t, cfg)
		s.fill("big", 6<<20)
		refused := 0
		for range 20 {
			c := s.slowly().get("big?offset=-1&live=sse")
			head, err := c.r.Peek(12)
			if err != nil {
				t.Fatal(err)
			}
			if string(head) == "HTTP/1.1 503" {
				refused++
			}
			if n := s.core.Use().Unsent; n > 32<<20 {
				t.Fatalf("%d bytes are waiting", n)
			}
		}
		if refused == 0 {
			t.Error("nobody was refused")
		}
		s.watches.wait(t, 0) // those who took nothing are dropped
		_, body := s.sse("big?offset=-1&live=sse", "xxxx")
		waitFor(t, body, "upToDate")
	})
}

// A reader has to take enough of what is waiting, not just some bytes now and then.
func TestTricklingReadersAreDropped(t *testing.T) {
	for query, kind := range map[string]string{"big?offset=-1&live=sse": "SSE", "big?offset=-1": "catch-up"} {
		t.Run(kind, func(t *testing.T) {
			both(t, func(t *testing.T, cfg config) {
				t.Parallel()
				cfg.protocol.PageSize = 1 << 30
				cfg.fast.StallTimeout = time.Second
				s := start(t, cfg)
				s.fill("big", 24<<20)
				c := s.slowly().get(query)
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				buf, got := make([]byte, 2<<10), 0
				for { // 20 KiB a second, and never silent for long
					<-tick.C
					n, err := c.Read(buf)
					if got += n; errors.Is(err, os.ErrDeadlineExceeded) || got > 20<<20 {
						t.Fatalf("%d bytes and still not dropped", got)
					}
					if err != nil {
						return
					}
					if s.open.now() == 0 && s.slow.now() == 0 {
						return // what is left is the kernel's
					}
				}
			})
		})
	}
}

// A reader that takes enough may take its time.
func TestSlowReadersAreServed(t *testing.T) {
	for query, kind := range map[string]string{"big?offset=-1&live=sse": "SSE", "big?offset=-1": "catch-up"} {
		t.Run(kind, func(t *testing.T) {
			both(t, func(t *testing.T, cfg config) {
				t.Parallel()
				cfg.protocol.PageSize = 1 << 30
				cfg.fast.StallTimeout = 3 * time.Second
				s := start(t, cfg)
				s.fill("big", 24<<20)
				c := s.slowly().get(query)
				begin, got := time.Now(), 0
				tick := time.NewTicker(20 * time.Millisecond) // 200 KiB a second at most
				defer tick.Stop()
				for buf := make([]byte, 4<<10); time.Since(begin) < cfg.fast.StallTimeout*3/2; {
					n, err := c.Read(buf)
					if got += n; err != nil {
						t.Fatalf("cut after %d bytes and %v: %v", got, time.Since(begin), err)
					}
					<-tick.C
				}
				if s.open.now()+s.slow.now() != 1 {
					t.Errorf("dropped after %d bytes: %d and %d connections", got, s.open.now(), s.slow.now())
				}
			})
		})
	}
}

// What a client has sent ahead behind a request that waits counts as well.
func TestPipelinedBytesAreBounded(t *testing.T) {
	s := start(t, config{protocol: protocol.Options{MaxBody: 64 << 10, MaxInflight: 256 << 10}})
	s.do(201, "PUT", "a", "", text)
	ahead := strings.Repeat("HEAD "+root+"a HTTP/1.1\r\nHost: x\r\n\r\n", 500)
	var polls []*conn
	for i := range 20 {
		polls = append(polls, s.dial().send("GET %sa?offset=now&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\n%s", root, ahead))
		s.watches.wait(t, int64(i+1))
		if n := s.core.Use().Inflight; n > 256<<10 {
			t.Fatalf("%d bytes", n)
		}
	}
	s.do(204, "POST", "a", "x", text)
	served, ended := 0, 0
	for _, c := range polls {
		if res, _ := c.answer("GET", 200); res.Close {
			ended++
			c.closed()
			continue
		}
		for range 500 {
			c.answer("HEAD", 200)
		}
		served++
	}
	if served == 0 || ended == 0 {
		t.Errorf("%d served and %d ended", served, ended)
	}
}

// Bodies of changes that wait for the disk count until the store has them.
func TestBodiesWaitingForTheDisk(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.protocol = protocol.Options{MaxBody: 200 << 10, MaxInflight: 1 << 20}
		s, g := startGated(t, cfg)
		s.do(201, "PUT", "cold", "", text)
		g.all.Store(true)
		body := strings.Repeat("x", 150<<10)
		var waiting []*conn
		for range 5 {
			waiting = append(waiting, s.dial().post("cold", body))
			<-g.arrived
		}
		if n := s.core.Use().Inflight; n < 750<<10 || n > 1<<20 {
			t.Errorf("%d bytes are reserved for 5 bodies of %d", n, len(body))
		}
		late := s.dial().post("cold", body)
		late.busy()
		g.all.Store(false)
		close(g.let)
		for _, c := range waiting {
			c.answer("POST", 204)
		}
		s.dial().post("cold", body).answer("POST", 204)
	})
}

// A disk that has come to a stop does not take more and more threads.
func TestOneDiskForAll(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.protocol.MaxReads = 2
		s, g := startGated(t, cfg)
		s.do(201, "PUT", "cold", "x", text)
		g.all.Store(true)
		var readers []*conn
		for i := range 30 {
			query := []string{"?offset=-1", "?offset=-1&live=long-poll", "?offset=-1&live=sse"}[i%3]
			readers = append(readers, s.dial().get("cold"+query))
		}
		for range 2 {
			<-g.arrived
		}
		s.do(404, "GET", "none", "") // others are served
		select {
		case <-g.arrived:
			t.Error("a third one waits for the disk")
		case <-time.After(100 * time.Millisecond):
		}
		g.all.Store(false)
		close(g.let)
		for i, c := range readers {
			if i%3 == 2 {
				waitFor(t, bufio.NewReader(c.head("GET", 200).Body), "upToDate")
				continue
			}
			if _, body := c.answer("GET", 200); body != "x" {
				t.Errorf("%q", body)
			}
		}
	})
}
