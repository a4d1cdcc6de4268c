package conformance

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

func httpTests() []test {
	return []test{
		{"B54 N31 chunked bodies are whole bodies, on PUT too", chunkedBodies},
		{"broken chunks are refused and leave nothing", brokenChunks},
		{"B55 two lengths in one request never smuggle another", twoLengths},
		{"bad lengths and codings are refused", badLengths},
		{"B56 100-continue only for a request that would be taken", expectContinue},
		{"too large a body is refused without reading it", tooLarge},
		{"B59 a client that goes away in the middle of a body appends nothing", clientGone},
		{"B61 other methods are 405 or 501 with Allow", otherMethods},
		{"requests on one connection are answered in order", pipelined},
		{"a request may come byte by byte", byteByByte},
		{"what is no request is refused", noRequest},
		{"a huge head is refused", hugeHead},
		{"old and odd forms of requests", oddForms},
	}
}

const chunked = "Transfer-Encoding: chunked"

func plainType(ctype string) string { return "Content-Type: " + ctype }

func chunkedBodies(c *client) {
	p := c.path("put")
	c.dial().exchange("PUT", c.rawHead("PUT", p, plainType(text), chunked)+"5\r\nhello\r\n0\r\n\r\n").is(201)
	c.get(p, fromStart).is(200).body("hello")
	for _, body := range []string{
		"5\r\nworld\r\n0\r\n\r\n", "1\r\nw\r\n4\r\norld\r\n0\r\n\r\n", "5;ext=1\r\nworld\r\n0\r\n\r\n", "5;a=\"b\"\r\nworld\r\n0;last\r\n\r\n",
		"005\r\nworld\r\n000\r\n\r\n", "5\r\nworld\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n",
	} {
		p := c.create("post", text, "")
		r := c.dial().exchange("POST", c.rawHead("POST", p, plainType(text), chunked)+body).is(204)
		c.get(p, fromStart).is(200).body("world").header("Stream-Next-Offset", r.tail())
	}
	var big, body strings.Builder
	for i := range 200 {
		part := strings.Repeat(string(rune('a'+i%26)), i*7+1)
		fmt.Fprintf(&body, "%X\r\n%s\r\n", len(part), part)
		big.WriteString(part)
	}
	p = c.create("big", text, "")
	c.dial().exchange("POST", c.rawHead("POST", p, plainType(text), chunked)+body.String()+"0\r\n\r\n").is(204)
	c.get(p, fromStart).is(200).body(big.String())

	// A slow sender of tokens in one request.
	p = c.create("slow", jsonType, "")
	k := c.dial()
	k.write(c.rawHead("POST", p, plainType(jsonType), chunked))
	for _, part := range []string{"[1", ",2", ",3]"} {
		k.write(fmt.Sprintf("%x\r\n%s\r\n", len(part), part))
		c.pause(20 * time.Millisecond)
	}
	c.get(p, fromStart).is(200).body("[]")
	k.exchange("POST", "0\r\n\r\n").is(204)
	c.same("messages", c.messages(p), []string{"1", "2", "3"})
}

func brokenChunks(c *client) {
	for _, body := range []string{"x\r\nhello\r\n0\r\n\r\n", "-1\r\nh\r\n0\r\n\r\n", "5\r\nhelloworld\r\n0\r\n\r\n", "\r\nhello\r\n0\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\nh", "5 5\r\nhello\r\n0\r\n\r\n"} {
		p, q := c.create("post", text, ""), c.path("put")
		k := c.dial()
		if r := k.exchange("POST", c.rawHead("POST", p, plainType(text), chunked)+body); r.Err == nil {
			r.is(400, 413)
			k.closed()
		}
		if r := c.dial().exchange("PUT", c.rawHead("PUT", q, plainType(text), chunked)+body); r.Err == nil {
			r.is(400, 413)
		}
		c.get(p, fromStart).is(200).body("")
		c.head(q).is(404)
	}
}

