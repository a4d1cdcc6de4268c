package conformance_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// call makes one simple request and gives status and body.
func call(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp.StatusCode, string(content)
}

func expect(t *testing.T, want int, method, url, body string, headers ...string) string {
	t.Helper()
	status, content := call(t, method, url, body, headers...)
	if status != want {
		t.Fatalf("%s %s: status %d, want %d: %s", method, url, status, want, content)
	}
	return content
}

var plain = []string{"Content-Type", "text/plain"}

// liveRead opens a live read over a socket of its own and gives, once the server
// has let go of it, how that went.
func liveRead(t *testing.T, s *server, path, query string) (conn net.Conn, end <-chan error) {
	t.Helper()
	conn, err := net.Dial("tcp", s.streams.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET %s/%s?%s HTTP/1.1\r\nHost: %s\r\n\r\n", s.streams.Path, path, query, s.streams.Host)
	done := make(chan error, 1)
	go func() {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			done <- err
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode >= 300 && resp.StatusCode != http.StatusServiceUnavailable {
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		done <- err
	}()
	return conn, done
}

// TestShutdown is B99: live reads and an append in flight when SIGTERM comes.
func TestShutdown(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, buildServer(t, raceEnabled), "--data-dir", data)
	stream := s.Streams + "/a"
	expect(t, 201, "PUT", stream, "x", plain...)

	var ends []<-chan error
	for range 50 {
		for _, query := range []string{"offset=now&live=sse", "offset=now&live=long-poll"} {
			_, end := liveRead(t, s, "a", query)
			ends = append(ends, end)
		}
	}
	post, err := net.Dial("tcp", s.streams.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer post.Close()
	fmt.Fprintf(post, "POST %s/a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nla", s.streams.Path)
	time.Sleep(300 * time.Millisecond)

	begin := time.Now()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	fmt.Fprint(post, "te")
	post.SetReadDeadline(time.Now().Add(20 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(post), nil)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Errorf("the append in flight got %v, %v, want 204", resp, err)
	}
	for i, end := range ends {
		select {
		case err := <-end:
			if err != nil {
				t.Errorf("live read %d was cut: %v", i, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("live read %d is held over the shutdown", i)
		}
	}
	select {
	case <-s.Ended():
		if err := s.Err(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("still running %s after SIGTERM", time.Since(begin))
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if got := expect(t, 200, "GET", stream, ""); got != "xlate" {
		t.Errorf("after the shutdown the stream holds %q, want xlate", got)
	}
}

// TestDescriptors is B98: more connections than descriptors, then fewer again.
func TestDescriptors(t *testing.T) {
	binary := buildServer(t, false)
	s := &server{command: process.Command{
		Binary: binary,
		Args:   []string{"--data-dir", filepath.Join(t.TempDir(), "data")},
		Prefix: []string{"sh", "-c", `ulimit -n 256 && exec "$@"`, "limited"},
	}}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	stream := s.Streams + "/a"
	expect(t, 201, "PUT", stream, "x", plain...)

	var mu sync.Mutex
	var conns []net.Conn
	var opening sync.WaitGroup
	for range 8 {
		opening.Go(func() {
			for range 50 {
				conn, err := net.DialTimeout("tcp", s.streams.Host, 2*time.Second)
				if err != nil {
					continue // no longer accepted: that is one way to say no
				}
				fmt.Fprintf(conn, "GET %s/a?offset=now&live=sse HTTP/1.1\r\nHost: x\r\n\r\n", s.streams.Path)
				mu.Lock()
				conns = append(conns, conn)
				mu.Unlock()
			}
		})
	}
	opening.Wait()
	if len(conns) < 250 {
		t.Errorf("only %d connections could be opened", len(conns))
	}
	before := cpuTime(t, s.Pid())
	time.Sleep(2 * time.Second)
	if used := cpuTime(t, s.Pid()) - before; used > time.Second {
		t.Errorf("out of descriptors the server used %s of CPU in 2 s", used)
	}
	if log := s.Stderr.String(); strings.Count(log, "\n") > 60 {
		t.Errorf("out of descriptors the server wrote a long log:\n%s", log)
	}
	for _, conn := range conns {
		conn.Close()
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		status, err := tryPut(s.Streams + "/b")
		if err == nil && (status == 201 || status == 200) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no service after the connections are gone: %d, %v", status, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	expect(t, 204, "POST", stream, "y", plain...)
	if got := expect(t, 200, "GET", stream, ""); got != "xy" {
		t.Errorf("the stream holds %q, want xy", got)
	}
}

func tryPut(url string) (int, error) {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(http.MethodPut, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "text/plain")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// cpuTime is what a process has used so far; without /proc it is always 0.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	var ticks time.Duration
	for _, f := range fields[11:13] { // user and system time, in hundredths of a second
		var n int64
		fmt.Sscan(f, &n)
		ticks += time.Duration(n) * 10 * time.Millisecond
	}
	return ticks
}
