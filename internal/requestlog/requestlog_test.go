package requestlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/protocol"
	"durablestreams/internal/requestlog"
	"durablestreams/stream"
)

// timeless leaves out when a line was written.
var timeless = &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}}

func TestLines(t *testing.T) {
	read := protocol.Answer{ID: "i", Client: "192.0.2.1", Method: "GET", Path: "/a", Kind: protocol.CatchUp, Status: 200, Bytes: 7, Took: 1234567 * time.Nanosecond}
	slow := read
	slow.Slow = true
	refused := protocol.Answer{ID: "i", Client: "unix", Method: "POST", Path: "/a", Kind: protocol.Append, Status: 404, Code: stream.NotFound, Bytes: 60, Took: time.Millisecond}
	live := protocol.Answer{ID: "i", Client: "::1", Method: "GET", Path: "/a", Kind: protocol.SSE, Status: 200, Bytes: -1}
	const rest = ` id=i client=192.0.2.1 method=GET path=/a kind=read status=200 bytes=7 ms=1.234` + "\n"
	for name, test := range map[string]struct {
		all    bool
		answer protocol.Answer
		want   string
	}{
		"a read":              {true, read, "level=INFO msg=request" + rest},
		"a refusal":           {true, refused, "level=INFO msg=request id=i client=unix method=POST path=/a kind=append status=404 code=not_found bytes=60 ms=1\n"},
		"SSE":                 {true, live, "level=INFO msg=request id=i client=::1 method=GET path=/a kind=sse status=200 ms=0\n"},
		"a slow one":          {false, slow, `level=WARN msg="slow request"` + rest},
		"a slow one in all":   {true, slow, `level=WARN msg="slow request"` + rest + "level=INFO msg=request" + rest},
		"slow ones are asked": {false, read, ""},
	} {
		var out bytes.Buffer
		l := requestlog.New(slog.New(slog.NewTextHandler(&out, timeless)), test.all)
		l.Tell(test.answer)
		l.Close(t.Context())
		l.Close(t.Context())
		if out.String() != test.want {
			t.Errorf("%s: %q, want %q", name, &out, test.want)
		}
	}
}

// stuck is a log that nobody reads, until it is let go.
type stuck struct {
	bytes.Buffer
	goes chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.goes
	return s.Buffer.Write(b)
}

// A log that is stuck keeps nobody waiting, nor does it hold up the end; it learns what
// it has missed.
func TestStuckLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{goes: make(chan struct{})}
		l := requestlog.New(slog.New(slog.NewJSONHandler(out, nil)), true)
		const n = 10_000
		for i := range n {
			l.Tell(protocol.Answer{ID: fmt.Sprint(i)})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.Close(ctx)
		if ctx.Err() == nil {
			t.Error("a stuck log was closed as if it were not")
		}
		close(out.goes)
		l.Close(t.Context())
		written, dropped := 0, 0
		for line := range strings.Lines(out.String()) {
			var got struct {
				ID      string
				Dropped int
			}
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
			written++
			dropped += got.Dropped
		}
		if written+dropped != n || written < 4096 {
			t.Errorf("%d lines and %d dropped of %d", written, dropped, n)
		}
	})
}

// Slow requests come in crowds.
func TestSlowLinesAreLimited(t *testing.T) {
	var out bytes.Buffer
	l := requestlog.New(slog.New(slog.NewTextHandler(&out, nil)), false)
	for range 1000 {
		l.Tell(protocol.Answer{Slow: true})
	}
	l.Close(t.Context())
	if n := strings.Count(out.String(), "slow request"); n < 1 || n > 100 {
		t.Errorf("%d lines", n)
	}
}

func TestNone(t *testing.T) {
	var l *requestlog.Log
	l.Close(t.Context())
}
