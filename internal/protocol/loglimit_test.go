package protocol_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/protocol"
)

// However often a request fails, the log stays short, and says how much is left
// out.
func TestFailuresDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.store.Err = errors.New("bad sector")
		for range 1000 {
			c.do("GET a").want(500)
		}
		if n := strings.Count(c.log.String(), "bad sector"); n == 0 || n > 50 {
			t.Errorf("%d lines of 1000", n)
		}
		time.Sleep(time.Minute)
		c.do("GET a").want(500)
		if !strings.Contains(c.log.String(), "dropped=980") {
			t.Errorf("the log does not say how much is missing:\n%s", short(c.log.String()))
		}
	})
}

func TestLimitLogShares(t *testing.T) {
	var out strings.Builder
	l := protocol.LimitLog(slog.New(slog.NewTextHandler(&out, nil)))
	for range 100 {
		l.With("a", 1).WithGroup("g").Warn("x", "b", 2)
		l.Warn("y")
	}
	if n := strings.Count(out.String(), "\n"); n == 0 || n > 50 || !strings.Contains(out.String(), "a=1 g.b=2") {
		t.Errorf("%d lines: %s", n, short(out.String()))
	}
}
