package conformance

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

func createTests() []test {
	return []test{
		{"N33 a repeated PUT answers 200 with the current state and ignores its body", repeatedPut},
		{"same configuration is 200, any other 409", sameConfiguration},
		{"B52 content types are echoed byte for byte and compared by type alone", contentTypes},
		{"nonsense content types are refused and leave nothing", nonsenseTypes},
		{"TTL grammar: digits only", ttlGrammar},
		{"B78 huge TTLs do not overflow", hugeTTL},
		{"B79 N53 a life that is over at birth leaves a usable path", goneAtBirth},
		{"B83 impossible dates are refused", impossibleDates},
		{"TTL and expiry together are refused", bothLifetimes},
		{"B65 Location leads to the stream", locations},
		{"a stream may be closed from birth", closedFromBirth},
		{"a first body is the stream's first data", firstBody},
		{"HEAD shows the lifetime as it was given", lifetimeMetadata},
		{"a deleted path may be used again", createAfterDelete},
		{"fork details without a fork are refused", forkDetailsAlone},
	}
}

func repeatedPut(c *client) {
	p := c.path("a")
	first := c.put(p, text, "one").is(201).header("Content-Type", text).with("Location").without("Stream-Closed")
	again := c.put(p, text, "two").is(200).header("Content-Type", text).header("Stream-Next-Offset", first.tail()).without("Location", "Stream-Closed")
	again.body("")
	tail := c.add(p, text, "!")
	c.put(p, text, "").is(200).header("Stream-Next-Offset", tail)
	c.closes(p)
	c.put(p, text, "three", closing()...).is(200).header("Stream-Closed", "true").header("Stream-Next-Offset", tail)
	c.get(p, fromStart).is(200).body("one!")
}

func sameConfiguration(c *client) {
	const date = "2099-06-01T12:00:00Z"
	ttl := func(v string) []string { return []string{"Stream-TTL", v} }
	until := func(v string) []string { return []string{"Stream-Expires-At", v} }
	tests := []struct {
		name          string
		type1, type2  string
		first, second []string
		want          int
	}{
		{"case of the type", "text/plain", "TEXT/Plain", nil, nil, 200},
		{"parameter added", "text/plain", "text/plain; charset=utf-8", nil, nil, 200},
		{"other parameter", "text/plain;charset=utf-8", `text/plain; charset="latin1"`, nil, nil, 200},
		{"other subtype", "text/plain", "text/html", nil, nil, 409},
		{"JSON and its kin", "application/json", "application/vnd.api+json", nil, nil, 409},
		{"same TTL", text, text, ttl("60"), ttl("60"), 200},
		{"other TTL", text, text, ttl("60"), ttl("61"), 409},
		{"TTL dropped", text, text, ttl("60"), nil, 409},
		{"TTL added", text, text, nil, ttl("60"), 409},
		{"same date", text, text, until(date), until(date), 200},
		{"same instant in another zone", text, text, until(date), until("2099-06-01T14:30:00+02:30"), 200},
		{"same instant with a fraction", text, text, until(date), until("2099-06-01T12:00:00.000Z"), 200},
		{"a second later", text, text, until(date), until("2099-06-01T12:00:01Z"), 409},
		{"date dropped", text, text, until(date), nil, 409},
		{"date instead of TTL", text, text, ttl("60"), until(date), 409},
		{"closed twice", text, text, closing(), []string{"Stream-Closed", "TRUE"}, 200},
		{"open again", text, text, closing(), nil, 409},
		{"open again by false", text, text, closing(), []string{"Stream-Closed", "false"}, 409},
		{"closed afterwards", text, text, nil, closing(), 409},
	}
	for _, tt := range tests {
		c.sub(tt.name, func(c *client) {
			p := c.path("same")
			before := c.put(p, tt.type1, "1", tt.first...).is(201)
			second := c.put(p, tt.type2, "2", tt.second...).is(tt.want)
			if tt.want == 200 {
				second.header("Content-Type", tt.type1)
			} else {
				second.refused(409)
			}
			c.head(p).is(200).header("Stream-Next-Offset", before.tail()).header("Content-Type", tt.type1)
		})
	}
}

func contentTypes(c *client) {
	for _, ctype := range []string{
		"text/plain", "TEXT/Plain", "text/plain; charset=UTF-8", `text/plain;charset="utf-8"`, "text/html",
		"application/json", "application/json ; charset=utf-8", "Application/JSON;q=1", "application/vnd.api+json",
		"application/octet-stream", "image/png", `multipart/mixed; boundary="a;b"`,
	} {
		c.sub(ctype, func(c *client) {
			p := c.path("type")
			c.put(p, ctype, "").is(201).header("Content-Type", ctype)
			c.put(p, ctype, "").is(200).header("Content-Type", ctype)
			c.post(p, ctype, `[1]`).is(204)
			c.head(p).is(200).header("Content-Type", ctype)
			r := c.get(p, fromStart).is(200).header("Content-Type", ctype)
			bare, _, _ := strings.Cut(ctype, ";")
			bare = strings.TrimSpace(bare)
			c.post(p, bare, `[2]`).is(204)
			c.post(p, strings.ToUpper(bare)+"; x=y", `[3]`).is(204)
			if strings.EqualFold(bare, jsonType) {
				c.same("messages", r.messages(), []string{"1"})
				c.same("messages", c.messages(p), []string{"1", "2", "3"})
			} else {
				r.body("[1]")
				c.get(p, fromStart).is(200).body("[1][2][3]")
			}
		})
	}
}

