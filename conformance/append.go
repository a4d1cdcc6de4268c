package conformance

import "strings"

func appendTests() []test {
	return []test{
		{"an append answers 204 with the new tail", appendAnswer},
		{"all bytes are data", allBytes},
		{"a body needs the stream's content type", appendTypes},
		{"a body that is encoded or partial is not taken for what it is not", encodedBodies},
		{"an empty body is refused", emptyBody},
		{"B37 Stream-Closed counts only as true, in any case", closedValues},
		{"refusals come in their order", refusalOrder},
		{"Stream-Seq grows bytewise", streamSeq},
		{"a refused append leaves no trace in Stream-Seq", streamSeqNoTrace},
		{"fork headers on an append are ignored", forkHeadersOnPost},
		{"an append to nothing is 404", appendToNothing},
		{"N79 a client sees its own writes at once", ownWrites},
	}
}

func appendAnswer(c *client) {
	p := c.path("a")
	last := c.put(p, text, "").is(201).tail()
	for _, part := range []string{"a", "bc", "def", strings.Repeat("g", 5000)} {
		r := c.post(p, text, part).is(204).body("").without("Stream-Closed", "Producer-Seq", "ETag")
		if r.tail() <= last {
			c.Errorf("tail %q after %q is not greater as a string", r.tail(), last)
		}
		c.get(p, from(last)).is(200).body(part).header("Stream-Next-Offset", r.tail()).header("Stream-Up-To-Date", "true")
		last = r.tail()
	}
	c.head(p).is(200).header("Stream-Next-Offset", last)
}

func allBytes(c *client) {
	var b strings.Builder
	for i := range 256 {
		b.WriteByte(byte(i))
	}
	for _, ctype := range []string{octet, text, "application/x-ndjson"} {
		p := c.create("bytes", ctype, b.String())
		c.add(p, ctype, b.String())
		c.get(p, fromStart).is(200).body(b.String() + b.String())
	}
}

func appendTypes(c *client) {
	p := c.create("a", text, "")
	c.post(p, "", "x").refused(400)
	c.post(p, "application/json", "1").refused(409)
	c.post(p, "text/html", "x").refused(409)
	c.post(p, "text", "x").refused(400, 409)
	c.post(p, "text/", "x").refused(400, 409)
	c.post(p, "Text/PLAIN", "1").is(204)
	c.post(p, "text/plain; charset=utf-16", "2").is(204)
	c.post(p, "text/plain ;x=y", "3").is(204)
	c.get(p, fromStart).is(200).body("123")
}

// encodedBodies: no reader would be told that what it gets is compressed.
func encodedBodies(c *client) {
	p, n := c.create("a", text, ""), c.path("new")
	for _, header := range [][2]string{{"Content-Encoding", "gzip"}, {"Content-Encoding", "br"}, {"Content-Encoding", "identity, gzip"}, {"Content-Encoding", "GZIP"}, {"Content-Range", "bytes 0-0/2"}} {
		c.post(p, text, "x", header[0], header[1]).refused(415, 400)
		c.post(p, text, "x", closing(header[0], header[1])...).refused(415, 400)
		c.put(n, text, "x", header[0], header[1]).refused(415, 400)
		c.head(n).is(404)
	}
	c.head(p).is(200).without("Stream-Closed")
	c.post(p, text, "1", "Content-Encoding", "identity").is(204)
	c.post(p, text, "2", "Content-Encoding", "Identity").is(204)
	c.get(p, fromStart).is(200).body("12")
	c.put(n, text, "", "Content-Encoding", "gzip").is(201) // nothing is encoded
	c.post(p, text, "", closing("Content-Encoding", "gzip")...).is(204)
}

func emptyBody(c *client) {
	for _, ctype := range []string{text, jsonType, octet} {
		p := c.create("empty", ctype, "")
		tail := c.head(p).tail()
		c.post(p, ctype, "").refused(400)
		c.post(p, "", "").refused(400)
		c.post(p, ctype, "", producer("p", 0, 0)...).refused(400)
		c.dial().exchange("POST", c.rawHead("POST", p, "Content-Type: "+ctype, "Content-Length: 0")).refused(400)
		c.dial().exchange("POST", c.rawHead("POST", p, "Content-Type: "+ctype, "Transfer-Encoding: chunked")+"0\r\n\r\n").refused(400)
		c.head(p).is(200).header("Stream-Next-Offset", tail).without("Stream-Closed")
		c.post(p, ctype, "1", producer("p", 0, 0)...).is(200)
	}
}

func closedValues(c *client) {
	for _, value := range []string{"true", "TRUE", "True", "tRuE"} {
		p := c.create("closed", text, "")
		c.post(p, text, "x", "Stream-Closed", value).is(204).header("Stream-Closed", "true")
		c.head(p).is(200).header("Stream-Closed", "true")
		c.put(c.path("closed"), text, "", "Stream-Closed", value).is(201).header("Stream-Closed", "true")
	}
	for _, value := range []string{"false", "1", "", "yes", "truely", "t", "tru e", "true, true"} {
		p := c.create("open", text, "", "Stream-Closed", value)
		c.post(p, text, "x", "Stream-Closed", value).is(204).without("Stream-Closed")
		c.post(p, text, "", "Stream-Closed", value).refused(400)
		c.post(p, text, "y").is(204)
		c.get(p, fromStart).is(200).body("xy").without("Stream-Closed")
	}
}

