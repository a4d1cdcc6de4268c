//go:build linux

package fastpath_test

import (
	"strings"
	"testing"

	"durablestreams/internal/protocol"
)

// Announcing a body takes no room from those who send theirs; sending does, and
// who ends or goes gives it back.
func TestRoomForBodies(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.protocol = protocol.Options{MaxBody: 256 << 10, MaxInflight: 640 << 10}
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		body := strings.Repeat("x", 200_000)
		var idle []*conn
		for range 3 {
			idle = append(idle, s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\nx", root, text, len(body)))
		}
		busy := s.dial()
		busy.post("a", body).answer("POST", 204)
		half := s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", root, text, len(body), body[:150_000])
		half.send("%s", body[150_000:]).answer("POST", 204)
		for _, c := range idle {
			c.send("%s", body[1:]).answer("POST", 204)
		}
		gone := s.dial().send("POST %sa HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", root, text, len(body), body[:150_000])
		gone.Close()
		if res, got := s.do(200, "GET", "a", ""); res.ContentLength != int64(5*len(body)) {
			t.Errorf("%d bytes", len(got))
		}
	})
}
