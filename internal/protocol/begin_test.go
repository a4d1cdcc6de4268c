package protocol_test

import (
	"strings"
	"testing"

	"durablestreams/internal/protocol"
)

func TestMethodsAndPaths(t *testing.T) {
	c := newClient(t, nil)
	const root = "/durable-streams/v1/stream/"
	for _, tt := range []struct {
		line   string
		status int
		code   string
	}{
		{"PATCH a", 405, "method_not_allowed"},
		{"TRACE a", 405, "method_not_allowed"},
		{"CONNECT a", 405, "method_not_allowed"},
		{"FOO a", 501, "method_not_implemented"},
		{"get a", 501, "method_not_implemented"},
		{" a", 501, "method_not_implemented"},
		{"GET /", 404, "not_found"},
		{"GET /v1/stream/a", 404, "not_found"},
		{"GET /durable-streams/v1/stream", 404, "not_found"},
		{"GET /Durable-streams/v1/stream/a", 404, "not_found"},
		{"GET /durable-streams/v1/streams/a", 404, "not_found"},
		{"GET " + root, 400, "invalid_path"},
		{"GET " + root + "/a", 400, "invalid_path"},
		{"PUT x//y", 400, "invalid_path"},
		{"PUT x/../y", 400, "invalid_path"},
		{"PUT x/%2E%2e/y", 400, "invalid_path"},
		{"PUT x/", 400, "invalid_path"},
		{"PUT a%zz", 400, "invalid_path"},
		{"PUT a\x00", 400, "invalid_path"},
		{"PUT __ds/subscriptions/x", 404, "reserved_path"},
		{"GET __ds", 404, "reserved_path"},
		{"GET %5f%5Fds/x", 404, "reserved_path"},
		{"POST " + strings.Repeat("x", 2000), 400, "invalid_path"},
		{"GET missing", 404, "not_found"},
		{"HEAD missing", 404, "not_found"},
		{"DELETE missing", 404, "not_found"},
		{"POST missing", 404, "not_found"},
	} {
		a := c.do(tt.line).want(tt.status, "Content-Type: application/json", "Cache-Control: no-store").code(tt.code)
		if tt.status == 405 || tt.status == 501 {
			a.want(tt.status, "Allow: GET, HEAD, PUT, POST, DELETE, OPTIONS")
		}
	}
}

func TestPathsAreComparedAsSent(t *testing.T) {
	c := newClient(t, &protocol.Options{BasePath: "/"})
	for _, p := range []string{"x%2Fb", "x/b", "x%2fb", "X/b", "x%2520b", "x;b", "x:b@c"} {
		c.do("PUT "+p, "Content-Type: text/plain", "="+p).want(201, "Location: http://ds.example/v1/stream/"+p)
	}
	for _, p := range []string{"x%2Fb", "x/b", "x%2fb", "X/b", "x%2520b", "x;b", "x:b@c"} {
		c.do("GET " + p).want(200).text(p)
	}
}

// Every header that may be sent once is refused when it comes twice.
func TestDoubledHeaders(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", "Content-Type: text/plain").want(201)
	for _, tt := range []struct{ line, header string }{
		{"PUT n", "Content-Type: text/plain"},
		{"PUT n", "Content-Length: 1"},
		{"PUT n", "Stream-TTL: 5"},
		{"PUT n", "Stream-Expires-At: 2099-01-01T00:00:00Z"},
		{"PUT n", "Stream-Closed: true"},
		{"PUT n", "Stream-Forked-From: /durable-streams/v1/stream/a"},
		{"PUT n", "Stream-Fork-Offset: -1"},
		{"PUT n", "Stream-Fork-Sub-Offset: 0"},
		{"POST a", "Content-Type: text/plain"},
		{"POST a", "Content-Length: 1"},
		{"POST a", "Producer-Id: p"},
		{"POST a", "Producer-Epoch: 0"},
		{"POST a", "Producer-Seq: 0"},
		{"POST a", "Stream-Seq: a"},
		{"POST a", "Stream-Closed: false"},
	} {
		c.do(tt.line, "=x", tt.header, tt.header).want(400).code("invalid_header")
	}
	c.do("HEAD n").want(404)
	c.do("GET a").want(200).text("")
}

// A coding that is not taken is answered with those that are.
func TestEncodedBody(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", "Content-Type: text/plain").want(201)
	for _, line := range []string{"POST a", "PUT n"} {
		c.do(line, "=x", "Content-Type: text/plain", "Content-Encoding: gzip").want(415, "Accept-Encoding: identity").code("encoding_unsupported")
	}
}

