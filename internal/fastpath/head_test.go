package fastpath_test

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"durablestreams/internal/fastpath"
)

// get is a plain request with more fields; %s is their place.
const get = "GET /a HTTP/1.1\r\nHost: x\r\n%s\r\n"

func fields(lines ...string) string {
	s := ""
	for _, l := range lines {
		s += l + "\r\n"
	}
	return fmt.Sprintf(get, s)
}

func post(lines ...string) string { return "POST" + strings.TrimPrefix(fields(lines...), "GET") }

func line(l string) string { return l + "\r\nHost: x\r\n\r\n" }

// long gives a head of exactly n bytes.
func long(n int) string {
	s := fields("X: ")
	return strings.Replace(s, "X: ", "X: "+strings.Repeat("x", n-len(s)), 1)
}

// plainHeads are what clients really send.
var plainHeads = []string{
	fields(),
	line("GET /a?offset=-1&live=sse HTTP/1.1"),
	line("GET /a? HTTP/1.1"),
	line("GET /?x?y=%zz HTTP/1.1"),
	line("HEAD //a/../b/%2F;p=1,2 HTTP/1.1"),
	line("DELETE /a'b(c)*!$&+:@[]{}|\\^`\"<> HTTP/1.1"),
	line("PUT / HTTP/1.1"),
	post("Content-Length: 0"),
	post("content-length:3", "CONTENT-TYPE:\ttext/plain \t"),
	post("Content-Length: 000000000000003"),
	fields("Connection: Keep-Alive", "Keep-Alive: 5"),
	fields("X-Empty:", "X-High: \xc3\xa9\xff", "X: a:b: c", "X: second"),
	fields("!#$%&'*+-.^_`|~09azAZ: v"),
	"GET /a HTTP/1.1\r\nhOST: [::1]:8642\r\n\r\n",
	"GET /a HTTP/1.1\r\nHost:\r\n\r\n",
	long(fastpath.MaxHead),
}

