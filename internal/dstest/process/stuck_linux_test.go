package process_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// TestStuckReaders is B14: readers that stop reading cost the others nothing and
// the server little memory, and are dropped.
func TestStuckReaders(t *testing.T) {
	s, c := startInMemory(t, "--stall-timeout", "2s", "--tail-memory", "4MiB", "--cache-size", "8MiB")
	const stuck = 30
	for range stuck {
		stuckReader(t, s)
	}
	lines := follow(t, c)
	body := strings.Repeat("0123456789abcdef", 1<<16-1) // just below 1 MiB
	var slowest time.Duration
	const appends = 60
	for range appends {
		begin := time.Now()
		if a := c.Do(http.MethodPost, "a", body, "Content-Type", "text/plain"); a.Status != http.StatusNoContent {
			t.Fatal(a)
		}
		select {
		case <-lines:
			slowest = max(slowest, time.Since(begin))
		case <-time.After(10 * time.Second):
			t.Fatal("the reader that reads gets nothing")
		}
	}
	t.Logf("slowest append and delivery %v", slowest)
	if slowest > 2*time.Second {
		t.Errorf("the reader that reads waited %v", slowest)
	}
	// In memory the server keeps the stream's 60 MiB; a backlog for each stuck
	// reader would be 1.8 GiB.
	if rss := residentMiB(t, s.Pid()); rss > 600 {
		t.Errorf("the server has %d MiB in memory", rss)
	}
	for begin := time.Now(); sockets(t, s.Pid()) >= stuck; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("%d sockets are still open", sockets(t, s.Pid()))
		}
	}
}

// sockets counts the open sockets of a process.
func sockets(t *testing.T, pid int) (n int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, err := os.Readlink(dir + "/" + e.Name()); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// stuckReader opens a live read with a small buffer and never reads.
func stuckReader(t *testing.T, s *process.Server) {
	t.Helper()
	conn, err := smallWindow(strings.TrimPrefix(s.Streams, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET %s/a?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n", streamsRoot)
}

// follow gives a signal for every append that an SSE reader sees.
func follow(t *testing.T, c *process.Client) <-chan struct{} {
	t.Helper()
	res, err := c.HTTP.Get(c.Streams + "/a?offset=now&live=sse")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	events := make(chan struct{}, 1000)
	begun := make(chan struct{})
	go func() {
		body := bufio.NewReaderSize(res.Body, 4<<20)
		controls := 0
		for {
			line, err := body.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "event: control") {
				if controls++; controls == 1 {
					close(begun)
				} else {
					events <- struct{}{}
				}
			}
		}
	}()
	<-begun
	return events
}

// residentMiB is the memory that a process has now.
func residentMiB(t *testing.T, pid int) int { return statusOf(t, pid, "VmRSS:") >> 10 }
