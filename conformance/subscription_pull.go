package conformance

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func pullTests() []test {
	return []test{
		{"a wake event says what is to be done, once a generation", wakeEvents},
		{"a claim names streams, offsets and lease", claimAnswer},
		{"only one worker holds the lease", oneHolder},
		{"many workers, one claim", claimRace},
		{"a subscription at rest cannot be claimed", nothingToClaim},
		{"an ack moves the cursor, done gives the lease back", ackSteps},
		{"B103 work that comes during a claim wakes again", coalescedWork},
		{"acks are all or nothing, and never go back", badAcks},
		{"acks of what went meanwhile spoil nothing", lateAcks},
		{"N67 another wake or generation is fenced", fencedWork},
		{"stale acks and releases are fenced", staleWork},
		{"a token is good for its own wake only", pullTokens},
		{"N65 a release with pending work wakes again", releasedWork},
		{"N63 a lease ends, and another worker goes on", leaseExpiry},
		{"an ack without done extends the lease", heartbeat},
		{"a wake stream that is missing, closed or no JSON", badWakeStreams},
		{"a wake stream is a stream like others", ordinaryWakeStream},
		{"several subscriptions share a wake stream", sharedWakeStream},
		{"no work is lost among many writers and workers", workersKeepUp},
	}
}

func wakeEvents(c *client) {
	prefix, pattern := c.group("events")
	before := time.Now().Add(-time.Second).UnixMilli()
	s, wakes := c.pull(pattern, 5000)
	c.put(prefix+"a", text, "x").is(201)
	c.events(wakes, 1)
	var members map[string]any
	if list := c.messages(wakes); len(list) != 1 || json.Unmarshal([]byte(list[0]), &members) != nil || len(members) != 5 {
		c.Fatalf("wake events %q", list)
	}
	if ts, _ := members["ts"].(float64); members["type"] != "wake" || members["subscription_id"] != s.id || members["stream"] != prefix+"a" || members["generation"] != 1.0 ||
		int64(ts) < before || int64(ts) > time.Now().Add(time.Minute).UnixMilli() {
		c.Errorf("wake event %v", members)
	}
	// More work for a wake that nobody has taken is no more events.
	c.add(prefix+"a", text, "y")
	c.put(prefix+"b", text, "z").is(201)
	w := s.claim()
	if len(w.Streams) != 2 || w.Generation != 1 {
		c.Errorf("claimed %+v", w)
	}
	s.ack(w, true, w.tails()...).next(false)
	c.add(prefix+"b", text, "z")
	events := c.events(wakes, 2)
	if len(events) != 2 || events[1].Generation != 2 || events[1].Stream != prefix+"b" {
		c.Errorf("wake events %+v", events)
	}
}

