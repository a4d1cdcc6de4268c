//go:build linux

package fastpath_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/fastpath"
	"durablestreams/internal/protocol"
)

// both runs a test over the fast path and over net/http alone.
func both(t *testing.T, f func(t *testing.T, cfg config)) {
	t.Run("fast", func(t *testing.T) { f(t, config{}) })
	t.Run("plain", func(t *testing.T) { f(t, config{plain: true}) })
}

// drip sends s byte by byte until the peer hangs up.
func (c *conn) drip(s string, pause time.Duration) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := range len(s) {
		<-tick.C
		if _, err := io.WriteString(c, s[i:i+1]); err != nil {
			return
		}
	}
}

// cutOff checks that the server hangs up now and answers nothing, or as net/http
// does, 400.
func (c *conn) cutOff() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	if len(rest) > 0 && !strings.HasPrefix(string(rest), "HTTP/1.1 400 ") || err != nil && strings.Contains(err.Error(), "timeout") {
		c.t.Errorf("the connection stays open or brings %q (%v)", rest, err)
	}
}

// A head may come byte by byte, but not for ever.
func TestHeadsHaveATimeLimit(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.fast.HeaderTimeout = 400 * time.Millisecond
		s := start(t, cfg)
		const head = "GET " + root + "a HTTP/1.1\r\nHost: x\r\n\r\n"
		c := s.dial()
		c.send("%s", head).answer("GET", 404)        // the limit is each request's own
		<-time.After(cfg.fast.HeaderTimeout * 3 / 2) // and begins with its first byte
		go c.drip(head, 40*time.Millisecond)         // takes four times the limit
		c.cutOff()
		s.dial().send("GET / HTTP/1.1\r\n").cutOff()
		s.dial().closed()
		c = s.dial()
		c.drip(head, 100*time.Microsecond)
		c.answer("GET", 404)
	})
}

func TestIdleConnectionsEnd(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.fast.IdleTimeout = 300 * time.Millisecond
		s := start(t, cfg)
		c := s.dial().get("a")
		c.answer("GET", 404)
		c.closed()
	})
}

// A body may take its time as long as it moves.
func TestBodiesMayBeSlowButNotStall(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.fast.StallTimeout = 400 * time.Millisecond
		cfg.fast.HeaderTimeout = 400 * time.Millisecond
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		const head = " HTTP/1.1\r\nHost: x\r\n" + text + "\r\nContent-Length: 15\r\n\r\n"
		c := s.dial().send("POST %sa%s", root, head)
		c.drip("one two three f", 60*time.Millisecond)
		c.answer("POST", 204)
		for _, tt := range []struct {
			method, path, body, fields string
			status                     int
		}{
			{"POST", "a", "", "", 408},
			{"POST", "a", "part", "", 408},
			{"PUT", "new", "part", "", 408},
			{"PUT", "fork", "part", "Stream-Forked-From: " + root + "a\r\n", 408},
			{"POST", "a/../b", "part", "", 400},              // refused whatever follows
			{"POST", "a", "part", "Producer-Id: p\r\n", 400}, // and so is this
		} {
			if cfg.plain && tt.status == 400 {
				continue // net/http waits for the body, and its own write deadline is then over
			}
			c := s.dial().send("%s %s%s%s", tt.method, root, tt.path, strings.Replace(head, "\r\n", "\r\n"+tt.fields, 1)+tt.body)
			if res, body := c.answer(tt.method, tt.status); !res.Close {
				t.Errorf("%+v: the connection goes on: %q", tt, body)
			}
			c.closed()
		}
		if _, body := s.do(200, "GET", "a", ""); body != "one two three f" {
			t.Errorf("body %q", body)
		}
		s.do(404, "GET", "new", "")
	})
}

// A client that sends but takes no answers is dropped.
func TestPipeliningWithoutReading(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.fast.StallTimeout = 300 * time.Millisecond
		s := start(t, cfg)
		c := s.dial()
		many := strings.Repeat("GET "+root+"none HTTP/1.1\r\nHost: x\r\n\r\n", 1000)
		for {
			if _, err := io.WriteString(c, many); err != nil {
				if strings.Contains(err.Error(), "timeout") {
					t.Error(err)
				}
				break
			}
		}
	})
}

// B11: a quiet SSE answer is not silent, and ends by itself.
func TestKeepAliveComments(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.protocol = protocol.Options{KeepAlive: 50 * time.Millisecond, SSEMaxAge: time.Second}
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		_, body := s.sse("a?offset=now&live=sse", "upToDate")
		for range 3 {
			if got := waitFor(t, body, ":"); !strings.HasPrefix(got, "\n:") && !strings.HasPrefix(got, ":") {
				t.Errorf("not a comment: %q", got)
			}
		}
		rest, err := io.ReadAll(body)
		if err != nil || !strings.HasSuffix(string(rest), "}\n\n") {
			t.Errorf("ends with %v after %q", err, rest)
		}
	})
}

// B12: what comes late is heard, long after every timeout.
func TestQuietReadersHearLateData(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		const short = 60 * time.Millisecond
		cfg.fast = fastpath.Options{StallTimeout: short, HeaderTimeout: short, IdleTimeout: short}
		cfg.protocol = protocol.Options{KeepAlive: 10 * short, SSEMaxAge: time.Hour, LongPollTimeout: time.Hour}
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		_, body := s.sse("a?offset=now&live=sse", "upToDate")
		poll := s.dial().get("a?offset=now&live=long-poll")
		s.watches.wait(t, 2)
		waitFor(t, body, ":") // ten times the timeouts
		s.do(204, "POST", "a", "late", text)
		waitFor(t, body, "data:late")
		if _, got := poll.answer("GET", 200); got != "late" {
			t.Errorf("body %q", got)
		}
	})
}

// The end of a long-poll's wait.
func TestLongPollsEnd(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.protocol.LongPollTimeout = 100 * time.Millisecond
		s := start(t, cfg)
		s.do(201, "PUT", "a", "x", text)
		c := s.dial()
		for range 3 {
			res, _ := c.get("a?offset=now&live=long-poll").answer("GET", 204)
			if res.Header.Get("Stream-Up-To-Date") != "true" {
				t.Error("no Stream-Up-To-Date")
			}
		}
	})
}
