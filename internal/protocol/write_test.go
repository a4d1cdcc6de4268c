package protocol_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

const (
	textType   = "Content-Type: text/plain"
	jsonType   = "Content-Type: application/json"
	closedTrue = "Stream-Closed: true"
)

func TestCreate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		code   string   // of a refusal
		fields []string // of a success
		body   string   // what a read gives then
	}{
		{"bare", nil, 201, "", []string{"Content-Type: application/octet-stream", "Stream-Closed:", "Cache-Control: no-store"}, ""},
		{"type kept", []string{"Content-Type: Text/Plain ; charset=UTF-8", "=x"}, 201, "", []string{"Content-Type: Text/Plain ; charset=UTF-8"}, "x"},
		{"nonsense type", []string{"Content-Type: nonsense"}, 400, "invalid_header", nil, ""},
		{"empty type", []string{"Content-Type:"}, 400, "invalid_header", nil, ""},
		{"closed", []string{closedTrue, "=x"}, 201, "", []string{closedTrue}, "x"},
		{"closed in capitals", []string{"Stream-Closed: TRUE"}, 201, "", []string{closedTrue}, ""},
		{"not closed", []string{"Stream-Closed: 1"}, 201, "", []string{"Stream-Closed:"}, ""},
		{"json", []string{jsonType, `= [ 1, {"a" : 2} ] `}, 201, "", nil, "[1,\n{\"a\":2}]"},
		{"json, empty array", []string{jsonType, "=[]"}, 201, "", nil, "[]"},
		{"json, nothing", []string{jsonType}, 201, "", nil, "[]"},
		{"bad json", []string{jsonType, "={bad"}, 400, "invalid_json", nil, ""},
		{"json suffix is bytes", []string{"Content-Type: application/vnd.api+json", "={bad"}, 201, "", nil, "{bad"},
		{"ttl", []string{"Stream-TTL: 3600"}, 201, "", nil, ""},
		{"largest ttl", []string{"Stream-TTL: 9223372036854775807"}, 201, "", nil, ""},
		{"larger ttl", []string{"Stream-TTL: 18446744073709551616"}, 400, "invalid_header", nil, ""},
		{"ttl with sign", []string{"Stream-TTL: +1"}, 400, "invalid_header", nil, ""},
		{"ttl with zero", []string{"Stream-TTL: 01"}, 400, "invalid_header", nil, ""},
		{"ttl with point", []string{"Stream-TTL: 1.0"}, 400, "invalid_header", nil, ""},
		{"empty ttl", []string{"Stream-TTL:"}, 400, "invalid_header", nil, ""},
		{"expiry", []string{"Stream-Expires-At: 2099-01-01T00:00:00.5+01:30"}, 201, "", nil, ""},
		{"impossible date", []string{"Stream-Expires-At: 2027-02-30T00:00:00Z"}, 400, "invalid_header", nil, ""},
		{"both", []string{"Stream-TTL: 1", "Stream-Expires-At: 2099-01-01T00:00:00Z"}, 400, "invalid_header", nil, ""},
		{"offset without a fork", []string{"Stream-Fork-Offset: -1"}, 400, "invalid_header", nil, ""},
		{"sub-offset without a fork", []string{"Stream-Fork-Sub-Offset: 0"}, 400, "invalid_header", nil, ""},
		{"producer headers do not count", []string{"Producer-Id: p"}, 201, "", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, nil)
			a := c.do("PUT a", tt.args...)
			if a.want(tt.status, tt.fields...); tt.code != "" {
				a.code(tt.code)
				c.do("HEAD a").want(404)
				return
			}
			a.want(201, "Location: http://ds.example/durable-streams/v1/stream/a", "Stream-Next-Offset: "+c.do("HEAD a").next()).text("")
			c.do("GET a").want(200).text(tt.body)
			c.do("PUT a", tt.args...).want(200, append(tt.fields, "Location:", "Stream-Next-Offset: "+a.next())...)
			c.do("GET a").text(tt.body) // the repeat's body is not appended
		})
	}
}

