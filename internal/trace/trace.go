// Package trace sends spans of requests to an OpenTelemetry collector, OTLP over HTTP. What
// the collector does not take in time is left out; no request ever waits for it.
//
// The standard variables of the environment (OTEL_EXPORTER_OTLP_HEADERS,
// OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_…) count as
// OpenTelemetry's own libraries read them. Nothing in it is global: other code of the
// process may use OpenTelemetry as it likes.
//
// Traces may be used by any number of goroutines at once.
package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"durablestreams/internal/protocol"
)

// Options say where traces go, and from whom.
type Options struct {
	Endpoint string // see [Validate]
	Version  string
	Logger   *slog.Logger
}

// tracesPath is where a collector takes traces (OTLP/HTTP).
const tracesPath = "/v1/traces"

// Validate reports what is wrong with the URL of a collector: http or https, a host, and
// perhaps a path, before which or with which /v1/traces stands.
func Validate(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("OTLP endpoint %.100q: want http:// or https://, a host and at most a path; what a collector wants to know besides goes into OTEL_EXPORTER_OTLP_HEADERS", endpoint)
	}
	return nil
}

// Traces sends a span for each answer that it is told of.
type Traces struct {
	teller   *protocol.Teller
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New begins to trace. The collector need not be there.
func New(o Options) (*Traces, error) {
	target := strings.TrimSuffix(o.Endpoint, "/")
	if !strings.HasSuffix(target, tracesPath) {
		target += tracesPath
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(target))
	if err != nil {
		return nil, fmt.Errorf("trace to %s: %w", target, err)
	}
	// What the environment says comes last and wins.
	about, err := resource.New(context.Background(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "ds"), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("trace: %w", err)
	}
	t := &Traces{provider: sdk.NewTracerProvider(sdk.WithBatcher(&exports{exporter, protocol.LimitLog(o.Logger)}), sdk.WithResource(about))}
	t.tracer = t.provider.Tracer("durablestreams")
	t.teller = protocol.NewTeller(t.write)
	return t, nil
}

// Tell takes an answer. It never waits.
func (t *Traces) Tell(a protocol.Answer) { t.teller.Tell(a) }

// Close sends what waits, or gives up when ctx ends. It is idempotent. A nil Traces sends
// nothing.
func (t *Traces) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.teller.Close(ctx)
	_ = t.provider.Shutdown(ctx) // the exporter has logged what failed
}

// write makes a span, by the conventions for HTTP servers as far as there are any.
func (t *Traces) write(a protocol.Answer, _ int64) {
	ctx := context.Background()
	if parent, ok := parentOf(a.Parent); ok {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	_, span := t.tracer.Start(ctx, a.Kind.String(), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(a.At.Add(-a.Took)))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("http.request.method", a.Method), attribute.String("url.path", a.Path), attribute.Int("http.response.status_code", a.Status),
			attribute.String("client.address", a.Client), attribute.String("ds.request.id", a.ID))
		if a.Code != "" {
			span.SetAttributes(attribute.String("error.type", string(a.Code)))
		}
		if a.Bytes >= 0 {
			span.SetAttributes(attribute.Int64("http.response.body.size", a.Bytes))
		}
		if a.Status >= 500 {
			span.SetStatus(codes.Error, string(a.Code))
		}
	}
	span.End(trace.WithTimestamp(a.At))
}

// parentOf reads a traceparent, which the protocol has checked.
func parentOf(s string) (trace.SpanContext, bool) {
	if s == "" {
		return trace.SpanContext{}, false
	}
	id, err1 := trace.TraceIDFromHex(s[3:35])
	span, err2 := trace.SpanIDFromHex(s[36:52])
	var flags trace.TraceFlags
	if strings.IndexByte("13579bdf", s[54]) >= 0 {
		flags = trace.FlagsSampled
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: flags, Remote: true}), err1 == nil && err2 == nil
}

// exports logs what fails, instead of OpenTelemetry's global handler.
type exports struct {
	sdk.SpanExporter
	log *slog.Logger
}

// ExportSpans implements sdk.SpanExporter.
func (e *exports) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Warn("traces are not delivered", "spans", len(spans), "err", err)
	}
	return nil
}
