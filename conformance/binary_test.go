package conformance_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// raced is the binary with the race detector, built once for all tests.
var raced struct {
	sync.Mutex
	dir string
}

// buildServer compiles cmd/ds once for each kind.
func buildServer(t testing.TB, race bool) string {
	t.Helper()
	if !race {
		return process.Build(t)
	}
	raced.Lock()
	defer raced.Unlock()
	if raced.dir == "" {
		dir, err := os.MkdirTemp("", "ds-conformance-")
		if err != nil {
			t.Fatal(err)
		}
		raced.dir = dir
		out, err := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", filepath.Join(dir, "ds"), "../cmd/ds").CombinedOutput()
		if err != nil {
			t.Fatalf("build cmd/ds: %v\n%s", err, out)
		}
	}
	return filepath.Join(raced.dir, "ds")
}

func TestMain(m *testing.M) {
	code := process.Main(m)
	if raced.dir != "" {
		_ = os.RemoveAll(raced.dir)
	}
	os.Exit(code)
}

// server is a ds process under test.
type server struct {
	*process.Server
	command process.Command
	streams *url.URL // below which streams live, without a slash at the end
}

// startServer runs ds on a port that the kernel chooses and stops it with
// SIGTERM when the test ends. A server that then does not exit with code 0
// (a race report makes it 66) fails the test.
func startServer(t testing.TB, binary string, args ...string) *server {
	t.Helper()
	s := &server{command: process.Command{Binary: binary, Args: args}}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(30 * time.Second); err != nil {
			t.Errorf("stop the server: %v", err)
		}
		if t.Failed() {
			t.Logf("last lines of the server's log:\n%s", s.Stderr)
		}
	})
	return s
}

// start runs the process, after the first time on the port that it had.
func (s *server) start() error {
	p, stdout, err := process.Launch(s.command)
	if err != nil {
		return err
	}
	s.Server = p
	if _, err := p.Await(stdout); err != nil {
		p.Kill()
		return err
	}
	if s.streams, err = url.Parse(p.Streams); err != nil {
		p.Kill()
		return fmt.Errorf("read the URL that ds prints: %w", err)
	}
	s.command.Listen = s.streams.Host
	return nil
}

// restart is a crash and a new start on the same port and arguments.
func (s *server) restart() error {
	s.Kill()
	return s.start()
}

// origin is scheme and host of the server.
func (s *server) origin() string { return s.streams.Scheme + "://" + s.streams.Host }