func TestCreateOther(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", textType, "Stream-TTL: 60").want(201)
	for _, args := range [][]string{
		{"Content-Type: text/html", "Stream-TTL: 60"},
		{textType},
		{textType, "Stream-TTL: 61"},
		{textType, "Stream-Expires-At: 2099-01-01T00:00:00Z"},
		{textType, "Stream-TTL: 60", closedTrue},
		{textType, "Stream-TTL: 60", "Stream-Forked-From: /durable-streams/v1/stream/b"},
	} {
		c.do("PUT a", args...).want(409).code("config_mismatch")
	}
	c.do("PUT a", "Content-Type: TEXT/plain;charset=utf-8", "Stream-TTL: 60").want(200, "Content-Type: text/plain")
}

func TestLocation(t *testing.T) {
	for _, tt := range []struct {
		public, host string
		secure       bool
		want         string
	}{
		{"", "ds.example:8642", false, "http://ds.example:8642/durable-streams/v1/stream/a%3Fb"},
		{"", "ds.example", true, "https://ds.example/durable-streams/v1/stream/a%3Fb"},
		{"", "", false, "/durable-streams/v1/stream/a%3Fb"},
		{"https://public.example/x/", "inner", false, "https://public.example/x/durable-streams/v1/stream/a%3Fb"},
	} {
		c := newClient(t, &protocol.Options{PublicURL: tt.public})
		req, _ := c.request("PUT a%3Fb", nil)
		req.Host, req.Secure = tt.host, tt.secure
		op, _ := c.core.Begin(req)
		op.Submit(nil, func() {})
		if got := op.Response().Get("Location"); got != tt.want {
			t.Errorf("Location %q, want %q", got, tt.want)
		}
	}
}

func TestAppend(t *testing.T) {
	c := newClient(t, nil)
	start := c.do("PUT a", textType).next()
	a := c.do("POST a", textType, "=one").want(204, "Cache-Control: no-store", "Stream-Closed:", "Producer-Seq:", "Content-Type:")
	if a.next() <= start {
		t.Errorf("offset %q after %q", a.next(), start)
	}
	for _, tt := range []struct {
		args   []string
		status int
		code   string
	}{
		{nil, 400, "empty_body"},
		{[]string{textType}, 400, "empty_body"},
		{[]string{"Stream-Closed: yes"}, 400, "empty_body"},
		{[]string{"=x"}, 400, "invalid_header"},
		{[]string{"Content-Type: x", "=x"}, 400, "invalid_header"},
		{[]string{"Content-Type: text/html", "=x"}, 409, "content_type_mismatch"},
		{[]string{jsonType, "={bad"}, 409, "content_type_mismatch"},
		{[]string{textType, "=x", "Stream-Seq:"}, 400, "invalid_header"},
		{[]string{textType, "=x", "Stream-Seq: " + strings.Repeat("s", 1025)}, 400, "invalid_header"},
	} {
		c.do("POST a", tt.args...).want(tt.status).code(tt.code)
	}
	c.do("POST a", "Content-Type: TEXT/PLAIN; charset=x", "=, two", "Stream-Forked-From: nowhere").want(204)
	c.do("POST a", textType, "=!", "Stream-Seq: b").want(204)
	c.do("POST a", textType, "=!", "Stream-Seq: b").want(409).code("sequence_regression")
	c.do("POST a", textType, "=!", "Stream-Seq: a").want(409)
	c.do("GET a").text("one, two!")
}

func TestAppendJSON(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", jsonType).want(201)
	for _, body := range []string{"[]", " [ ] ", "{bad", "1 2", "\xef\xbb\xbf{}", " ", "\"\xff\"", "[1,]"} {
		c.do("POST a", jsonType, "="+body).want(400).code("invalid_json")
	}
	for _, body := range []string{`[12345678901234567890123,1e400]`, `{"a":1,"a" : 2}`, `[[1, 2],[]]`, `"x"`} {
		c.do("POST a", "Content-Type: application/json; v=1", "="+body).want(204)
	}
	c.do("GET a").want(200, "Content-Type: application/json").
		text("[12345678901234567890123,\n1e400,\n{\"a\":1,\"a\":2},\n[1,2],\n[],\n\"x\"]")
}

