package conformance

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// edgeTests attack the first lines of defence: framing, heads, targets, and what a
// client can have stored and sent back to others.
func edgeTests() []test {
	return []test{
		{"a coding or length of odd form is refused and the connection closed", oddFraming},
		{"a body without use is no request", hiddenInBodies},
		{"what follows a refusal is no request", hiddenBehindRefusals},
		{"chunks are taken to the letter", chunkForms},
		{"chunk extensions and trailers are bounded and mean nothing", chunkExtras},
		{"odd bytes in heads are refused", oddHeads},
		{"very many header fields are refused", manyFields},
		{"long and odd targets are answered, never followed", oddTargets},
		{"a Host that is none never comes back", oddHosts},
		{"stored headers split no answer", noSplitting},
		{"a body of very many messages is taken whole", manyMessages},
	}
}

// smuggled is what an attacker hopes to have taken for a request of its own.
func (c *client) smuggled(path string) string {
	return c.rawHead("POST", path, plainType(text), "Content-Length: 7") + "SECOND!"
}

// refusedAndClosed sends bytes and demands one refusal, or none, and the end.
func (c *client) refusedAndClosed(method, what, data string) {
	c.Helper()
	k := c.dial()
	r := k.exchange(method, data)
	switch {
	case errors.Is(r.Err, os.ErrDeadlineExceeded):
		c.Errorf("%s: neither an answer nor an end", what)
	case r.Err != nil: // hung up on
	case r.Status < 400 || r.Status == 500 || r.Status == 502:
		c.Errorf("%s: status %d", what, r.Status)
	default:
		k.closed()
	}
	k.Close()
}

func oddFraming(c *client) {
	p := c.create("framing", text, "")
	hidden := "0\r\n\r\n" + c.smuggled(p)
	length := fmt.Sprint("Content-Length: ", len(hidden))
	for _, lines := range []string{
		// One reader sees a chunked body that ends at once, another one a long body.
		"Transfer-Encoding : chunked\r\n" + length, "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n" + length,
		"Transfer-Encoding: identity\r\n" + length, "Transfer-Encoding: , chunked\r\n" + length, "Transfer-Encoding: chunked;q=1\r\n" + length,
		"Transfer-Encoding: chunked, \r\n" + length, "Transfer-Encoding: x, chunked\r\n" + length, "Transfer-Encoding: chunked\x00\r\n" + length,
		"Transfer-Encoding: \x0bchunked\r\n" + length, "Transfer-Encoding: 'chunked'\r\n" + length, "Transfer-Encoding: chunked-\r\n" + length,
		"X: y\rTransfer-Encoding: chunked\r\n" + length, "X: y\x00Transfer-Encoding: chunked\r\n" + length,
		"Transfer\x00-Encoding: chunked\r\n" + length, "Transfer-Encoding\x0b: chunked\r\n" + length,
		"Transfer-Encoding\r\n: chunked\r\n" + length, "(Transfer-Encoding): chunked\r\n" + length,
		// Lengths about which readers differ.
		"Content-Length: 5\r\n" + length, length + "\r\nContent-Length: 5", "Content-Length: 5, 5", "Content-Length: 5,", "Content-Length: 05x", "Content-Length: 5\x00",
		"Content-Length: \x0b5", "Content-Length: 5 \x0c", "Content-Length : 5", "Content-Length:\r\nX: y", "Content-Length: 1_0", "Content-Length: ５", "Content-Length: 0x5", "Content-Length: 5e0",
	} {
		c.refusedAndClosed("POST", lines, strings.Replace(c.rawHead("POST", p, plainType(text), lines), "\r\n\r\n", "\r\n\r\n"+hidden, 1))
	}
	// Bare line feeds and folds are understood by some. Whoever understands them has
	// one framing, and closes.
	for _, lines := range []string{
		"X: y\nTransfer-Encoding: chunked\r\n" + length, "Transfer-Encoding:\r\n chunked\r\n" + length, "Transfer-Encoding:\r\n\tchunked\r\n" + length,
		"Transfer-Encoding: chunked\r\n" + length, length + "\nTransfer-Encoding: chunked",
	} {
		q := c.create("folded", text, "")
		k := c.dial()
		k.exchange("POST", c.rawHead("POST", q, plainType(text), lines)+"0\r\n\r\n"+c.smuggled(q))
		k.closed()
		c.get(q, fromStart).is(200).body("")
	}
	// Folded into the field before it, it is no coding: the length counts.
	k := c.dial()
	if r := k.exchange("POST", c.rawHead("POST", p, length, plainType(text), " Transfer-Encoding: chunked")+hidden); r.Err == nil {
		r.is(400)
	}
	if r := k.exchange("GET", c.rawHead("GET", p)); r.Err == nil {
		r.is(200)
	}
	c.get(p, fromStart).is(200).body("")
}

func hiddenInBodies(c *client) {
	p := c.create("hidden", text, "")
	hidden := c.smuggled(p)
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS", "PATCH", "FOO"} {
		target := p
		if method == "DELETE" {
			target = c.path("none")
		}
		for _, framing := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(hidden), hidden),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden),
		} {
			k := c.dial()
			k.exchange(method, strings.TrimSuffix(c.rawHead(method, target), "\r\n")+framing)
			if r := k.exchange("GET", c.rawHead("GET", p)); r.Err == nil {
				r.is(200).body("") // it went on behind the body, and not in it
			}
			k.Close()
		}
	}
	c.get(p, fromStart).is(200).body("")
}

