package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

const (
	cacheData = "Cache-Control: public, max-age=60, stale-while-revalidate=300"
	noStore   = "Cache-Control: no-store"
	upToDate  = "Stream-Up-To-Date: true"
)

func TestCatchUp(t *testing.T) {
	c := newClient(t, nil)
	start := c.do("PUT a", textType).next()
	mid := c.do("POST a", textType, "=hello").next()
	tail := c.do("POST a", textType, "= world").next()
	next := "Stream-Next-Offset: " + tail
	for _, q := range []string{"", "?", "?offset=-1", "?offset=" + start, "?offset=" + stream.StartLiteral, "?other=1&cursor=5&offset=%2D1"} {
		a := c.do("GET a"+q).want(200, "Content-Type: text/plain", cacheData, next, upToDate, "Stream-Closed:").text("hello world")
		if a.field("ETag") == "" {
			t.Errorf("%s: no ETag", q)
		}
	}
	c.do("GET a?offset="+mid).want(200, next, upToDate, cacheData).text(" world")
	at := c.do("GET a?offset="+tail).want(200, next, upToDate, noStore, "Content-Type: text/plain").text("")
	if at.field("ETag") == "" {
		t.Error("no ETag on an empty read")
	}
	c.do("GET a?offset=now").want(200, next, upToDate, noStore, "ETag:").text("")
	c.do("POST a", closedTrue)
	c.do("GET a?offset=now").want(200, next, upToDate, noStore, closedTrue).text("")
	c.do("GET a?offset="+tail).want(200, next, upToDate, noStore, closedTrue).text("")
	c.do("GET a").want(200, next, upToDate, cacheData, closedTrue)
}

func TestBadReads(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", textType, "=x").want(201)
	tail := c.do("PUT b", textType, "=xy").next()
	beyond := stream.Offset{Pos: 2, Inc: mustOffset(t, c.do("HEAD a").next()).Inc}.String()
	changed := tail[:len(tail)-1] + string(tail[len(tail)-1]^1)
	for _, tt := range []struct {
		query  string
		status int
		code   string
	}{
		{"offset=", 400, "invalid_offset"},
		{"offset=0", 400, "invalid_offset"},
		{"offset=-2", 400, "invalid_offset"},
		{"offset=NOW", 400, "invalid_offset"},
		{"offset=a,b", 400, "invalid_offset"},
		{"offset=9999999999999999_9999999999999999", 400, "invalid_offset"},
		{"offset=" + changed, 400, "invalid_offset"},
		{"offset=" + beyond, 400, "invalid_offset"},
		{"offset=-1&offset=-1", 400, "invalid_parameter"},
		{"offset=%zz", 400, "invalid_parameter"},
		{"offset=" + tail, 410, "offset_gone"}, // of another stream
		{"live=", 400, "invalid_parameter"},
		{"live=true&offset=-1", 400, "invalid_parameter"},
		{"live=SSE&offset=-1", 400, "invalid_parameter"},
		{"live=sse", 400, "invalid_parameter"},
		{"live=long-poll", 400, "invalid_parameter"},
		{"live=sse&live=sse&offset=-1", 400, "invalid_parameter"},
	} {
		lives := []string{tt.query}
		if !strings.Contains(tt.query, "live") {
			lives = append(lives, tt.query+"&live=long-poll", tt.query+"&live=sse")
		}
		for _, q := range lives {
			c.do("GET a?"+q).want(tt.status, noStore, "Content-Type: application/json").code(tt.code)
		}
	}
	c.do("HEAD a?offset=bad&live=sse").want(200)
}