func TestProducer(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", jsonType).want(201)
	post := func(epoch, seq, body string, more ...string) *answer {
		t.Helper()
		args := append([]string{jsonType, "Producer-Id: p", "Producer-Epoch: " + epoch, "Producer-Seq: " + seq, "=" + body}, more...)
		return c.do("POST a", args...)
	}
	post("0", "1", "1").want(409, "Producer-Expected-Seq: 0", "Producer-Received-Seq: 1").code("producer_sequence_gap")
	post("0", "0", "{bad").want(400) // leaves no trace
	post("0", "0", "0").want(200, "Producer-Epoch: 0", "Producer-Seq: 0").text("")
	post("0", "1", "1").want(200, "Producer-Seq: 1")
	post("0", "0", "0").want(204, "Producer-Epoch: 0", "Producer-Seq: 1")
	post("0", "5", "5").want(409, "Producer-Expected-Seq: 2", "Producer-Received-Seq: 5")
	post("2", "1", "1").want(400).code("producer_epoch_start")
	post("2", "0", "2").want(200, "Producer-Epoch: 2", "Producer-Seq: 0")
	post("1", "0", "2").want(403, "Producer-Epoch: 2").code("producer_epoch_stale")
	post("2", "1", "3", closedTrue).want(200, closedTrue)
	post("2", "1", "3", closedTrue).want(204, closedTrue, "Producer-Seq: 1")
	post("2", "2", "4").want(409, closedTrue, "Stream-Next-Offset: "+c.do("HEAD a").next(),
		"Producer-Expected-Seq: 2", "Producer-Received-Seq: 2").code("stream_closed")
	c.do("GET a").want(200, closedTrue).text("[0,\n1,\n2,\n3]")
}

func TestProducerClose(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", textType).want(201)
	p := []string{"Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 0", closedTrue}
	c.do("POST a", p...).want(204, closedTrue, "Producer-Seq: 0")
	c.do("POST a", p...).want(204, closedTrue)
	c.do("POST a", closedTrue).want(204, closedTrue, "Producer-Seq:")
}

func TestClose(t *testing.T) {
	c := newClient(t, nil)
	tail := c.do("PUT a", textType, "=x").next()
	end := []string{closedTrue, "Stream-Next-Offset: " + tail}
	c.do("POST a", "Stream-Closed: TRUE", "Content-Type: nonsense").want(204, end...)
	c.do("POST a", closedTrue).want(204, end...)
	for _, args := range [][]string{
		{closedTrue, textType, "=y"},
		{textType, "=y"},
		{jsonType, "={bad"}, // closed comes before the type
		{},                  // and before the empty body
		{"Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 0", closedTrue},
	} {
		c.do("POST a", args...).want(409, end...).code("stream_closed")
	}
	c.do("PUT a", textType).want(409)
	c.do("PUT a", textType, closedTrue).want(200, end...)
	c.do("GET a").want(200, end...).text("x")
}

func TestDelete(t *testing.T) {
	c := newClient(t, nil)
	old := c.do("PUT a", textType, "=x").next()
	c.do("DELETE a").want(204, "Cache-Control: no-store", "Content-Type:").text("")
	c.do("DELETE a").want(404)
	c.do("GET a").want(404)
	c.do("PUT a", textType, "=yy").want(201)
	c.do("GET a?offset=" + old).want(410).code("offset_gone")
}

