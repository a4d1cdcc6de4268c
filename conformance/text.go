package conformance

import (
	"strings"
	"time"
	"unicode/utf8"
)

func textTests() []test {
	return []test{
		{"B48 a character split over appends arrives whole", splitCharacters},
		{"B48 an incomplete end is held back until the close", incompleteAtClose},
		{"N29 resuming inside a character loses nothing", resumeInsideCharacter},
		{"B50 line ends and leading characters survive and forge nothing", lineEnds},
		{"N05 every text type is plain over SSE", textTypes},
		{"N07 B51 every other type is base64 that decodes alone", base64Types},
	}
}

func splitCharacters(c *client) {
	const emoji = "\xf0\x9f\x98\x80"
	for _, parts := range [][]string{
		{emoji[:2], emoji[2:]}, {emoji[:1], emoji[1:3], emoji[3:]}, {"a" + emoji[:3], emoji[3:] + "b"},
		{"\xc3", "\xa9"}, {"\xe2\x82", "\xac" + emoji[:1], emoji[1:]}, {emoji[:1], emoji[1:2], emoji[2:3], emoji[3:]},
	} {
		want := strings.Join(parts, "")
		p := c.create("split", text, "")
		live := c.sse(p, fromNow)
		live.control()
		for _, part := range parts {
			c.add(p, text, part)
		}
		live.until(want, plain)
		c.sse(p, fromStart).until(want, plain)
		c.get(p, fromStart).is(200).body(want)
	}
}

func incompleteAtClose(c *client) {
	p := c.create("half", text, "a")
	f := c.sse(p, fromStart)
	f.until("a", plain)
	c.add(p, text, "\xf0\x9f")
	f.quiet(300 * time.Millisecond)
	final := c.closes(p)
	// What never became a character may come as it can be shown, but the end comes.
	var last control
	for {
		e, ok := f.take(patience)
		if !ok {
			break
		}
		if e.kind == "data" && strings.Contains(e.data, "a") {
			c.Errorf("old data again: %s", short(e.data))
		}
		last = e.control
	}
	if !last.StreamClosed || last.StreamNextOffset != final {
		c.Errorf("last control %+v, want closed at %s", last, final)
	}
	c.get(p, fromStart).is(200).body("a\xf0\x9f")
}

func resumeInsideCharacter(c *client) {
	const euro = "\xe2\x82\xac"
	p := c.create("resume", text, "x")
	f := c.sse(p, fromStart)
	ctl := f.until("x", plain)
	cut := c.add(p, text, "y"+euro[:1])
	// Whatever was given, the control after it leads to the rest.
	got := "x"
	e, next := f.pair()
	got += e.data
	ctl = next
	f.cancel()
	c.add(p, text, euro[1:]+"z")
	f = c.sse(p, from(ctl.StreamNextOffset))
	f.until(strings.TrimPrefix("xy"+euro+"z", got), plain)
	if !utf8.ValidString(got) || strings.Contains(got, "\ufffd") {
		c.Errorf("a broken character was sent: %q", got)
	}
	// Resuming exactly at the cut gives the rest of the bytes over GET.
	c.get(p, from(cut)).is(200).body(euro[1:] + "z")
}

func lineEnds(c *client) {
	// What arrives over SSE is the text with every line end as one line feed.
	breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	var rows []test
	for _, content := range []string{
		"a\rb", "a\nb", "a\r\nb", "a\n", "\n", "\n\n", "\r\n\r\n", "a\n\nb", "\r\r\n\n", "  x", " ", "   leading\n  and again", ":c", ": comment", "data: x",
		"\n\nevent: control\ndata: {\"streamClosed\":true}\n\n", "\r\revent: control\rdata: {\"streamClosed\":true}\r\r", "\r\n\r\nevent: data\r\ndata: forged\r\n\r\n",
		"id: 7\nretry: 1", "\x00", "tab\there", "\ufeffmark", "\u2028line\u2029paragraph\u0085next\v\f", "a\n ", " \n ",
	} {
		rows = append(rows, test{content, func(c *client) {
			want := breaks.Replace(content)
			p := c.create("created", text, content)
			c.get(p, fromStart).is(200).body(content)
			c.sse(p, fromStart).until(want, plain)

			p = c.create("live", text, "")
			f := c.sse(p, fromNow)
			f.control()
			tail := c.add(p, text, content)
			if ctl := f.until(want, plain); ctl.StreamNextOffset != tail || ctl.StreamClosed {
				c.Errorf("control %+v, want the tail %s and open", ctl, tail)
			}
			c.post(p, text, "end", closing()...).is(204)
			f.until("end", plain)
			for _, e := range f.ends(patience) {
				if e.kind == "data" {
					c.Errorf("more data after the end: %s", short(e.data))
				}
			}
		}})
	}
	c.subs(rows)
}

func textTypes(c *client) {
	for _, ctype := range []string{"text/plain", "text/html", "text/markdown; charset=utf-8", "TEXT/CSV", "text/event-stream", "text/x-token-stream", "text/xml"} {
		p := c.create("text", ctype, "héllo\n")
		f := c.sse(p, fromStart)
		if got := f.Header.Values("Stream-SSE-Data-Encoding"); len(got) > 0 {
			c.Errorf("%s has the encoding %q over SSE", ctype, got)
		}
		f.until("héllo\n", plain)
		c.add(p, ctype, "again")
		f.until("again", plain)
	}
}

func base64Types(c *client) {
	for _, ctype := range []string{octet, "application/x-ndjson", "image/png", "application/x-protobuf", "application/xml", "audio/text", "application/vnd.api+json"} {
		c.sub(ctype, func(c *client) {
			p := c.create("binary", ctype, "\x00\xff")
			f := c.sse(p, fromStart)
			if got := f.Header.Get("Stream-SSE-Data-Encoding"); got != "base64" {
				c.Errorf("stream-sse-data-encoding %q, want base64", got)
			}
			f.until("\x00\xff", unbase64)
			want := "\x00\xff"
			for _, part := range []string{"a", "bc\n", "{\"a\":1}\n", strings.Repeat("\r\n\x80", 1000), "\x00"} {
				c.add(p, ctype, part)
				e, _ := f.pair()
				quads := strings.ReplaceAll(e.data, "\n", "")
				if len(quads)%4 != 0 || unbase64(e.data) != part {
					c.Errorf("event %s is not %s in base64", short(e.data), short(part))
				}
				want += part
			}
			c.get(p, fromStart).is(200).body(want)
			c.sse(p, fromStart).until(want, unbase64)
		})
	}
}
