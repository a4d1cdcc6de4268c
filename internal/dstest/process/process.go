// Package process runs the ds binary for tests that need a real process: signals,
// kill -9, limits and tracers of the operating system. Its tests are such tests.
//
// Every process that it starts is ended by its own id when its test ends.
package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// built is the binary of this test process.
var built = struct {
	sync.Mutex
	dir string
}{}

// Build compiles cmd/ds, once for all tests of a process. The test binary has to
// run in a folder of this module, and its TestMain has to call [Main].
func Build(t testing.TB) (binary string) {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		if err := lookAtSources(); err != nil {
			t.Fatal(err)
		}
		dir, err := os.MkdirTemp("", "ds-process-")
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "ds"), "durablestreams/cmd/ds").CombinedOutput()
		if err != nil {
			_ = os.RemoveAll(dir)
			t.Fatalf("build cmd/ds: %v\n%s", err, out)
		}
		built.dir = dir
	}
	return filepath.Join(built.dir, "ds")
}

// lookAtSources has "go test" know what the binary is made of: it takes a result from
// its cache unless a folder that the test has read is another one by now.
func lookAtSources() error {
	root := "."
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		} else if abs, _ := filepath.Abs(root); abs == filepath.Dir(abs) {
			return err
		}
		root = filepath.Join("..", root)
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); err == nil && d.IsDir() && path != root && (name[0] == '.' || name == "docs" || name == "testdata" || name == "npm") {
			return filepath.SkipDir
		}
		return err
	})
}

// Main runs the tests and removes what Build has made. If the log of a server had a
// secret in it the run has failed, although all tests may have passed.
func Main(m *testing.M) (exitCode int) {
	defer func() {
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
	}()
	exitCode = m.Run()
	if !reportLeaks(os.Stderr) {
		exitCode = max(exitCode, 1)
	}
	return exitCode
}

// Command describes how to run ds serve.
type Command struct {
	Binary string
	Args   []string  // after "serve --listen <address>"
	Prefix []string  // a program that runs the rest of its command line in its own process
	Env    []string  // added to the environment
	Dir    string    // working directory
	Listen string    // default 127.0.0.1:0
	Log    io.Writer // gets all that the process logs; nil: nobody
}

// Server is a ds process. Its methods are for one goroutine.
type Server struct {
	// Streams is the URL of all streams, without a slash at the end.
	Streams string

	// Admin is the URL of the admin address, without a slash at the end; "" if there
	// is none.
	Admin string

	// Stderr is the end of what the process has logged.
	Stderr *Tail

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // once ended is closed
}

var streamsURL = regexp.MustCompile(`(?m)^streams +(http\S+)/<path>$`)

var adminURL = regexp.MustCompile(`(?m)^admin +(http\S+)$`)

// startTime is how long a server may take to answer.
const startTime = 30 * time.Second

// Launch starts the process and does not wait for it to be ready. Whoever calls
// it has to end it.
func Launch(c Command) (s *Server, stdout io.ReadCloser, err error) {
	line := append([]string{}, c.Prefix...)
	listen := c.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	line = append(append(line, c.Binary, "serve", "--listen", listen), c.Args...)
	s = &Server{cmd: exec.Command(line[0], line[1:]...), Stderr: &Tail{}, ended: make(chan struct{})}
	s.cmd.Env = append(append(os.Environ(), "DS_ADMIN_LISTEN=127.0.0.1:0"), c.Env...)
	s.cmd.Dir = c.Dir
	log := &record{}
	s.cmd.Stderr = io.MultiWriter(s.Stderr, log)
	if c.Log != nil {
		s.cmd.Stderr = io.MultiWriter(s.Stderr, log, c.Log)
	}
	stdout, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	s.cmd.Stdout = w
	err = s.cmd.Start()
	_ = w.Close()
	if err != nil {
		_ = stdout.Close()
		return nil, nil, fmt.Errorf("start %s: %w", strings.Join(line, " "), err)
	}
	go func() {
		s.err = s.cmd.Wait()
		log.search(c.Args, c.Dir)
		close(s.ended)
	}()
	return s, stdout, nil
}

// Start starts the process and waits until it has said where its streams are. It
// is killed at the end of the test if it still runs then.
func Start(t testing.TB, c Command) *Server {
	t.Helper()
	s, stdout, err := Launch(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	if _, err := s.Await(stdout); err != nil {
		t.Fatal(err)
	}
	return s
}

// Await reads what the server says of itself, until it has said everything, and
// lets it go on. It gives the text.
func (s *Server) Await(stdout io.ReadCloser) (said string, err error) {
	found := make(chan string, 1)
	go func() {
		defer stdout.Close()
		var text strings.Builder
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if strings.HasPrefix(lines.Text(), "durability") {
				found <- text.String()
				break
			}
		}
		_, _ = io.Copy(io.Discard, stdout)
	}()
	select {
	case said = <-found:
	case <-s.ended:
		return "", fmt.Errorf("ds ended before it served: %w\n%s", s.err, s.Stderr)
	case <-time.After(startTime):
		return "", fmt.Errorf("ds does not serve %v after its start\n%s", startTime, s.Stderr)
	}
	m := streamsURL.FindStringSubmatch(said)
	if m == nil {
		return said, fmt.Errorf("ds does not say where its streams are: %q", said)
	}
	s.Streams = m[1]
	if m := adminURL.FindStringSubmatch(said); m != nil {
		s.Admin = m[1]
	}
	return said, nil
}

// Pid is the number of the process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Kill ends the process at once, as a crash would, and waits for its end.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// Signal sends a signal.
func (s *Server) Signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

// Ended is closed when the process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Err says how the process ended; nil is exit code 0.
func (s *Server) Err() error {
	<-s.ended
	return s.err
}

// Stop asks the process to end, as a service manager does, and gives how it did.
func (s *Server) Stop(limit time.Duration) error {
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.ended:
		return s.err
	case <-time.After(limit):
		s.Kill()
		return errors.New("it did not end in time")
	}
}

// Tail keeps the last part of what is written to it.
type Tail struct {
	mu      sync.Mutex
	buf     []byte
	written int64
}

const tailSize = 16 << 10

func (b *Tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written += int64(len(p))
	b.buf = append(b.buf, p...)
	if len(b.buf) > 2*tailSize {
		b.buf = append(b.buf[:0], b.buf[len(b.buf)-tailSize:]...)
	}
	return len(p), nil
}

// Written is the number of bytes written so far.
func (b *Tail) Written() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written
}

func (b *Tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(bytes.TrimSpace(b.buf))
}
