package protocol_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"unsafe"
)

// same reports whether two frames are the same bytes in the same memory.
func same(a, b []byte) bool {
	return bytes.Equal(a, b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// TestReadersShareFrames shows that readers at one place are sent the same
// bytes, encoded once, and that whoever is elsewhere, or has another cursor,
// gets its own.
func TestReadersShareFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.do("PUT a", "Content-Type: text/plain", "=one").want(201)
		one, two := c.open("GET a?offset=now&live=sse"), c.open("GET a?offset=now&live=sse")
		start := c.open("GET a?offset=-1&live=sse")
		ahead := c.open("GET a?offset=now&live=sse&cursor=99999999999")
		for _, l := range []*live{one, two, start, ahead} {
			l.next()
		}
		c.do("POST a", "Content-Type: text/plain", "=two").want(204)
		a, b := one.next().Frame, two.next().Frame
		if !same(a, b) {
			t.Errorf("readers at one place got %q and %q", a, b)
		}
		if s := start.next().Frame; !same(a, s) {
			t.Errorf("a reader that has caught up got %q", s)
		}
		other := ahead.next().Frame
		if bytes.Equal(a, other) {
			t.Error("a reader with a cursor of its own got the others' cursor")
		}
		data, _ := sse(t, other)
		if data != "two" {
			t.Errorf("it got %q", data)
		}
		// A reader that comes later and from elsewhere.
		late := c.open("GET a?offset=-1&live=sse")
		if data, control := sse(t, late.next().Frame); data != "onetwo" || !control.UpToDate {
			t.Errorf("a late reader got %q, %+v", data, control)
		}
		// The close changes the frame although the data are the same.
		c.do("POST a", "Content-Type: text/plain", "Stream-Closed: true", "=end").want(204)
		for _, l := range []*live{one, two} {
			if data, control := sse(t, l.next().Frame); data != "end" || !control.StreamClosed {
				t.Errorf("at the end: %q, %+v", data, control)
			}
		}
	})
}
