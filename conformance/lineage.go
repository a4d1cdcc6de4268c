package conformance

import (
	"fmt"
	"strings"
	"time"
)

func lineageTests() []test {
	return []test{
		{"a source with forks is only soft-deleted", softDelete},
		{"B74 nothing changes a soft-deleted stream", softDeleted},
		{"the last fork collects the chain", collectChain},
		{"a refused fork leaves no reference", refusedFork},
		{"deleting the middle of a chain keeps its ends", middleDeleted},
		{"a long chain reads from end to end", longChain},
		{"many forks of one source", manyForks},
		{"B71 an expired source with a living fork is soft-deleted", expiredSource},
		{"N43 the life of a fork whose source lives for ever", forkLifeForever},
		{"N45 the life of a fork whose source has a deadline", forkLifeDeadline},
		{"the life of a fork whose source has a window", forkLifeWindow},
	}
}

func softDelete(c *client) {
	s := c.create("source", text, "old")
	live := c.sse(s, fromNow)
	live.control()
	f := c.path("fork")
	c.put(f, text, "", c.fork(s)...).is(201)
	c.add(s, text, "er")
	c.delete(s).is(204)
	for _, e := range live.ends(patience) {
		if e.kind == "data" && e.data != "er" || e.control.StreamClosed {
			c.Errorf("after the delete came %s %s", e.kind, short(e.data))
		}
	}
	c.get(f, fromStart).is(200).body("old")
	c.add(f, text, "!")
	c.get(f, fromStart).is(200).body("old!")
	for _, mode := range modes() {
		c.get(s, fromStart+mode).refused(410)
	}
	c.head(s).is(410)
	c.put(s, text, "").refused(409)
	c.put(c.path("another"), text, "", c.fork(s)...).refused(409)
	c.delete(f).is(204)
	c.get(s, fromStart).refused(404)
	c.put(s, text, "new").is(201)
	c.get(s, fromStart).is(200).body("new")
}

func softDeleted(c *client) {
	s := c.create("source", text, "A", "Stream-TTL", "600")
	f := c.path("fork")
	c.put(f, text, "", c.fork(s)...).is(201)
	c.delete(s).is(204)
	for range 2 {
		c.post(s, "", "", closing()...).refused(410)
		c.post(s, text, "x").refused(410)
		c.post(s, text, "x", closing()...).refused(410)
		c.post(s, jsonType, "1").refused(410)
		c.post(s, text, "x", producer("p", 0, 0)...).refused(410)
		c.delete(s).refused(410)
		c.put(s, text, "x").refused(409)
		c.put(s, text, "x", "Stream-TTL", "600").refused(409)
		c.put(s, text, "", c.fork(f)...).refused(409)
		c.get(s, "").refused(410)
	}
	c.get(f, fromStart).is(200).body("A")
}

func collectChain(c *client) {
	paths := []string{c.create("0", text, "0")}
	for i := 1; i < 5; i++ {
		p := c.path(fmt.Sprint(i))
		c.put(p, text, fmt.Sprint(i), c.fork(paths[i-1])...).is(201)
		paths = append(paths, p)
	}
	last := len(paths) - 1
	for _, p := range paths[:last] {
		c.delete(p).is(204)
		c.get(p, fromStart).refused(410)
	}
	c.get(paths[last], fromStart).is(200).body("01234")
	c.delete(paths[last]).is(204)
	for _, p := range paths {
		c.get(p, fromStart).refused(404)
		c.put(p, text, "").is(201)
	}
	// A source that was never deleted outlives its forks.
	s := c.create("kept", text, "kept")
	for range 3 {
		f := c.path("fork")
		c.put(f, text, "", c.fork(s)...).is(201)
		c.delete(f).is(204)
	}
	c.get(s, fromStart).is(200).body("kept")
	c.delete(s).is(204)
	c.get(s, fromStart).refused(404)
}

func refusedFork(c *client) {
	s, taken := c.create("source", jsonType, "[1,2]"), c.create("taken", jsonType, "")
	for _, h := range [][]string{
		at("bad"), at("9999999999999999_9999999999999999"), at(startOffset, "9"), at(startOffset, "01"), {"Stream-Fork-Sub-Offset", "1"},
		{"Stream-TTL", "01"}, {"Stream-TTL", "5", "Stream-Expires-At", "2099-01-01T00:00:00Z"}, {"Stream-Expires-At", "never"},
	} {
		c.put(c.path("refused"), jsonType, "", c.fork(s, h...)...).refused(400)
	}
	c.put(c.path("refused"), text, "", c.fork(s)...).refused(409)
	c.put(c.path("refused"), jsonType, "{bad", c.fork(s)...).refused(400)
	c.put(taken, jsonType, "", c.fork(s)...).refused(409)
	dead := c.path("dead")
	c.put(dead, jsonType, "[3]", c.fork(s, "Stream-TTL", "0")...).is(201)
	c.get(dead, fromStart).refused(404)
	c.delete(s).is(204)
	c.get(s, fromStart).refused(404)
	c.put(s, text, "").is(201)
}

func middleDeleted(c *client) {
	a, b, d := c.create("a", text, "a"), c.path("b"), c.path("d")
	c.put(b, text, "b", c.fork(a)...).is(201)
	c.put(d, text, "d", c.fork(b)...).is(201)
	c.delete(b).is(204)
	c.get(b, fromStart).refused(410)
	c.get(d, fromStart).is(200).body("abd")
	c.add(a, text, "!")
	c.get(a, fromStart).is(200).body("a!")
	c.delete(a).is(204)
	c.get(d, fromStart).is(200).body("abd")
	e := c.path("e")
	c.put(e, text, "e", c.fork(d)...).is(201)
	c.get(e, fromStart).is(200).body("abde")
	c.delete(d).is(204)
	c.get(e, fromStart).is(200).body("abde")
	c.delete(e).is(204)
	for _, p := range []string{a, b, d, e} {
		c.get(p, fromStart).refused(404)
	}
}

