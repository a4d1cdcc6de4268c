package durablestreams_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams"
)

// lines counts what is written to it.
type lines struct{ atomic.Int64 }

func (l *lines) Write(p []byte) (int, error) {
	l.Add(1)
	return len(p), nil
}

// ask opens a connection and, if it is answered, gives the status.
func ask(t *testing.T, address string) (net.Conn, int, string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return c, 0, ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
		return c, 0, ""
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		c.Close()
		checkRefusal(t, res.Header)
	}
	return c, res.StatusCode, res.Header.Get("Retry-After") + " " + string(body)
}

// checkRefusal looks for what a refusal that no handler has made must say.
func checkRefusal(t *testing.T, h http.Header) {
	t.Helper()
	for name, value := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "Retry-After": "1",
		"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin", "Access-Control-Allow-Origin": "*"} {
		if got := h.Get(name); got != value {
			t.Errorf("a refusal has %s: %q", name, got)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	var log lines
	hs := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	ln := listen(t)
	s := open(t, "", &durablestreams.Options{InMemory: true, MaxConnections: 2})
	durablestreams.SetLogger(s, slog.New(slog.NewTextHandler(&log, nil)))
	go hs.Serve(durablestreams.LimitConnections(s, hs, ln))
	t.Cleanup(func() { hs.Close() })
	address := ln.Addr().String()

	first, status, _ := ask(t, address)
	if status != http.StatusOK {
		t.Fatalf("the first connection: %d", status)
	}
	if _, status, _ := ask(t, address); status != http.StatusOK {
		t.Fatalf("the second connection: %d", status)
	}
	_, status, body := ask(t, address)
	if status != http.StatusServiceUnavailable || !strings.HasPrefix(body, `1 {"error":{"code":"busy"`) {
		t.Errorf("the third connection: %d %s", status, body)
	}
	// A crowd beyond is refused, each of them, and costs one line in the log.
	var wg sync.WaitGroup
	for range 400 {
		wg.Go(func() {
			if _, status, _ := ask(t, address); status != http.StatusServiceUnavailable {
				t.Errorf("status %d beyond the limit", status)
			}
		})
	}
	wg.Wait()
	if n := log.Load(); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
	}
	first.Close()
	waitFor(t, func() bool { _, status, _ := ask(t, address); return status == http.StatusOK })
}

// waitFor tries again and again, at most for some seconds.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 200 {
		if ok() {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("it does not come")
}

func TestGate(t *testing.T) {
	g := durablestreams.NewGate()
	for range 2 {
		if !g.Enter() {
			t.Fatal("an open gate lets nobody in")
		}
	}
	empty := g.Shut()
	if g.Enter() {
		t.Error("a shut gate lets somebody in")
	}
	g.Leave()
	select {
	case <-empty:
		t.Fatal("empty with somebody inside")
	default:
	}
	g.Leave()
	<-empty
	g.Shut()
	if g.Enter() {
		t.Error("a shut gate lets somebody in")
	}
	<-durablestreams.NewGate().Shut()
}

// Nobody is inside once the gate says that it is empty, however they race.
func TestGateRace(t *testing.T) {
	for range 200 {
		g := durablestreams.NewGate()
		var inside atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for g.Enter() {
					inside.Add(1)
					inside.Add(-1)
					g.Leave()
				}
			})
		}
		<-g.Shut()
		if n := inside.Load(); n != 0 {
			t.Fatalf("%d are inside", n)
		}
		wg.Wait()
	}
}

// The engine of an in-memory server takes a body that is larger than its journal
// segments.
func TestLargeBodyInMemory(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	body := strings.Repeat("0123456789abcdef", 5<<16)
	mustDo(t, s, http.StatusCreated, http.MethodPut, streamA, body)
	mustDo(t, s, http.StatusNoContent, http.MethodPost, streamA, body)
	if got := mustDo(t, s, http.StatusOK, http.MethodHead, streamA, ""); got != "" {
		t.Errorf("HEAD: %q", got)
	}
}