func claimAnswer(c *client) {
	prefix, pattern := c.group("claim")
	s, _ := c.pull(pattern, 2000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	var w wake
	// Right after the append, whether or not the event has been written, and without
	// any authorization.
	r := s.claimAs("worker-1").is(200).header("Cache-Control", "no-store").header("Content-Type", jsonType).decode(&w)
	if !strings.HasPrefix(w.ID, "w_") || w.Generation != 1 || w.Token == "" || w.LeaseTTL != 2000 || len(w.Streams) != 1 {
		c.Errorf("claim %s", r.Body)
	}
	if l := w.stream(c, prefix+"a"); l.Tail != tail || l.Type != "glob" || l.Pending == nil || !*l.Pending || l.Acked >= tail {
		c.Errorf("claim %s, the tail is %s", r.Body, tail)
	}
	if strings.ContainsAny(w.Token, " \t\r\n") {
		c.Errorf("the token %q cannot stand in a header", w.Token)
	}
}

func oneHolder(c *client) {
	prefix, pattern := c.group("holder")
	s, _ := c.pull(pattern, 5000)
	c.put(prefix+"a", text, "x").is(201)
	var w wake
	s.claimAs("worker é 1").is(200).decode(&w)
	for _, worker := range []string{"worker-2", "worker é 1"} {
		var e struct {
			Error struct {
				Code, Message string
				Holder        string `json:"current_holder"`
				Generation    int64
			}
		}
		s.claimAs(worker).code(409, "ALREADY_CLAIMED").decode(&e)
		if e.Error.Holder != "worker é 1" || e.Error.Generation != w.Generation {
			c.Errorf("refused with %+v", e.Error)
		}
	}
	s.ack(w, true, w.tails()...).next(false)
	for _, body := range []any{nil, "", "{}", config{"worker": ""}, config{"worker": 1}, config{"worker": nil}, config{"worker": strings.Repeat("w", 1000)}, config{"worker": "a\nb"}, "[]", "x"} {
		s.does("claim", "", body).code(400, "INVALID_REQUEST")
	}
}

func claimRace(c *client) {
	prefix, pattern := c.group("race")
	s, _ := c.pull(pattern, 10_000)
	for round := range 5 {
		c.put(prefix+"a", text, "x").is(201, 200)
		c.add(prefix+"a", text, "y")
		var won atomic.Int32
		var mine wake
		var racing sync.WaitGroup
		for range 10 {
			racing.Go(func() {
				switch r := s.claimAs("racer"); r.Status {
				case 200:
					if won.Add(1) == 1 {
						_ = json.Unmarshal([]byte(r.Body), &mine)
					}
				case 409:
				default:
					c.Errorf("a claim is answered %d %s (%v)", r.Status, short(r.Body), r.Err)
				}
			})
		}
		racing.Wait()
		if won.Load() != 1 {
			c.Fatalf("round %d: %d workers hold the lease", round, won.Load())
		}
		s.ack(mine, true, mine.tails()...).next(false)
	}
}

func nothingToClaim(c *client) {
	prefix, pattern := c.group("rest")
	s, _ := c.pull(pattern, 1000)
	s.atRest()
	c.put(prefix+"a", text, "x").is(201)
	w := s.claim()
	s.ack(w, true, w.tails()...).next(false)
	s.atRest()
	c.subscription("none").claimAs("w").code(404, "SUBSCRIPTION_NOT_FOUND")
	to := c.receiver(says(500, ""))
	h := c.hook(pattern, to, 1000)
	c.add(prefix+"a", text, "y")
	h.claimAs("w").code(400, "INVALID_REQUEST")
	// The token is looked at first: who has none does not learn what there is.
	h.does("release", "x", config{}).code(401, "TOKEN_INVALID")
	h.does("ack", "x", config{}).code(401, "TOKEN_INVALID")
	s.does("callback", "x", config{}).code(401, "TOKEN_INVALID")
}

func coalescedWork(c *client) {
	prefix, pattern := c.group("coalesced")
	s, wakes := c.pull(pattern, 5000)
	first := c.put(prefix+"1", text, "one").is(201).tail()
	w := s.claim()
	second := c.add(prefix+"1", text, "two")
	s.ack(w, true, w.tails()...).next(true)
	events := c.events(wakes, 2)
	if len(events) != 2 || events[1].Generation != 2 || events[1].Stream != prefix+"1" {
		c.Errorf("wake events %+v", events)
	}
	w2 := s.claim()
	if l := w2.stream(c, prefix+"1"); l.Acked != first || l.Tail != second || w2.Generation != 2 {
		c.Errorf("the second wake is %+v", w2)
	}
	c.get(prefix+"1", from(w2.Streams[0].Acked)).is(200).body("two")
	s.ack(w, true, w.tails()...).code(409, "FENCED")
	s.ack(w2, true, w2.tails()...).next(false)
	s.atRest()
	if events := c.messages(wakes); len(events) != 2 {
		c.Errorf("%d wake events", len(events))
	}
}

func fencedWork(c *client) {
	prefix, pattern := c.group("fence")
	s, _ := c.pull(pattern, 10_000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	w := s.claim()
	acks := []offset{{prefix + "a", tail}}
	for name, body := range map[string]config{
		"other wake":       {"wake_id": "w_other", "generation": w.Generation},
		"no wake":          {"generation": w.Generation},
		"null wake":        {"wake_id": nil, "generation": w.Generation},
		"empty wake":       {"wake_id": "", "generation": w.Generation},
		"next generation":  {"wake_id": w.ID, "generation": w.Generation + 1},
		"last generation":  {"wake_id": w.ID, "generation": w.Generation - 1},
		"no generation":    {"wake_id": w.ID},
		"minus generation": {"wake_id": w.ID, "generation": -w.Generation},
		"large generation": {"wake_id": w.ID, "generation": 1 << 52},
		"nothing":          {},
	} {
		if r := s.does("release", w.Token, body); r.Status != 409 {
			c.Errorf("release, %s: status %d %s", name, r.Status, short(r.Body))
		} else {
			r.code(409, "FENCED")
		}
		body["acks"], body["done"] = acks, true
		if r := s.does("ack", w.Token, body); r.Status != 409 {
			c.Errorf("ack, %s: status %d %s", name, r.Status, short(r.Body))
		} else {
			r.code(409, "FENCED")
		}
	}
	if l, _ := s.show().link(prefix + "a"); l.Acked == tail {
		c.Errorf("a fenced ack has moved the cursor")
	}
	s.ack(w, true, acks...).next(false)
}

func staleWork(c *client) {
	prefix, pattern := c.group("stale")
	s, _ := c.pull(pattern, 10_000)
	first := c.put(prefix+"a", text, "1").is(201).tail()
	old := s.claim()
	s.ack(old, true, old.tails()...).next(false)
	stale := func() {
		c.Helper()
		s.ack(old, true, old.tails()...).code(409, "FENCED")
		s.ack(old, false).code(409, "FENCED")
		s.release(old).code(409, "FENCED")
	}
	stale() // at rest
	second := c.add(prefix+"a", text, "2")
	stale() // woken
	w := s.claim()
	stale() // held by another
	// Not with the new token for the old wake, nor the other way round.
	s.does("ack", w.Token, old.work(true, offset{prefix + "a", second})).code(409, "FENCED")
	s.does("ack", old.Token, w.work(true, offset{prefix + "a", second})).code(409, "FENCED")
	s.acked(prefix+"a", first)
	s.release(w).is(204)
	s.release(w).code(409, "FENCED")
	s.ack(w, true, w.tails()...).code(409, "FENCED")
	s.acked(prefix+"a", first)
}

func pullTokens(c *client) {
	prefix, pattern := c.group("token")
	s, _ := c.pull(pattern, 10_000)
	other, _ := c.pull(pattern, 10_000)
	c.put(prefix+"a", text, "x").is(201)
	w, wo := s.claim(), other.claim()
	flip := func(at int) string {
		b := []byte(w.Token)
		if b[at]++; b[at] == '.' || b[at] == '[' || b[at] == '{' || b[at] == ':' {
			b[at] = 'A'
		}
		return string(b)
	}
	for _, action := range []string{"ack", "release"} {
		for _, token := range []string{"x", w.Token + "x", w.Token[1:], strings.ToLower(w.Token), flip(3), flip(len(w.Token) / 2), flip(len(w.Token) - 20), wo.Token, strings.Repeat("x", 20_000), "eyJhbGciOiJub25lIn0.e30."} {
			if r := s.does(action, token, w.work(true, w.tails()...)); r.Status != 401 {
				c.Errorf("%s with %.100s: status %d %s", action, token, r.Status, short(r.Body))
			} else {
				r.code(401, "TOKEN_INVALID").with("WWW-Authenticate")
			}
		}
		for _, headers := range [][]string{nil, {"Authorization", ""}, {"Authorization", "Bearer"}, {"Authorization", w.Token}, {"Authorization", "Basic " + w.Token},
			{"Authorization", "Bearer " + w.Token, "Authorization", "Bearer " + w.Token}} {
			c.control(http.MethodPost, s.path()+"/"+action, w.work(true), headers...).code(401, "TOKEN_INVALID")
		}
	}
	s.does("ack", w.Token, w.work(true, w.tails()...)).next(false)
}

func releasedWork(c *client) {
	prefix, pattern := c.group("release")
	s, wakes := c.pull(pattern, 10_000)
	c.put(prefix+"a", text, "x").is(201)
	w := s.claim()
	c.events(wakes, 1)
	s.release(w).is(204).body("").header("Cache-Control", "no-store")
	if events := c.events(wakes, 2); events[1].Generation != 2 || events[1].SubscriptionID != s.id {
		c.Errorf("wake events %+v", events)
	}
	s.release(w).code(409, "FENCED")
	again := s.claim()
	if l := again.stream(c, prefix+"a"); again.Generation != 2 || again.ID == w.ID || again.Token == w.Token || l.Acked != w.Streams[0].Acked {
		c.Errorf("after %+v comes %+v", w, again)
	}
	// Released after everything was acked: at rest.
	s.ack(again, false, again.tails()...).next(false)
	s.release(again).is(204)
	s.atRest()
	if n := len(c.messages(wakes)); n != 2 {
		c.Errorf("%d wake events, want 2", n)
	}
}

func leaseExpiry(c *client) {
	prefix, pattern := c.group("lease")
	s, wakes := c.pull(pattern, 1000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	w := s.claim()
	events := c.events(wakes, 2)
	if events[1].Generation != 2 || events[1].Stream != prefix+"a" {
		c.Errorf("wake events %+v", events)
	}
	s.ack(w, true, w.tails()...).code(409, "FENCED")
	s.ack(w, false).code(409, "FENCED")
	s.release(w).code(409, "FENCED")
	var again wake
	s.claimAs("worker-2").is(200).decode(&again)
	if again.Generation != 2 || again.ID == w.ID || again.stream(c, prefix+"a").Acked != w.Streams[0].Acked {
		c.Errorf("after %+v comes %+v", w, again)
	}
	s.ack(again, true, offset{prefix + "a", tail}).next(false)
	// At rest no lease is waited for.
	c.pause(1200 * time.Millisecond)
	s.atRest()
	if n := len(c.messages(wakes)); n != 2 {
		c.Errorf("%d wake events, want 2", n)
	}
}

func heartbeat(c *client) {
	prefix, pattern := c.group("beat")
	s, wakes := c.pull(pattern, 3000)
	c.put(prefix+"a", text, "x").is(201)
	w := s.claim()
	for range 6 {
		c.pause(700 * time.Millisecond)
		s.ack(w, false).next(false)
	}
	s.claimAs("other").code(409, "ALREADY_CLAIMED")
	if n := len(c.messages(wakes)); n != 1 {
		c.Errorf("%d wake events during one lease", n)
	}
	s.ack(w, true, w.tails()...).next(false)
}

func badWakeStreams(c *client) {
	prefix, pattern := c.group("nowhere")
	wakes := c.path("nowhere")
	s := c.subscription("s").create(config{"type": "pull-wake", "pattern": pattern, "wake_stream": wakes, "lease_ttl_ms": 1000})
	c.put(prefix+"a", text, "x").is(201)
	c.eventually("the failure shows", func() bool { return s.show().Status == "failed" })
	// The work can be claimed all the same, and the event comes once the stream is there.
	w := s.claim()
	s.release(w).is(204)
	c.put(wakes, jsonType, "").is(201)
	if events := c.events(wakes, 1); events[0].Generation != 2 || len(events) != 1 {
		c.Errorf("wake events %+v", events)
	}
	c.eventually("it works again", func() bool { return s.show().Status == "active" })
	w = s.claim()
	s.ack(w, true, w.tails()...).next(false)
	c.closes(wakes)
	c.add(prefix+"a", text, "y")
	c.eventually("the failure shows", func() bool { return s.show().Status == "failed" })
	c.delete(wakes).is(204)
	c.put(wakes, text, "").is(201)
	c.pause(settle)
	if v := s.show(); v.Status != "failed" {
		c.Errorf("text takes events: %+v", v)
	}
	c.get(wakes, fromStart).is(200).body("")
	c.delete(wakes).is(204)
	c.put(wakes, jsonType, "").is(201)
	c.events(wakes, 1)
	w = s.claim()
	s.ack(w, true, w.tails()...).next(false)
}

func ordinaryWakeStream(c *client) {
	root := c.path("ordinary")
	wakes := root + "/wakes"
	c.put(wakes, jsonType, `{"mine":1}`).is(201)
	// The pattern covers the wake stream, which must not wake its own subscription.
	s := c.subscription("self").create(config{"type": "pull-wake", "pattern": root + "/*", "wake_stream": wakes, "lease_ttl_ms": 5000})
	c.add(wakes, jsonType, `{"mine":2}`)
	s.atRest()
	wait := c.later(func() *reply { return c.get(wakes, fromNow+longPoll) })
	c.pause(settle)
	c.put(root+"/a", text, "x").is(201)
	if r := wait().is(200, 204); r.Status == 200 && !strings.Contains(r.Body, s.id) {
		c.Errorf("the waiting worker gets %s", short(r.Body))
	}
	w := s.claim()
	if len(w.Streams) != 1 {
		c.Errorf("claimed %+v", w.Streams)
	}
	s.ack(w, true, w.tails()...).next(false)
	list := c.messages(wakes)
	if len(list) != 3 || list[0] != `{"mine":1}` || list[1] != `{"mine":2}` {
		c.Errorf("the wake stream has %q", list)
	}
	// Another subscription may watch the wake stream.
	o, _ := c.pull(wakes, 5000)
	c.add(root+"/a", text, "y")
	c.eventually("the wake wakes", func() bool { return o.claimAs("w").Status == 200 })
}

func sharedWakeStream(c *client) {
	prefix, pattern := c.group("shared")
	wakes := c.create("wakes", jsonType, "")
	want := map[string]bool{}
	for range 5 {
		s := c.subscription("shared").create(config{"type": "pull-wake", "pattern": pattern, "wake_stream": wakes})
		want[s.id] = true
	}
	c.put(prefix+"a", text, "x").is(201)
	for _, e := range c.events(wakes, 5) {
		if !want[e.SubscriptionID] || e.Generation != 1 {
			c.Errorf("event %+v", e)
		}
		delete(want, e.SubscriptionID)
	}
	if len(want) > 0 {
		c.Errorf("no event for %v", want)
	}
}

// workersKeepUp lets workers process a log that writers fill, as applications
// would, and compares in the end.
func workersKeepUp(c *client) {
	prefix, pattern := c.group("load")
	s, _ := c.pull(pattern, 10_000)
	const writers, each = 4, 25
	var mu sync.Mutex
	seen := map[string]string{} // what was processed of each stream
	var writing, working sync.WaitGroup
	for i := range writers {
		c.put(prefix+string(rune('a'+i)), text, "").is(201)
	}
	for i := range writers {
		writing.Go(func() {
			p := prefix + string(rune('a'+i))
			for n := range each {
				if r := c.post(p, text, string(rune('A'+n))); r.Status != 204 {
					c.Errorf("%s: %d %s (%v)", r.what, r.Status, short(r.Body), r.Err)
				}
			}
		})
	}
	stop := make(chan struct{})
	for range 3 {
		working.Go(func() {
			for {
				r := s.claimAs("worker")
				if r.Status != 200 {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
					}
					continue
				}
				var w wake
				_ = json.Unmarshal([]byte(r.Body), &w)
				for _, l := range w.Streams {
					got := c.get(l.Path, from(l.Acked))
					mu.Lock()
					seen[l.Path] += got.Body
					mu.Unlock()
					if a := s.ack(w, false, offset{l.Path, got.Header.Get("Stream-Next-Offset")}); a.Status != 200 {
						c.Errorf("ack: %d %s", a.Status, a.Body)
					}
				}
				if a := s.ack(w, true); a.Status != 200 {
					c.Errorf("done: %d %s", a.Status, a.Body)
				}
			}
		})
	}
	writing.Wait()
	c.eventually("all is processed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, text := range seen {
			n += len(text)
		}
		return n >= writers*each
	})
	close(stop)
	working.Wait()
	s.atRest()
	for i := range writers {
		p := prefix + string(rune('a'+i))
		if want := c.content(p); seen[p] != want {
			c.Errorf("of %s was processed %q, it holds %q", p, seen[p], want)
		}
	}
}
