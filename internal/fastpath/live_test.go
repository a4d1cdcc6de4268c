//go:build linux

package fastpath_test

import (
	"testing"
)

// What came in one packet with a live read is answered after it.
func TestPipelinedBehindLiveReads(t *testing.T) {
	s := start(t, config{})
	s.do(201, "PUT", "a", "", text)
	poll := s.dial()
	poll.send("GET %sa?offset=now&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\nHEAD %sa HTTP/1.1\r\nHost: x\r\n\r\n", root, root)
	sse := s.dial()
	sse.send("GET %sa?offset=now&live=sse HTTP/1.1\r\nHost: x\r\n\r\nHEAD %sa HTTP/1.1\r\nHost: x\r\n\r\n", root, root)
	s.watches.wait(t, 2)
	s.do(204, "POST", "a", "x", text)
	poll.answer("GET", 200)
	poll.answer("HEAD", 200)
	s.do(204, "POST", "a", "x", text, "Stream-Closed: true")
	sse.answer("GET", 200)
	sse.answer("HEAD", 200)
}
