package conformance

import (
	"fmt"
	"net/http"
	"strings"
)

func oddHeads(c *client) {
	p := c.create("heads", text, "x")
	for _, line := range []string{
		"X: a\x00b", "X: a\x01", "X: a\x1b[31m", "X: a\x7f", "X: a\x08", "X\x00: a", "X\x7f: a", "X\xff: a", "X(: a", "X Y: a", ": a", "X", "\x00", "X: a\rY: b",
	} {
		c.refusedAndClosed("GET", fmt.Sprintf("%q", line), c.rawHead("GET", p, line))
	}
	for _, line := range []string{"X: caf\xe9", "X: \xf0\x9f\x98\x80", "X:", "X:\ta\tb\t", "X-!#$%&'*+.^_`|~0: y"} {
		c.dial().exchange("GET", c.rawHead("GET", p, line)).is(200).body("x")
	}
	for _, first := range []string{"GET %s HTTP/1.1\x00", "GET %s\x00 HTTP/1.1", "GET %s HTTP/1.1 ", "GET\t%s\tHTTP/1.1", "GET %s HTTP/1.10", "GET %s HTTP/01.1", "GET %s http/1.1", "\x00GET %s HTTP/1.1", "GET %s\x7f HTTP/1.1", "GET %s HTTP/1.1\rX: y", "G\x00T %s HTTP/1.1"} {
		c.refusedAndClosed("GET", fmt.Sprintf("%q", first), fmt.Sprintf(first, c.full(p))+"\r\nHost: x\r\n\r\n")
	}
}

func manyFields(c *client) {
	p := c.create("fields", text, "x")
	var few, distinct, same strings.Builder
	for i := range 5000 {
		line := fmt.Sprintf("X-%d: y\r\n", i)
		if i < 100 {
			few.WriteString(line)
		}
		distinct.WriteString(line)
		same.WriteString("A:b\r\n")
	}
	c.dial().exchange("GET", c.rawHead("GET", p, strings.TrimSuffix(few.String(), "\r\n"))).is(200).body("x")
	for _, lines := range []string{distinct.String(), same.String(), same.String()[:5*300]} {
		c.dial().exchange("GET", c.rawHead("GET", p, strings.TrimSuffix(lines, "\r\n"))).is(431, 400, 200)
	}
	if c.LooseErrors {
		return
	}
	// Each field costs more than its bytes, in whoever keeps the head of a live read.
	for _, query := range []string{"", "?offset=now&live=sse", "?offset=now&live=long-poll"} {
		c.dial().exchange("GET", c.rawTarget("GET", c.full(p)+query, strings.TrimSuffix(same.String()[:5*300], "\r\n"))).refused(431)
	}
}

func oddTargets(c *client) {
	p := c.create("targets", text, "x")
	k := c.dial()
	for _, n := range []int{2 << 10, 16 << 10} {
		k.exchange("GET", c.rawHead("GET", p+strings.Repeat("y", n))).is(400, 404, 414)
		k.exchange("GET", c.rawHead("GET", strings.Repeat("a/", n/2)+"b")).is(400, 404, 414)
		k.exchange("GET", c.rawHead("GET", strings.Repeat("%2e%2e%2f", n/9)+"b")).is(400, 404, 414)
		k.exchange("GET", c.rawTarget("GET", c.full(p)+"?offset=-1&x="+strings.Repeat("y", n))).is(200, 400, 414)
		k.exchange("GET", c.rawTarget("GET", c.full(p)+"?offset=-1"+strings.Repeat("&x", n/2))).is(200, 400, 414)
		k.exchange("GET", c.rawTarget("GET", c.full(p)+"?offset="+strings.Repeat("9", n))).is(400, 414)
		k.exchange("GET", c.rawTarget("GET", c.full(p)+"?offset=-1&live=sse&cursor="+strings.Repeat("9", n)+"&live=x")).is(400, 414)
	}
	for _, target := range []string{
		"http://evil.example" + c.full(p), "HTTP://evil.example" + c.full(p), "http://evil.example:1" + c.full(p), "https://evil.example" + c.full(p), "http://user:word@evil.example" + c.full(p),
		"http://evil.example", "http://evil.example?x", "//evil.example" + c.full(p), "http:" + c.full(p), "x:y", "*", "evil.example:80", "http://[::1" + c.full(p), "http://evil.example:x" + c.full(p), "\\evil" + c.full(p), "",
	} {
		k := c.dial()
		r := k.exchange("GET", "GET "+target+" HTTP/1.1\r\nHost: "+c.host+"\r\nConnection: close\r\n\r\n")
		if r.Err != nil {
			continue
		}
		if r.Status >= 300 && r.Status < 400 || r.Status >= 500 && r.Status != 501 {
			c.Errorf("target %q: status %d", target, r.Status)
		}
		if r.Status == 200 {
			r.body("x") // this server's stream, whoever is named
		}
	}
	for _, name := range []string{"%0d%0aX-Split:%20y", "%00", "%1b%5b31m", "%e2%80%ae", "a;b=c", "%3cscript%3e"} {
		q := c.path("enc") + name
		r := c.dial().exchange("PUT", c.rawHead("PUT", q, plainType(text), "Content-Length: 0")).is(201, 400)
		r.without("X-Split")
		if l := r.Header.Get("Location"); r.Status == 201 && !strings.HasSuffix(l, q) {
			c.Errorf("Location %q of %q", l, q)
		}
	}
}

