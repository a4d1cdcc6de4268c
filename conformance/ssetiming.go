package conformance

import (
	"net"
	"net/http"
	"strings"
	"time"
)

// sseTimingTests measure how fast live reads are served; they run alone.
func sseTimingTests() []test {
	return []test{
		{"B27 headers of a live read go out at once, uncompressed and uncached", sseHeaders},
		{"B14 a reader that stops reading delays nobody", sseStuck},
	}
}

// keepAliveTests take a quarter of a minute and more; the ttl topic runs them.
func keepAliveTests() []test {
	return []test{
		{"B11 B12 an idle live read carries bytes and stays able to hear", sseIdle},
		{"B11 a live read ends by itself near a minute", sseEnd},
	}
}

func sseHeaders(c *client) {
	for _, ctype := range []string{text, octet, jsonType} {
		p := c.create("headers", ctype, "")
		for _, start := range []string{fromNow, fromStart} {
			begin := time.Now()
			f := c.sse(p, start, "Accept-Encoding", "gzip, br, deflate")
			if took := time.Since(begin); took > time.Second {
				c.Errorf("headers of an idle live read took %s", took)
			}
			if got := f.Header.Get("Content-Encoding"); got != "" {
				c.Errorf("live read encoded as %s", got)
			}
			if got := f.Header.Get("Cache-Control"); !strings.Contains(got, "no-cache") || !strings.Contains(got, "no-transform") {
				c.Errorf("Cache-Control %q, want no-cache, no-transform", got)
			}
			if got := f.Header.Get("X-Accel-Buffering"); got != "no" {
				c.Errorf("X-Accel-Buffering %q, want no", got)
			}
			if got := f.Header.Get("ETag"); got != "" {
				c.Errorf("a live read has the ETag %s", got)
			}
			f.control()
			f.cancel()
		}
	}
}

// heldUp is far below the time after which a stuck reader is dropped, which is what
// others would wait for, and far above what a busy machine needs.
const heldUp = 10 * time.Second

func sseStuck(c *client) {
	p := c.create("stuck", octet, "")
	stuck := c.dial()
	if tcp, ok := stuck.Conn.(*net.TCPConn); ok {
		tcp.SetReadBuffer(4096)
	}
	stuck.write(c.rawTarget("GET", c.full(p)+"?"+fromNow+sse))
	f := c.sse(p, fromNow)
	f.control()
	part := strings.Repeat("x", int(min(1<<20, c.MaxBody)))
	var slowest time.Duration
	for range 24 {
		sent := time.Now()
		c.add(p, octet, part)
		acknowledged := time.Now()
		got := 0
		for got < len(part) {
			e, _ := f.pair()
			got += len(unbase64(e.data))
			slowest = max(slowest, e.at.Sub(acknowledged))
		}
		if took := time.Since(sent); took > heldUp {
			c.Fatalf("with a stuck reader beside it an event took %s", took)
		}
	}
	if slowest > heldUp {
		c.Errorf("the slowest event came %s after its answer", slowest)
	}
	c.get(p, fromNow).is(200)
}

func sseIdle(c *client) {
	p := c.create("idle", text, "")
	f := c.sse(p, fromNow)
	f.control()
	begin := time.Now()
	seen := f.bytes.Load()
	for f.bytes.Load() == seen {
		if time.Since(begin) > 17*time.Second {
			c.Fatalf("no byte in %s on an idle live read", time.Since(begin))
		}
		c.pause(50 * time.Millisecond)
	}
	if c.Long {
		c.pause(35*time.Second - time.Since(begin))
	} else {
		c.pause(17*time.Second - time.Since(begin))
	}
	c.add(p, text, "late")
	f.until("late", plain)
}

func sseEnd(c *client) {
	if !c.Long {
		c.Skip("takes more than a minute")
	}
	p := c.create("end", text, "x")
	ends := map[time.Duration]bool{}
	var feeds []*feed
	for range 8 {
		feeds = append(feeds, c.sse(p, fromStart))
	}
	begin := time.Now()
	for _, f := range feeds {
		f.until("x", plain)
		var last event
		for _, e := range f.ends(90 * time.Second) {
			if e.kind != ":" {
				last = e
			}
		}
		took := time.Since(begin)
		ends[took.Round(100*time.Millisecond)] = true
		if took < 30*time.Second {
			c.Errorf("a live read ended after %s", took)
		}
		if last.kind != "control" || last.control.StreamClosed || last.control.StreamNextOffset != c.head(p).tail() {
			c.Errorf("last event %+v, want an open control at the tail", last)
		}
	}
	if len(ends) < 2 {
		c.Errorf("eight live reads ended at the same time: %v", ends)
	}
	c.sendURL(http.MethodGet, c.BaseURL+c.full(p), "").is(200)
}
