package conformance

import (
	"fmt"
	"strings"
	"time"
)

// startOffset is the start of any stream, where a fork is cut.
const startOffset = "0000000000000000_0000000000000000"

// fork are the headers of a fork; more names offset and sub-offset.
func (c *client) fork(source string, more ...string) []string {
	return append([]string{"Stream-Forked-From", c.full(source)}, more...)
}

// at cuts a fork at an offset, and some bytes or messages after it.
func at(offset string, sub ...string) []string {
	h := []string{"Stream-Fork-Offset", offset}
	if len(sub) > 0 {
		h = append(h, "Stream-Fork-Sub-Offset", sub[0])
	}
	return h
}

func forkTests() []test {
	return []test{
		{"a fork shares the past and has its own future", forkBasics},
		{"a fork can be cut at every offset", forkEverywhere},
		{"sub-offsets count bytes or messages", forkSubOffsets},
		{"B76 sub-offsets over generations", forkSubChain},
		{"bad fork headers are refused", forkBadHeaders},
		{"content types are inherited or equal", forkTypes},
		{"N47 the same path with another configuration is refused", forkConflicts},
		{"a repeated fork is the same fork, after the source grew too", forkRepeated},
		{"N51 forks and closing", forkClosed},
		{"producers and sequences are not inherited", forkState},
		{"offsets below the fork point are the source's, above it the fork's", forkOffsets},
		{"N49 live reads of a fork", forkLive},
		{"no fork header in any answer", forkSilent},
	}
}

func forkBasics(c *client) {
	for _, ctype := range []string{text, jsonType} {
		s := c.create("source", ctype, `"a"`)
		point := c.add(s, ctype, `"b"`)
		f := c.path("fork")
		c.put(f, "", "", c.fork(s)...).is(201).header("Content-Type", ctype).header("Stream-Next-Offset", point).with("Location").without("Stream-Closed")
		c.add(s, ctype, `"source"`)
		c.add(f, ctype, `"fork"`)
		read := func(p string) string {
			if ctype == jsonType {
				return strings.Join(c.messages(p), "")
			}
			return c.content(p)
		}
		if got, want := read(f), `"a""b""fork"`; got != want {
			c.Errorf("fork holds %s, want %s", got, want)
		}
		if got, want := read(s), `"a""b""source"`; got != want {
			c.Errorf("source holds %s, want %s", got, want)
		}
	}
	// A body is the fork's own first data.
	s := c.create("source", text, "old")
	f := c.path("body")
	c.put(f, text, "new", c.fork(s)...).is(201)
	c.get(f, fromStart).is(200).body("oldnew").header("Stream-Up-To-Date", "true")
	c.get(s, fromStart).is(200).body("old")
	// Of an empty source too.
	f = c.path("empty")
	c.put(f, "", "", c.fork(c.create("empty", text, ""))...).is(201)
	c.get(f, fromStart).is(200).body("")
	c.add(f, text, "x")
	c.get(f, fromStart).is(200).body("x")
}

func forkEverywhere(c *client) {
	s := c.create("source", text, "")
	offsets, contents := []string{startOffset, c.head(s).tail()}, []string{"", ""}
	for i := range 6 {
		offsets = append(offsets, c.add(s, text, fmt.Sprint(i, ";")))
		contents = append(contents, contents[len(contents)-1]+fmt.Sprint(i, ";"))
	}
	for i, offset := range offsets {
		f := c.path("fork")
		c.put(f, text, "", c.fork(s, at(offset)...)...).is(201)
		c.get(f, fromStart).is(200).body(contents[i])
		c.add(f, text, "!")
		c.get(f, fromStart).is(200).body(contents[i] + "!")
		// The fork point is an offset of the fork too, and may be cut at again,
		// unless nothing is inherited: then only the start is common to both.
		if contents[i] != "" || offset == startOffset {
			c.get(f, from(offset)).is(200).body("!")
			g := c.path("grandchild")
			c.put(g, text, "", c.fork(f, at(offset)...)...).is(201)
			c.get(g, fromStart).is(200).body(contents[i])
		} else {
			c.get(f, from(offset)).is(200, 410)
		}
		g := c.path("at the tail")
		c.put(g, text, "?", c.fork(f)...).is(201)
		c.get(g, fromStart).is(200).body(contents[i] + "!?")
	}
	c.get(s, fromStart).is(200).body("0;1;2;3;4;5;")
}

