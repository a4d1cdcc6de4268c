package httpapi_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// counting is a control API with one endpoint that counts its requests.
type counting struct{ served atomic.Int32 }

func (*counting) Methods(path string) []string {
	if path == "count" || path == "panic" {
		return []string{"GET", "HEAD", "POST"}
	}
	return nil
}

func (*counting) Needs(string) (stream.Right, stream.Path) { return 0, "" }

func (c *counting) Serve(r *protocol.ControlRequest) (protocol.ControlAnswer, error) {
	if r.Path == "panic" {
		panic("control went wrong")
	}
	c.served.Add(1)
	return protocol.ControlAnswer{Status: 200, Type: "text/plain", Body: fmt.Appendf(nil, "%d bytes", len(r.Body))}, nil
}

// A control request is served once and with its whole body, or not at all.
func TestControlBodies(t *testing.T) {
	control := &counting{}
	s := start(t, &protocol.Options{Control: control, MaxBody: 100_000}, nil, nil)
	served := func(want int32) {
		t.Helper()
		if n := control.served.Swap(0); n != want {
			t.Errorf("served %d times, want %d", n, want)
		}
		if n := s.core.Use().Inflight; n != 0 {
			t.Errorf("%d bytes are still reserved", n)
		}
	}
	post := func(framing string) *conn {
		return s.dial().send("POST %s__ds/count HTTP/1.1\r\nHost: x\r\n%s", root, framing)
	}
	big := strings.Repeat("x", 100_000)
	for framing, want := range map[string]string{
		"Content-Length: 3\r\n\r\nabc":                                      "3 bytes",
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n": "4 bytes",
		"\r\n": "0 bytes",
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(big), big): "100000 bytes",
	} {
		if _, body := post(framing).answer("POST", 200); body != want {
			t.Errorf("%.40q: %s, want %s", framing, body, want)
		}
		served(1)
	}
	for framing, status := range map[string]int{
		"Content-Length: 1000000\r\n\r\nabc":                                                     413,
		"Content-Length: 100001\r\nExpect: 100-continue\r\n\r\n":                                 413,
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%sx\r\n0\r\n\r\n", len(big)+1, big): 413,
		"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n":                                         400,
	} {
		post(framing).answer("POST", status)
		served(0)
	}
	c := post("Content-Length: 100\r\n\r\npartial")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.answer("POST", 400)
	served(0)
	c = post("Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
	c.answer("POST", 100)
	c.send("abc").answer("POST", 200)
	s.do(200, "HEAD", "__ds/count", "")
	s.do(200, "GET", "__ds/count", "ignored")
	served(3)
	s.do(405, "DELETE", "__ds/count", "")
	if _, body := s.do(500, "POST", "__ds/panic", "abc"); strings.Contains(body, "wrong") {
		t.Errorf("body %q", body)
	}
	served(0)
}

// Who has ended its own side gets an answer: the change was under way.
func TestHalfClosedControlRequest(t *testing.T) {
	control := &counting{}
	s := start(t, &protocol.Options{Control: control}, nil, nil)
	c := s.dial().send("POST %s__ds/count HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", root)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.answer("POST", 200)
}
