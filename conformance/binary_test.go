package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binaries holds what buildServer made, so that every test shares one build.
var binaries = struct {
	sync.Mutex
	dir  string
	path map[bool]string
}{path: map[bool]string{}}

// buildServer compiles cmd/ds once per test process and kind.
func buildServer(t testing.TB, race bool) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	if path := binaries.path[race]; path != "" {
		return path
	}
	if binaries.dir == "" {
		dir, err := os.MkdirTemp("", "ds-conformance-")
		if err != nil {
			t.Fatal(err)
		}
		binaries.dir = dir
	}
	path := filepath.Join(binaries.dir, fmt.Sprintf("ds-race-%t", race))
	args := []string{"build", "-o", path}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, "../cmd/ds")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build cmd/ds: %v\n%s", err, out)
	}
	binaries.path[race] = path
	return path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if binaries.dir != "" {
		os.RemoveAll(binaries.dir)
	}
	os.Exit(code)
}

// server is one ds process under test. Its methods are for one goroutine.
type server struct {
	t      testing.TB
	binary string
	args   []string
	listen string

	cmd    *exec.Cmd
	done   chan error
	stderr *tailBuffer

	// Streams is the URL below which streams live, without a final slash.
	Streams *url.URL
}

// startServer runs ds on a port that the kernel chooses and stops it with
// SIGTERM when the test ends. A server that then does not exit with code 0
// (a race report makes it 66) fails the test.
func startServer(t testing.TB, binary string, args ...string) *server {
	t.Helper()
	s := &server{t: t, binary: binary, args: args, listen: "127.0.0.1:0"}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
		if t.Failed() {
			t.Logf("last lines of the server's log:\n%s", s.stderr)
		}
	})
	return s
}

var streamURL = regexp.MustCompile(`https?://[^\s/]+(?:/[^\s/]+)*/v1/stream`)

func (s *server) start() error {
	args := append([]string{"serve", "--listen", s.listen}, s.args...)
	s.cmd = exec.Command(s.binary, args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.stderr == nil {
		s.stderr = &tailBuffer{}
	}
	s.cmd.Stderr = s.stderr
	stdout, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.cmd.Stdout = w
	if err := s.cmd.Start(); err != nil {
		w.Close()
		return fmt.Errorf("start %s: %w", s.binary, err)
	}
	w.Close()
	s.done = make(chan error, 1)
	go func() { s.done <- s.cmd.Wait() }()

	found := make(chan string, 1)
	go func() {
		defer stdout.Close()
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if u := streamURL.FindString(lines.Text()); u != "" {
				found <- u
				io.Copy(io.Discard, stdout)
				return
			}
		}
	}()
	select {
	case u := <-found:
		if s.Streams, err = url.Parse(u); err != nil {
			return err
		}
		s.listen = s.Streams.Host
		return nil
	case err := <-s.done:
		s.done <- err
		return fmt.Errorf("ds %s ended before it listened: %v\n%s", strings.Join(args, " "), err, s.stderr)
	case <-time.After(60 * time.Second):
		s.kill()
		return fmt.Errorf("ds %s printed no stream URL within a minute\n%s", strings.Join(args, " "), s.stderr)
	}
}

// origin is scheme and host of the server.
func (s *server) origin() string { return s.Streams.Scheme + "://" + s.Streams.Host }

// kill ends the process at once, as a crash would.
func (s *server) kill() {
	s.cmd.Process.Kill()
	s.done <- <-s.done
}

// stop asks the process to end and waits for it.
func (s *server) stop() error {
	select {
	case err := <-s.done:
		s.done <- err
		return fmt.Errorf("it had already ended: %v", err)
	default:
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-s.done:
		s.done <- err
		return err
	case <-time.After(30 * time.Second):
		s.kill()
		return errors.New("still running 30 s after SIGTERM")
	}
}

// restart is a crash and a new start on the same port and arguments.
func (s *server) restart() error {
	s.kill()
	return s.start()
}

// tailBuffer keeps the last part of what is written to it.
type tailBuffer struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 16 << 10

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if over := len(b.buf) - 2*tailSize; over > 0 {
		b.buf = append(b.buf[:0], b.buf[over+tailSize:]...)
	}
	return len(p), nil
}

func (b *tailBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(bytes.TrimSpace(b.buf[max(0, len(b.buf)-tailSize):]))
}

// runCommand runs a command with a time limit and gives its whole output.
func runCommand(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
