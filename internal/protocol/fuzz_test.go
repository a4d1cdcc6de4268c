package protocol_test

import (
	"strings"
	"testing"
	"time"

	"durablestreams/internal/protocol"
)

// FuzzRequest sends any head and body through a core: no panic, no 5xx, no
// header that could split an answer.
func FuzzRequest(f *testing.F) {
	f.Add("PUT a", "", "Content-Type: text/plain\nStream-TTL: 5", "x", int64(1))
	f.Add("POST a", "", "Content-Type: application/json\nProducer-Id: p\nProducer-Epoch: 0\nProducer-Seq: 0", "[1]", int64(3))
	f.Add("POST j", "", "Content-Type: application/json\nExpect: 100-continue", "[1,", int64(-1))
	f.Add("GET a", "offset=-1&live=sse&cursor=9", "If-None-Match: W/\"a\", *", "", int64(0))
	f.Add("GET j", "offset=0000000000000000_0000000000000000&live=long-poll", "", "", int64(0))
	f.Add("PUT f", "", "Stream-Forked-From: /durable-streams/v1/stream/j\nStream-Fork-Offset: -1\nStream-Fork-Sub-Offset: 1", "", int64(0))
	f.Add("HEAD a", "offset=now", "Origin: https://x.example", "", int64(0))
	f.Add("DELETE a", "", "", "", int64(0))
	f.Add("OPTIONS *", "", "", "", int64(0))
	f.Add("PUT %5f_ds", "%zz", "Stream-Expires-At: 2027-02-30T00:00:00Z", "", int64(1<<40))
	f.Fuzz(func(t *testing.T, line, query, header, body string, length int64) {
		c := newClient(t, &protocol.Options{LongPollTimeout: time.Nanosecond})
		c.do("PUT a", textType, "=some text")
		c.do("PUT j", jsonType, "=[1,2,3]")
		req, _ := c.request(line, strings.Split(strings.ReplaceAll(header, "=", "_"), "\n"))
		req.Query, req.ContentLength = query, max(length, -1)
		op, res := c.core.Begin(req)
		switch {
		case op == nil:
		case op.Mode() == protocol.Write:
			op.Submit([]byte(body), func() {})
			res = op.Response()
		case op.Mode() == protocol.Read:
			res = op.Read()
		default:
			feed := op.Open(func() {})
			act, err := feed.Step(time.Now())
			for range 3 {
				if err == nil && act.Response == nil {
					act, err = feed.Step(time.Now().Add(time.Second))
				}
			}
			feed.Close()
			if res = act.Response; err != nil || res == nil {
				t.Fatalf("%s?%s: no answer, %v", line, query, err)
			}
		}
		if res.Status < 200 || res.Status >= 500 && res.Status != 501 {
			t.Errorf("%s?%s %q: status %d, log %s", line, query, header, res.Status, c.log)
		}
		for _, field := range res.Fields {
			if strings.ContainsAny(field.Name+field.Value, "\r\n\x00") && !strings.ContainsAny(line+header, "\r\x00") {
				t.Errorf("%s: field %q", line, field)
			}
		}
	})
}
