package bench_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams"
)

// tampered is a live answer whose n-th piece with data goes through a lie.
type tampered struct {
	http.ResponseWriter
	count *atomic.Int64
	n     int64
	lie   func(piece []byte) []byte
}

func (w *tampered) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("event: data")) && w.count.Add(1) == w.n {
		if _, err := w.ResponseWriter.Write(w.lie(bytes.Clone(p))); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

func (w *tampered) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *tampered) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// live makes a server that lies in one piece of all its SSE answers.
func live(n int64, lie func(piece []byte) []byte) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		var count atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("live") == "sse" {
				w = &tampered{w, &count, n, lie}
			}
			next.ServeHTTP(w, r)
		})
	}
}

var liveLies = []lie{
	{"keeps an event from one subscriber", "fanout", live(20, func([]byte) []byte { return nil }), lost, ""},
	{"sends an event twice", "fanout", live(20, func(p []byte) []byte { return append(p, p...) }), doubled, ""},
	{"changes a bit in an event", "fanout", live(20, func(p []byte) []byte { p[40] ^= 1; return p }), alien, ""},
	{"cuts an event's data", "fanout", live(20, func(p []byte) []byte {
		return bytes.Replace(p, []byte("\"}]"), nil, 1)
	}), alien, ""},
	{"sends an offset that is none", "fanout", live(20, func(p []byte) []byte {
		return bytes.ReplaceAll(p, []byte("streamNextOffset"), []byte("streamLastOffset"))
	}), alien, ""},
	{"forgets a subscriber that waits", "idle", live(7, func([]byte) []byte { return nil }), lost, ""},
	{"skips what a long-poll waited for", "longpoll", nth("GET", 12, func(e *exchange) {
		a := e.ask(nil)
		e.send(a, 204, nil)
	}), lost, ""},
	{"refuses subscribers now and then", "longpoll", nth("GET", 12, func(e *exchange) { e.w.WriteHeader(503) }), nil, "subscriber: HTTP 503"},
}

func TestLiveLies(t *testing.T) {
	for _, l := range liveLies {
		t.Run("a server that "+l.name, func(t *testing.T) {
			t.Parallel()
			opts := small(serve(t, l.wrap), l.scenario)
			opts.Subscribers, opts.Rate, opts.Requests, opts.Timeout = 8, 1000, 20, 3*time.Second
			if l.scenario == "idle" {
				opts.Duration = 50 * time.Millisecond
			}
			report, out, err := run(t, opts)
			l.expect(t, report, out, err)
		})
	}
}

// An SSE answer that the server ends is taken up where it ended: nothing is lost,
// nothing counted twice.
func TestSubscribersComeBack(t *testing.T) {
	both(t, func(t *testing.T, portable bool) {
		url := serveWith(t, &durablestreams.Options{SSEMaxAge: time.Second}, 0, nil)
		opts := small(url, "fanout")
		opts.Portable, opts.Subscribers, opts.Rate, opts.Requests = portable, 5, 50, 60
		report, out, err := run(t, opts)
		believed(t, report, out, err)
		if !strings.Contains(out, "answers that the server ended") || report.Results[0].Count != 300 {
			t.Errorf("%s", out)
		}
	})
}
