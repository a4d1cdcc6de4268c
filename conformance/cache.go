package conformance

import (
	"compress/gzip"
	"io"
	"regexp"
	"strings"
)

func cacheTests() []test {
	return []test{
		{"every read but now has an ETag of what it holds", etags},
		{"B18 a close changes the ETag", etagClose},
		{"B20 If-None-Match: weak tags, lists and the star", ifNoneMatch},
		{"B21 compressed and plain answers do not share a strong ETag", etagEncoding},
		{"B22 B23 Cache-Control is explicit on every answer", cacheControl},
		{"N17 long-poll answers have an ETag that never hides data", etagLongPoll},
		{"N19 data may be kept for a while", cacheData},
	}
}

func etags(c *client) {
	p, q := c.create("one", text, "hello"), c.create("two", text, "hello")
	mid := c.head(p).tail()
	seen := map[string]string{}
	unique := func(what string, r *reply) string {
		c.Helper()
		tag := r.is(200).with("ETag").Header.Get("ETag")
		if !regexp.MustCompile(`^(W/)?"[\x21\x23-\x7e]+"$`).MatchString(tag) {
			c.Errorf("%s: ETag %s is not well formed", what, tag)
		}
		if before, ok := seen[tag]; ok {
			c.Errorf("%s and %s share the ETag %s", before, what, tag)
		}
		seen[tag] = what
		return tag
	}
	tag := unique("start", c.get(p, fromStart))
	unique("another stream", c.get(q, fromStart))
	unique("the empty end", c.get(p, from(mid)))
	c.get(p, fromStart).is(200).header("ETag", tag)
	c.add(p, text, "more")
	unique("after an append", c.get(p, fromStart))
	unique("the append alone", c.get(p, from(mid)))
	c.closes(p)
	unique("after the close", c.get(p, fromStart))
	c.get(p, fromNow).is(200).without("ETag")
}

func etagClose(c *client) {
	for _, how := range []string{"empty", "append"} {
		p := c.create("close", text, "x")
		e := c.get(p, fromStart).Header.Get("ETag")
		c.get(p, fromStart, "If-None-Match", e).is(304)
		want := "x"
		if how == "empty" {
			c.closes(p)
		} else {
			c.post(p, text, "y", closing()...).is(204)
			want = "xy"
		}
		r := c.get(p, fromStart, "If-None-Match", e).is(200).body(want).header("Stream-Closed", "true")
		if r.Header.Get("ETag") == e {
			c.Errorf("the close left the ETag %s as it was", e)
		}
		c.get(p, fromStart, "If-None-Match", r.Header.Get("ETag")).is(304)
	}
	// The empty read at the tail too.
	p := c.create("tail", text, "x")
	tail := c.head(p).tail()
	e := c.get(p, from(tail)).Header.Get("ETag")
	c.closes(p)
	c.get(p, from(tail), "If-None-Match", e).is(200).header("Stream-Closed", "true")
}

func ifNoneMatch(c *client) {
	p := c.create("match", text, "x")
	e := c.get(p, fromStart).Header.Get("ETag")
	strong := strings.TrimPrefix(e, "W/")
	for _, value := range []string{e, "W/" + strong, strong, `"zzz", ` + e, e + `, "zzz"`, `"a",` + strong + `,"b"`, "*", `W/"x" ,W/` + strong, `"a,b", ` + strong} {
		r := c.get(p, fromStart, "If-None-Match", value).is(304).body("").header("ETag", e).with("Cache-Control")
		r.without("Content-Encoding")
	}
	c.get(p, fromStart, "If-None-Match", `"zzz"`, "If-None-Match", e).is(304)
	for _, value := range []string{`"zzz"`, `W/"zzz"`, strings.Trim(strong, `"`), `"` + strong + `"`, "", `"", "*"`, strings.ToUpper(strong) + "x"} {
		c.get(p, fromStart, "If-None-Match", value).is(200).body("x").header("ETag", e)
	}
	c.add(p, text, "y")
	c.get(p, fromStart, "If-None-Match", e).is(200).body("xy")
	c.get(p, fromStart, "If-None-Match", "*").is(304)
	c.get(c.path("missing"), fromStart, "If-None-Match", "*").refused(404)
	c.get(p, fromNow, "If-None-Match", e).is(200)
}

