// Package collector is an OpenTelemetry collector that keeps what it gets, for tests of
// traces.
package collector

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one that came.
type Span struct {
	Name, Trace, Parent string
	Server, Failed      bool
	Start, End          time.Time
	Attrs               map[string]any // string or int64
	Resource            map[string]any
}

// Collector takes traces at URL, which is what OTEL_EXPORTER_OTLP_ENDPOINT is. Its methods
// may be called at once.
type Collector struct {
	URL string

	mu     sync.Mutex
	spans  []Span
	header http.Header
	raw    []byte // everything that came
}

// New starts a collector until the test ends.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

func (c *Collector) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req coltrace.ExportTraceServiceRequest
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &req) != nil {
		http.Error(w, "no traces in protobuf", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = r.Header.Clone()
	c.raw = append(c.raw, body...)
	for _, of := range req.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, Span{Name: s.Name, Trace: hex.EncodeToString(s.TraceId), Parent: hex.EncodeToString(s.ParentSpanId),
					Server: s.Kind == tracepb.Span_SPAN_KIND_SERVER, Failed: s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR,
					Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
					Attrs: values(s.Attributes), Resource: values(of.Resource.GetAttributes())})
			}
		}
	}
}

func values(list []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.Key] = v.IntValue
		}
	}
	return m
}

// Spans gives what has come so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Header is that of the last delivery.
func (c *Collector) Header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}

// Raw is everything that has come, as it came.
func (c *Collector) Raw() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.raw)
}