func refusalOrder(c *client) {
	p := c.create("order", text, "x", "Stream-TTL", "600")
	c.add(p, text, "y", "Stream-Seq", "b")
	c.post(p, text, "1", producer("p", 3, 0)...).is(200)
	tail := c.head(p).tail()

	// Content type comes before producer and sequence.
	c.post(p, jsonType, "1", producer("p", 3, 9, "Stream-Seq", "a")...).refused(409).without("Producer-Expected-Seq", "Stream-Closed")
	c.post(p, jsonType, "1", producer("p", 1, 0)...).refused(409).without("Producer-Epoch")
	// The producer comes before Stream-Seq.
	c.post(p, text, "1", producer("p", 3, 9, "Stream-Seq", "a")...).refused(409).header("Producer-Expected-Seq", "1")
	c.post(p, text, "1", producer("p", 2, 0, "Stream-Seq", "a")...).refused(403).header("Producer-Epoch", "3")
	c.post(p, text, "1", producer("p", 3, 0, "Stream-Seq", "a")...).is(204).header("Producer-Seq", "0")
	c.post(p, text, "1", producer("p", 3, 1, "Stream-Seq", "a")...).refused(409).without("Producer-Expected-Seq")
	c.head(p).is(200).header("Stream-Next-Offset", tail)

	// Being closed comes before all of them.
	c.closes(p)
	for _, r := range []*reply{
		c.post(p, text, "1"),
		c.post(p, jsonType, "1"),
		c.post(p, text, "1", "Stream-Seq", "a"),
		c.post(p, text, "1", producer("p", 3, 9)...),
		c.post(p, text, "1", producer("p", 1, 0)...),
		c.post(p, jsonType, "1", closing()...),
	} {
		r.refused(409).header("Stream-Closed", "true").header("Stream-Next-Offset", tail)
	}
}

func streamSeq(c *client) {
	tests := []struct{ last, next string }{
		{"a", "b"}, {"a", "aa"}, {"9", "91"}, {"10", "9"}, {"Z", "a"}, {"0001", "0002"}, {"a", "a!"}, {"~", "~~"},
	}
	for _, tt := range tests {
		p := c.create("seq", text, "")
		c.post(p, text, "1", "Stream-Seq", tt.last).is(204)
		c.post(p, text, "no", "Stream-Seq", tt.last).refused(409).without("Stream-Closed")
		c.post(p, text, "2", "Stream-Seq", tt.next).is(204)
		c.post(p, text, "no", "Stream-Seq", tt.last).refused(409)
		c.post(p, text, "3").is(204)
		c.post(p, text, "no", "Stream-Seq", tt.next).refused(409)
		c.get(p, fromStart).is(200).body("123")
	}
	// The scope is the stream, whoever writes.
	p := c.create("scope", text, "")
	c.post(p, text, "1", producer("p", 0, 0, "Stream-Seq", "m")...).is(200)
	c.post(p, text, "no", producer("q", 0, 0, "Stream-Seq", "c")...).refused(409)
	c.post(p, text, "2", producer("q", 0, 0, "Stream-Seq", "n")...).is(200)
	c.get(p, fromStart).is(200).body("12")
}

func streamSeqNoTrace(c *client) {
	p := c.create("trace", jsonType, "")
	c.post(p, jsonType, "1", "Stream-Seq", "b").is(204)
	c.post(p, text, "x", "Stream-Seq", "y").refused(409)
	c.post(p, jsonType, "{bad", "Stream-Seq", "y").refused(400)
	c.post(p, jsonType, "[]", "Stream-Seq", "y").refused(400)
	c.post(p, jsonType, "2", producer("p", 0, 5, "Stream-Seq", "y")...).refused(409)
	c.post(p, jsonType, "2", "Stream-Seq", "c").is(204)
	c.post(p, "", "", closing("Stream-Seq", "a")...).is(204, 409)
	c.same("messages", c.messages(p), []string{"1", "2"})
}

func forkHeadersOnPost(c *client) {
	p, q := c.create("a", text, "a"), c.create("b", text, "b")
	fork := []string{"Stream-Forked-From", c.full(q), "Stream-Fork-Offset", "nonsense", "Stream-Fork-Sub-Offset", "-9"}
	c.post(p, text, "1", fork...).is(204)
	c.get(p, fromStart, fork...).is(200).body("a1")
	c.head(p, fork...).is(200)
	c.delete(p, fork...).is(204)
	c.delete(q).is(204)
	c.get(q, fromStart).refused(404)
}

func appendToNothing(c *client) {
	p := c.path("missing")
	c.post(p, text, "x").refused(404)
	c.post(p, jsonType, "{bad").refused(404, 400)
	c.post(p, "", "", closing()...).refused(404)
	c.post(p, text, "x", producer("p", 0, 0)...).refused(404)
	c.get(p, fromStart).refused(404)
	c.delete(p).refused(404)
}

func ownWrites(c *client) {
	noise := c.create("noise", text, "")
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				c.post(noise, text, "n")
			}
		}
	}()
	for range 30 {
		p := c.create("own", text, "a")
		c.head(p).is(200)
		tail := c.add(p, text, "b")
		c.get(p, fromStart).is(200).body("ab").header("Stream-Next-Offset", tail)
		c.post(p, text, "c", closing()...).is(204)
		c.get(p, fromStart).is(200).body("abc").header("Stream-Closed", "true")
		c.post(p, text, "d").is(409)
		c.delete(p).is(204)
		c.get(p, fromStart).is(404)
		c.head(p).is(404)
	}
	close(stop)
	<-ended
}
