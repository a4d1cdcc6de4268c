package conformance

import (
	"net/http"
	"time"
)

func ttlTests() []test {
	return append([]test{
		{"a window ends without use", ttlEnds},
		{"reads and appends renew a window, HEAD does not", ttlRenewal},
		{"every kind of append renews a window", ttlAppends},
		{"N55 live reads renew the window when they start", ttlLiveStart},
		{"B80 a stream with a live reader does not expire", ttlLiveHeld},
		{"a deadline comes whatever is done", deadlineComes},
		{"N57 dates are instants, however they are written", dateSpellings},
		{"an expired stream ends and frees its path", expiredPath},
		{"a stream that is gone stays gone", goneForGood},
	}, keepAliveTests()...)
}

// gone waits until a stream is gone without touching it by anything but HEAD,
// which renews nothing.
func (c *client) gone(path string, statuses ...int) {
	c.Helper()
	end := time.Now().Add(patience)
	for {
		r := c.send(http.MethodHead, path, "", "")
		if r.Err != nil || r.Status != 200 {
			r.is(statuses...)
			c.get(path, fromStart).refused(statuses...)
			return
		}
		if time.Now().After(end) {
			c.Fatalf("%s lives on after its time", path)
		}
		c.pause(100 * time.Millisecond)
	}
}

func ttlEnds(c *client) {
	begin := time.Now()
	p := c.create("ends", text, "x", "Stream-TTL", "1")
	c.head(p).is(200)
	c.gone(p, 404)
	if lived := time.Since(begin); lived < 950*time.Millisecond || lived > 4*time.Second {
		c.Errorf("a TTL of 1 s lasted %s", lived)
	}
	c.post(p, text, "x").refused(404)
	c.delete(p).refused(404)
}

func ttlRenewal(c *client) {
	read := c.create("read", text, "x", "Stream-TTL", "3")
	now := c.create("now", text, "x", "Stream-TTL", "3")
	append_ := c.create("append", text, "x", "Stream-TTL", "3")
	headed := c.create("headed", text, "x", "Stream-TTL", "3")
	conditional := c.create("conditional", text, "x", "Stream-TTL", "3")
	tag := c.get(conditional, fromStart).Header.Get("ETag")
	for range 3 {
		c.pause(1800 * time.Millisecond)
		c.get(read, fromStart).is(200)
		c.get(now, fromNow).is(200)
		c.add(append_, text, "y")
		c.get(conditional, fromStart, "If-None-Match", tag).is(304)
		c.head(headed).is(200, 404)
	}
	c.head(headed).is(404)
	for _, p := range []string{read, now, append_, conditional} {
		c.head(p).is(200)
	}
	c.gone(read, 404)
}

func ttlAppends(c *client) {
	steps := []func(p string, i int64){
		func(p string, i int64) { c.post(p, text, "y", producer("p", 0, i)...).is(200) },
		func(p string, i int64) { c.post(p, text, "y", "Stream-Seq", string(rune('a'+i))).is(204) },
		func(p string, i int64) { c.post(p, "", "", closing()...).is(204) },
		func(p string, i int64) { c.post(p, "", "", closing(producer("p", 0, 0)...)...).is(204) },
	}
	paths := make([]string, len(steps))
	for i := range paths {
		paths[i] = c.create("appends", text, "x", "Stream-TTL", "3")
	}
	for i := range int64(2) {
		c.pause(1900 * time.Millisecond)
		for j, step := range steps {
			if i == 0 || j < 2 {
				step(paths[j], i)
			}
		}
	}
	for _, p := range paths {
		c.head(p).is(200)
	}
}

func ttlLiveStart(c *client) {
	poll := c.create("poll", text, "x", "Stream-TTL", "3")
	live := c.create("sse", text, "x", "Stream-TTL", "3")
	idle := c.create("idle", text, "x", "Stream-TTL", "3")
	c.pause(1800 * time.Millisecond)
	c.get(poll, fromStart+longPoll).is(200)
	f := c.sse(live, fromStart)
	f.pair()
	f.cancel()
	c.pause(1800 * time.Millisecond)
	c.head(poll).is(200)
	c.head(live).is(200)
	c.head(idle).is(404)
	c.gone(poll, 404)
	c.gone(live, 404)
}