func twoLengths(c *client) {
	for i, lines := range [][]string{
		{"Content-Length: 3", chunked}, {chunked, "Content-Length: 3"}, {"Content-Length: 13", chunked}, {"Content-Length: 0", chunked},
	} {
		p := c.create("smuggle", text, "")
		k := c.dial()
		next := c.rawHead("POST", p, plainType(text), "Content-Length: 7") + "SECOND!"
		r := k.exchange("POST", c.rawHead("POST", p, append([]string{plainType(text)}, lines...)...)+"3\r\nabc\r\n0\r\n\r\n"+next).is(400, 204)
		k.closed()
		want := ""
		if r.Status == 204 {
			want = "abc"
		}
		if got := c.content(p); got != want {
			c.Errorf("case %d: status %d leaves %q, want %q", i, r.Status, got, want)
		}
	}
	for _, lines := range [][]string{{"Content-Length: 3", "Content-Length: 4"}, {"Content-Length: 4", "Content-Length: 3"}, {"Content-Length: 3, 4"}} {
		p := c.create("lengths", text, "")
		k := c.dial()
		k.exchange("POST", c.rawHead("POST", p, append([]string{plainType(text)}, lines...)...)+"abcd").is(400)
		k.closed()
		c.get(p, fromStart).is(200).body("")
	}
}

func badLengths(c *client) {
	for _, line := range []string{
		"Content-Length: abc", "Content-Length: -1", "Content-Length: +3", "Content-Length: 3.0", "Content-Length: 0x3", "Content-Length: 99999999999999999999999", "Content-Length: 3 3",
		"Transfer-Encoding: gzip", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked, gzip", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: \"chunked\"",
	} {
		p := c.create("length", text, "")
		k := c.dial()
		r := k.exchange("POST", c.rawHead("POST", p, plainType(text), line)+"3\r\nabc\r\n0\r\n\r\n")
		if r.Err != nil {
			c.Errorf("%s: %v", line, r.Err)
			continue
		}
		r.is(400, 413, 501)
		c.get(p, fromStart).is(200).body("")
	}
}

func expectContinue(c *client) {
	const expect = "Expect: 100-continue"
	p, closed := c.create("expect", text, ""), c.create("closed", text, "", closing()...)
	doomed := func(status int, head string) {
		c.Helper()
		k := c.dial()
		begin := time.Now()
		r := k.exchange("POST", head)
		if r.Err == nil && r.Status == 100 {
			c.Errorf("a doomed request was invited with 100, want %d", status)
			return
		}
		r.is(status)
		if took := time.Since(begin); took > 5*time.Second {
			c.Errorf("the refusal took %s", took)
		}
	}
	doomed(404, c.rawHead("POST", c.path("missing"), plainType(text), "Content-Length: 3", expect))
	doomed(409, c.rawHead("POST", p, plainType(jsonType), "Content-Length: 3", expect))
	doomed(409, c.rawHead("POST", closed, plainType(text), "Content-Length: 3", expect))
	doomed(413, c.rawHead("POST", p, plainType(text), "Content-Length: 99999999999999", expect))
	doomed(413, c.rawHead("PUT", c.path("put"), plainType(text), "Content-Length: 99999999999999", expect))
	doomed(400, c.rawHead("POST", p, "Content-Length: 3", expect))
	doomed(404, c.rawHead("POST", c.path("missing"), plainType(text), chunked, expect))
	doomed(417, c.rawHead("POST", p, plainType(text), "Content-Length: 3", "Expect: miracles"))

	for _, form := range [][2]string{{"Content-Length: 3", "abc"}, {chunked, "3\r\nabc\r\n0\r\n\r\n"}} {
		q := c.create("taken", text, "")
		k := c.dial()
		k.write(c.rawHead("POST", q, plainType(text), form[0], expect))
		k.answer("POST").is(100)
		k.exchange("POST", form[1]).is(204)
		c.get(q, fromStart).is(200).body("abc")
	}
	// A client that does not wait is served as well.
	q := c.create("eager", text, "")
	k := c.dial()
	if r := k.exchange("POST", c.rawHead("POST", q, plainType(text), "Content-Length: 3", expect)+"abc").is(100, 204); r.Status == 100 {
		k.answer("POST").is(204)
	}
	c.get(q, fromStart).is(200).body("abc")
}