// A body that cannot be taken is not asked for.
func TestEarlyRefusals(t *testing.T) {
	c := newClient(t, &protocol.Options{MaxBody: 1 << 20})
	c.do("PUT open", textType).want(201)
	c.do("PUT shut", textType, closedTrue).want(201)
	c.do("PUT src", textType, "=x").want(201)
	c.do("PUT fork", "Stream-Forked-From: /durable-streams/v1/stream/src").want(201)
	c.do("DELETE src").want(204)
	const expect = "Expect: 100-continue"
	as := func(id, epoch, seq string) []string {
		return []string{expect, textType, "Producer-Id: " + id, "Producer-Epoch: " + epoch, "Producer-Seq: " + seq}
	}
	producer := []string{textType, "Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 0"}
	c.do("POST open", append(producer, "Stream-Seq: a", "=x")...).want(200)
	c.do("POST open", append(as("p", "1", "0"), "=x")...).want(200)
	c.do("PUT sealed", textType).want(201)
	c.do("POST sealed", append(producer, closedTrue, "=x")...).want(200)
	for _, tt := range []struct {
		line   string
		args   []string
		length int64
		status int // 0: the body is wanted
	}{
		{"POST none", []string{textType, "Expect: 100-continue"}, 3, 404},
		{"POST none", []string{textType, "Expect: 100-continue"}, -1, 404},
		{"POST none", []string{textType}, 100 << 10, 404},
		{"POST none", []string{textType}, 3, 0},
		{"POST none", []string{textType}, 2 << 20, 413},
		{"POST open", []string{textType}, 99999999999999, 413},
		{"PUT none", []string{textType}, 2 << 20, 413},
		{"POST shut", []string{textType, "Expect: 100-continue"}, 3, 409},
		{"POST shut", []string{textType, "Expect: 100-continue", closedTrue}, -1, 0}, // it may be empty
		{"POST shut", append(producer, "Expect: 100-continue"), 3, 409},
		{"POST sealed", append(producer, expect), 3, 0}, // the one that closed it
		{"POST sealed", append(producer, expect, closedTrue), -1, 0},
		{"POST sealed", as("p", "0", "1"), 3, 409},
		{"POST open", as("p", "1", "0"), 3, 0}, // a duplicate
		{"POST open", as("p", "1", "1"), 3, 0},
		{"POST open", as("p", "1", "2"), 3, 409},
		{"POST open", as("p", "1", "2"), -1, 409},
		{"POST open", as("p", "1", "2")[1:], 100 << 10, 0}, // the one before may be under way
		{"POST open", as("p", "0", "0"), 3, 403},
		{"POST open", as("p", "2", "1"), 3, 400},
		{"POST open", as("new", "0", "1"), 3, 409},
		{"POST open", []string{textType, expect, "Stream-Seq: a"}, 3, 409},
		{"POST open", []string{textType, expect, "Stream-Seq: b"}, 3, 0},
		{"POST open", []string{expect}, -1, 400},
		{"POST open", []string{jsonType, expect}, -1, 409},
		{"POST open", []string{expect, closedTrue}, -1, 0},
		{"POST open", []string{textType}, 100 << 10, 0},
		{"POST open", []string{jsonType}, 100 << 10, 409},
		{"PUT open", []string{textType, expect}, 3, 0},
		{"PUT open", []string{jsonType, expect}, 3, 409},
		{"PUT open", []string{jsonType}, 100 << 10, 409},
		{"PUT open", []string{jsonType}, 3, 0}, // the body is short, so the store decides
		{"PUT open", []string{textType, expect, closedTrue}, -1, 409},
		{"PUT open", []string{textType, expect, "Stream-TTL: 5"}, 3, 409},
		{"POST src", []string{textType, "Expect: 100-continue"}, 3, 410},
		{"POST open", []string{jsonType, "Expect: 100-continue"}, 3, 409},
		{"POST open", []string{"Expect: 100-continue"}, 3, 400},
		{"POST open", []string{textType, "Expect: 100-continue"}, 3, 0},
		{"POST open", []string{textType}, 1 << 20, 0},
		{"PUT src", []string{textType, "Expect: 100-continue"}, 3, 409},
		{"PUT new", []string{"Stream-Forked-From: /durable-streams/v1/stream/none", "Expect: 100-continue"}, 3, 404},
		{"PUT new", []string{"Stream-Forked-From: /durable-streams/v1/stream/none"}, 3, 0},
		{"PUT new", []string{"Expect: 100-continue"}, 3, 0},
	} {
		req, _ := c.request(tt.line, tt.args)
		req.ContentLength = tt.length
		op, res := c.core.Begin(req)
		if op == nil != (tt.status != 0) || res != nil && res.Status != tt.status {
			t.Errorf("%s %v, %d bytes: %v, want %d", tt.line, tt.args, tt.length, res, tt.status)
		}
		if op != nil && !op.WantsBody() {
			t.Errorf("%s: the body is not wanted", tt.line)
		}
		// With the body at hand there is no early look.
		if req.BodyRead = true; tt.length >= 0 && tt.length < 1<<20 && tt.status != 400 {
			if op, res = c.core.Begin(req); op == nil || c.core.BeginWaits(req) && !strings.HasPrefix(tt.line, "PUT new") {
				t.Errorf("%s %v with its body: %v", tt.line, tt.args, res)
			}
		}
	}
}