func ttlLiveHeld(c *client) {
	p := c.create("held", text, "x", "Stream-TTL", "2")
	f := c.sse(p, fromStart)
	f.until("x", plain)
	polled := c.create("polled", text, "x", "Stream-TTL", "2")
	end := time.Now().Add(5 * time.Second)
	for time.Now().Before(end) {
		c.get(polled, fromNow+longPoll).is(204, 200)
		if c.LongPollTimeout < 100*time.Millisecond {
			c.pause(100 * time.Millisecond)
		}
	}
	c.head(p).is(200)
	c.head(polled).is(200)
	c.post(p, text, "late").is(204)
	f.until("late", plain)
	f.cancel()
	c.gone(p, 404)
}

func deadlineComes(c *client) {
	p := c.create("deadline", text, "x", deadline(2*time.Second)...)
	f := c.sse(p, fromStart)
	f.until("x", plain)
	for range 3 {
		c.get(p, fromStart).is(200)
		c.add(p, text, "y")
		c.pause(400 * time.Millisecond)
	}
	c.gone(p, 404)
	for _, e := range f.ends(patience) {
		if e.control.StreamClosed {
			c.Errorf("an expired stream calls itself closed")
		}
	}
}

func dateSpellings(c *client) {
	instant := time.Now().Add(3 * time.Second)
	zone := func(hours float64) *time.Location { return time.FixedZone("", int(hours*3600)) }
	var paths []string
	for _, layout := range []string{"2006-01-02T15:04:05.000Z07:00", "2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.0Z07:00"} {
		for _, loc := range []*time.Location{time.UTC, zone(5.5), zone(-8), zone(14), zone(-0.25)} {
			p := c.create("spelling", text, "x", "Stream-Expires-At", instant.In(loc).Format(layout))
			paths = append(paths, p)
		}
	}
	if time.Now().Before(instant.Add(-time.Second)) {
		for _, p := range paths {
			c.head(p).is(200)
		}
	}
	c.pause(time.Until(instant.Add(time.Second)))
	for _, p := range paths {
		c.gone(p, 404)
	}
	for _, far := range []string{"2099-12-31T23:59:59Z", "2099-12-31T23:59:59-00:00", "2096-02-29T00:00:00+14:00", "9999-12-31T23:59:59.999999999Z"} {
		p := c.create("far", text, "x", "Stream-Expires-At", far)
		c.get(p, fromStart).is(200).body("x")
	}
}

func expiredPath(c *client) {
	p := c.create("path", text, "old", "Stream-TTL", "1")
	old := c.head(p).tail()
	wait := c.later(func() *reply { return c.get(p, fromStart) })
	wait().is(200)
	c.gone(p, 404)
	c.put(p, jsonType, `["new"]`).is(201)
	c.same("messages", c.messages(p), []string{`"new"`})
	c.get(p, from(old)).refused(400, 410)
	c.head(p).is(200).without("Stream-TTL")
}

// goneForGood looks closely at the moment when the server cleans an expired
// stream up.
func goneForGood(c *client) {
	const streams = 100
	paths := make([]string, streams)
	for i := range paths {
		life := []string{"Stream-TTL", "1"}
		if i%4 == 3 {
			life = deadline(time.Second)
		}
		paths[i] = c.create("gone", text, "x", life...)
	}
	c.pause(700 * time.Millisecond)
	for i, r := range c.parallel(streams, func(i int) *reply {
		for {
			r := c.head(paths[i])
			if r.Err != nil || r.Status != 200 || c.Context().Err() != nil {
				break
			}
			c.pause(time.Millisecond)
		}
		for range 30 {
			if r := c.get(paths[i], fromStart); r.Status != 404 {
				return r
			}
		}
		return c.post(paths[i], text, "late")
	}) {
		if r.Status != 404 {
			c.Errorf("stream %d was gone and then answered: %s, status %d, %s", i, r.what, r.Status, short(r.Body))
		}
	}
}
