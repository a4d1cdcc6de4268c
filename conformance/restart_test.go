package conformance

import (
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// restarted is a server on disk that a test ends and starts again, on the same
// port, and a client of it.
type restarted struct {
	*client
	server  *process.Server
	command process.Command
}

// startOnDisk starts a server that the test restarts.
func startOnDisk(t *testing.T, args ...string) *restarted {
	t.Helper()
	r := &restarted{command: process.Command{Binary: process.Build(t),
		Args: append([]string{"--data-dir", filepath.Join(t.TempDir(), "data"), "--webhook-allow-local", "--shutdown-grace", "1s"}, args...)}}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s := &suite{Options: Options{StreamPath: "/durable-streams/v1/stream", Transport: transport}, id: "restart", http: &http.Client{Transport: transport}}
	r.client = &client{T: t, suite: s}
	r.start()
	t.Cleanup(func() { r.server.Kill() })
	return r
}

func (r *restarted) start() {
	r.Helper()
	p, stdout, err := process.Launch(r.command)
	if err != nil {
		r.Fatal(err)
	}
	r.server = p
	if _, err := p.Await(stdout); err != nil {
		r.Fatal(err)
	}
	u, err := url.Parse(p.Streams)
	if err != nil {
		r.Fatal(err)
	}
	r.command.Listen, r.BaseURL, r.host = u.Host, "http://"+u.Host, u.Host
}

// again ends the server, by a kill or by a signal, and starts it again.
func (r *restarted) again(kill bool) {
	r.Helper()
	if kill {
		r.server.Kill()
	} else if err := r.server.Stop(30 * time.Second); err != nil {
		r.Fatalf("stop: %v\n%s", err, r.server.Stderr)
	}
	r.http.CloseIdleConnections()
	r.start()
}

// history is a subscription in some state, and what has to be true of it after the
// server has ended and started again.
type history func(c *client) (after func())

// TestSubscriptionsSurvive is N69, N71, N75 and the end of B103: whatever state a
// subscription is in when the server ends, it goes on from there.
func TestSubscriptionsSurvive(t *testing.T) {
	states := map[string]history{
		"at rest": survivesAtRest, "woken": survivesWoken, "claimed": survivesClaimed, "claimed, and more came": survivesMore, "lease over": survivesLeaseEnd,
		"released": survivesReleased, "done": survivesDone, "deleted": survivesDeleted, "changed": survivesChanged, "no wake stream": survivesNoWakeStream,
		"webhook at rest": survivesHookAtRest, "in delivery": survivesDelivery, "accepted": survivesAccepted, "failed": survivesFailed, "nobody there": survivesNobody,
	}
	for name, kill := range map[string]bool{"kill": true, "stop": false} {
		t.Run(name, func(t *testing.T) {
			r := startOnDisk(t)
			keys := r.publicKeys()
			after := map[string]func(){}
			for state, begin := range states {
				after[state] = begin(r.client)
			}
			r.again(kill)
			for state, check := range after {
				t.Run(state, func(t *testing.T) {
					outer := r.T
					defer func() { r.T = outer }()
					r.T = t
					check()
				})
			}
			if got := r.publicKeys(); !reflect.DeepEqual(got, keys) {
				t.Errorf("the keys were %v and are %v", keys, got)
			}
			if t.Failed() {
				t.Logf("the server's log:\n%s", r.server.Stderr)
			}
		})
	}
}

// same demands that a subscription shows what it showed.
func (s *subscription) same(before shown) {
	s.c.Helper()
	if after := s.show(); !reflect.DeepEqual(after, before) {
		s.c.Errorf("it was\n%+v and is\n%+v", before, after)
	}
}

func survivesAtRest(c *client) func() {
	prefix, pattern := c.group("rest")
	s, wakes := c.pull(pattern, 5000)
	c.put(prefix+"history", text, "x").is(201)
	w := s.claim()
	s.ack(w, true, w.tails()...).next(false)
	before := s.show()
	return func() {
		s.same(before)
		s.atRest()
		tail := c.add(prefix+"history", text, "y")
		again := s.claim()
		if l := again.stream(c, prefix+"history"); l.Acked != w.Streams[0].Tail || l.Tail != tail || again.Generation != w.Generation+1 {
			c.Errorf("after %+v comes %+v", w, again)
		}
		if e := c.events(wakes, 2); len(e) != 2 || e[1].Generation != 2 {
			c.Errorf("wake events %+v", e)
		}
		s.put(config{"type": "pull-wake", "pattern": pattern, "wake_stream": wakes, "lease_ttl_ms": 5000}).is(200)
		s.put(config{"type": "pull-wake", "pattern": pattern, "wake_stream": wakes, "lease_ttl_ms": 5001}).code(409, "SUBSCRIPTION_ALREADY_EXISTS")
	}
}

func survivesWoken(c *client) func() {
	prefix, pattern := c.group("woken")
	s, wakes := c.pull(pattern, 5000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	before := s.show()
	return func() {
		s.same(before)
		w := s.claim()
		if w.Generation != 1 || w.stream(c, prefix+"a").Tail != tail {
			c.Errorf("claimed %+v", w)
		}
		s.ack(w, true, w.tails()...).next(false)
		c.add(prefix+"a", text, "y")
		if e := c.events(wakes, 2); len(e) != 2 || e[0].Generation != 1 || e[1].Generation != 2 {
			c.Errorf("wake events %+v, want one a generation", e)
		}
	}
}

func survivesClaimed(c *client) func() {
	prefix, pattern := c.group("claimed")
	s, _ := c.pull(pattern, 600_000)
	other, _ := c.pull(pattern, 600_000)
	a := c.put(prefix+"a", text, "x").is(201).tail()
	b := c.put(prefix+"b", text, "x").is(201).tail()
	w, wo := s.claim(), other.claim()
	s.ack(w, false, offset{prefix + "a", a}).next(false)
	before := s.show()
	return func() {
		s.same(before)
		s.acked(prefix+"a", a)
		s.claimAs("other").code(409, "ALREADY_CLAIMED")
		s.does("ack", wo.Token, w.work(true)).code(401, "TOKEN_INVALID")
		s.ack(w, false).next(false)
		s.ack(w, true, offset{prefix + "b", b}).next(false)
		s.release(w).code(409, "FENCED")
		other.release(wo).is(204)
	}
}

func survivesMore(c *client) func() {
	prefix, pattern := c.group("more")
	s, wakes := c.pull(pattern, 600_000)
	c.put(prefix+"a", text, "x").is(201)
	w := s.claim()
	tail := c.add(prefix+"a", text, "y")
	return func() {
		s.ack(w, true, w.tails()...).next(true)
		if e := c.events(wakes, 2); len(e) != 2 || e[1].Generation != 2 {
			c.Errorf("wake events %+v", e)
		}
		again := s.claim()
		if l := again.stream(c, prefix+"a"); l.Acked != w.Streams[0].Tail || l.Tail != tail {
			c.Errorf("after %+v comes %+v", w, again)
		}
		s.ack(w, true, w.tails()...).code(409, "FENCED")
		s.ack(again, true, again.tails()...).next(false)
	}
}

func survivesLeaseEnd(c *client) func() {
	prefix, pattern := c.group("lease")
	s, wakes := c.pull(pattern, 1000)
	c.put(prefix+"a", text, "x").is(201)
	w := s.claim()
	return func() {
		if e := c.events(wakes, 2); e[0].Generation != 1 || e[1].Generation != 2 {
			c.Errorf("wake events %+v", e)
		}
		s.ack(w, true, w.tails()...).code(409, "FENCED")
		again := s.claim()
		if again.ID == w.ID || again.Generation < 2 || again.stream(c, prefix+"a").Acked != w.Streams[0].Acked {
			c.Errorf("after %+v comes %+v", w, again)
		}
	}
}

func survivesReleased(c *client) func() {
	prefix, pattern := c.group("released")
	s, wakes := c.pull(pattern, 5000)
	c.put(prefix+"a", text, "x").is(201)
	w := s.claim()
	s.release(w).is(204)
	return func() {
		s.release(w).code(409, "FENCED")
		again := s.claim()
		if again.Generation != 2 || again.ID == w.ID {
			c.Errorf("after %+v comes %+v", w, again)
		}
		if e := c.events(wakes, 2); len(e) != 2 || e[1].Generation != 2 {
			c.Errorf("wake events %+v", e)
		}
	}
}

func survivesDone(c *client) func() {
	prefix, pattern := c.group("done")
	s, _ := c.pull(pattern, 5000)
	c.put(prefix+"a", text, "x").is(201)
	w := s.claim()
	s.ack(w, true, w.tails()...).next(false)
	return func() {
		s.ack(w, true, w.tails()...).code(409, "FENCED")
		s.does("ack", w.Token+"x", w.work(true)).code(401, "TOKEN_INVALID")
		s.atRest()
	}
}

func survivesDeleted(c *client) func() {
	prefix, pattern := c.group("deleted")
	s, wakes := c.pull(pattern, 5000)
	c.put(prefix+"a", text, "x").is(201)
	w := s.claim()
	c.control(http.MethodDelete, s.path(), nil).is(204)
	return func() {
		c.control(http.MethodGet, s.path(), nil).code(404, "SUBSCRIPTION_NOT_FOUND")
		s.ack(w, true, w.tails()...).code(404, "SUBSCRIPTION_NOT_FOUND")
		s.create(config{"type": "pull-wake", "pattern": pattern, "wake_stream": wakes})
		s.ack(w, true, w.tails()...).code(401, "TOKEN_INVALID")
		s.atRest()
	}
}

func survivesChanged(c *client) func() {
	prefix, pattern := c.group("changed")
	s, _ := c.pull(pattern, 5000)
	streams := s.path() + "/streams"
	for _, p := range []string{"x/1", "x/2", "x/3"} {
		c.put(prefix+p, text, "old").is(201)
		c.control(http.MethodPost, streams, config{"streams": []string{prefix + p}}).is(204)
	}
	c.control(http.MethodDelete, streams+"/"+url.PathEscape(prefix+"x/2"), nil).is(204)
	c.add(prefix+"x/3", text, "y")
	c.put(prefix+"gone", text, "x").is(201)
	c.delete(prefix + "gone").is(204)
	before := s.show()
	return func() {
		s.same(before)
		c.add(prefix+"x/1", text, "y")
		c.add(prefix+"x/2", text, "y")
		w := s.claim()
		if len(w.Streams) != 2 || w.stream(c, prefix+"x/1").Type != "explicit" {
			c.Errorf("claimed %+v", w.Streams)
		}
		c.get(prefix+"x/3", from(w.stream(c, prefix+"x/3").Acked)).is(200).body("y")
	}
}

func survivesNoWakeStream(c *client) func() {
	prefix, pattern := c.group("nowhere")
	wakes := c.path("nowhere")
	s := c.subscription("s").create(config{"type": "pull-wake", "pattern": pattern, "wake_stream": wakes})
	c.put(prefix+"a", text, "x").is(201)
	return func() {
		c.put(wakes, jsonType, "").is(201)
		if e := c.events(wakes, 1); len(e) != 1 || e[0].Generation != 1 || e[0].SubscriptionID != s.id {
			c.Errorf("wake events %+v", e)
		}
	}
}

func survivesHookAtRest(c *client) func() {
	prefix, pattern := c.group("hook")
	to := c.receiver(says(200, `{"done":true}`))
	keys := c.publicKeys()
	s := c.hook(pattern, to, 5000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	first := to.next()
	acked := func(tail string) {
		c.Helper()
		c.eventually("it is acked", func() bool { l, _ := s.show().link(prefix + "a"); return l.Acked == tail })
	}
	acked(tail)
	before := s.show()
	return func() {
		s.same(before)
		tail := c.add(prefix+"a", text, "y")
		d := to.next()
		d.verify(c, keys)
		if l := d.stream(c, prefix+"a"); d.Generation != first.Generation+1 || l.Acked != first.Streams[0].Tail || d.CallbackURL != first.CallbackURL {
			c.Errorf("after %s comes %s", first.raw, d.raw)
		}
		acked(tail)
	}
}

// survivesDelivery ends the server while a receiver works.
func survivesDelivery(c *client) func() {
	prefix, pattern := c.group("delivery")
	var calls atomic.Int32
	let := make(chan struct{})
	to := c.receiver(func(w http.ResponseWriter, d delivery) {
		if calls.Add(1) == 1 {
			<-let
		}
		says(200, `{"done":true}`)(w, d)
	})
	s := c.hook(pattern, to, 2000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	first := to.next()
	return func() {
		close(let)
		again := to.next()
		if again.stream(c, prefix+"a").Acked != first.stream(c, prefix+"a").Acked || again.Generation < first.Generation {
			c.Errorf("after %s comes %s", first.raw, again.raw)
		}
		c.eventually("it is acked", func() bool { l, _ := s.show().link(prefix + "a"); return l.Acked == tail })
		to.quiet(settle)
	}
}

func survivesAccepted(c *client) func() {
	prefix, pattern := c.group("accepted")
	to := c.receiver(says(202, ""))
	s := c.hook(pattern, to, 600_000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	d := to.next()
	c.callBack(d, false).next(false) // so that the answer has been taken in or does not matter
	return func() {
		c.callBack(d, false).next(false)
		c.callBack(d, true, d.tails()...).next(false)
		s.acked(prefix+"a", tail)
		c.callBack(d, true).code(409, "FENCED")
		to.quiet(settle)
	}
}

// survivesFailed is N71: the schedule of retries goes on where it was.
func survivesFailed(c *client) func() {
	prefix, pattern := c.group("failed")
	var well atomic.Bool
	to := c.receiver(func(w http.ResponseWriter, d delivery) {
		if well.Load() {
			says(200, `{"done":true}`)(w, d)
		} else {
			says(500, "")(w, d)
		}
	})
	s := c.hook(pattern, to, 60_000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	to.next()
	second := to.next()
	third := to.next()
	c.eventually("the failure shows", func() bool { return s.show().Status == "failed" })
	return func() {
		well.Store(true)
		d := to.next()
		// The third failure in a row is followed by 4 s, less 20 %.
		if a, b := third.at.Sub(second.at), d.at.Sub(third.at); a < 1590*time.Millisecond || b < 3190*time.Millisecond {
			c.Errorf("retried after %s and %s", a, b)
		}
		c.eventually("it is acked", func() bool { l, _ := s.show().link(prefix + "a"); return l.Acked == tail })
		if v := s.show(); v.Status != "active" {
			c.Errorf("status %s", v.Status)
		}
	}
}

// survivesNobody has no receiver before the restart.
func survivesNobody(c *client) func() {
	prefix, pattern := c.group("nobody")
	to := c.receiver(says(200, `{"done":true}`))
	target := to.URL
	var there atomic.Bool
	to.Config.Handler = whenThere(&there, to.Config.Handler)
	s := c.subscription("nobody").create(config{"type": "webhook", "pattern": pattern, "webhook": config{"url": target}, "lease_ttl_ms": 1000})
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	c.eventually("the failure shows", func() bool { return s.show().Status == "failed" })
	return func() {
		there.Store(true)
		to.next()
		c.eventually("it is acked", func() bool { l, _ := s.show().link(prefix + "a"); return l.Acked == tail })
	}
}

// whenThere hangs up on everybody until it is told that it is there.
func whenThere(there *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if there.Load() {
			next.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})
}
