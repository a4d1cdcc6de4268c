package process_test

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// needStrace leaves tests out where nobody can watch a process's system calls.
// internal/metamorphic cuts the power of a simulated disk everywhere.
func needStrace(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err == nil {
		err = exec.CommandContext(t.Context(), path, "-f", "-o", os.DevNull, "true").Run()
	}
	if err != nil {
		t.Skipf("strace does not work here (%v): the order of write, fdatasync and answer is not watched", err)
	}
}

// systemCall is one call of a trace, from the line where it begins to the line
// where it ends.
type systemCall struct {
	name, text   string // text is arguments and result
	begins, ends int
}

func (c *systemCall) succeeded() bool { return strings.HasSuffix(c.text, " = 0") }

var (
	traceLine   = regexp.MustCompile(`^(\d+) +(\w+)\((.*)$`)
	resumedLine = regexp.MustCompile(`^(\d+) +<\.\.\. \w+ resumed>(.*)$`)
)

// readTrace reads what strace -f has written.
func readTrace(t *testing.T, name string) []*systemCall {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var calls []*systemCall
	open := map[string]*systemCall{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 0; lines.Scan(); n++ {
		if m := traceLine.FindStringSubmatch(lines.Text()); m != nil {
			c := &systemCall{name: m[2], text: m[3], begins: n, ends: n}
			if begin, unfinished := strings.CutSuffix(c.text, " <unfinished ...>"); unfinished {
				c.text, open[m[1]] = begin, c
			}
			calls = append(calls, c)
		} else if m := resumedLine.FindStringSubmatch(lines.Text()); m != nil && open[m[1]] != nil {
			open[m[1]].text += m[2]
			open[m[1]].ends = n
			delete(open, m[1])
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return calls
}

// find gives the first call that begins after a line and fits.
func find(calls []*systemCall, after int, fits func(*systemCall) bool) *systemCall {
	for _, c := range calls {
		if c.begins > after && fits(c) {
			return c
		}
	}
	return nil
}

var (
	descriptor = regexp.MustCompile(`^\d+<([^>]*)>`)
	madeDir    = regexp.MustCompile(`"([^"]*/data(?:/\w+)?)", `)
)

// file is the path of the call's first argument.
func (c *systemCall) file() string {
	if m := descriptor.FindStringSubmatch(c.text); m != nil {
		return m[1]
	}
	return ""
}

func isAnswer(c *systemCall) bool { return c.name == "write" && strings.Contains(c.text, `"HTTP/1.1 `) }

// TestAnswerAfterSync is B90: a change's answer leaves after an fdatasync that
// began when the change was written.
func TestAnswerAfterSync(t *testing.T) {
	needStrace(t)
	dir, trace := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "trace")
	s := process.Start(t, process.Command{
		Binary: process.Build(t), Args: []string{"--data-dir", dir, "--segment-size", "256KiB"},
		Prefix: []string{"strace", "-D", "-f", "-qq", "-y", "-s", "300", "-o", trace,
			"-e", "trace=write,pwrite64,fdatasync,fsync,mkdirat,renameat,renameat2"},
	})
	c := process.NewClient(s.Streams)
	text := []string{"Content-Type", "text/plain"}
	requests := []struct {
		method, body string
		headers      []string
		status       int
	}{
		{http.MethodPut, "token-create", text, http.StatusCreated},
		{http.MethodPost, "token-append", text, http.StatusNoContent},
		{http.MethodPost, "token-producer", append(process.Producer("p", 0, 0), text...), http.StatusOK},
		{http.MethodPost, "token-last", append([]string{"Stream-Closed", "true"}, text...), http.StatusNoContent},
		{http.MethodDelete, "", nil, http.StatusNoContent},
	}
	for _, r := range requests {
		if a := c.Do(r.method, "a", r.body, r.headers...); a.Status != r.status {
			t.Fatalf("%s: %v", r.method, a)
		}
	}
	if err := s.Stop(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	calls := readTrace(t, trace)
	before := -1
	for _, r := range requests {
		answer := find(calls, before, isAnswer)
		if answer == nil {
			t.Fatalf("no answer to %s %s in the trace", r.method, r.body)
		}
		data := find(calls, before, func(c *systemCall) bool {
			return c.name == "pwrite64" && strings.HasSuffix(c.file(), ".seg") && strings.Contains(c.text, r.body)
		})
		if data == nil || data.ends > answer.begins {
			t.Fatalf("%s %s is answered and not in the journal", r.method, r.body)
		}
		sync := find(calls, data.ends, func(c *systemCall) bool { return c.name == "fdatasync" && c.file() == data.file() })
		if sync == nil || !sync.succeeded() || sync.ends > answer.begins {
			t.Errorf("%s %s is answered before an fdatasync of %s that covers it", r.method, r.body, data.file())
		}
		before = answer.ends
	}
	checkNames(t, calls, find(calls, -1, isAnswer).begins)
}

// checkNames looks whether the names of new directories and of the journal's file
// were durable before the first answer.
func checkNames(t *testing.T, calls []*systemCall, answer int) {
	t.Helper()
	synced := func(c *systemCall, dir string) {
		t.Helper()
		sync := find(calls, c.ends, func(c *systemCall) bool { return c.name == "fsync" && c.file() == dir })
		if sync == nil || !sync.succeeded() || sync.ends > answer {
			t.Errorf("no fsync of %s between %s(%s and the first answer", dir, c.name, c.text)
		}
	}
	made := 0
	for _, c := range calls {
		switch m := madeDir.FindStringSubmatch(c.text); {
		case c.begins > answer:
		case c.name == "mkdirat" && m != nil && c.succeeded():
			made++
			synced(c, filepath.Dir(m[1]))
		case strings.HasPrefix(c.name, "renameat") && strings.Contains(c.text, ".seg"):
			made++
			names := regexp.MustCompile(`"([^"]*\.seg)"`).FindStringSubmatch(c.text)
			synced(c, filepath.Dir(names[1]))
		}
	}
	if made < 3 {
		t.Errorf("only %d new names in the trace", made)
	}
}

// TestFailedSyncStops: when fdatasync fails nothing is acknowledged any more, and
// the process ends with an error instead of going on with a disk that lies.
func TestFailedSyncStops(t *testing.T) {
	needStrace(t)
	command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", filepath.Join(t.TempDir(), "data")}}
	s := process.Start(t, command)
	c := process.NewClient(s.Streams)
	if a := c.Do(http.MethodPut, "a", "kept;", "Content-Type", "text/plain"); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	breakSync(t, s.Pid())
	for i := range 3 {
		a := c.Do(http.MethodPost, "a", "lost;", "Content-Type", "text/plain")
		if a.Err == nil && a.Status < 500 {
			t.Errorf("append %d after the failure: %v", i, a)
		}
	}
	select {
	case <-s.Ended():
	case <-time.After(20 * time.Second):
		t.Fatal("the server goes on")
	}
	exit, ok := s.Err().(*exec.ExitError)
	if !ok || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", s.Err())
	}
	if log := s.Stderr.String(); !strings.Contains(log, "the disk failed") || !strings.Contains(log, "input/output error") {
		t.Errorf("the log does not say why:\n%s", log)
	}
	s = process.Start(t, command)
	if a := process.NewClient(s.Streams).ReadAll("a", "-1"); !strings.HasPrefix(a.Body, "kept;") || strings.Count(a.Body, "lost;") > 3 {
		t.Errorf("after a new start: %v", a)
	}
}

// breakSync makes every fdatasync of a running process fail from now on.
func breakSync(t *testing.T, pid int) {
	t.Helper()
	tracer := exec.Command("strace", "-f", "-p", strconv.Itoa(pid), "-o", os.DevNull, "-e", "inject=fdatasync:error=EIO")
	stderr, err := tracer.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = tracer.Process.Signal(syscall.SIGTERM)
		_ = tracer.Wait()
	})
	said := bufio.NewReader(stderr)
	for {
		line, err := said.ReadString('\n')
		if strings.Contains(line, "attached") {
			return
		}
		if err != nil {
			t.Fatalf("strace -p: %v", err)
		}
	}
}