func nonsenseTypes(c *client) {
	for _, ctype := range []string{"x", "text", "/plain", "text/", "/", "text plain", "text/pl ain", "text//plain", "text/plain/x", "; charset=utf-8", "te(xt/plain", "text/pla,in"} {
		c.sub(ctype, func(c *client) {
			p := c.path("nonsense")
			c.put(p, ctype, "x").refused(400)
			c.get(p, fromStart).refused(404)
		})
	}
}

func ttlGrammar(c *client) {
	for _, ttl := range []string{"-1", "+1", "01", "00", "1.0", "1.", "1e3", "0x10", "abc", "1s", "1 000", "1_000", "1,5", "", "∞", "١"} {
		c.sub(ttl, func(c *client) {
			p := c.path("ttl")
			c.put(p, text, "x", "Stream-TTL", ttl).refused(400)
			c.head(p).is(404)
		})
	}
}

func hugeTTL(c *client) {
	for _, ttl := range []string{"9223372036", "9223372037", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "1" + strings.Repeat("0", 40)} {
		c.sub(ttl, func(c *client) {
			p := c.path("huge")
			r := c.put(p, text, "x", "Stream-TTL", ttl).is(201, 400)
			if r.Status == 400 {
				c.get(p, fromStart).refused(404)
				return
			}
			c.get(p, fromStart).is(200).body("x")
			c.post(p, text, "y").is(204)
			c.put(p, text, "", "Stream-TTL", ttl).is(200)
			if got := c.head(p).is(200).Header.Get("Stream-TTL"); len(got) < len("4000000000") || strings.Trim(got, "0123456789") != "" {
				c.Errorf("a TTL of %s is shown as %q", ttl, got)
			}
		})
	}
}

func goneAtBirth(c *client) {
	past := func(d time.Duration) []string {
		return []string{"Stream-Expires-At", time.Now().Add(-d).UTC().Format(time.RFC3339)}
	}
	tests := []struct {
		name   string
		life   []string
		ctype  string
		body   string
		status []int
	}{
		{"TTL 0", []string{"Stream-TTL", "0"}, text, "", []int{201}},
		{"TTL 0 with a body", []string{"Stream-TTL", "0"}, text, "x", []int{201}},
		{"TTL 0, JSON", []string{"Stream-TTL", "0"}, jsonType, "[1]", []int{201}},
		{"TTL 0, closed", closing("Stream-TTL", "0"), text, "x", []int{201}},
		{"a minute ago", past(time.Minute), text, "x", []int{201, 400}},
		{"long ago", []string{"Stream-Expires-At", "1970-01-01T00:00:00Z"}, text, "", []int{201, 400}},
		{"before the epoch", []string{"Stream-Expires-At", "0001-01-01T00:00:00Z"}, text, "x", []int{201, 400}},
	}
	for _, tt := range tests {
		c.sub(tt.name, func(c *client) {
			p := c.path("gone")
			c.put(p, tt.ctype, tt.body, tt.life...).is(tt.status...)
			c.get(p, fromStart).refused(404)
			c.head(p).is(404)
			c.post(p, tt.ctype, "[1]").refused(404)
			c.delete(p).refused(404)
			c.put(p, text, "new").is(201)
			c.get(p, fromStart).is(200).body("new")
		})
	}
}

func impossibleDates(c *client) {
	for _, date := range []string{
		"2027-02-30T00:00:00Z", "2027-02-29T00:00:00Z", "2027-04-31T00:00:00Z", "2027-13-01T00:00:00Z", "2027-00-10T00:00:00Z",
		"2027-01-00T00:00:00Z", "2027-01-32T00:00:00Z", "2027-01-01T24:00:00Z", "2027-01-01T00:60:00Z", "2027-01-01T00:00:60Z",
		"2027-01-01T00:00:00+25:00", "2027-01-01T00:00:00+00:60", "2027-01-01T00:00:00", "2027-01-01", "2027-1-1T00:00:00Z", "27-01-01T00:00:00Z",
		"2027-01-01T00:00Z", "Fri, 01 Jan 2027 00:00:00 GMT", "1798761600", "tomorrow", "2027-01-01T00:00:00.Z", "2027-01-01T00:00:00Zx", "",
	} {
		c.sub(date, func(c *client) {
			p := c.path("date")
			c.put(p, text, "x", "Stream-Expires-At", date).refused(400)
			c.head(p).is(404)
		})
	}
}

func bothLifetimes(c *client) {
	p := c.path("both")
	c.put(p, text, "x", "Stream-TTL", "60", "Stream-Expires-At", "2099-01-01T00:00:00Z").refused(400)
	c.head(p).is(404)
	c.put(p, text, "x", "Stream-TTL", "60").is(201)
	c.put(p, text, "x", "Stream-TTL", "60", "Stream-Expires-At", "2099-01-01T00:00:00Z").refused(400)
	c.head(p).is(200).header("Stream-TTL", "60").without("Stream-Expires-At")
}

