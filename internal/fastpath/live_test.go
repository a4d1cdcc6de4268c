//go:build linux

package fastpath_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"durablestreams/internal/fastpath"
	"durablestreams/internal/protocol"
)

// What came in one packet with a live read is answered after it.
func TestPipelinedBehindLiveReads(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		poll := s.dial()
		poll.send("GET %sa?offset=now&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\nHEAD %sa HTTP/1.1\r\nHost: x\r\n\r\n", root, root)
		sse := s.dial()
		sse.send("GET %sa?offset=now&live=sse HTTP/1.1\r\nHost: x\r\n\r\nHEAD %sa HTTP/1.1\r\nHost: x\r\n\r\nGET", root, root)
		s.watches.wait(t, 2)
		s.do(204, "POST", "a", "x", text)
		poll.answer("GET", 200)
		poll.answer("HEAD", 200)
		s.do(204, "POST", "a", "x", text, "Stream-Closed: true")
		sse.answer("GET", 200)
		sse.answer("HEAD", 200)
		sse.send(" %sa HTTP/1.1\r\nHost: x\r\n\r\n", root).answer("GET", 200)
	})
}

// B01, B02, B03: append and close in one request, under live reads.
func TestAppendAndCloseUnderLiveReads(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.store = openEngine(t, nil)
		s := start(t, cfg)
		for i := range 20 {
			name := fmt.Sprintf("a%d", i)
			s.do(201, "PUT", name, "", text)
			_, body := s.sse(name+"?offset=-1&live=sse", "upToDate")
			poll := s.dial().get(name + "?offset=now&live=long-poll")
			s.watches.wait(t, 2)
			closed, _ := s.do(204, "POST", name, "final", text, "Stream-Closed: true")
			res, got := poll.answer("GET", 200)
			tail := closed.Header.Get("Stream-Next-Offset")
			if got != "final" || res.Header.Get("Stream-Closed") != "true" || res.Header.Get("Stream-Next-Offset") != tail {
				t.Errorf("long-poll: %q %v", got, res.Header)
			}
			rest, err := io.ReadAll(body)
			_, after, _ := strings.Cut(string(rest), "data:final\n")
			if err != nil || strings.Count(after, "event: control") != 1 || !strings.Contains(after, `"streamClosed":true`) || !strings.Contains(after, tail) {
				t.Errorf("SSE ends with %v after %q", err, rest)
			}
			s.watches.wait(t, 0)
		}
	})
}

// B06: the first control event tells the tail.
func TestFirstControl(t *testing.T) {
	s := start(t, config{store: openEngine(t, nil)})
	for name, data := range map[string]string{"full": "x", "empty": ""} {
		s.do(201, "PUT", name, data, text)
		head, _ := s.do(200, "HEAD", name, "")
		_, body := s.sse(name+"?offset=-1&live=sse", "event: control")
		got := waitFor(t, body, "\n")
		if !strings.Contains(got, head.Header.Get("Stream-Next-Offset")) || !strings.Contains(got, `"upToDate":true`) || !strings.Contains(got, "streamCursor") {
			t.Errorf("control %q, HEAD %v", got, head.Header)
		}
	}
}

// B08, B09: the stream goes while readers wait.
func TestDeleteUnderLiveReads(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.store = openEngine(t, nil)
		s := start(t, cfg)
		s.do(201, "PUT", "a", "x", text)
		_, body := s.sse("a?offset=-1&live=sse", "upToDate")
		poll := s.dial().get("a?offset=now&live=long-poll")
		s.watches.wait(t, 2)
		s.do(204, "DELETE", "a", "")
		poll.answer("GET", 404)
		rest, err := io.ReadAll(body)
		if err != nil || strings.TrimSpace(string(rest)) != "" {
			t.Errorf("SSE ends with %v after %q", err, rest)
		}
		poll.get("a?offset=-1&live=sse").answer("GET", 404)
		s.watches.wait(t, 0)
	})
}

// A client that goes takes its watch along, however it goes.
func TestClientGoes(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		for _, live := range []string{"sse", "long-poll"} {
			for name, leave := range map[string]func(*conn){
				"close": func(c *conn) { c.Close() },
				"reset": func(c *conn) { c.SetLinger(0); c.Close() },
				"half":  func(c *conn) { c.CloseWrite(); io.Copy(io.Discard, c.r) },
			} {
				c := s.dial().get("a?offset=now&live=" + live)
				s.watches.wait(t, 1)
				leave(c)
				s.watches.wait(t, 0)
				if t.Failed() {
					t.Fatal(live, name)
				}
			}
		}
	})
}

// A client that ends its side during a live read is taken for gone. The adapters
// differ in how: the fast path hangs up, net/http ends the answer.
func TestHalfCloseDuringLiveReads(t *testing.T) {
	s := start(t, config{})
	s.do(201, "PUT", "a", "x", text)
	sse, body := s.sse("a?offset=-1&live=sse", "upToDate")
	poll := s.dial().get("a?offset=now&live=long-poll")
	s.watches.wait(t, 2)
	sse.CloseWrite()
	poll.CloseWrite()
	poll.closed()
	if _, err := io.ReadAll(body); err != io.ErrUnexpectedEOF {
		t.Errorf("SSE ends with %v", err)
	}
	// Answers that are ready are sent all the same.
	c := s.dial()
	c.post("a", "y").CloseWrite()
	c.answer("POST", 204)
	c = s.dial()
	c.get("a?offset=-1&live=long-poll").CloseWrite()
	c.answer("GET", 200)
	c.closed()
}

