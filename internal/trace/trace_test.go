package trace_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"durablestreams/internal/dstest/collector"
	"durablestreams/internal/protocol"
	"durablestreams/internal/trace"
	"durablestreams/stream"
)

// TestMain takes away what a developer's environment says of traces.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			_ = os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

func begin(t *testing.T, endpoint string, log *lockedText) *trace.Traces {
	t.Helper()
	tr, err := trace.New(trace.Options{Endpoint: endpoint, Version: "v1", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// lockedText is a log that is still written to when nobody waits for it any more.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const (
	id     = "0af7651916cd43dd8448eb211c80319c"
	caller = "b7ad6b7169203331"
)

func TestSpans(t *testing.T) {
	at := time.Unix(1790000000, 123000)
	read := protocol.Answer{ID: "r", Client: "192.0.2.1", Method: "GET", Path: "/a", Kind: protocol.CatchUp, Status: 200, Bytes: 7, Took: 3 * time.Millisecond, At: at}
	sampled, unsampled, refused, failed := read, read, read, read
	sampled.Parent, unsampled.Parent = "00-"+id+"-"+caller+"-01", "00-"+id+"-"+caller+"-00"
	refused.Status, refused.Code = 404, stream.NotFound
	failed.Status, failed.Code, failed.Bytes = 500, stream.Internal, -1
	for _, test := range []struct {
		name     string
		answer   protocol.Answer
		sampler  string
		suffix   string // of the endpoint
		want     int    // spans
		parent   bool
		failed   bool
		code     string
		resource string
	}{
		{name: "a root", answer: read, want: 1, resource: "ds"},
		{name: "a child", answer: sampled, want: 1, parent: true, resource: "ds"},
		{name: "a child that is not wanted", answer: unsampled},
		{name: "a child, by a sampler that decides itself", answer: unsampled, sampler: "always_on", want: 1, parent: true, resource: "ds"},
		{name: "a sampler that wants none", answer: sampled, sampler: "always_off"},
		{name: "a refusal", answer: refused, want: 1, code: "not_found", resource: "ds"},
		{name: "a failure", answer: failed, want: 1, code: "internal", failed: true, resource: "ds"},
		{name: "another name", answer: read, want: 1, resource: "mine"},
		{name: "a whole URL", answer: read, suffix: "/v1/traces", want: 1, resource: "ds"},
		{name: "a slash", answer: read, suffix: "/", want: 1, resource: "ds"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.sampler != "" {
				t.Setenv("OTEL_TRACES_SAMPLER", test.sampler)
			}
			if test.resource == "mine" {
				t.Setenv("OTEL_SERVICE_NAME", "mine")
			}
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
			c := collector.New(t)
			log := &lockedText{}
			tr := begin(t, c.URL+test.suffix, log)
			tr.Tell(test.answer)
			tr.Close(t.Context())
			tr.Close(t.Context())
			spans := c.Spans()
			if len(spans) != test.want || log.String() != "" {
				t.Fatalf("%d spans, want %d, log %s", len(spans), test.want, log)
			}
			if test.want == 0 {
				return
			}
			s := spans[0]
			if s.Name != "read" || !s.Server || s.Failed != test.failed || !s.End.Equal(at) || s.End.Sub(s.Start) != 3*time.Millisecond {
				t.Errorf("%+v", s)
			}
			if inTrace := s.Trace == id && s.Parent == caller; inTrace != test.parent {
				t.Errorf("trace %s, parent %s", s.Trace, s.Parent)
			}
			want := map[string]any{"http.request.method": "GET", "url.path": "/a", "http.response.status_code": int64(test.answer.Status), "client.address": "192.0.2.1", "ds.request.id": "r"}
			if test.code != "" {
				want["error.type"] = test.code
			}
			if test.answer.Bytes >= 0 {
				want["http.response.body.size"] = int64(7)
			}
			if len(s.Attrs) != len(want) {
				t.Errorf("%v, want %v", s.Attrs, want)
			}
			for k, v := range want {
				if s.Attrs[k] != v {
					t.Errorf("%s is %v, want %v", k, s.Attrs[k], v)
				}
			}
			if s.Resource["service.name"] != test.resource || s.Resource["service.version"] != "v1" || c.Header().Get("X-Key") != "secret" {
				t.Errorf("from %v with %v", s.Resource, c.Header())
			}
		})
	}
}

// A collector that is not there, hangs or refuses keeps nobody waiting, holds up the end
// only as long as it may, and is told of in the log.
func TestBadCollectors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + ln.Addr().String()
	_ = ln.Close()
	hang := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(hang) })
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(refuses.Close)
	for name, endpoint := range map[string]string{"not there": gone, "hangs": hangs.URL, "refuses": refuses.URL} {
		log := &lockedText{}
		tr := begin(t, endpoint, log)
		told := make(chan struct{})
		go func() {
			for range 100_000 {
				tr.Tell(protocol.Answer{Kind: protocol.Append, Method: "POST", Status: 204})
			}
			close(told)
		}()
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: it holds requests up", name)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		closed := make(chan struct{})
		go func() {
			tr.Close(ctx)
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: it holds up the end", name)
		}
		cancel()
		if name == "refuses" && !strings.Contains(log.String(), "traces are not delivered") {
			t.Errorf("%s: the log has %q", name, log)
		}
	}
	var none *trace.Traces
	none.Close(t.Context())
}

func TestValidate(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"http://127.0.0.1:4318": true, "https://collector.example/otlp/v1/traces": true, "http://h/": true,
		"": false, "127.0.0.1:4318": false, "grpc://h:4317": false, "http://": false, "http://user:secret@h": false, "http://h?key=secret": false, "http://h#f": false, "http://\x01": false,
	} {
		if err := trace.Validate(endpoint); err == nil != want {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

// BenchmarkTell is what an event loop pays for a span, and what the goroutine that makes
// it pays: it waits when the queue is full.
func BenchmarkTell(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	tr, err := trace.New(trace.Options{Endpoint: s.URL, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	a := protocol.Answer{ID: "r", Client: "192.0.2.1", Method: "POST", Path: "/durable-streams/v1/stream/a", Kind: protocol.Append, Status: 204, At: time.Now()}
	b.Run("tell", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tr.Tell(a)
		}
	})
	b.Run("make", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			trace.Write(tr, a)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	tr.Close(ctx)
}
