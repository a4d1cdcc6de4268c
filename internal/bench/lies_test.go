package bench_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"durablestreams/internal/bench"
)

// lie is a server that breaks a promise once, and what must be said about it.
type lie struct {
	name     string
	scenario string
	wrap     func(http.Handler) http.Handler
	counts   func(v *bench.Verification) int64 // must not be zero
	errors   string                            // or part of an error's name
}

func lost(v *bench.Verification) int64       { return v.Lost }
func doubled(v *bench.Verification) int64    { return v.Doubled }
func reordered(v *bench.Verification) int64  { return v.Reordered }
func refused(v *bench.Verification) int64    { return v.Refused }
func alien(v *bench.Verification) int64      { return v.Alien }
func unreadable(v *bench.Verification) int64 { return v.Unreadable }

var writeLies = []lie{
	{"acknowledges an append and drops it", "append", nth("POST", 60, func(e *exchange) { e.w.WriteHeader(204) }), lost, ""},
	{"carries an append out twice", "append", nth("POST", 60, func(e *exchange) {
		e.ask(e.body)
		e.send(e.ask(e.body), 204, nil)
	}), doubled, ""},
	{"carries an append out after a later one", "append", delayed(), reordered, ""},
	{"stores half of an append", "append", nth("POST", 60, func(e *exchange) { e.send(e.ask(e.body[:100]), 204, nil) }), alien, ""},
	{"stores an append with a bit changed", "append", nth("POST", 60, func(e *exchange) {
		e.body[77] ^= 4
		e.send(e.ask(e.body), 204, nil)
	}), alien, ""},
	{"stores an append in another stream", "append", nth("POST", 60, func(e *exchange) {
		path := e.r.URL.Path
		path = path[:len(path)-1] + string(path[len(path)-1]^1)
		e.r.URL.Path, e.r.RequestURI = path, path
		e.send(e.ask(e.body), 204, nil)
	}), alien, ""},
	{"refuses an append and stores it", "append", nth("POST", 60, func(e *exchange) { e.send(e.ask(e.body), 409, nil) }), refused, "HTTP 409"},
	{"answers 503 to an append that it stores", "append", nth("POST", 60, func(e *exchange) { e.send(e.ask(e.body), 503, nil) }), nil, "HTTP 503"},
	{"sends an append elsewhere", "append", nth("POST", 60, func(e *exchange) { http.Redirect(e.w, e.r, "/", http.StatusTemporaryRedirect) }), nil, "HTTP 307"},
	{"closes the connection instead of an answer", "append", nth("POST", 60, func(e *exchange) {
		e.ask(e.body)
		e.hijack("")
	}), nil, "connection"},
	{"answers with half a head", "append", nth("POST", 60, func(e *exchange) { e.hijack("HTTP/1.1 204 No C") }), nil, "connection"},
	{"answers nonsense", "append", nth("POST", 60, func(e *exchange) { e.hijack("220 mail.example.com ESMTP\r\n\r\n") }), nil, "malformed"},
	{"answers twice", "append", nth("POST", 60, func(e *exchange) {
		e.hijack(strings.Repeat("HTTP/1.1 204 No Content\r\n\r\n", 2))
	}), nil, "unasked"},
	{"says of a new append that it is a duplicate and drops it", "producers", nth("POST", 60, func(e *exchange) { e.w.WriteHeader(204) }), lost, "HTTP 409"},
	{"acknowledges a creation and forgets it", "create", nth("PUT", 60, func(e *exchange) { e.w.WriteHeader(201) }), lost, ""},
	{"creates a stream and drops what was in it", "create", nth("PUT", 60, func(e *exchange) { e.send(e.ask(nil), 201, nil) }), lost, ""},
	{"says of a new stream that it was there", "create", nth("PUT", 60, func(e *exchange) { e.send(e.ask(e.body), 200, nil) }), nil, "HTTP 200"},
}

// delayed acknowledges one append at once and carries it out after the next one of
// the same stream.
func delayed() func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		var held *exchange
		begun := false
		return nth("POST", 0, func(e *exchange) {
			mu.Lock()
			defer mu.Unlock()
			if !begun {
				begun, held = true, e
				e.w.WriteHeader(204)
				return
			}
			e.send(e.ask(e.body), 204, nil)
			if held != nil && held.r.URL.Path == e.r.URL.Path {
				e.ask(held.body)
				held = nil
			}
		})(next)
	}
}

