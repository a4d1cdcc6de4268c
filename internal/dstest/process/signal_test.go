package process_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// A hang-up, even one that comes twice, lets the server take its settings anew, and
// go on with the old ones if there is something wrong with them.
func TestReload(t *testing.T) {
	hearHangups(t)
	file := filepath.Join(t.TempDir(), "ds.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`cors-origins = ["https://a.example"]`)
	s, c := startInMemory(t, "--config", file)
	said := 0
	reload := func(says ...string) {
		t.Helper()
		for range 2 {
			if err := s.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			for n := 0; !strings.Contains(s.Stderr.String()[said:], "reloaded"); n++ {
				if n == 500 {
					t.Fatalf("no reload: %s", s.Stderr)
				}
				<-time.After(20 * time.Millisecond)
			}
			for _, want := range says {
				if !strings.Contains(s.Stderr.String()[said:], want) {
					t.Errorf("no %q in %s", want, s.Stderr.String()[said:])
				}
			}
			said, says = len(s.Stderr.String()), nil
		}
	}
	allowed := func(want string) {
		t.Helper()
		a := c.Do(http.MethodHead, "a", "", "Origin", want)
		if got := a.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%v: allowed is %q, want %q", a, got, want)
		}
	}
	allowed("https://a.example")
	write("cors-origins = [\"https://b.example\"]\nlog-level = \"debug\"\nmax-live = 7\n")
	reload(`level=WARN msg="these settings have changed and need a restart" settings=[max-live]`, `msg="settings reloaded" changed="[cors-origins log-level]"`)
	allowed("https://b.example")
	// What waits for a restart is said again, and no more once it is taken back.
	write("cors-origins = [\"https://b.example\"]\nlog-level = \"info\"\nmax-live = 7\n")
	reload(`settings=[max-live]`, `changed=[log-level]`)
	before := said
	write("cors-origins = [\"https://b.example\"]\nlog-level = \"debug\"\n")
	reload(`changed=[log-level]`)
	if text := s.Stderr.String()[before:]; strings.Contains(text, "restart") {
		t.Errorf("nothing waits for a restart: %s", text)
	}
	for _, wrong := range []string{"cors-origins = [\"https://c.example\"]\nlog-levle = \"error\"\n", "cors-origins = [\"c\"]", "max-body = \"x\"", "x"} {
		write(wrong)
		reload(`level=ERROR msg="settings are not reloaded, the old ones stay"`)
		allowed("https://b.example")
	}
	write("log-level = \"error\"")
	if err := s.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if c.Do(http.MethodHead, "a", "").Header.Get("Access-Control-Allow-Origin") == "*" {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	allowed("*")
	if err := s.Stop(20 * time.Second); err != nil || strings.Contains(s.Stderr.String()[said:], "level=INFO") {
		t.Errorf("%v\n%s", err, s.Stderr)
	}
}

// hearHangups keeps the server from inheriting that a hang-up is ignored, where this
// test runs under nohup.
func hearHangups(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(heard) })
}

// A service manager is told how the server is (sd_notify).
func TestNotify(t *testing.T) {
	hearHangups(t)
	socket := filepath.Join(t.TempDir(), "notify")
	ln, err := net.ListenPacket("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	says := func(want string) {
		t.Helper()
		buf := make([]byte, 1000)
		_ = ln.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, _, err := ln.ReadFrom(buf)
		if err != nil || !regexp.MustCompile("^"+want+"$").Match(buf[:n]) {
			t.Errorf("it says %q, %v, want %s", buf[:n], err, want)
		}
	}
	s := process.Start(t, process.Command{Binary: process.Build(t), Args: []string{"--in-memory"}, Env: []string{"NOTIFY_SOCKET=" + socket}})
	says("READY=1")
	if err := s.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	says(`RELOADING=1\nMONOTONIC_USEC=\d+`)
	says("READY=1")
	if err := s.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
	says("STOPPING=1")
}

// A server on a Unix socket does all that one on a port does, and takes a socket over
// that a killed one has left.
func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "ds.sock")
	command := process.Command{Binary: process.Build(t), Args: []string{"--in-memory", "--trusted-proxies", "unix"}, Listen: "unix:" + socket}
	for _, noFastPath := range []bool{false, true} {
		if noFastPath {
			command.Args = append(command.Args, "--no-fast-path")
		}
		s := process.Start(t, command)
		c := process.NewClient(s.Streams)
		c.HTTP.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
		if a := c.Do(http.MethodPut, "a", "x", "Content-Type", "text/plain", "X-Forwarded-Proto", "https"); a.Status != 201 || !strings.HasPrefix(a.Header.Get("Location"), "https://localhost/") {
			t.Errorf("PUT: %v, %v", a, a.Header)
		}
		if a := c.Do(http.MethodGet, "a?offset=-1&live=long-poll", ""); a.Body != "x" {
			t.Errorf("GET: %v", a)
		}
		second, stdout, err := process.Launch(command)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := second.Await(stdout); err == nil || !strings.Contains(second.Stderr.String(), "is in use by another process; choose another socket with --listen") {
			t.Errorf("a second server: %v\n%s", err, second.Stderr)
		}
		second.Kill()
		c.Close()
		s.Kill()
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
	// Not with an http.Client: the refusal may be there before the request, which such a
	// client takes for no answer to it.
	ask := func(want string) (c net.Conn) {
		t.Helper()
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.Status != want {
			t.Fatalf("status %s, want %s", res.Status, want)
		}
		return c
	}
	first := ask("404 Not Found")
	ask("503 Service Unavailable") // one too many: a line in the log, which ends a server that it kills
	_, _ = io.WriteString(first, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("a line that nobody reads ended the server: %v", err)
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