func oddHosts(c *client) {
	for _, host := range []string{"a b", "a\x00", "a\"><script>", "a/b", "a?b", "a#b", "a\\b", "é", "a\r\n b", "a\tb", "<", "a@b/c"} {
		p := c.path("host")
		k := c.dial()
		r := k.exchange("PUT", "PUT "+c.full(p)+" HTTP/1.1\r\nHost: "+host+"\r\n"+plainType(text)+"\r\nContent-Length: 0\r\n\r\n")
		if r.Err != nil {
			continue
		}
		if r.is(201, 400); r.Status == 201 && strings.ContainsAny(r.Header.Get("Location"), " \"<>\\\x00\t") {
			c.Errorf("Host %q gives Location %q", host, r.Header.Get("Location"))
		}
	}
	for _, head := range []string{"", "Host: a\r\nHost: a\r\n", "Host: a\r\nhost: b\r\n"} {
		c.refusedAndClosed("GET", head, "GET "+c.full(c.path("x"))+" HTTP/1.1\r\n"+head+"\r\n")
	}
}

// noSplitting: what one client has stored and all the others get in their heads.
func noSplitting(c *client) {
	for _, line := range []string{
		"Content-Type: text/plain\rX-Split: y", "Content-Type: text/plain\nX-Split: y", "Content-Type: text/plain\r\n X-Split: y", "Content-Type: text/plain; a=\"b\r\n\tX-Split: y\"",
		"Content-Type: text/plain; a=\"b\nX-Split: y\"", "Content-Type: text/plain\x00X-Split: y", "Content-Type: text/plain\x0b", "Content-Type: text/plain; a=\"\\\rX-Split: y\"",
		"Content-Type: text/plain;\xe5\x98\x8a\xe5\x98\x8dX-Split: y", "Content-Type: text/plain; a=\"%0d%0aX-Split: y\"", "Content-Type: text/plain; a=\"\\\\r\\\\nX-Split: y\"",
		"Stream-Expires-At: 2999-01-01T00:00:00Z\rX-Split: y", "Stream-Expires-At: 2999-01-01T00:00:00Z\nX-Split: y", "Stream-Expires-At: 2999-01-01T00:00:00Z\r\n X-Split: y",
	} {
		p := c.path("split")
		lines := []string{line, "Content-Length: 1"}
		if !strings.HasPrefix(line, "Content-Type") {
			lines = append(lines, plainType(text))
		}
		k := c.dial()
		r := k.exchange("PUT", c.rawHead("PUT", p, lines...)+"x")
		k.Close()
		if r.Err != nil || r.Status != 201 {
			if r.Err == nil {
				r.is(400)
			}
			c.head(p).is(404)
			continue
		}
		answers := []*reply{r, c.head(p).is(200), c.get(p, fromStart).is(200), c.get(p, fromStart+longPoll).is(200), c.send(http.MethodPut, p, "", "", "Content-Type", r.Header.Get("Content-Type")).is(200, 409)}
		for _, a := range answers {
			a.without("X-Split")
			for name, values := range a.Header {
				if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
					c.Errorf("%q: %s is %q", line, name, values)
				}
			}
		}
	}
}

func manyMessages(c *client) {
	p := c.create("many", jsonType, "")
	const count = 500_000
	c.post(p, jsonType, "["+strings.Repeat("1,", count-1)+"1]").is(204)
	n := 0
	c.pages(p, func(r *reply) { n += strings.Count(r.Body, "1") })
	if n != count {
		c.Errorf("%d messages, want %d", n, count)
	}
	q := c.create("wide", jsonType, "")
	c.post(q, jsonType, "{"+strings.Repeat(`"a":0,`, count-1)+`"a":0}`).is(204, 400)
	c.post(q, jsonType, "["+strings.Repeat("[],", count-1)+"[]]").is(204)
}
