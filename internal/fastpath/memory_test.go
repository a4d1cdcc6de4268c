//go:build linux

package fastpath_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"durablestreams/internal/protocol"
	"durablestreams/internal/wire"
	"durablestreams/store"
)

// TestIdleMemory measures what a waiting SSE reader costs in process memory. It
// runs if DS_IDLE says how many there are to be; DS_PROFILE names a file for a
// profile of the heap. The clients are bare descriptors of this process.
func TestIdleMemory(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("DS_IDLE"))
	if n == 0 {
		t.Skip("DS_IDLE is not set")
	}
	raiseFiles(t, 2*n+200)
	e, err := store.Open(vfs.Default, t.TempDir(), &store.Options{SameType: wire.SameMediaType})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s := start(t, config{store: e, protocol: protocol.Options{KeepAlive: time.Hour, SSEMaxAge: time.Hour}})
	s.do(201, "PUT", "a", "x", text)
	_, _ = s.sse("a?offset=-1&live=sse", "upToDate") // what is made once is made
	goroutines, before := runtime.NumGoroutine(), resident(t)
	request := fmt.Sprintf("GET %sa?offset=-1&live=sse HTTP/1.1\r\nHost: 127.0.0.1:8642\r\nAccept: text/event-stream\r\n"+
		"Cache-Control: no-cache\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\n\r\n", root)
	fds := make([]int, n)
	for i := range fds {
		fds[i] = s.bareDial(t, request)
	}
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	s.watches.wait(t, int64(n)+1)
	after := resident(t)
	t.Logf("%d B each, %d goroutines more", (after-before)/n, runtime.NumGoroutine()-goroutines)
	if name := os.Getenv("DS_PROFILE"); name != "" {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := pprof.WriteHeapProfile(f); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.NumGoroutine()-goroutines > 10 {
		t.Error("waiting readers have goroutines")
	}
}

func raiseFiles(t *testing.T, n int) {
	t.Helper()
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	old := lim
	lim.Cur = max(lim.Cur, min(uint64(n), lim.Max))
	if lim.Cur < uint64(n) {
		t.Skipf("only %d descriptors", lim.Max)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
}

// bareDial connects, sends, and reads until an event has come.
func (s *server) bareDial(t *testing.T, request string) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := net.ResolveTCPAddr("tcp4", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	to := &unix.SockaddrInet4{Port: addr.Port}
	copy(to.Addr[:], addr.IP.To4())
	if err := unix.Connect(fd, to); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(fd, []byte(request)); err != nil {
		t.Fatal(err)
	}
	var buf [4096]byte
	got := ""
	for !strings.Contains(got, "upToDate") {
		n, err := unix.Read(fd, buf[:])
		if err != nil || n == 0 {
			t.Fatalf("%v after %q", err, got)
		}
		got += string(buf[:n])
	}
	return fd
}

// resident is the process's memory after everything unused was given back.
func resident(t *testing.T) int {
	t.Helper()
	for range 3 {
		debug.FreeOSMemory()
	}
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