func longChain(c *client) {
	p, want := c.create("0", text, "0;"), "0;"
	var offsets []string
	for i := 1; i <= 40; i++ {
		next := c.path(fmt.Sprint(i))
		part := fmt.Sprint(i, ";")
		c.put(next, text, part, c.fork(p)...).is(201)
		want += part
		offsets = append(offsets, c.head(next).tail())
		p = next
	}
	c.get(p, fromStart).is(200).body(want)
	for i, offset := range offsets {
		_, rest, _ := strings.Cut(want, fmt.Sprint(";", i+1, ";"))
		c.get(p, from(offset)).is(200).body(rest)
	}
	c.sse(p, fromStart).until(want, plain)
}

func manyForks(c *client) {
	s := c.create("source", text, "shared;")
	forks := make([]string, 50)
	for i := range forks {
		forks[i] = c.path("fork")
		c.put(forks[i], text, fmt.Sprint(i), c.fork(s)...).is(201)
	}
	c.delete(s).is(204)
	for i, f := range forks {
		c.get(f, fromStart).is(200).body(fmt.Sprint("shared;", i))
		c.get(s, fromStart).refused(410)
		c.delete(f).is(204)
	}
	c.get(s, fromStart).refused(404)
}

func expiredSource(c *client) {
	s := c.create("source", text, "AA", "Stream-TTL", "1")
	f := c.path("fork")
	c.put(f, text, "", c.fork(s, "Stream-TTL", "60")...).is(201)
	c.gone(s, 410)
	c.get(f, fromStart).is(200).body("AA")
	c.put(s, text, "new").refused(409)
	c.post(s, text, "x").refused(410)
	c.post(s, "", "", closing()...).refused(410)
	c.head(s).is(410)
	c.delete(s).refused(410)
	c.put(c.path("another"), text, "", c.fork(s)...).refused(409)
	c.add(f, text, "!")
	c.get(f, fromStart).is(200).body("AA!")
	c.delete(f).is(204)
	c.put(s, text, "new").is(201)
	c.get(s, fromStart).is(200).body("new")
}

// deadline is an expiry some time from now, and its header.
func deadline(d time.Duration) []string {
	return []string{"Stream-Expires-At", time.Now().Add(d).UTC().Format(time.RFC3339Nano)}
}

func forkLifeForever(c *client) {
	s := c.create("source", text, "x")
	none, window, date := c.path("none"), c.path("window"), c.path("date")
	c.put(none, text, "", c.fork(s)...).is(201)
	c.put(window, text, "", c.fork(s, "Stream-TTL", "3")...).is(201)
	c.put(date, text, "", c.fork(s, deadline(3*time.Second)...)...).is(201)
	c.head(none).is(200).without("Stream-TTL", "Stream-Expires-At")
	c.head(window).is(200).header("Stream-TTL", "3").without("Stream-Expires-At")
	c.head(date).is(200).with("Stream-Expires-At").without("Stream-TTL")
	for range 3 { // reads renew a window, not a deadline
		c.pause(1600 * time.Millisecond)
		c.get(window, fromStart).is(200).body("x")
		c.get(date, fromStart).is(200, 404)
	}
	c.get(date, fromStart).refused(404)
	c.gone(window, 404)
	c.get(none, fromStart).is(200).body("x")
	c.get(s, fromStart).is(200).body("x")
}

func forkLifeDeadline(c *client) {
	life := deadline(2500 * time.Millisecond)
	s := c.create("source", text, "x", life...)
	none, window, date := c.path("none"), c.path("window"), c.path("date")
	c.put(none, text, "", c.fork(s)...).is(201)
	c.put(window, text, "", c.fork(s, "Stream-TTL", "60")...).is(201)
	c.put(date, text, "", c.fork(s, deadline(time.Hour)...)...).is(201)
	if a, b := c.head(none).Header.Get("Stream-Expires-At"), c.head(s).Header.Get("Stream-Expires-At"); a != b || a == "" {
		c.Errorf("the fork's deadline is %q, its source's %q", a, b)
	}
	c.head(window).is(200).header("Stream-TTL", "60").without("Stream-Expires-At")
	c.gone(none, 404, 410)
	c.gone(s, 410)
	for _, p := range []string{window, date} {
		c.get(p, fromStart).is(200).body("x")
		c.add(p, text, "y")
		c.get(p, fromStart).is(200).body("xy")
		c.delete(p).is(204)
	}
	c.get(s, fromStart).refused(404)
}

func forkLifeWindow(c *client) {
	s := c.create("source", text, "x", "Stream-TTL", "3600")
	none, shorter, longer, date := c.path("none"), c.path("shorter"), c.path("longer"), c.path("date")
	c.put(none, text, "", c.fork(s)...).is(201)
	c.put(shorter, text, "", c.fork(s, "Stream-TTL", "1")...).is(201)
	c.put(longer, text, "", c.fork(s, "Stream-TTL", "99999")...).is(201)
	c.put(date, text, "", c.fork(s, deadline(24*time.Hour)...)...).is(201)
	c.head(none).is(200).header("Stream-TTL", "3600")
	c.head(longer).is(200).header("Stream-TTL", "99999")
	c.head(date).is(200).with("Stream-Expires-At").without("Stream-TTL")
	c.gone(shorter, 404)
	for _, p := range []string{s, none, longer, date} {
		c.get(p, fromStart).is(200).body("x")
	}
}