// B14: a reader that never reads costs nobody else anything and is dropped.
func TestOneStuckReader(t *testing.T) {
	cfg := config{store: openEngine(t, nil), fast: fastpath.Options{Loops: 1, StallTimeout: 500 * time.Millisecond}}
	s := start(t, cfg)
	s.do(201, "PUT", "a", "", text)
	stuck := s.dial()
	if err := stuck.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	stuck.get("a?offset=-1&live=sse")
	_, body := s.sse("a?offset=-1&live=sse", "upToDate")
	s.watches.wait(t, 2)
	big := strings.Repeat("x", 200<<10)
	for i := range 100 {
		mark := fmt.Sprintf("mark %d!", i)
		s.do(204, "POST", "a", "\n"+mark+"\n"+big, text)
		waitFor(t, body, mark)
	}
	s.watches.wait(t, 1)
}

// A reader that stood still for a while gets all that came meanwhile, without
// anything more happening to the stream.
func TestSlowReaderCatchesUp(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.store = openEngine(t, nil)
		cfg.protocol = protocol.Options{KeepAlive: time.Hour, SSEMaxAge: time.Hour}
		cfg.fast.StallTimeout = time.Hour
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		_, body := s.sse("a?offset=-1&live=sse", "upToDate")
		big := strings.Repeat("x", 200<<10)
		writer := s.dial()
		for i := range 100 {
			writer.post("a", fmt.Sprintf("\nmark %d!%s", i, big)).answer("POST", 204)
		}
		for i := range 100 {
			waitFor(t, body, fmt.Sprintf("mark %d!", i))
		}
	})
}

// B99: live reads end at once when the server drains, a write in flight is
// answered, and idle connections close.
func TestDrain(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		s.do(201, "PUT", "b", "", text)
		idle := s.dial().get("none")
		idle.answer("GET", 404)
		var bodies []*bufio.Reader
		var polls []*conn
		for range 30 {
			_, body := s.sse("a?offset=-1&live=sse", "upToDate")
			bodies = append(bodies, body)
			polls = append(polls, s.dial().get("a?offset=now&live=long-poll"))
		}
		s.watches.wait(t, 60)
		s.store.Do(func() { s.store.Held = true })
		post := s.dial().post("b", "x")
		s.pending.wait(t, 1)
		var wg sync.WaitGroup
		wg.Go(s.stopNow)
		for i, body := range bodies {
			waitFor(t, body, "event: control")
			if rest, err := io.ReadAll(body); err != nil || !strings.HasSuffix(string(rest), "}\n\n") {
				t.Errorf("SSE %d ends with %v after %q", i, err, rest)
			}
			polls[i].answer("GET", 204)
			polls[i].closed()
		}
		idle.closed()
		s.store.Release()
		if res, _ := post.answer("POST", 204); !res.Close && !cfg.plain {
			t.Error("no Connection: close")
		}
		post.closed()
		wg.Wait()
	})
}

// Many readers of one stream, woken at once and again.
func TestWakeStorm(t *testing.T) {
	s := start(t, config{store: openEngine(t, nil), fast: fastpath.Options{Loops: 2}})
	s.do(201, "PUT", "a", "", text)
	const readers, appends = 200, 30
	var wg sync.WaitGroup
	for i := range readers {
		c := s.dial()
		if i%2 == 0 {
			c.get("a?offset=-1&live=sse")
			wg.Go(func() {
				body := bufio.NewReader(c.head("GET", 200).Body)
				for n := range appends {
					waitFor(t, body, fmt.Sprintf("data:%d.", n))
				}
			})
			continue
		}
		wg.Go(func() {
			got, offset := "", "-1"
			for !strings.HasSuffix(got, fmt.Sprintf("\n%d.", appends-1)) {
				res, more := c.get("a?offset="+offset+"&live=long-poll").answer("GET", http.StatusOK)
				got, offset = got+more, res.Header.Get("Stream-Next-Offset")
			}
		})
	}
	s.watches.wait(t, readers)
	c := s.dial()
	for n := range appends {
		c.post("a", fmt.Sprintf("\n%d.", n)).answer("POST", 204)
	}
	wg.Wait()
}

// A reader that starts far behind reads from the disk first, then lives on.
func TestBacklogFromTheArchive(t *testing.T) {
	want := strings.Repeat("0123456789abcde\n", 3<<16)
	s := start(t, config{store: archived(t, want), protocol: protocol.Options{PageSize: 64 << 10, MaxReads: 1}, fast: fastpath.Options{Loops: 1}})
	c, body := s.sse("a?offset=-1&live=sse", "event")
	got := 0
	for got < len(want) {
		line, err := body.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data:0") {
			got += 16
		}
	}
	s.do(204, "POST", "a", "late", text)
	waitFor(t, body, "data:late")
	c.Close()
	poll, offset, all := s.dial(), "-1", ""
	for len(all) < len(want)+len("late") {
		res, more := poll.get("a?offset="+offset+"&live=long-poll").answer("GET", 200)
		all, offset = all+more, res.Header.Get("Stream-Next-Offset")
	}
	if all != want+"late" {
		t.Error("another backlog")
	}
}
