package process_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"durablestreams/internal/dstest/process"
)

// wholeLog keeps all that a process logs.
type wholeLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *wholeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *wholeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// hostile is what a forger puts where the server takes it for a name.
const hostile = "x\ntime=2026-01-01T00:00:00Z level=ERROR msg=forged\r\x1b[31m\x00\u009b31m\u202e\xff\"} "

// rudeReceiver answers each webhook with something that a terminal or a reader of
// logs would stumble over.
func rudeReceiver(t *testing.T, answer string) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = fmt.Fprint(conn, answer)
			_ = conn.Close()
		}
	}()
	return "http://" + ln.Addr().String()
}

// What clients and receivers say reaches the log as values, never as lines or control
// characters of their own.
func TestLogsForgeNothing(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			log := &wholeLog{}
			command := process.Command{Binary: process.Build(t), Log: log,
				Args: []string{"--data-dir", filepath.Join(t.TempDir(), "data"), "--webhook-allow-local", "--log-format", format}}
			s := process.Start(t, command)
			c := process.NewClient(s.Streams)
			escaped := regexp.MustCompile("..").ReplaceAllString(hex.EncodeToString([]byte(hostile)), "%$0")
			if a := c.Do(http.MethodPut, "large/"+escaped, strings.Repeat("0123456789abcde\n", 2<<16), "Content-Type", "text/plain; a=\"\u009b31m\xff\""); a.Status != http.StatusCreated {
				t.Fatal(a)
			}
			if err := s.Stop(20 * time.Second); err != nil {
				t.Fatal(err)
			}
			s = process.Start(t, command)
			c = process.NewClient(s.Streams)
			shorten(t, filepath.Join(command.Args[1], "archive"))
			c.Do(http.MethodGet, "large/"+escaped, "")
			for i, answer := range []string{"HTTP/1.1 500 " + hostile + "\r\n\r\n", "HTTP/1.1 302 x\r\nLocation: http://\x1b[31m\u202e/\r\n\r\n", hostile, "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n" + hostile} {
				path := fmt.Sprint("rude/", i)
				id := "__ds/subscriptions/" + fmt.Sprint(i) + "%e2%80%ae%22%7d%20level=ERROR%20" // text, which is all that an id may be
				if a := c.Do(http.MethodPut, path, "x", "Content-Type", "text/plain"); a.Status != http.StatusCreated {
					t.Fatal(a)
				}
				a := c.Do(http.MethodPut, id, fmt.Sprintf(`{"type":"webhook","streams":[%q],"webhook":{"url":%q}}`, path, rudeReceiver(t, answer)))
				if a.Status != http.StatusCreated {
					t.Fatalf("%s: %v", id, a)
				}
				if a := c.Do(http.MethodPost, path, "y", "Content-Type", "text/plain"); a.Status != http.StatusNoContent {
					t.Fatal(a)
				}
			}
			for begin := time.Now(); strings.Count(log.String(), "webhook was not delivered") < 4; time.Sleep(20 * time.Millisecond) {
				if time.Since(begin) > 15*time.Second {
					t.Fatalf("the log does not tell of the deliveries:\n%s", log)
				}
			}
			s.Kill()
			if !strings.Contains(log.String(), "cannot be read") {
				t.Errorf("the log does not tell of the damage:\n%s", log)
			}
			checkLog(t, log.String(), format)
		})
	}
}

var textLine = regexp.MustCompile(`^time=\S+ level=[A-Z]+ msg=("[^"]*"|\S+)( |$)`)

func checkLog(t *testing.T, log, format string) {
	t.Helper()
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		for _, r := range line {
			if unicode.IsControl(r) || format == "text" && !unicode.IsPrint(r) { // JSON is for programs
				t.Errorf("%U in the line %q", r, line)
				break
			}
		}
		var e struct{ Time, Level, Msg string }
		switch {
		case format == "text" && !textLine.MatchString(line), format == "json" && (json.Unmarshal([]byte(line), &e) != nil || e.Level == ""):
			t.Errorf("a line of the log is %q", line)
		case e.Msg == "forged" || strings.Contains(line, "msg=forged") && strings.HasPrefix(line, "time=2026-01-01"):
			t.Errorf("forged: %q", line)
		}
	}
}

// shorten cuts the largest file of a directory in half.
func shorten(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var size int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Size() > size {
			name, size = e.Name(), info.Size()
		}
	}
	if size < 1<<20 {
		t.Fatalf("the largest file in %s has %d bytes", dir, size)
	}
	if err := os.Truncate(filepath.Join(dir, name), size/2); err != nil {
		t.Fatal(err)
	}
}
