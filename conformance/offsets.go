package conformance

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

func offsetTests() []test {
	return []test{
		{"N37 minted offsets grow as strings and fit into a URL", mintedOffsets},
		{"malformed, empty and doubled offsets are refused in every mode", malformedOffsets},
		{"B67 B68 an offset that was never minted is never a fault", inventedOffsets},
		{"an offset beyond the tail is refused in every mode", beyondTail},
		{"an offset inside a JSON message is refused", insideMessage},
		{"an offset of a former life or another stream is gone", foreignOffsets},
		{"every minted offset stays valid", lastingOffsets},
		{"the start has several names", startNames},
	}
}

func mintedOffsets(c *client) {
	p := c.create("minted", text, "")
	seen := []string{c.head(p).tail()}
	for i := range 120 {
		seen = append(seen, c.add(p, text, strings.Repeat("x", i%7+1)))
	}
	for i, offset := range seen {
		if len(offset) >= 256 || strings.ContainsAny(offset, ",&=?/ %#+") || offset == "-1" || offset == "now" {
			c.Errorf("offset %q is not fit for a URL", offset)
		}
		if i > 0 && offset <= seen[i-1] {
			c.Errorf("offset %q does not grow over %q", offset, seen[i-1])
		}
	}
}

// modes are the ways to read, each with its own parsing of the offset at risk.
func modes() []string { return []string{"", longPoll, sse} }

func malformedOffsets(c *client) {
	p := c.create("malformed", text, "hello")
	tail := c.head(p).tail()
	queries := []string{
		"offset=", "offset", "offset=%20", "offset=abc", "offset=-2", "offset=--1", "offset=NOW", "offset=Now", "offset=-1,now", "offset=1", "offset=1e3",
		"offset=" + tail + "x", "offset=x" + tail, "offset=" + tail + "%00", "offset=%20" + tail, "offset=" + tail + "%0A", "offset=" + strings.Repeat("9", 300),
		"offset=..%2F..", "offset=%F0%9F%98%80", "offset=%FF", "offset=0000000000000000_", "offset=_0000000000000000",
		"offset=-1&offset=-1", "offset=-1&offset=now", "offset=" + tail + "&offset=" + tail, "offset=-1&offset=",
		"offset=" + strings.ReplaceAll(tail, "_", "-"), "offset=" + strings.ReplaceAll(tail, "_", "%2C"),
	}
	for _, q := range queries {
		for _, mode := range modes() {
			c.get(p, q+mode).refused(400)
		}
	}
	c.get(p, from(tail)+"%").is(400, 200)
	for _, mode := range modes()[1:] {
		c.get(p, strings.TrimPrefix(mode, "&")).refused(400)
	}
	for _, live := range []string{"live=", "live=true", "live=SSE", "live=longpoll", "live=sse&live=sse", "live=sse&live=long-poll", "live=long-poll%20"} {
		c.get(p, fromStart+"&"+live).refused(400)
	}
}

func inventedOffsets(c *client) {
	for _, ctype := range []string{text, jsonType} {
		p := c.create("invented", ctype, "")
		mid := c.add(p, ctype, `"hello"`)
		tail := c.add(p, ctype, `"world"`)
		whole := c.get(p, fromStart).is(200).Body
		for _, base := range []string{mid, tail} {
			for i := range len(base) {
				for _, ch := range "019afz_-" {
					offset := base[:i] + string(ch) + base[i+1:]
					if offset == base {
						continue
					}
					r := c.get(p, from(offset)).is(200, 400, 410)
					if r.Status == 200 && !strings.HasSuffix(whole, strings.TrimLeft(r.Body, "[")) {
						c.Errorf("offset %q gives %s, which is no end of %s", offset, short(r.Body), short(whole))
					}
				}
			}
		}
		c.get(p, from(mid)).is(200)
	}
}

var ourOffset = regexp.MustCompile(`^(\d{16})(_[0-9a-f]{16})$`)

// shift changes the position in an offset of the form that ds mints.
func shift(offset string, by int64) (string, bool) {
	m := ourOffset.FindStringSubmatch(offset)
	if m == nil {
		return "", false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n+by < 0 {
		return "", false
	}
	return fmt.Sprintf("%016d%s", n+by, m[2]), true
}

func beyondTail(c *client) {
	for _, ctype := range []string{text, jsonType, octet} {
		p := c.create("beyond", ctype, `"hello"`)
		tail := c.head(p).tail()
		for _, by := range []int64{1, 2, 1000, 1 << 40} {
			offset, ours := shift(tail, by)
			if !ours {
				c.Skipf("offsets such as %q are of another form", tail)
			}
			for _, mode := range modes() {
				c.get(p, from(offset)+mode).refused(400, 410)
			}
			c.put(c.path("fork"), "", "", "Stream-Forked-From", c.full(p), "Stream-Fork-Offset", offset).refused(400, 410)
		}
		for _, mode := range modes() {
			c.get(p, "offset=9999999999999999_9999999999999999"+mode).refused(400, 410)
		}
	}
}

func insideMessage(c *client) {
	p := c.create("inside", jsonType, "")
	tail := c.add(p, jsonType, `{"hello":"world"}`)
	for by := int64(-17); by < 0; by++ {
		if offset, ours := shift(tail, by); ours {
			for _, mode := range modes() {
				c.get(p, from(offset)+mode).refused(400, 410)
			}
		}
	}
}

func foreignOffsets(c *client) {
	p, other := c.create("one", text, "hello"), c.create("other", text, "hello")
	mid := c.add(p, text, "more")
	c.add(p, text, "and more")
	c.add(other, text, strings.Repeat("x", 100))
	for _, mode := range modes() {
		c.get(other, from(mid)+mode).refused(410)
	}
	c.delete(p).is(204)
	c.put(p, text, strings.Repeat("new", 100)).is(201)
	for _, mode := range modes() {
		c.get(p, from(mid)+mode).refused(410)
	}
	c.put(c.path("fork"), "", "", "Stream-Forked-From", c.full(p), "Stream-Fork-Offset", mid).refused(400, 410)
	c.get(p, fromStart).is(200).body(strings.Repeat("new", 100))
}

func lastingOffsets(c *client) {
	p := c.create("lasting", text, "")
	offsets, content := []string{c.head(p).tail()}, ""
	for i := range 20 {
		part := fmt.Sprintf("%d;", i)
		offsets = append(offsets, c.add(p, text, part))
		content += part
	}
	c.closes(p)
	rest := content
	for _, offset := range offsets {
		c.get(p, from(offset)).is(200).body(rest).header("Stream-Closed", "true")
		_, rest, _ = strings.Cut(rest, ";")
	}
}

func startNames(c *client) {
	p := c.create("start", text, "hello")
	first := c.get(p, fromStart).is(200).body("hello")
	c.get(p, "").is(200).body("hello").header("ETag", first.Header.Get("ETag"))
	c.get(p, "offset=%2D1").is(200).body("hello")
	c.get(p, "cursor=5&offset=-1").is(200).body("hello")
	c.get(p, "offset=-1&unknown=parameter").is(200).body("hello")
	empty := c.create("empty", text, "")
	start := c.head(empty).tail()
	c.add(empty, text, "later")
	c.get(empty, from(start)).is(200).body("later")
}