func TestProducerHeaders(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", "Content-Type: text/plain").want(201)
	const big, over = "9007199254740991", "9007199254740992"
	long := strings.Repeat("p", 256)
	for _, tt := range []struct {
		id, epoch, seq string // "-" is not sent
		status         int
	}{
		{"p", "0", "-", 400}, {"p", "-", "0", 400}, {"-", "0", "0", 400}, {"p", "-", "-", 400},
		{"", "0", "0", 400}, {"", "", "", 400}, {"p", "", "0", 400}, {"p", "0", "", 400},
		{"p", "-1", "0", 400}, {"p", "+1", "0", 400}, {"p", "1.0", "0", 400}, {"p", "1e1", "0", 400},
		{"p", "0", "0x0", 400}, {"p", over, "0", 400}, {"p", "0", over, 400},
		{"p", "99999999999999999999", "0", 400},
		{long + "p", "0", "0", 400}, {"a\tb", "0", "0", 400}, {"a\x7f", "0", "0", 400},
		{long, "0", "0", 200}, {"caf\xe9", "0", "0", 200}, {"p q", "00", "00", 200},
		{"big", big, "0", 200}, {"gap", "0", big, 409},
	} {
		args := []string{"Content-Type: text/plain", "=x"}
		for i, v := range []string{tt.id, tt.epoch, tt.seq} {
			if v != "-" {
				args = append(args, []string{"Producer-Id: ", "Producer-Epoch: ", "Producer-Seq: "}[i]+v)
			}
		}
		before := c.do("HEAD a").next()
		a := c.do("POST a", args...)
		if a.want(tt.status); a.Status != 200 && c.do("HEAD a").next() != before {
			t.Errorf("%v: refused, but appended", tt)
		}
	}
}

func TestOptionsMethod(t *testing.T) {
	c := newClient(t, nil)
	for _, line := range []string{"OPTIONS a", "OPTIONS missing", "OPTIONS *", "OPTIONS /elsewhere"} {
		a := c.do(line, "Origin: https://app.example").want(204, "Access-Control-Allow-Origin: *", "Access-Control-Max-Age: 86400", "Content-Type:")
		for _, name := range []string{"GET", "HEAD", "PUT", "POST", "DELETE"} {
			if !strings.Contains(a.field("Access-Control-Allow-Methods"), name) {
				t.Errorf("preflight does not allow %s", name)
			}
		}
		allowed := strings.ToLower(a.field("Access-Control-Allow-Headers"))
		for _, name := range []string{"Content-Type", "Authorization", "If-None-Match", "Last-Event-ID", "Cache-Control", "traceparent",
			"Stream-TTL", "Stream-Expires-At", "Stream-Seq", "Stream-Closed", "Stream-Forked-From", "Stream-Fork-Offset",
			"Stream-Fork-Sub-Offset", "Producer-Id", "Producer-Epoch", "Producer-Seq"} {
			if !strings.Contains(allowed+",", strings.ToLower(name)+",") {
				t.Errorf("preflight does not allow the header %s", name)
			}
		}
	}
}

// Whatever an answer says, a browser of another origin may read it.
func TestBrowserHeadersOnEveryAnswer(t *testing.T) {
	c := newClient(t, nil)
	for _, line := range []string{"PUT a", "PUT a", "POST a", "GET a", "GET a?offset=now", "HEAD a", "GET a?offset=bad", "GET /", "PATCH a",
		"GET a?offset=-1&live=sse", "DELETE a", "DELETE a", "OPTIONS a"} {
		a := c.do(line)
		a.want(a.Status, "X-Content-Type-Options: nosniff", "Cross-Origin-Resource-Policy: cross-origin", "Access-Control-Allow-Origin: *", "Vary:")
		exposed := strings.ToLower(a.field("Access-Control-Expose-Headers"))
		for _, name := range []string{"Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Closed", "Stream-Cursor", "Stream-TTL", "Stream-Expires-At",
			"Stream-SSE-Data-Encoding", "Producer-Epoch", "Producer-Seq", "Producer-Expected-Seq", "Producer-Received-Seq",
			"ETag", "Location", "Retry-After", "Content-Type"} {
			if !strings.Contains(exposed+",", strings.ToLower(name)+",") {
				t.Errorf("%s: %s is not exposed", line, name)
			}
		}
		if a.field("Cache-Control") == "" {
			t.Errorf("%s: no Cache-Control", line)
		}
	}
}

func TestAllowedOrigins(t *testing.T) {
	c := newClient(t, &protocol.Options{AllowedOrigins: []string{"https://a.example", "http://localhost:3000"}})
	for _, tt := range []struct{ origin, want string }{
		{"https://a.example", "https://a.example"},
		{"http://localhost:3000", "http://localhost:3000"},
		{"https://evil.example", ""},
		{"https://a.example.evil.example", ""},
		{"http://a.example", ""},
		{"null", ""},
	} {
		for _, line := range []string{"PUT a", "GET a", "GET none", "OPTIONS a"} {
			a := c.do(line, "Origin: "+tt.origin)
			a.want(a.Status, "Access-Control-Allow-Origin: "+tt.want, "Vary: Origin")
		}
	}
	c.do("GET a").want(200, "Access-Control-Allow-Origin:", "Vary: Origin")
}