// oddHeads are those that net/http is to judge.
var oddHeads = []string{
	// Lines.
	"GET /a HTTP/1.1\nHost: x\n\n",
	"GET /a HTTP/1.1\r\nHost: x\n\r\n",
	"GET /a HTTP/1.1\nHost: x\r\n\r\n",
	"\r\n" + fields(),
	"\n" + fields(),
	"\r\n\r\n",
	fields("X: a\rb"),
	fields("X: a\r\r"),
	fields("X: a", " folded"),
	fields("X: a", "\tfolded"),
	"GET /a HTTP/1.1\r\n Host: x\r\n\r\n",
	// The request line.
	line("get /a HTTP/1.1"),
	line("Get /a HTTP/1.1"),
	line("GETT /a HTTP/1.1"),
	line("OPTIONS /a HTTP/1.1"),
	line("OPTIONS * HTTP/1.1"),
	line("PATCH /a HTTP/1.1"),
	line("CONNECT x:80 HTTP/1.1"),
	line("PRI * HTTP/2.0"),
	line("GET /a HTTP/1.0"),
	line("GET /a HTTP/1.2"),
	line("GET /a HTTP/2.0"),
	line("GET /a http/1.1"),
	line("GET /a HTTP/1.1 "),
	line("GET  /a HTTP/1.1"),
	line("GET /a  HTTP/1.1"),
	line("GET /a\tHTTP/1.1"),
	line(" GET /a HTTP/1.1"),
	line("GET\t/a HTTP/1.1"),
	line("GET /a"),
	line("GET /a "),
	line("GET"),
	line("GET "),
	line("GET  HTTP/1.1"),
	line("GET * HTTP/1.1"),
	line("GET a HTTP/1.1"),
	line("GET ?a HTTP/1.1"),
	line("GET x:80 HTTP/1.1"),
	line("GET http://x/a HTTP/1.1"),
	line("GET /a#b HTTP/1.1"),
	line("GET /a b HTTP/1.1"),
	line("GET /a\x00 HTTP/1.1"),
	line("GET /a\x7f HTTP/1.1"),
	line("GET /\xc3\xa9 HTTP/1.1"),
	line("GET /a?\xc3\xa9 HTTP/1.1"),
	line("GET /a% HTTP/1.1"),
	line("GET /a%2 HTTP/1.1"),
	line("GET /a%zz HTTP/1.1"),
	line("GET /%?a=%2F HTTP/1.1"),
	// Host.
	"GET /a HTTP/1.1\r\n\r\n",
	fields("Host: y"),
	fields("host: x"),
	"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n",
	"GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"GET /a HTTP/1.1\r\nHost: a\"b\r\n\r\n",
	"GET /a HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n",
	// Fields.
	fields("X : a"),
	fields("X\t: a"),
	fields(": a"),
	fields(":"),
	fields("X"),
	fields("X Y: a"),
	fields("X\x00: a"),
	fields("\xc3\xa9: a"),
	fields("X(: a"),
	fields("X: a\x00b"),
	fields("X: a\x01b"),
	fields("X: a\x7fb"),
	fields("X: a\vb"),
	// Bodies.
	post("Content-Length: 1", "Content-Length: 1"),
	post("Content-Length: 1", "Content-Length: 2"),
	post("Content-Length: 1, 1"),
	post("Content-Length: +1"),
	post("Content-Length: -1"),
	post("Content-Length: 0x1"),
	post("Content-Length: 1_0"),
	post("Content-Length: 1 0"),
	post("Content-Length: 1.0"),
	post("Content-Length: 1e1"),
	post("Content-Length:"),
	post("Content-Length: \xd9\xa1"),
	post("Content-Length: 9999999999999999"),
	post("Content-Length: 99999999999999999999"),
	fields("Content-Length: 1"),
	"HEAD" + strings.TrimPrefix(fields("Content-Length: 1"), "GET"),
	"DELETE" + strings.TrimPrefix(fields("Content-Length: 1"), "GET"),
	post("Transfer-Encoding: chunked"),
	post("Transfer-Encoding: identity"),
	post("Transfer-Encoding:"),
	post("Transfer-Encoding : chunked"),
	post("transfer-encoding:\tchunked", "Content-Length: 3"),
	post("Content-Length: 3", "TE: trailers"),
	post("Content-Length: 3", "Trailer: X"),
	post("Content-Length: 3", "Expect: 100-continue"),
	post("Content-Length: 3", "Expect:"),
	// The connection.
	fields("Connection: close"),
	fields("Connection: keep-alive, close"),
	fields("Connection: keep-alive", "Connection: close"),
	fields("Connection: upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
	fields("Connection:"),
	fields("Upgrade: websocket"),
	fields("Proxy-Connection: keep-alive"),
	long(fastpath.MaxHead + 1),
}

func TestPlainHeads(t *testing.T) {
	for _, text := range plainHeads {
		p, plain := fastpath.ParseHead(text)
		if !plain {
			t.Errorf("odd: %.200q", text)
			continue
		}
		sameAsNetHTTP(t, text, p)
		for n := range len(text) - 1 {
			if !fastpath.MayBePlain(text[:n+1]) {
				t.Errorf("the first %d bytes are odd already: %.200q", n+1, text)
				break
			}
		}
	}
}

func TestOddHeads(t *testing.T) {
	for _, text := range oddHeads {
		if len(text) > fastpath.MaxHead {
			continue // that is the connection's to count
		}
		if _, plain := fastpath.ParseHead(text); plain {
			t.Errorf("plain: %q", text)
		}
	}
}

// sameAsNetHTTP compares a plain head with what net/http reads.
func sameAsNetHTTP(t *testing.T, text string, p fastpath.Parsed) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Errorf("net/http refuses %q: %v", text, err)
		return
	}
	target := p.Path
	if strings.Contains(r.RequestURI, "?") {
		target += "?" + p.Query
	}
	if r.Method != p.Method || r.RequestURI != target || r.Host != p.Host || r.ContentLength != p.ContentLength {
		t.Errorf("%q:\nwe read    %+v\nnet/http   %s %s %s %d", text, p, r.Method, r.RequestURI, r.Host, r.ContentLength)
	}
	if r.Close || len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) || r.ProtoMajor != 1 {
		t.Errorf("%q is more than a plain request", text)
	}
	seen := 0
	for name, values := range r.Header {
		seen += len(values)
		if got := fastpath.HeaderValues(text, name); !slices.Equal(got, values) {
			// net/http adds this one for an old Pragma.
			if name == "Cache-Control" && len(r.Header["Pragma"]) > 0 && len(got) == 0 {
				seen--
				continue
			}
			t.Errorf("%q: %s is %q, net/http has %q", text, name, got, values)
		}
	}
	if others := len(p.Names) - len(fastpath.HeaderValues(text, "Host")); seen != others {
		t.Errorf("%q: %d fields, net/http has %d", text, others, seen)
	}
}

func FuzzHead(f *testing.F) {
	for _, text := range slices.Concat(plainHeads, oddHeads) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, plain := fastpath.ParseHead(text); plain {
			sameAsNetHTTP(t, text, p)
			if !fastpath.MayBePlain(text[:1]) || !fastpath.MayBePlain(text[:len(text)-1]) {
				t.Errorf("%q is refused before its end", text)
			}
		}
	})
}
