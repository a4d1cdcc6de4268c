package conformance

import (
	"strings"
)

func browserTests() []test {
	return []test{
		{"B24 every protocol header is exposed to browsers", corsExposed},
		{"a preflight names every method and header of the protocol", corsPreflight},
		{"B26 only allowed origins are answered", corsAllowList},
		{"every answer has the security headers", securityHeaders},
		{"OPTIONS without a preflight", plainOptions},
	}
}

// origin is one that the server allows.
func (c *client) origin() string {
	if len(c.AllowedOrigins) > 0 {
		return c.AllowedOrigins[0]
	}
	return "https://x.example"
}

func (r *reply) lists(name string, wants ...string) *reply {
	r.c.Helper()
	have := map[string]bool{}
	for _, v := range strings.Split(strings.Join(r.Header.Values(name), ","), ",") {
		have[strings.ToLower(strings.TrimSpace(v))] = true
	}
	for _, want := range wants {
		if !have[strings.ToLower(want)] {
			r.c.Errorf("%s: %s does not name %s: %q", r.what, name, want, r.Header.Values(name))
		}
	}
	return r
}

func (r *reply) allows(origin string) *reply {
	r.c.Helper()
	got := r.Header.Values("Access-Control-Allow-Origin")
	if len(got) != 1 || got[0] != origin && (got[0] != "*" || len(r.c.AllowedOrigins) > 0) {
		r.c.Errorf("%s: Access-Control-Allow-Origin %q for %s", r.what, got, origin)
	}
	if len(got) == 1 && got[0] != "*" {
		r.lists("Vary", "Origin")
	}
	return r
}

func corsExposed(c *client) {
	origin := []string{"Origin", c.origin()}
	exposed := []string{
		"Stream-Next-Offset", "Stream-Cursor", "Stream-Up-To-Date", "Stream-Closed", "Stream-TTL", "Stream-Expires-At", "Stream-SSE-Data-Encoding",
		"Producer-Epoch", "Producer-Seq", "Producer-Expected-Seq", "Producer-Received-Seq", "ETag", "Location", "Retry-After",
	}
	p := c.path("cors")
	for _, r := range []*reply{
		c.put(p, octet, "\x00\xff", origin...).is(201),
		c.put(p, octet, "", origin...).is(200),
		c.post(p, octet, "x", origin...).is(204),
		c.post(p, octet, "x", producer("p", 0, 0, origin...)...).is(200),
		c.get(p, fromStart, origin...).is(200),
		c.get(p, fromStart+longPoll, origin...).is(200),
		c.get(p, fromStart, append([]string{"If-None-Match", "*"}, origin...)...).is(304),
		c.head(p, origin...).is(200),
		c.get(p, "offset=bad", origin...).is(400),
		c.get(c.path("missing"), fromStart, origin...).is(404),
		c.post(p, text, "x", origin...).is(409),
		c.send("PATCH", p, "", "", origin...).is(405),
		c.delete(p, origin...).is(204),
	} {
		r.allows(c.origin()).lists("Access-Control-Expose-Headers", exposed...)
	}
	p = c.create("sse", octet, "\x00\xff")
	f := c.sse(p, fromStart, origin...)
	(&reply{c: c, what: "SSE", Header: f.Header}).allows(c.origin()).lists("Access-Control-Expose-Headers", exposed...)
}

func corsPreflight(c *client) {
	p := c.create("preflight", text, "")
	for _, path := range []string{p, c.path("missing")} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "HEAD"} {
			r := c.send("OPTIONS", path, "", "", "Origin", c.origin(), "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "content-type,producer-id").is(204).body("")
			r.allows(c.origin()).lists("Access-Control-Allow-Methods", "GET", "HEAD", "PUT", "POST", "DELETE")
			r.lists("Access-Control-Allow-Headers", "Content-Type", "Authorization", "If-None-Match", "Stream-TTL", "Stream-Expires-At", "Stream-Closed", "Stream-Seq",
				"Producer-Id", "Producer-Epoch", "Producer-Seq", "Stream-Forked-From", "Stream-Fork-Offset", "Stream-Fork-Sub-Offset")
		}
	}
	c.head(p).is(200)
}

func corsAllowList(c *client) {
	if len(c.AllowedOrigins) == 0 {
		c.Skip("the server allows any origin")
	}
	p := c.create("allow", text, "x")
	for _, evil := range []string{"https://evil.example", "null", c.origin() + ".evil.example", strings.TrimPrefix(c.origin(), "https://"), "https://evil.example/" + c.origin(), strings.ToUpper(c.origin()) + ":444"} {
		for _, r := range []*reply{
			c.get(p, fromStart, "Origin", evil).is(200),
			c.head(p, "Origin", evil).is(200),
			c.send("OPTIONS", p, "", "", "Origin", evil, "Access-Control-Request-Method", "PUT"),
			c.get(c.path("missing"), fromStart, "Origin", evil).is(404),
		} {
			r.without("Access-Control-Allow-Origin", "Access-Control-Allow-Credentials").lists("Vary", "Origin")
		}
	}
	for _, origin := range c.AllowedOrigins {
		c.get(p, fromStart, "Origin", origin).is(200).header("Access-Control-Allow-Origin", origin)
	}
	c.get(p, fromStart).is(200).lists("Vary", "Origin")
}

func securityHeaders(c *client) {
	p := c.path("security")
	check := func(r *reply) {
		c.Helper()
		r.header("X-Content-Type-Options", "nosniff").with("Cross-Origin-Resource-Policy")
	}
	check(c.put(p, "text/html", "<script>alert(1)</script>").is(201))
	check(c.put(p, "text/html", "").is(200))
	check(c.post(p, "text/html", "x").is(204))
	check(c.get(p, fromStart).is(200))
	check(c.get(p, fromNow).is(200))
	check(c.get(p, fromStart+longPoll).is(200))
	check(c.head(p).is(200))
	check(c.get(p, "offset=bad").is(400))
	check(c.get(c.path("missing"), fromStart).is(404))
	check(c.post(p, text, "x").is(409))
	check(c.send("PATCH", p, "", "").is(405))
	check(c.get(p, fromStart, "If-None-Match", "*").is(304))
	f := c.sse(p, fromStart)
	check(&reply{c: c, what: "SSE", Header: f.Header})
	check(c.delete(p).is(204))
	for _, r := range []*reply{c.get(c.path("<script>"), fromStart), c.get(p, "offset=<script>alert(1)</script>")} {
		if strings.Contains(r.Body, "<script>") && !strings.HasPrefix(r.Header.Get("Content-Type"), jsonType) {
			c.Errorf("an error echoes markup: %s", short(r.Body))
		}
	}
}

func plainOptions(c *client) {
	p := c.create("options", text, "")
	c.send("OPTIONS", p, "", "").is(204).body("").lists("Allow", "GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS")
	c.send("OPTIONS", c.path("missing"), "", "").is(204)
}