// The answer is made when the store is done, and not before.
func TestSubmitWaits(t *testing.T) {
	c := newClient(t, nil)
	c.store.Held = true
	req, _ := c.request("PUT a", nil)
	op, _ := c.core.Begin(req)
	done := false
	op.Submit(nil, func() { done = true })
	if done {
		t.Fatal("done before the store was")
	}
	if c.store.Release(); !done || op.Response().Status != 201 {
		t.Error("not done after the store was")
	}
}

// A foreign error is a 500 that tells the log and nobody else; states of the server
// are not logged for each request.
func TestStoreFailures(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{errors.New("secret path"), 500, "internal", ""},
		{&stream.Error{Kind: stream.Damaged, Message: "part of this stream cannot be read", Err: errors.New("secret path")}, 500, "damaged", ""},
		{&stream.Error{Kind: stream.Busy, Err: errors.New("secret path")}, 503, "busy", "1"},
		{&stream.Error{Kind: stream.ShuttingDown, Err: errors.New("secret path")}, 503, "shutting_down", "1"},
		{&stream.Error{Kind: stream.DiskFull, Err: errors.New("secret path")}, 507, "disk_full", "1"},
	} {
		c := newClient(t, nil)
		c.store.Err = tt.err
		for _, line := range []string{"PUT a", "GET a", "HEAD a", "DELETE a", "GET a?offset=-1&live=long-poll", "GET a?offset=-1&live=sse"} {
			a := c.do(line).want(tt.status, "Retry-After: "+tt.retry, "Cache-Control: no-store").code(tt.code)
			if strings.Contains(a.body, "secret") {
				t.Errorf("%s: the body tells %q", line, a.body)
			}
		}
		want := 0 // clients that come back must not fill the log
		if tt.status == 500 {
			want = 6
		}
		if n := strings.Count(c.log.String(), "secret path"); n != want {
			t.Errorf("%s: logged %d times, want %d", tt.code, n, want)
		}
	}
}

func TestLifetimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.do("PUT zero", "Stream-TTL: 0", "=x").want(201)
		c.do("GET zero").want(404)
		c.do("PUT past", "Stream-Expires-At: 1999-01-01T00:00:00Z").want(201)
		c.do("GET past").want(404)
		for _, name := range []string{"read", "head", "live", "poll", "write"} {
			c.do("PUT "+name, textType, "Stream-TTL: 3", "=x").want(201)
		}
		at := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339)
		c.do("PUT fixed", "Stream-Expires-At: "+at).want(201)
		c.do("HEAD fixed").want(200, "Stream-Expires-At: "+at, "Stream-TTL:")
		for range 3 {
			time.Sleep(2 * time.Second)
			c.do("GET read").want(200)
			c.do("POST write", textType, "=x").want(204)
			l := c.open("GET live?offset=-1&live=sse")
			l.next()
			l.feed.Close()
			c.do("GET poll?offset=-1&live=long-poll").want(200)
			c.do("HEAD head")
			c.do("GET fixed")
		}
		c.do("HEAD read").want(200, "Stream-TTL: 3", "Stream-Expires-At:", "Cache-Control: no-store")
		c.do("HEAD live").want(200)
		c.do("HEAD poll").want(200)
		c.do("HEAD write").want(200)
		c.do("HEAD head").want(404)
		c.do("HEAD fixed").want(404)
	})
}