func tooLarge(c *client) {
	p, q := c.create("large", text, ""), c.path("put")
	for _, n := range []string{fmt.Sprint(c.MaxBody + 1), "99999999999999", "9223372036854775807"} {
		k := c.dial()
		k.exchange("POST", c.rawHead("POST", p, plainType(text), "Content-Length: "+n)).is(413)
		k.closed()
		c.dial().exchange("PUT", c.rawHead("PUT", q, plainType(text), "Content-Length: "+n)).is(413)
	}
	c.get(p, fromStart).is(200).body("")
	c.head(q).is(404)
	k := c.dial()
	part := strings.Repeat("x", 64<<10)
	go func() {
		k.write(c.rawHead("POST", p, plainType(text), chunked))
		for range c.MaxBody/(64<<10) + 2 {
			k.write("10000\r\n" + part + "\r\n")
		}
	}()
	if r := k.answer("POST"); r.Err == nil {
		r.is(413)
	}
	k.Close()
	c.get(p, fromStart).is(200).body("")
}

func clientGone(c *client) {
	p := c.create("gone", text, "x")
	tail := c.head(p).tail()
	var news []string
	for _, half := range []bool{false, true} {
		q, r := c.path("put"), c.path("put-chunked")
		news = append(news, q, r)
		for _, data := range []string{
			c.rawHead("POST", p, plainType(text), "Content-Length: 100") + "1234567",
			c.rawHead("POST", p, plainType(text), chunked) + "7\r\n1234567\r\n",
			c.rawHead("POST", p, plainType(text), chunked) + "100\r\n1234567",
			c.rawHead("POST", p, plainType(text), chunked) + "7\r\n1234567\r\n0\r\n",
			c.rawHead("POST", p, plainType(text), "Content-Length: 100", "Stream-Closed: true") + "1234567",
			c.rawHead("POST", p, "Content-Length: 1", "Stream-Closed: true"),
			c.rawHead("PUT", q, plainType(text), "Content-Length: 100") + "1234567",
			c.rawHead("PUT", r, plainType(text), chunked) + "7\r\n1234567\r\n",
			strings.TrimSuffix(c.rawHead("DELETE", p), "\r\n"),
		} {
			k := c.dial()
			k.write(data)
			if !half {
				k.Close()
				continue
			}
			k.Conn.(interface{ CloseWrite() error }).CloseWrite()
			if r := k.answer("POST"); r.Err == nil {
				r.is(400, 408, 413)
			}
		}
	}
	c.pause(200 * time.Millisecond)
	c.get(p, fromStart).is(200).body("x").header("Stream-Next-Offset", tail).without("Stream-Closed")
	for _, q := range news {
		c.head(q).is(404)
	}
}

func otherMethods(c *client) {
	p := c.create("methods", text, "secret")
	for _, method := range []string{"PATCH", "TRACE", "FOO", "get", "LINK", "PROPFIND", "PURGE", "CONNECTED"} {
		for _, path := range []string{p, c.path("missing")} {
			k := c.dial()
			r := k.exchange(method, c.rawHead(method, path, "X-Echo: echo", "Content-Length: 0")).is(405, 501)
			if r.Status == 405 && method != "PATCH" && method != "TRACE" {
				c.Logf("%s answers 405", method)
			}
			allow := strings.Join(r.Header.Values("Allow"), ",")
			for _, want := range []string{"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"} {
				if !strings.Contains(allow, want) {
					c.Errorf("%s: status %d with Allow %q, want %s in it", method, r.Status, allow, want)
				}
			}
			if strings.Contains(r.Body, "X-Echo") || strings.Contains(r.Body, "secret") {
				c.Errorf("%s echoes: %s", method, short(r.Body))
			}
		}
	}
	c.get(p, fromStart).is(200).body("secret")
}

func pipelined(c *client) {
	p := c.path("pipeline")
	k := c.dial()
	k.write(c.rawHead("PUT", p, plainType(text), "Content-Length: 1") + "0")
	want := "0"
	for i := 1; i < 30; i++ {
		k.write(c.rawHead("POST", p, plainType(text), "Content-Length: 1") + fmt.Sprint(i%10))
		want += fmt.Sprint(i % 10)
	}
	k.write(c.rawHead("GET", p) + c.rawHead("HEAD", p) + c.rawHead("GET", c.path("missing")) + c.rawHead("GET", p, "Connection: close"))
	k.answer("PUT").is(201)
	last := ""
	for range 29 {
		tail := k.answer("POST").is(204).tail()
		if tail <= last {
			c.Errorf("answers out of order: %s after %s", tail, last)
		}
		last = tail
	}
	k.answer("GET").is(200).body(want)
	k.answer("HEAD").is(200).header("Stream-Next-Offset", last)
	k.answer("GET").is(404)
	k.answer("GET").is(200).body(want)
	k.closed()
}