func locations(c *client) {
	for _, name := range []string{"plain", "deep/er/path", "a%3Fb", "a%20b", "a%23b", "a+b", "%C3%BC", "a%2Bb", "a%25b", "A-b_c~d.e", "a:b@c", "a;b=c,d", "%F0%9F%98%80"} {
		c.sub(name, func(c *client) {
			p := c.path("") + name
			r := c.put(p, text, name).is(201)
			location, err := url.Parse(r.Header.Get("Location"))
			if err != nil || !location.IsAbs() {
				c.Fatalf("Location %q is not absolute: %v", r.Header.Get("Location"), err)
			}
			if got := location.EscapedPath(); got != c.full(p) {
				c.Errorf("Location has the path %q, want %q as sent", got, c.full(p))
			}
			c.sendURL(http.MethodGet, location.String(), "").is(200).body(name)
		})
	}
	k := c.dial()
	p := c.path("host")
	r := k.exchange("PUT", strings.Replace(c.rawHead("PUT", p, "Content-Type: text/plain", "Content-Length: 0"), c.host, "streams.example:81", 1)).is(201)
	if got, want := r.Header.Get("Location"), strings.Replace(c.BaseURL, c.host, "streams.example:81", 1)+c.full(p); got != want {
		c.Errorf("Location %q, want %q by the host that the client used", got, want)
	}
}

func closedFromBirth(c *client) {
	for _, body := range []string{"", "all"} {
		p := c.path("closed")
		r := c.put(p, text, body, closing()...).is(201).header("Stream-Closed", "true")
		c.get(p, fromStart).is(200).body(body).header("Stream-Closed", "true").header("Stream-Up-To-Date", "true").header("Stream-Next-Offset", r.tail())
		c.head(p).is(200).header("Stream-Closed", "true")
		c.post(p, text, "more").refused(409).header("Stream-Closed", "true")
		c.post(p, "", "", closing()...).is(204).header("Stream-Next-Offset", r.tail())
	}
}

func firstBody(c *client) {
	p := c.create("bytes", octet, "\x00\xff\r\n")
	c.get(p, fromStart).is(200).body("\x00\xff\r\n")
	p = c.create("json", jsonType, ` [ {"a" : 1} , [2] ] `)
	c.same("messages", c.messages(p), []string{`{"a":1}`, "[2]"})
	p = c.create("empty array", jsonType, "[]")
	c.get(p, fromStart).is(200).header("Stream-Up-To-Date", "true").body("[]")
	p = c.path("bad")
	c.put(p, jsonType, "{bad").refused(400)
	c.head(p).is(404)
	p = c.create("no type", "", "bytes")
	c.get(p, "").is(200).header("Content-Type", octet).body("bytes")
}

func lifetimeMetadata(c *client) {
	p := c.create("ttl", text, "", "Stream-TTL", "3600")
	c.pause(1100 * time.Millisecond)
	c.head(p).is(200).header("Stream-TTL", "3600").without("Stream-Expires-At")
	p = c.create("date", text, "", "Stream-Expires-At", "2099-06-01T14:00:00.5+02:00")
	r := c.head(p).is(200).without("Stream-TTL")
	got, err := time.Parse(time.RFC3339, r.Header.Get("Stream-Expires-At"))
	if err != nil || !got.Equal(time.Date(2099, 6, 1, 12, 0, 0, 5e8, time.UTC)) {
		c.Errorf("Stream-Expires-At %q (%v) is another instant", r.Header.Get("Stream-Expires-At"), err)
	}
	p = c.create("for ever", text, "")
	c.head(p).is(200).without("Stream-TTL", "Stream-Expires-At")
}

func createAfterDelete(c *client) {
	p := c.create("again", text, "old")
	old := c.get(p, fromStart).is(200)
	c.delete(p).is(204)
	c.get(p, fromStart).refused(404)
	c.head(p).is(404)
	c.post(p, text, "x").refused(404)
	c.delete(p).refused(404)
	c.put(p, jsonType, `["new"]`).is(201)
	c.same("messages", c.messages(p), []string{`"new"`})
	r := c.get(p, fromStart, "If-None-Match", old.Header.Get("ETag")).is(200)
	if r.Header.Get("ETag") == old.Header.Get("ETag") {
		c.Errorf("two incarnations share the ETag %s", old.Header.Get("ETag"))
	}
}

func forkDetailsAlone(c *client) {
	for _, h := range [][]string{{"Stream-Fork-Sub-Offset", "0"}, {"Stream-Fork-Sub-Offset", "1"}, {"Stream-Fork-Offset", "0000000000000000_0000000000000000"}} {
		p := c.path("alone")
		r := c.put(p, text, "", h...)
		if h[0] == "Stream-Fork-Sub-Offset" {
			r.refused(400)
			c.head(p).is(404)
		} else {
			r.is(201, 400)
		}
	}
}
