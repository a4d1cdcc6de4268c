//go:build linux

package fastpath_test

import (
	"fmt"
	"strings"
)

// chooser turns bytes into choices, so that a fuzzer's mutations mean something.
// When they are used up every choice is the first.
type chooser struct{ data []byte }

func (c *chooser) n(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % n
}

func (c *chooser) of(list ...string) string { return list[c.n(len(list))] }

// grammar writes random requests, plain and odd, to a few streams below a prefix.
type grammar struct {
	chooser
	prefix  string
	b       strings.Builder
	methods []string
}

func (g *grammar) path() string { return root + g.prefix + g.of("a", "b", "c") }

func (g *grammar) linef(format string, args ...any) { fmt.Fprintf(&g.b, format+"\r\n", args...) }

// request writes one request. Most are plain.
func (g *grammar) request() {
	switch k := g.n(20); {
	case k < 5:
		g.put()
	case k < 12:
		g.post()
	case k < 16:
		g.get()
	case k < 17:
		g.head("HEAD", g.path())
		g.end()
	case k < 18:
		g.head("DELETE", g.path())
		g.end()
	default:
		g.odd()
	}
}

// head begins a request.
func (g *grammar) head(method, target string) {
	g.methods = append(g.methods, method)
	g.linef("%s %s HTTP/1.1", method, target)
	g.linef("%s: %s", g.of("Host", "host", "HOST"), g.of("x", "ds.example:8642", "[::1]"))
	switch g.n(8) {
	case 1:
		g.linef("Origin: https://a.example")
	case 2:
		g.linef("Connection: keep-alive")
	case 3:
		g.linef("X-Long: %s", strings.Repeat("x", 1<<g.n(14)))
	}
}

func (g *grammar) end() { g.linef("") }

// body ends a request with a body.
func (g *grammar) body(b string) {
	switch g.n(12) {
	case 1:
		g.linef("Transfer-Encoding: chunked\r\n")
		if b != "" {
			g.linef("%x;e=1\r\n%s", len(b), b)
		}
		g.linef("0\r\n")
		return
	case 2:
		// net/http may or may not go on after refusing this: so it is the last.
		g.linef("Expect: 100-continue\r\nConnection: close")
	}
	g.linef("Content-Length: %d\r\n", len(b))
	g.b.WriteString(b)
}

func (g *grammar) someBody() string {
	return g.of("x", "", `{"a":1}`, `[1,2]`, `{bad`, "[]", "\xff\x00", strings.Repeat("y", 70_000), strings.Repeat("z", 300_000), strings.Repeat("w", 10_000))
}

func (g *grammar) contentType() {
	if v := g.of("text/plain", "application/json", "application/octet-stream", "TEXT/PLAIN; charset=utf-8", "nonsense", ""); v != "" {
		g.linef("Content-Type: %s", v)
	}
}

func (g *grammar) put() {
	g.head("PUT", g.path())
	g.contentType()
	switch g.n(8) {
	case 1:
		g.linef("Stream-TTL: %s", g.of("1000", "0", "01", "-1"))
	case 2:
		g.linef("Stream-Expires-At: %s", g.of("2999-01-01T00:00:00Z", "2001-01-01T00:00:00Z", "never"))
	case 3:
		g.linef("Stream-Closed: true")
	case 4, 5:
		g.linef("Stream-Forked-From: %s", g.path())
		if g.n(2) == 1 {
			g.linef("Stream-Fork-Offset: %s", g.of("-1", "now", "nonsense"))
			g.linef("Stream-Fork-Sub-Offset: %s", g.of("0", "1", "2", "x"))
		}
	}
	g.body(g.of("", "", g.someBody()))
}

func (g *grammar) post() {
	g.head("POST", g.path())
	g.contentType()
	switch g.n(8) {
	case 1, 2:
		g.linef("Producer-Id: %s\r\nProducer-Epoch: %d\r\nProducer-Seq: %d", g.of("p", "q", ""), g.n(3), g.n(3))
	case 3:
		g.linef("Stream-Seq: %d", g.n(4))
	case 4:
		g.linef("Stream-Closed: %s", g.of("true", "TRUE", "false"))
	}
	g.body(g.someBody())
}

func (g *grammar) get() {
	query := g.of("", "?offset=-1", "?offset=now", "?offset=nonsense", "?offset=0000000000000000_0000000000000000",
		"?offset=-1&live=long-poll", "?offset=now&live=long-poll", "?offset=-1&live=sse", "?live=sse", "?offset=-1&offset=now", "?x=%zz&offset=-1")
	g.head("GET", g.path()+query)
	if g.n(4) == 1 {
		g.linef("If-None-Match: %s", g.of("*", `"x"`))
	}
	g.end()
}

// odd writes what the fast path does not take.
func (g *grammar) odd() {
	switch g.n(12) {
	case 0:
		g.methods = append(g.methods, "GET")
		fmt.Fprintf(&g.b, "GET %s HTTP/1.1\nHost: x\n\n", g.path())
	case 1:
		g.head("OPTIONS", g.of("*", g.path()))
		g.end()
	case 2:
		g.head("GET", "http://y.example"+g.path())
		g.end()
	case 3:
		g.head("GET", g.path())
		g.linef("Connection: close\r\n")
	case 4:
		g.head("PATCH", g.path())
		g.linef("Content-Length: 2\r\n\r\nhi")
	case 5:
		g.head("GET", g.path())
		g.linef("X: a\r\n folded\r\n")
	case 6:
		g.head("POST", g.path())
		g.linef("Content-Length: 3\r\nContent-Length: %d\r\n\r\nabc", 3+g.n(2))
	case 7:
		g.head("GET", g.path())
		g.linef("Content-Length: 3\r\n\r\nabc")
	case 8:
		g.methods = append(g.methods, "GET")
		g.linef("GET %s HTTP/1.0\r\n", g.path())
	case 9:
		g.linef("")
		g.request()
	case 10:
		g.head("GET", g.path()+g.of("#f", "%zz", "\x80", "/../x", "//y"))
		g.end()
	default:
		g.head(g.of("get", "FOO", "CONNECT", "TRACE"), g.path())
		g.end()
	}
}

// talk writes a pipeline that ends with the last request of its connection, or in
// the middle of one.
func (g *grammar) talk() talk {
	g.b.Reset()
	g.methods = nil
	for range 1 + g.n(8) {
		g.request()
	}
	tk := talk{}
	if g.n(6) == 5 {
		tk.half = true
		tk.raw = g.b.String()
		tk.raw = tk.raw[:len(tk.raw)-g.n(min(len(tk.raw), 200))]
	} else {
		g.head("GET", g.path())
		g.linef("Connection: close\r\n")
		tk.raw = g.b.String()
	}
	tk.methods = g.methods
	at := 0
	for range g.n(6) {
		at += (g.n(256)<<8 + g.n(256)) % (len(tk.raw) - at + 1)
		if g.n(2) == 1 {
			at = min(at, len(tk.raw))
		}
		tk.cuts = append(tk.cuts, at)
	}
	return tk
}
