package process_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// A hang-up, even one that comes twice, ends the server as SIGTERM does.
func TestHangUp(t *testing.T) {
	// Where this test runs under nohup, the server would inherit that.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	s, c := startInMemory(t, "--shutdown-grace", "2s")
	stalled(t, s)
	inside(t, c)
	for range 2 {
		if err := s.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		<-time.After(200 * time.Millisecond)
	}
	select {
	case <-s.Ended():
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
	if err := s.Err(); err != nil || !strings.Contains(s.Stderr.String(), "msg=stopped") {
		t.Errorf("%v\n%s", err, s.Stderr)
	}
}

// Nobody has to read what the server says.
func TestNobodyListens(t *testing.T) {
	stderr, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(process.Build(t), "serve", "--in-memory", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--max-connections", "1")
	cmd.Stderr = w
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	_ = w.Close()
	text := make([]byte, 4096)
	n, err := io.ReadAtLeast(stdout, text, 20)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text[:n]), "http://")
	host, _, _ := strings.Cut(rest, "/")
	_ = stdout.Close()
	_ = stderr.Close()
	ask := func() (status int) {
		res, err := http.Get("http://" + host + "/")
		if err != nil {
			return 0
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.StatusCode
	}
	if status := ask(); status != http.StatusNotFound { // this connection stays open
		t.Fatalf("status %d", status)
	}
	one := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := one.Get("http://" + host + "/") // one too many: a line in the log
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", res.StatusCode)
	}
	if status := ask(); status != http.StatusNotFound {
		t.Errorf("a line that nobody reads ended the server: %d", status)
	}
}

// A tool whose reader has seen enough ends without a word.
func TestReaderHasSeenEnough(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	var stderr bytes.Buffer
	cmd := exec.Command(process.Build(t), "version")
	cmd.Stdout, cmd.Stderr = w, &stderr
	err = cmd.Run()
	_ = w.Close()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || stderr.Len() > 0 {
		t.Errorf("%v, %q", err, &stderr)
	}
}