func hiddenBehindRefusals(c *client) {
	p := c.create("behind", text, "")
	hidden := c.smuggled(p)
	pad := strings.Repeat(" ", 100_000)
	for what, data := range map[string]string{
		"missing stream":   c.rawHead("POST", c.path("none"), plainType(text), fmt.Sprint("Content-Length: ", len(hidden)+len(pad))) + hidden + pad,
		"other type":       c.rawHead("POST", p, plainType(jsonType), fmt.Sprint("Content-Length: ", len(hidden))) + hidden,
		"bad header":       c.rawHead("POST", p, plainType(text), "Producer-Id: p", fmt.Sprint("Content-Length: ", len(hidden))) + hidden,
		"too large":        c.rawHead("POST", p, plainType(text), fmt.Sprint("Content-Length: ", c.MaxBody+1)) + hidden,
		"bad path":         c.rawHead("POST", p+"//x", plainType(text), fmt.Sprint("Content-Length: ", len(hidden))) + hidden,
		"doomed and asked": c.rawHead("POST", c.path("none"), plainType(text), "Expect: 100-continue", fmt.Sprint("Content-Length: ", len(hidden))) + hidden,
		"broken chunks":    c.rawHead("POST", p, plainType(text), chunked) + "x\r\n\r\n" + hidden,
		"broken head":      "GET " + c.full(p) + " HTTP/1.1\r\nHost: x\r\nBad Field: y\r\n\r\n" + hidden,
		"two hosts":        "GET " + c.full(p) + " HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + hidden,
	} {
		k := c.dial()
		if r := k.exchange("POST", data); r.Err == nil && r.Status < 400 {
			c.Errorf("%s: status %d", what, r.Status)
		}
		if r := k.exchange("GET", c.rawHead("GET", p)); r.Err == nil {
			r.is(200).body("")
		}
		k.Close()
		c.get(p, fromStart).is(200).body("")
	}
}

func chunkForms(c *client) {
	for _, body := range []string{
		" 5\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "5\nhello\n0\n\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\r\nhello\r\r\n0\r\n\r\n",
		"5\rhello\r0\r\r", "5\x00\r\nhello\r\n0\r\n\r\n", "5;\n\r\nhello\r\n0\r\n\r\n", "g\r\nhello\r\n0\r\n\r\n", "5\r\nhell\r\n0\r\n\r\n", "100000000000000005\r\nhello\r\n0\r\n\r\n",
		"-5\r\nhello\r\n0\r\n\r\n", "5,5\r\nhello\r\n0\r\n\r\n", "\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		p := c.create("chunks", text, "")
		k := c.dial()
		r := k.exchange("POST", c.rawHead("POST", p, plainType(text), chunked)+body+c.smuggled(p))
		k.closed()
		want := ""
		if r.Err == nil && r.Status == 204 {
			want = "hello" // taken to mean what it looks like
		}
		if got := c.content(p); got != want {
			c.Errorf("chunks %q: status %d leaves %s", body, r.Status, short(got))
		}
	}
}

func chunkExtras(c *client) {
	long := strings.Repeat("x", 100_000)
	var many strings.Builder
	for range 20_000 {
		many.WriteString("1;" + long[:60] + "\r\na\r\n")
	}
	trailers := strings.Repeat("X-Trailer: y\r\n", 100_000)
	for what, body := range map[string]string{
		"long extension": "5;" + long + "\r\nhello\r\n0\r\n\r\n", "many extensions": many.String() + "0\r\n\r\n", "many trailers": "5\r\nhello\r\n0\r\n" + trailers + "\r\n",
		"endless trailer": "5\r\nhello\r\n0\r\nX: " + strings.Repeat(long, 20) + "\r\n\r\n",
	} {
		p := c.create("extras", text, "")
		k := c.dial()
		if r := k.exchange("POST", c.rawHead("POST", p, plainType(text), chunked)+body); r.Err == nil {
			r.is(204, 400, 413, 431)
			k.closed()
		}
		k.Close()
		if got := c.content(p); got != "" && got != "hello" && got != strings.Repeat("a", 20_000) {
			c.Errorf("%s: leaves %s", what, short(got))
		}
	}
	for _, trailer := range []string{"Content-Length: 1", "Transfer-Encoding: gzip", "Host: y", "Stream-Closed: true", "Content-Type: " + jsonType, "Stream-Seq: z", "Producer-Id: p"} {
		p := c.create("trailer", text, "")
		k := c.dial()
		if r := k.exchange("POST", c.rawHead("POST", p, plainType(text), chunked)+"5\r\nhello\r\n0\r\n"+trailer+"\r\n\r\n"); r.Err == nil {
			r.is(204, 400)
		}
		k.Close()
		r := c.get(p, fromStart).is(200).without("Stream-Closed")
		if r.Body != "" && r.Body != "hello" {
			c.Errorf("trailer %q: leaves %s", trailer, short(r.Body))
		}
	}
}