func etagEncoding(c *client) {
	body := strings.Repeat("a", 4096)
	p := c.create("encoding", text, body)
	plain := c.get(p, fromStart).is(200).body(body).without("Content-Encoding")
	for _, accept := range []string{"gzip", "gzip, deflate, br", "br;q=1, gzip;q=0.5", "*", "identity", "gzip;q=0", "identity;q=0, gzip"} {
		r := c.get(p, fromStart, "Accept-Encoding", accept).is(200)
		switch r.Header.Get("Content-Encoding") {
		case "":
			r.body(body).header("ETag", plain.Header.Get("ETag"))
			continue
		case "gzip":
			z, err := gzip.NewReader(strings.NewReader(r.Body))
			if err != nil {
				c.Fatal(err)
			}
			if got, err := io.ReadAll(z); err != nil || string(got) != body {
				c.Errorf("%s: %d bytes, %v", accept, len(got), err)
			}
		}
		if accept == "gzip;q=0" || accept == "identity" {
			c.Errorf("Accept-Encoding %s answered with %s", accept, r.Header.Get("Content-Encoding"))
		}
		if r.Header.Get("ETag") == plain.Header.Get("ETag") && !strings.HasPrefix(r.Header.Get("ETag"), "W/") {
			c.Errorf("plain and %s share the strong ETag %s", r.Header.Get("Content-Encoding"), r.Header.Get("ETag"))
		}
		for _, r := range []*reply{r, plain} {
			if !strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Vary"), ",")), "accept-encoding") {
				c.Errorf("Vary is %q, although compression depends on Accept-Encoding", r.Header.Values("Vary"))
			}
		}
	}
}

func cacheControl(c *client) {
	p := c.path("cache")
	noStore := func(r *reply) {
		c.Helper()
		r.header("Cache-Control", "no-store")
	}
	c.put(p, text, "x").is(201).with("Cache-Control")
	c.put(p, text, "x").is(200).with("Cache-Control")
	c.post(p, text, "y").is(204).with("Cache-Control")
	c.post(p, text, "y", producer("p", 0, 0)...).is(200).with("Cache-Control")
	tail := c.head(p).tail()
	noStore(c.head(p).is(200))
	noStore(c.get(p, fromNow).is(200))
	c.get(p, fromStart).is(200).with("Cache-Control")
	c.get(p, from(tail)).is(200).with("Cache-Control")
	noStore(c.get(p, "offset=bad").is(400))
	noStore(c.get(c.path("missing"), fromStart).is(404))
	noStore(c.put(p, jsonType, "").is(409))
	noStore(c.post(p, text, "no", producer("p", 0, 9)...).is(409))
	noStore(c.send("PATCH", p, "", "x").is(405))
	if c.LongPollTimeout <= patience {
		noStore(c.get(p, from(tail)+longPoll).is(204))
	}
	fork := c.path("fork")
	c.put(fork, text, "", "Stream-Forked-From", c.full(p)).is(201)
	c.delete(p).is(204).with("Cache-Control")
	noStore(c.get(p, fromStart).is(410))
	noStore(c.head(p).is(410))
	closed := c.create("closed", text, "", closing()...)
	noStore(c.get(closed, fromNow+longPoll).is(204))
}

func etagLongPoll(c *client) {
	p := c.create("poll", text, "x")
	first := c.get(p, fromStart+longPoll).is(200).body("x").with("ETag")
	e := first.Header.Get("ETag")
	c.get(p, fromStart+longPoll, "If-None-Match", e).is(200, 304)
	c.add(p, text, "y")
	c.get(p, fromStart+longPoll, "If-None-Match", e).is(200).body("xy")
	tail := c.head(p).tail()
	atTail := c.get(p, from(tail)).Header.Get("ETag")
	wait := c.later(func() *reply { return c.get(p, from(tail)+longPoll, "If-None-Match", atTail) })
	c.add(p, text, "z")
	if r := wait().is(200, 204); r.Status == 200 {
		r.body("z").with("ETag")
	}
	c.get(p, from(tail)+longPoll, "If-None-Match", atTail).is(200).body("z")
}

func cacheData(c *client) {
	p := c.create("data", text, "x")
	mid := c.head(p).tail()
	c.add(p, text, "y")
	check := func(r *reply) {
		c.Helper()
		value := r.is(200).Header.Get("Cache-Control")
		if !strings.Contains(value, "public") && !strings.Contains(value, "private") && !strings.Contains(value, "no-cache") {
			c.Errorf("Cache-Control %q says neither public nor private", value)
		}
	}
	check(c.get(p, fromStart))
	check(c.get(p, from(mid)))
	c.closes(p)
	r := c.get(p, fromStart).is(200)
	if value := r.Header.Get("Cache-Control"); !strings.Contains(value, "max-age=") || strings.Contains(value, "no-store") {
		c.Errorf("data that never changes has Cache-Control %q", value)
	}
}