func forkSubOffsets(c *client) {
	s := c.create("bytes", text, "hello")
	mid := c.head(s).tail()
	c.add(s, text, "world")
	for _, tt := range []struct{ offset, sub, want string }{
		{startOffset, "0", ""}, {startOffset, "1", "h"}, {startOffset, "4", "hell"}, {startOffset, "5", "hello"},
		{mid, "0", "hello"}, {mid, "1", "hellow"}, {mid, "5", "helloworld"},
	} {
		f := c.path("fork")
		c.put(f, text, "", c.fork(s, at(tt.offset, tt.sub)...)...).is(201)
		c.get(f, fromStart).is(200).body(tt.want)
		c.put(f, text, "", c.fork(s, at(tt.offset, tt.sub)...)...).is(200)
		c.add(f, text, "!")
		c.get(f, fromStart).is(200).body(tt.want + "!")
	}
	for _, sub := range []string{"11", "99999", "9223372036854775807", "9223372036854775808", "1" + strings.Repeat("0", 40)} {
		c.put(c.path("beyond"), text, "", c.fork(s, at(startOffset, sub)...)...).refused(400)
	}
	c.put(c.path("beyond"), text, "", c.fork(s, at(mid, "6")...)...).refused(400)

	s = c.create("messages", jsonType, `[1,[2],"three"]`)
	for sub, want := range [][]string{{}, {"1"}, {"1", "[2]"}, {"1", "[2]", `"three"`}} {
		f := c.path("fork")
		c.put(f, jsonType, "", c.fork(s, at(startOffset, fmt.Sprint(sub))...)...).is(201)
		c.same("fork", c.messages(f), want)
		c.add(f, jsonType, "9")
		c.same("fork", c.messages(f), append(want, "9"))
	}
	c.put(c.path("beyond"), jsonType, "", c.fork(s, at(startOffset, "4")...)...).refused(400)
	c.delete(s).is(204)
}

func forkSubChain(c *client) {
	s := c.create("s", jsonType, `[1,2,3]`)
	f1, f2 := c.path("f1"), c.path("f2")
	c.put(f1, jsonType, "", c.fork(s, at(startOffset, "2")...)...).is(201)
	c.add(f1, jsonType, "9")
	c.put(f2, jsonType, "", c.fork(f1, at(startOffset, "1")...)...).is(201)
	check := func() {
		c.same("s", c.messages(s), []string{"1", "2", "3"})
		c.same("f1", c.messages(f1), []string{"1", "2", "9"})
		c.same("f2", c.messages(f2), []string{"1"})
	}
	check()
	c.put(f1, jsonType, "", c.fork(s, at(startOffset, "2")...)...).is(200)
	c.put(f2, jsonType, "", c.fork(f1, at(startOffset, "1")...)...).is(200)
	c.put(f2, jsonType, "", c.fork(f1, at(startOffset, "2")...)...).refused(409)
	check()
	b := c.create("b", text, "abcdef")
	g1, g2 := c.path("g1"), c.path("g2")
	c.put(g1, text, "XY", c.fork(b, at(startOffset, "4")...)...).is(201)
	c.put(g2, text, "!", c.fork(g1, at(startOffset, "3")...)...).is(201)
	c.get(g2, fromStart).is(200).body("abc!")
	// A sub-offset that runs on into the next append is taken or refused, but right.
	f3, g3 := c.path("f3"), c.path("g3")
	if c.put(f3, jsonType, "[7]", c.fork(f1, at(startOffset, "3")...)...).is(201, 400).Status == 201 {
		c.same("f3", c.messages(f3), []string{"1", "2", "9", "7"})
	}
	if c.put(g3, text, "!", c.fork(g1, at(startOffset, "5")...)...).is(201, 400).Status == 201 {
		c.get(g3, fromStart).is(200).body("abcdX!")
	}
}