func mustOffset(t *testing.T, s string) stream.Offset {
	t.Helper()
	o, err := stream.ParseOffset(s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestETags(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", textType, "=x").want(201)
	one := c.do("GET a").field("ETag")
	for _, match := range []string{one, "W/" + one, `"zzz", ` + one, "*"} {
		a := c.do("GET a", "If-None-Match: "+match).want(304, "ETag: "+one, upToDate, cacheData, "Stream-Next-Offset: "+c.do("HEAD a").next())
		if a.HasBody("GET") || a.body != "" {
			t.Errorf("%s: a 304 with a body", match)
		}
	}
	c.do("GET a", `If-None-Match: "zzz"`, "If-None-Match: "+one).want(304)
	c.do("GET a", `If-None-Match: "zzz"`).want(200).text("x")
	c.do("GET a?offset=now", "If-None-Match: *").want(200)
	c.do("GET a?offset=-1&live=long-poll", "If-None-Match: "+one).want(200, "ETag: "+one).text("x")
	seen := map[string]bool{one: true}
	for i, change := range [][]string{{"POST a", textType, "=y"}, {"POST a", closedTrue}, {"DELETE a"}} {
		c.do(change[0], change[1:]...)
		if i == 2 {
			c.do("PUT a", textType, closedTrue, "=xy") // the same bytes at the same path
		}
		a := c.do("GET a", "If-None-Match: "+one).want(200)
		if tag := a.field("ETag"); seen[tag] || !strings.HasPrefix(tag, `"`) || strings.HasSuffix(tag, `:c"`) != (i > 0) {
			t.Errorf("%v: ETag %s", change, tag)
		} else {
			seen[tag] = true
		}
	}
}

func TestHead(t *testing.T) {
	c := newClient(t, nil)
	tail := c.do("PUT a", "Content-Type: text/html; charset=x", "Stream-Expires-At: 2099-01-01t00:00:00z", closedTrue, "=abc").next()
	for _, line := range []string{"HEAD a", "HEAD a?offset=-1", "HEAD a?offset=now&live=sse", "HEAD a?offset=%zz"} {
		a := c.do(line, "If-None-Match: *").want(200, "Content-Type: text/html; charset=x", noStore, "Stream-Next-Offset: "+tail, closedTrue,
			"Stream-Expires-At: 2099-01-01t00:00:00z", "Stream-TTL:")
		if a.HasBody("HEAD") {
			t.Error("HEAD with a body")
		}
	}
}

// Reading page by page gives the same as one long read, cut where it should be.
func TestPages(t *testing.T) {
	const page = 64 << 10
	long := `"` + strings.Repeat("m", 3*page) + `"`
	var text, messages strings.Builder
	for i := 0; text.Len() < 4*page; i++ {
		fmt.Fprintf(&text, "%d: zwölf\r\n😀", i)
	}
	messages.WriteString("[0")
	for i := 1; messages.Len() < 3*page; i++ {
		fmt.Fprintf(&messages, `,{"n":%d}`, i)
	}
	messages.WriteString("," + long + `,"` + strings.Repeat("n", page-2) + `",1]`)
	for _, tt := range []struct {
		name, contentType, body string
	}{
		{"text", textType, text.String()},
		{"binary", "Content-Type: image/png", text.String()},
		{"json", jsonType, messages.String()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, &protocol.Options{PageSize: page})
			c.store.BlockSize = 10_007
			tail := c.do("PUT a", tt.contentType, "="+tt.body, closedTrue).next()
			var all bytes.Buffer
			offset, n := "-1", 0
			for done := false; !done; n++ {
				a := c.do("GET a?offset=" + offset)
				offset = a.next()
				if done = offset == tail; done {
					a.want(200, upToDate, closedTrue, cacheData)
				} else {
					a.want(200, "Stream-Up-To-Date:", "Stream-Closed:", cacheData)
				}
				if tag := a.field("ETag"); strings.HasSuffix(tag, `:c"`) != done {
					t.Errorf("page %d: ETag %s", n, tag)
				}
				checkPage(t, tt.name, a.body, done, page)
				if tt.name != "json" {
					all.WriteString(a.body)
					continue
				}
				all.WriteString(strings.TrimSuffix(strings.TrimPrefix(a.body, "["), "]"))
				if !done {
					all.WriteByte(',')
				}
			}
			got := all.String()
			if tt.name == "json" {
				got = "[" + strings.ReplaceAll(got, "\n", "") + "]"
			}
			if got != tt.body || n < 4 {
				t.Errorf("%d pages of %d bytes differ from the %d bytes sent", n, len(got), len(tt.body))
			}
		})
	}
}

