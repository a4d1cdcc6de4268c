package process_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// greedy reads one large stream from its start, again and again.
type greedy struct {
	path, content string
	reads         int
}

func (g *greedy) verify(c *process.Client) error {
	a := c.Do(http.MethodPut, g.path, g.content, "Content-Type", "text/plain") // the body counts the first time only
	if a.Err != nil || a.Status >= 300 {
		return fmt.Errorf("put %s: %v", g.path, a)
	}
	return nil
}

func (g *greedy) run(c *process.Client) error {
	for {
		a := c.ReadAll(g.path, "-1")
		switch {
		case a.Err != nil:
			return nil
		case a.Status != http.StatusOK || a.Body != g.content:
			return fmt.Errorf("%s: status %d, %s", g.path, a.Status, brief(a.Body))
		}
		g.reads++
	}
}

// stuckReaders are readers that ask for much and take nothing. Each is dropped, and
// another one comes.
type stuckReaders struct {
	t       *testing.T
	path    string
	over    *atomic.Bool
	dropped atomic.Int64
}

func (r *stuckReaders) verify(*process.Client) error { return nil }

func (r *stuckReaders) run(c *process.Client) error {
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			for !r.over.Load() {
				conn, err := smallWindow(strings.TrimPrefix(c.Streams, "http://"))
				if err != nil {
					return
				}
				fmt.Fprintf(conn, "GET %s/%s?offset=-1%s HTTP/1.1\r\nHost: x\r\n\r\n", streamsRoot, r.path, []string{"", "&live=sse", "&live=long-poll"}[i%3])
				if hungUp(conn, r.over) {
					r.dropped.Add(1)
				}
				conn.Close()
			}
		})
	}
	wg.Wait()
	return nil
}

// smallWindow connects with a small receive buffer.
func smallWindow(address string) (net.Conn, error) {
	address, _, _ = strings.Cut(address, "/")
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		cerr := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		if cerr != nil {
			return cerr
		}
		return err
	}}
	return d.Dial("tcp", address)
}

// hungUp waits until the connection is cut and reads nothing meanwhile: what it sends
// then finds nobody.
func hungUp(conn net.Conn, over *atomic.Bool) bool {
	for !over.Load() {
		time.Sleep(100 * time.Millisecond)
		if _, err := conn.Write([]byte("\r\n")); err != nil {
			return true
		}
	}
	return false
}

// files counts the open files of a process that are no sockets.
func files(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries) - sockets(t, pid)
}

// statusOf is a number of /proc/PID/status.
func statusOf(t *testing.T, pid int, name string) (n int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}

// cpuTime is the processor time that a process has used.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	var ticks time.Duration
	for _, f := range strings.Fields(after)[11:13] { // user and system time, in hundredths of a second
		var n int64
		_, _ = fmt.Sscan(f, &n)
		ticks += time.Duration(n) * 10 * time.Millisecond
	}
	return ticks
}