func forkBadHeaders(c *client) {
	s := c.create("source", text, "hello")
	missing := c.path("missing")
	for _, from := range []string{"", "/", s, "/" + s, "no/such/prefix/" + s, c.StreamPath, c.StreamPath + "/", c.full(missing), c.full(""), c.full(s) + "/", c.full("__ds/" + s), c.full("x/../" + s), c.full("x%2F..%2F" + s)} {
		f := c.path("fork")
		c.put(f, text, "", "Stream-Forked-From", from).refused(400, 404)
		c.head(f).is(404)
	}
	for _, h := range [][]string{
		at(""), at("abc"), at("-2"), at("9999999999999999_9999999999999999"), at("0"), at(startOffset + "0"),
		at(startOffset, ""), at(startOffset, "-1"), at(startOffset, "+1"), at(startOffset, "01"), at(startOffset, "1.0"), at(startOffset, "1e0"), at(startOffset, "x"),
		{"Stream-Fork-Sub-Offset", "1"},
	} {
		f := c.path("fork")
		c.put(f, text, "", c.fork(s, h...)...).refused(400)
		c.head(f).is(404)
	}
	c.put(c.path("bad type"), "text", "", c.fork(s)...).refused(400, 409)
	for _, special := range []string{"-1", "now"} {
		f := c.path("special")
		if c.put(f, text, "", c.fork(s, at(special)...)...).is(201, 400).Status == 201 {
			c.get(f, fromStart).is(200).body(map[string]string{"-1": "", "now": "hello"}[special])
		}
	}
}

func forkTypes(c *client) {
	s := c.create("source", "text/plain; charset=utf-8", "x")
	f := c.path("inherited")
	c.put(f, "", "", c.fork(s)...).is(201).header("Content-Type", "text/plain; charset=utf-8")
	c.put(c.path("equal"), "TEXT/plain", "", c.fork(s)...).is(201)
	for _, ctype := range []string{jsonType, octet, "text/html"} {
		f := c.path("other")
		c.put(f, ctype, "", c.fork(s)...).refused(409)
		c.head(f).is(404)
	}
	j := c.create("json", jsonType, "[1]")
	f = c.path("json")
	c.put(f, "", "[2,3]", c.fork(j)...).is(201)
	c.same("fork", c.messages(f), []string{"1", "2", "3"})
	c.put(c.path("bad"), "", "{bad", c.fork(j)...).refused(400)
}

func forkConflicts(c *client) {
	s, other := c.create("source", text, "hello"), c.create("other", text, "hello")
	f := c.path("fork")
	c.put(f, text, "", c.fork(s, at(startOffset, "2")...)...).is(201)
	tail := c.add(f, text, "!")
	for _, r := range []*reply{
		c.put(f, text, "", c.fork(other, at(startOffset, "2")...)...),
		c.put(f, text, "", c.fork(s, at(startOffset, "3")...)...),
		c.put(f, text, "", c.fork(s, at(startOffset)...)...),
		c.put(f, text, "", c.fork(s, at(startOffset, "0")...)...),
		c.put(f, text, ""),
		c.put(f, text, "x"),
		c.put(f, text, "", c.fork(s, append(at(startOffset, "2"), "Stream-TTL", "5")...)...),
		c.put(f, text, "", c.fork(s, append(at(startOffset, "2"), "Stream-Closed", "true")...)...),
		c.put(f, jsonType, "", c.fork(s, at(startOffset, "2")...)...),
		c.put(other, text, "", c.fork(s)...),
		c.put(s, text, "", c.fork(s)...),
	} {
		r.refused(409)
	}
	c.get(f, fromStart).is(200).body("he!").header("Stream-Next-Offset", tail)
	c.get(s, fromStart).is(200).body("hello")
	c.delete(other).is(204)
	c.get(other, fromStart).refused(404)
}

func forkRepeated(c *client) {
	s := c.create("source", text, "hello")
	point := c.head(s).tail()
	f := c.path("fork")
	c.put(f, text, "", c.fork(s)...).is(201)
	c.put(f, text, "ignored", c.fork(s)...).is(200).header("Stream-Next-Offset", point).without("Location")
	c.add(s, text, " grown")
	c.put(f, text, "", c.fork(s)...).is(200)
	c.put(f, "", "", c.fork(s)...).is(200)
	c.put(f, text, "", c.fork(s, at(point)...)...).is(200)
	tail := c.add(f, text, "!")
	c.put(f, text, "", c.fork(s)...).is(200).header("Stream-Next-Offset", tail)
	c.get(f, fromStart).is(200).body("hello!")
	// B73: so does one that inherits its source's window.
	s = c.create("window", text, "AA", "Stream-TTL", "100")
	f = c.path("inherits")
	c.put(f, text, "", c.fork(s)...).is(201)
	c.put(f, text, "", c.fork(s)...).is(200)
	c.head(f).is(200).header("Stream-TTL", "100")
}