func byteByByte(c *client) {
	p := c.create("bytes", text, "")
	k := c.dial()
	for _, b := range []byte(c.rawHead("POST", p, plainType(text), "Content-Length: 5") + "hello") {
		k.write(string(b))
		c.pause(200 * time.Microsecond)
	}
	k.answer("POST").is(204)
	request := c.rawHead("POST", p, plainType(text), "Content-Length: 5") + "world"
	for i := 1; i < len(request); i += 13 {
		k := c.dial()
		k.write(request[:i])
		c.pause(2 * time.Millisecond)
		k.exchange("POST", request[i:]).is(204)
	}
	if got := c.content(p); !strings.HasPrefix(got, "helloworldworld") {
		c.Errorf("content %s", short(got))
	}
}

func noRequest(c *client) {
	target := c.full(c.path("x"))
	var running sync.WaitGroup
	for _, data := range []string{
		"GARBAGE\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "GET\r\n\r\n", "GET " + target + "\r\n\r\n", "GET " + target + " HTTP/1.1\r\n\r\n",
		"GET " + target + " HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET " + target + " HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
		"GET " + target + " HTTP/1.1\r\nHost: x\r\nNoColon\r\n\r\n", "GET " + target + " HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", "GET " + target + " HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n",
		"GET " + target + " HTTQ/1.1\r\nHost: x\r\n\r\n", "GET " + target + " HTTP/3.7\r\nHost: x\r\n\r\n", "GE(T " + target + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET " + target + "%zz HTTP/1.1\r\nHost: x\r\n\r\n", "GET " + target + "\x00 HTTP/1.1\r\nHost: x\r\n\r\n", "GET  " + target + " HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		running.Go(func() { // a server may wait for more to come
			k := c.dial()
			r := k.exchange("GET", data)
			if r.Err != nil {
				return // closing without an answer is fine for what is no HTTP
			}
			if r.Status < 400 || r.Status == 500 || r.Status == 502 {
				c.Errorf("%q answered with %d", data, r.Status)
			}
		})
	}
	running.Wait()
	p := c.create("after", text, "fine")
	c.get(p, fromStart).is(200).body("fine")
}

func hugeHead(c *client) {
	p := c.create("head", text, "x")
	for _, line := range []string{"X-Large: " + strings.Repeat("x", 3<<20), strings.TrimSuffix(strings.Repeat("X-Many: y\r\n", 300_000), "\r\n")} {
		k := c.dial()
		if r := k.exchange("GET", c.rawHead("GET", p, line)); r.Err == nil {
			r.is(431)
		}
		k.Close()
	}
	k := c.dial()
	if r := k.exchange("GET", c.rawTarget("GET", c.full(p)+"?offset=-1&x="+strings.Repeat("x", 3<<20))); r.Err == nil {
		r.is(414, 431, 400)
	}
	c.get(p, fromStart).is(200).body("x")
}

func oddForms(c *client) {
	p := c.create("odd", text, "x")
	c.dial().exchange("GET", "GET "+c.BaseURL+c.full(p)+" HTTP/1.1\r\nHost: "+c.host+"\r\n\r\n").is(200).body("x")
	k := c.dial()
	k.exchange("GET", "GET "+c.full(p)+" HTTP/1.0\r\nHost: "+c.host+"\r\n\r\n").is(200).body("x")
	k.closed()
	// A server that refuses the empty line may reset what it has not read.
	if r := c.dial().exchange("GET", "\r\n"+c.rawHead("GET", p)); r.Err == nil {
		r.is(200, 400)
	}
	c.dial().exchange("POST", c.rawHead("POST", p, "content-type: text/plain", "CONTENT-LENGTH: 1", "stream-SEQ: a")+"y").is(204)
	c.post(p, text, "no", "Stream-Seq", "a").refused(409)
	c.dial().exchange("GET", c.rawHead("GET", p, "Content-Length: 3")+"abc").is(200, 400)
	c.get(p, fromStart, "Range", "bytes=1-1").is(200).body("xy")
	c.get(p, fromStart).is(200).body("xy")
}
