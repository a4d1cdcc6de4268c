package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

func readTests() []test {
	return []test{
		{"N39 reading at the tail", readAtTail},
		{"now is the tail without data", readNow},
		{"HEAD tells what GET would, without a body", headMetadata},
		{"N11 HEAD never hangs as a live read", headLive},
		{"reads of nothing are 404 in every mode", readNothing},
		{"an open stream has no Stream-Closed, a closed one only at its end", closedOnlyAtEnd},
		{"5,000 bytes come in one page", smallInOnePage},
	}
}

func readAtTail(c *client) {
	for ctype, empty := range map[string]string{text: "", octet: "", jsonType: "[]"} {
		for _, body := range []string{"", `"x"`} {
			p := c.create("tail", ctype, body)
			tail := c.head(p).tail()
			c.get(p, from(tail)).is(200).body(empty).header("Stream-Next-Offset", tail).header("Stream-Up-To-Date", "true").
				header("Content-Type", ctype).with("ETag", "Cache-Control").without("Stream-Closed")
		}
	}
}

func readNow(c *client) {
	for ctype, empty := range map[string]string{text: "", octet: "", jsonType: "[]"} {
		p := c.create("now", ctype, `"history"`)
		tail := c.head(p).tail()
		c.get(p, fromNow).is(200).body(empty).header("Stream-Next-Offset", tail).header("Stream-Up-To-Date", "true").
			header("Content-Type", ctype).header("Cache-Control", "no-store").without("ETag", "Stream-Closed")
		c.closes(p)
		c.get(p, fromNow).is(200).body(empty).header("Stream-Next-Offset", tail).header("Stream-Closed", "true").without("ETag")
	}
}

func headMetadata(c *client) {
	p := c.create("head", "text/plain; charset=utf-8", "hello")
	get := c.get(p, fromStart).is(200)
	head := c.head(p).is(200).body("").header("Content-Type", "text/plain; charset=utf-8").header("Stream-Next-Offset", get.tail()).
		header("Cache-Control", "no-store").without("Stream-Closed", "Stream-TTL", "Stream-Expires-At")
	_ = head
	k := c.dial()
	k.exchange("HEAD", c.rawHead("HEAD", p)).is(200)
	k.exchange("GET", c.rawHead("GET", p)).is(200).body("hello")
}

func headLive(c *client) {
	p := c.create("live", text, "x")
	tail := c.head(p).tail()
	for _, query := range []string{fromStart + sse, fromNow + sse, fromNow + longPoll, from(tail) + longPoll, fromStart} {
		r := c.send(http.MethodHead, p, query, "").is(200).body("").header("Stream-Next-Offset", tail).header("Cache-Control", "no-store")
		if r.Took > 2*time.Second {
			c.Errorf("HEAD with %s took %s", query, r.Took)
		}
		if got := r.Header.Get("Content-Type"); got != text {
			c.Errorf("HEAD with %s has the type %q", query, got)
		}
	}
}

func readNothing(c *client) {
	p := c.path("nothing")
	for _, mode := range modes() {
		for _, start := range []string{fromStart, fromNow} {
			c.get(p, start+mode).refused(404)
		}
	}
	c.head(p).is(404).body("").header("Cache-Control", "no-store")
}

func closedOnlyAtEnd(c *client) {
	p := c.create("end", text, "ab")
	c.get(p, fromStart).is(200).header("Stream-Up-To-Date", "true").without("Stream-Closed")
	c.closes(p)
	c.get(p, fromStart).is(200).header("Stream-Up-To-Date", "true").header("Stream-Closed", "true")
}

func smallInOnePage(c *client) {
	body := strings.Repeat("0123456789", 500)
	p := c.create("small", text, body)
	c.get(p, fromStart).is(200).body(body).header("Stream-Up-To-Date", "true")
	p = c.create("many", text, "")
	want := ""
	for i := range 200 {
		part := fmt.Sprintf("%025d", i)
		c.add(p, text, part)
		want += part
	}
	c.get(p, fromStart).is(200).body(want).header("Stream-Up-To-Date", "true")
}

// bulkTests move much data; they run alone.
func bulkTests() []test {
	return []test{
		{"pages of a large stream join to the whole, closed only on the last", largePages},
		{"N41 every page of JSON is a whole array", jsonPages},
		{"a body of exactly the limit is taken, one byte more is not", bodyLimit},
		{"a large message crosses SSE whole", largeEvent},
	}
}

func largePages(c *client) {
	part := strings.Repeat("0123456789abcdef", 1<<14) // 256 KiB
	p := c.create("large", octet, "")
	const parts = 40
	for range parts {
		c.add(p, octet, part)
	}
	c.closes(p)
	pages, size := 0, 0
	offset := "-1"
	for {
		r := c.get(p, from(offset)).is(200)
		if want := strings.Repeat(part, len(r.Body)/len(part)+2); !strings.HasPrefix(want[size%len(part):], r.Body) {
			c.Fatalf("page %d at %q holds other bytes", pages, offset)
		}
		pages, size, offset = pages+1, size+len(r.Body), r.tail()
		if r.Header.Get("Stream-Closed") != "" {
			r.header("Stream-Up-To-Date", "true")
			break
		}
		r.without("Stream-Up-To-Date")
		if len(r.Body) < 20_000 {
			c.Fatalf("a page of %d bytes in the middle", len(r.Body))
		}
	}
	if size != parts*len(part) {
		c.Errorf("%d bytes in %d pages, want %d", size, pages, parts*len(part))
	}
	c.Logf("%d bytes in %d pages", size, pages)
}

func jsonPages(c *client) {
	p := c.create("json", jsonType, "")
	var want []string
	for i := range 24 {
		var batch []string
		for j := range 1000 {
			batch = append(batch, fmt.Sprintf(`{"i":%d,"j":%d,"pad":"%s"}`, i, j, strings.Repeat("[],", j%80)))
		}
		want = append(want, batch...)
		c.add(p, jsonType, "["+strings.Join(batch, ",")+"]")
	}
	c.same("messages over pages", c.messages(p), want)
}

func bodyLimit(c *client) {
	if c.MaxBody > 64<<20 {
		c.Skipf("the limit of %d bytes is too large to try", c.MaxBody)
	}
	body := strings.Repeat("x", int(c.MaxBody))
	p := c.create("limit", text, "")
	c.post(p, text, body+"x").refused(413)
	c.post(p, text, body).is(204)
	if got := len(c.content(p)); got != len(body) {
		c.Errorf("%d bytes came back of %d", got, len(body))
	}
	q := c.path("put")
	c.put(q, text, body+"x").refused(413)
	c.head(q).is(404)
	c.delete(p).is(204)
}

func largeEvent(c *client) {
	p := c.create("event", text, "")
	f := c.sse(p, fromNow)
	f.control()
	want := strings.Repeat("häß\n", 300_000)
	tail := c.add(p, text, want)
	if ctl := f.until(want, plain); ctl.StreamNextOffset != tail {
		c.Errorf("the control leads to %q, want %q", ctl.StreamNextOffset, tail)
	}
	c.sse(p, fromStart).until(want, plain)
}
