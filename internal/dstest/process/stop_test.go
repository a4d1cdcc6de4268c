package process_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

func startInMemory(t *testing.T, args ...string) (*process.Server, *process.Client) {
	t.Helper()
	s := process.Start(t, process.Command{Binary: process.Build(t), Args: append([]string{"--in-memory"}, args...)})
	c := process.NewClient(s.Streams)
	t.Cleanup(c.Close)
	if a := c.Do(http.MethodPut, "a", "x", "Content-Type", "text/plain"); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	return s, c
}

// dial opens a connection and sends something.
func dial(t *testing.T, s *process.Server, format string, args ...any) net.Conn {
	t.Helper()
	u, err := url.Parse(s.Streams)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, format, args...)
	return conn
}

// stalled sends half of an append.
func stalled(t *testing.T, s *process.Server) net.Conn {
	return dial(t, s, "POST %s/a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhalf", streamsRoot)
}

// inside waits until a stalled request must have reached its handler: the server
// has answered another one that came after it.
func inside(t *testing.T, c *process.Client) {
	t.Helper()
	for range 10 {
		if a := c.Do(http.MethodGet, "a", ""); a.Status != http.StatusOK {
			t.Fatal(a)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A client that stalls is waited for as long as the grace time and no longer, and
// that is no failure.
func TestStopWithStalledClient(t *testing.T) {
	s, c := startInMemory(t, "--shutdown-grace", "1s")
	conn := stalled(t, s)
	inside(t, c)
	begin := time.Now()
	if err := s.Stop(10 * time.Second); err != nil {
		t.Fatalf("%v\n%s", err, s.Stderr)
	}
	if took := time.Since(begin); took < 900*time.Millisecond || took > 5*time.Second {
		t.Errorf("it ended after %v, want about the grace time", took)
	}
	if !strings.Contains(s.Stderr.String(), "level=WARN") {
		t.Errorf("the log does not say that a request was cut:\n%s", s.Stderr)
	}
	if answer, _ := io.ReadAll(conn); strings.HasPrefix(string(answer), "HTTP/1.1 2") {
		t.Errorf("half of an append was answered %q", answer)
	}
}

// A second signal ends the server at once.
func TestSecondSignal(t *testing.T) {
	s, c := startInMemory(t, "--shutdown-grace", "1m")
	stalled(t, s)
	inside(t, c)
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Ended():
		t.Fatal("it did not wait for the append in flight")
	case <-time.After(500 * time.Millisecond):
	}
	if err := s.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Ended():
	case <-time.After(5 * time.Second):
		t.Fatal("it goes on after a second signal")
	}
	if s.Err() == nil {
		t.Error("an end by force looks like a clean one")
	}
}

// An idle server, also one with an idle connection, ends promptly.
func TestStopIdle(t *testing.T) {
	s, _ := startInMemory(t)
	dial(t, s, "GET %s/a HTTP/1.1\r\nHost: x\r\n\r\n", streamsRoot)
	begin := time.Now()
	if err := s.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %v to end", took)
	}
}
