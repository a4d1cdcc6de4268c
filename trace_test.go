package durablestreams_test

import (
	"strings"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/internal/dstest/collector"
)

// Requests on both adapters are spans in the traces of those who send them, those of live
// reads too; the collector learns no secret.
func TestTraces(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50") // ms
	c := collector.New(t)
	opts := durablestreams.Options{OTLPEndpoint: c.URL, LongPollTimeout: 50 * time.Millisecond}
	seen := 0
	overAdapters(t, opts, func(t *testing.T, s *durablestreams.Server, url string) {
		const trace, span, secret = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "s3cr3tS3cr3t"
		traced := []string{"Traceparent", "00-" + trace + "-" + span + "-01", "Content-Type", "text/plain", "Authorization", "Bearer " + secret}
		request(t, 201, "PUT", url+streamA, "x", traced...)
		request(t, 204, "GET", url+streamA+"?offset=now&live=long-poll", "", traced...)
		request(t, 404, "GET", url+streamA+"b?signature=1."+secret, "", traced...)
		request(t, 200, "GET", url+streamA, "")
		waitFor(t, func() bool { return len(c.Spans()) == seen+4 })
		spans := c.Spans()[seen:]
		seen += 4
		for i, want := range []struct {
			name, path string
			status     int64
		}{{"create", streamA, 201}, {"long-poll", streamA, 204}, {"read", streamA + "b", 404}, {"read", streamA, 200}} {
			got := spans[i]
			if got.Name != want.name || got.Attrs["url.path"] != want.path || got.Attrs["http.response.status_code"] != want.status || got.Attrs["client.address"] != "127.0.0.1" {
				t.Errorf("%d: %+v, want %+v", i, got, want)
			}
			if inTrace := got.Trace == trace && got.Parent == span; inTrace != (i < 3) {
				t.Errorf("%d: trace %s, parent %s", i, got.Trace, got.Parent)
			}
			if took := got.End.Sub(got.Start); took < 0 || took > time.Minute || want.name == "long-poll" && took < 50*time.Millisecond {
				t.Errorf("%d: it took %v", i, took)
			}
		}
		if strings.Contains(c.Raw(), secret) {
			t.Errorf("the collector has seen a secret: %q", c.Raw())
		}
	})
}

// The last spans go out at the end.
func TestTracesAtTheEnd(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000") // ms
	c := collector.New(t)
	s := open(t, "", &durablestreams.Options{InMemory: true, OTLPEndpoint: c.URL})
	mustDo(t, s, 201, "PUT", streamA, "x")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if spans := c.Spans(); len(spans) != 1 || spans[0].Name != "create" {
		t.Errorf("%+v", spans)
	}
}