var readLies = []lie{
	{"cuts the last record off a read", "append", nth("GET", 3, func(e *exchange) {
		a := e.ask(nil)
		e.send(a, 200, a.Body.Bytes()[:max(a.Body.Len()-256, 0)])
	}), lost, ""},
	{"cuts half a record off a read", "append", nth("GET", 3, func(e *exchange) {
		a := e.ask(nil)
		e.send(a, 200, a.Body.Bytes()[:max(a.Body.Len()-128, 0)])
	}), alien, ""},
	{"says up to date of an empty page", "append", nth("GET", 3, func(e *exchange) { e.send(e.ask(nil), 200, nil) }), lost, ""},
	{"changes a bit in a read", "append", nth("GET", 3, func(e *exchange) {
		a := e.ask(nil)
		body := a.Body.Bytes()
		body[len(body)/2] ^= 1
		e.send(a, 200, body)
	}), alien, ""},
	{"shows a record twice", "append", nth("GET", 3, func(e *exchange) {
		a := e.ask(nil)
		e.send(a, 200, append(bytes.Clone(a.Body.Bytes()[:256]), a.Body.Bytes()...))
	}), doubled, ""},
	{"never ends a stream", "append", nth("GET", 0, func(e *exchange) {
		a := e.ask(nil)
		a.Header().Del("Stream-Up-To-Date")
		e.send(a, 200, a.Body.Bytes())
	}), unreadable, ""},
	{"names no next offset", "append", nth("GET", 3, func(e *exchange) {
		a := e.ask(nil)
		a.Header().Del("Stream-Next-Offset")
		e.send(a, 200, a.Body.Bytes())
	}), unreadable, ""},
	{"breaks every read off", "append", nth("GET", 0, func(e *exchange) {
		e.hijack("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nStream-Up-To-Date: true\r\nStream-Next-Offset: 9\r\n\r\nabc")
	}), unreadable, ""},
	{"cannot find a stream any more", "append", nth("GET", 3, func(e *exchange) { http.NotFound(e.w, e.r) }), unreadable, ""},
	{"cannot read", "append", nth("GET", 0, func(e *exchange) { http.Error(e.w, "no", 500) }), unreadable, ""},
	{"gives less than all to a timed read", "catchup", short(), nil, "a read of"},
}

// short cuts a page short once reads have been going on for a while.
func short() func(http.Handler) http.Handler {
	return nth("GET", 100, func(e *exchange) {
		a := e.ask(nil)
		e.send(a, 200, a.Body.Bytes()[:a.Body.Len()/2])
	})
}

func TestLies(t *testing.T) {
	for _, l := range append(append([]lie{}, writeLies...), readLies...) {
		t.Run("a server that "+l.name, func(t *testing.T) {
			t.Parallel()
			test := func(t *testing.T, portable bool) {
				opts := small(serve(t, l.wrap), l.scenario)
				if l.scenario == "producers" {
					opts.Scenario, opts.Producers = "append", true
				}
				opts.Portable = portable
				report, out, err := run(t, opts)
				l.expect(t, report, out, err)
			}
			if l.counts == nil { // noticed by the driver, so by each of them
				both(t, test)
			} else {
				test(t, false)
			}
		})
	}
}

// expect demands that the run failed, and for the right reason.
func (l *lie) expect(t *testing.T, report bench.Report, out string, err error) {
	t.Helper()
	if !errors.Is(err, bench.ErrFailed) {
		t.Fatalf("the run is believed: %v\n%s", err, out)
	}
	v := &bench.Verification{}
	var named []string
	for _, res := range report.Results {
		if res.Verify != nil {
			v = res.Verify
		}
		for _, e := range res.Errors {
			named = append(named, e.What)
		}
		if res.Unsolicited > 0 {
			named = append(named, "unasked bytes")
		}
	}
	if l.counts != nil && (l.counts(v) == 0 || !strings.Contains(out, "BROKEN") || len(v.First) == 0) {
		t.Errorf("counted %+v\n%s", v, out)
	}
	if l.errors != "" && !strings.Contains(strings.Join(named, "\n"), l.errors) {
		t.Errorf("errors are %q, want one with %q\n%s", named, l.errors, out)
	}
	if l.errors == "" && len(named) > 0 {
		t.Errorf("errors %q", named)
	}
}