func forkClosed(c *client) {
	s := c.create("source", text, "old")
	f := c.path("born closed")
	r := c.put(f, text, "new", c.fork(s, "Stream-Closed", "true")...).is(201).header("Stream-Closed", "true")
	c.get(f, fromStart).is(200).body("oldnew").header("Stream-Closed", "true").header("Stream-Next-Offset", r.tail())
	c.post(f, text, "x").refused(409)
	c.head(s).is(200).without("Stream-Closed")
	c.add(s, text, "er")

	c.closes(s)
	open := c.path("open")
	c.put(open, text, "", c.fork(s)...).is(201).without("Stream-Closed")
	c.add(open, text, "!")
	c.get(open, fromStart).is(200).body("older!").without("Stream-Closed")
	c.closes(open)
	c.put(open, text, "", c.fork(s)...).refused(409)
	c.get(s, fromStart).is(200).body("older")
}

func forkState(c *client) {
	s := c.create("source", text, "")
	c.post(s, text, "a", producer("p", 4, 0, "Stream-Seq", "m")...).is(200)
	c.post(s, text, "b", producer("p", 4, 1)...).is(200)
	f := c.path("fork")
	c.put(f, text, "", c.fork(s)...).is(201)
	c.post(f, text, "no", producer("p", 4, 2)...).refused(409).header("Producer-Expected-Seq", "0")
	c.post(f, text, "c", producer("p", 0, 0, "Stream-Seq", "a")...).is(200)
	c.post(f, text, "no", "Stream-Seq", "a").refused(409)
	c.post(s, text, "no", producer("p", 0, 1)...).refused(403).header("Producer-Epoch", "4")
	c.post(s, text, "d", producer("p", 4, 2)...).is(200)
	c.get(f, fromStart).is(200).body("abc")
	c.get(s, fromStart).is(200).body("abd")
}

func forkOffsets(c *client) {
	s := c.create("source", text, "")
	one := c.add(s, text, "one")
	two := c.add(s, text, "two")
	three := c.add(s, text, "three")
	f := c.path("fork")
	c.put(f, text, "", c.fork(s, at(two)...)...).is(201).header("Stream-Next-Offset", two)
	mine := c.add(f, text, "mine")
	if mine <= two {
		c.Errorf("the fork's offset %q is not above the fork point %q", mine, two)
	}
	c.get(f, from(one)).is(200).body("twomine").header("Stream-Next-Offset", mine)
	c.get(f, from(two)).is(200).body("mine")
	c.get(f, from(mine)).is(200).body("")
	c.get(f, from(three)).refused(400, 410)
	c.get(s, from(mine)).refused(400, 410)
	c.get(s, from(two)).is(200).body("three")
	if a, b := c.get(f, fromStart).Header.Get("ETag"), c.get(s, fromStart).Header.Get("ETag"); a == b {
		c.Errorf("source and fork share the ETag %s", a)
	}
}

func forkLive(c *client) {
	s := c.create("source", text, "old")
	f := c.path("fork")
	c.put(f, text, "", c.fork(s)...).is(201)
	live := c.sse(f, fromStart)
	ctl := live.until("old", plain)
	wait := c.later(func() *reply { return c.get(f, from(ctl.StreamNextOffset)+longPoll) })
	c.add(s, text, "source")
	live.quiet(200 * time.Millisecond)
	c.add(f, text, "mine")
	live.until("mine", plain)
	r := wait().is(200, 204)
	if r.Status == 200 {
		r.body("mine")
	}
	c.get(f, fromStart+longPoll).is(200).body("oldmine")
	c.post(s, text, "end", closing()...).is(204)
	live.quiet(200 * time.Millisecond)
	c.post(f, text, "last", closing()...).is(204)
	live.until("last", plain)
	live.ends(patience)
}

func forkSilent(c *client) {
	s := c.create("source", text, "old")
	f := c.path("fork")
	names := []string{"Stream-Forked-From", "Stream-Fork-Offset", "Stream-Fork-Sub-Offset"}
	c.put(f, text, "", c.fork(s, at(startOffset, "2")...)...).is(201).without(names...)
	c.put(f, text, "", c.fork(s, at(startOffset, "2")...)...).is(200).without(names...)
	c.get(f, fromStart).is(200).without(names...)
	c.head(f).is(200).without(names...)
	c.post(f, text, "x").is(204).without(names...)
	c.put(f, text, "").is(409).without(names...)
	c.get(s, fromStart).is(200).without(names...)
	c.delete(f).is(204).without(names...)
}