func checkPage(t *testing.T, kind, body string, last bool, page int) {
	t.Helper()
	if !last && kind != "json" && len(body) < page-4 {
		t.Errorf("a page of %d bytes", len(body))
	}
	switch kind {
	case "text":
		if !utf8.ValidString(body) || strings.HasSuffix(body, "\r") {
			t.Error("a page is cut inside a character or a line break")
		}
	case "json":
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) == 0 {
			t.Errorf("a page is no array: %v", err)
		} else if len(body) > page && len(list) > 1 {
			t.Errorf("a page of %d bytes with %d messages", len(body), len(list))
		}
	}
}

func TestOffsetInsideMessage(t *testing.T) {
	c := newClient(t, nil)
	tail := mustOffset(t, c.do("PUT a", jsonType, `=["a","b"]`).next())
	for pos := uint64(1); pos <= tail.Pos; pos++ {
		a := c.do("GET a?offset=" + stream.Offset{Pos: pos, Inc: tail.Inc}.String())
		switch pos {
		case 5:
			a.want(200).text(`["b"]`)
		case tail.Pos:
			a.want(200).text("[]")
		default:
			a.want(400).code("invalid_offset")
		}
	}
}

// A page that cannot be read is refused; one whose rest cannot be read fails in
// the middle, so that the adapter cuts it.
func TestReadErrors(t *testing.T) {
	c := newClient(t, nil)
	c.store.BlockSize = 50 << 10
	c.do("PUT small", textType, "=x").want(201)
	c.do("PUT large", textType, "="+strings.Repeat("x", 200<<10)).want(201)
	c.do("PUT json", jsonType, `=["`+strings.Repeat("x", 200<<10)+`"]`).want(201)
	for _, fault := range []error{errors.New("bad sector"), io.EOF} { // EOF: bytes are missing
		c.store.BlockErr = fault
		c.do("GET small?offset=-1&live=long-poll").want(200) // its only block is the first
		for _, name := range []string{"large", "json"} {
			for _, q := range []string{"", "?offset=-1&live=long-poll"} {
				res := beginRead(c, "GET "+name+q)
				if res.Status != 200 || res.Rest == nil {
					t.Fatalf("%s%s: %d", name, q, res.Status)
				}
				if _, err := io.Copy(io.Discard, blocksReader{res}); err == nil {
					t.Errorf("%s%s: ends politely", name, q)
				}
				res.Close()
			}
			c.do("GET " + name + "?offset=-1&live=sse").want(500)
		}
	}
	c.store.BlockSize = 10 << 10
	c.do("PUT medium", textType, "="+strings.Repeat("x", 50<<10)).want(201)
	c.do("GET medium").want(500)
	c.idle()
}

// beginRead gives a response whose body was not read.
func beginRead(c *client, line string) *protocol.Response {
	req, _ := c.request(line, nil)
	op, _ := c.core.Begin(req)
	if op.Mode() == protocol.Read {
		return op.Read()
	}
	return c.open(line).next().Response
}

type blocksReader struct{ res *protocol.Response }

func (r blocksReader) Read(p []byte) (int, error) {
	b, err := r.res.Rest.Next()
	return copy(p, b), err
}

func TestSSEReadErrorCutsTheAnswer(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", textType, "=x").want(201)
	l := c.open("GET a?offset=-1&live=sse")
	l.next()
	c.do("POST a", textType, "="+strings.Repeat("x", 100)).want(204)
	c.store.Do(func() { c.store.BlockErr = errors.New("bad sector") })
	if act, err := l.feed.Step(time.Now()); err == nil {
		t.Errorf("step gave %+v and no error", act)
	}
	if c.store.Watches() != 0 || !strings.Contains(c.log.String(), "bad sector") {
		t.Error("the watch goes on, or the log does not tell")
	}
}
