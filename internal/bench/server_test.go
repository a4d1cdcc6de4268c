package bench_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/internal/bench"
)

// serve starts an honest server and puts what wrap makes of it on the network.
func serve(t *testing.T, wrap func(http.Handler) http.Handler) (url string) {
	t.Helper()
	return serveWith(t, &durablestreams.Options{LongPollTimeout: 300 * time.Millisecond, PageSize: 64 << 10}, 0, wrap)
}

// serveWith does it with options, and closes connections that are idle for so long.
func serveWith(t *testing.T, opts *durablestreams.Options, idle time.Duration, wrap func(http.Handler) http.Handler) (url string) {
	t.Helper()
	opts.InMemory = true
	ds, err := durablestreams.Open("", opts)
	if err != nil {
		t.Fatal(err)
	}
	handler := ds.Handler()
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Config.IdleTimeout = idle
	server.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := ds.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return server.URL + ds.Root()
}

// small are options for a run that is over in a moment.
func small(url, scenario string) bench.Options {
	return bench.Options{
		Scenario: scenario, URL: url, Connections: 4, Streams: 4, Requests: 200, Counts: []int{3, 20},
		Duration: 20 * time.Second, Warmup: -1, Timeout: 15 * time.Second, ReadSize: 300 << 10,
	}
}

// run runs with a bound on time.
func run(t *testing.T, opts bench.Options) (bench.Report, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	report, err := bench.Run(ctx, opts, &out)
	return report, out.String(), err
}

// both runs a test over each driver.
func both(t *testing.T, test func(t *testing.T, portable bool)) {
	for name, portable := range map[string]bool{"epoll": false, "portable": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is waiting
			test(t, portable)
		})
	}
}

// exchange is a request whose answer can be looked at and changed before it goes out.
type exchange struct {
	next http.Handler
	w    http.ResponseWriter
	r    *http.Request
	body []byte
}

// ask carries out the request, with another body if one is given.
func (e *exchange) ask(body []byte) *httptest.ResponseRecorder {
	r := e.r.Clone(e.r.Context())
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	r.ContentLength = int64(len(body))
	answer := httptest.NewRecorder()
	e.next.ServeHTTP(answer, r)
	return answer
}

// send sends an answer on.
func (e *exchange) send(answer *httptest.ResponseRecorder, status int, body []byte) {
	for name, values := range answer.Header() {
		if name != "Content-Length" {
			e.w.Header()[name] = values
		}
	}
	e.w.WriteHeader(status)
	e.w.Write(body)
}

// nth makes a server that treats every request of a method as an honest one does, but
// the n-th: that is the lie's. With n of 0 all are.
func nth(method string, n int64, lie func(*exchange)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		var count atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method || count.Add(1) != n && n != 0 {
				next.ServeHTTP(w, r)
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(err)
			}
			lie(&exchange{next, w, r, body})
		})
	}
}

// hijack takes the connection over and says something on it.
func (e *exchange) hijack(say string) {
	conn, _, err := e.w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	io.WriteString(conn, say)
	conn.Close()
}
