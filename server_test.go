package durablestreams_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams"
	"durablestreams/internal/dstest"
)

// do sends a request to a handler and gives status and body.
func do(h http.Handler, method, target string, body io.Reader, headers ...string) (int, string) {
	r := httptest.NewRequest(method, target, body)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const streamA = "/durable-streams/v1/stream/a"

func mustDo(t *testing.T, s *durablestreams.Server, status int, method, target, body string) string {
	t.Helper()
	got, answer := do(s.Handler(), method, target, strings.NewReader(body), "Content-Type", "text/plain")
	if got != status {
		t.Fatalf("%s %s: %d %s, want %d", method, target, got, answer, status)
	}
	return answer
}

func open(t *testing.T, dir string, opts *durablestreams.Options) *durablestreams.Server {
	t.Helper()
	s, err := durablestreams.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	mustDo(t, s, http.StatusCreated, http.MethodPut, streamA, "kept")
	if _, err := durablestreams.Open(dir, nil); !errors.Is(err, durablestreams.ErrLocked) {
		t.Errorf("a second server: %v, want ErrLocked", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds the lock as it was
		if _, err := durablestreams.Open(link, nil); !errors.Is(err, durablestreams.ErrLocked) {
			t.Errorf("a second server by another path: %v, want ErrLocked", err)
		}
	}
	if _, err := durablestreams.Check(dir); !errors.Is(err, durablestreams.ErrLocked) {
		t.Errorf("a check of a served directory: %v, want ErrLocked", err)
	}
	for range 2 {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	report, err := durablestreams.Check(dir)
	if err != nil || !report.OK() || report.Streams != 1 {
		t.Errorf("check: %+v, %v", report, err)
	}
	if done, err := durablestreams.Repair(dir); err != nil || len(done.Wrong)+len(done.Lost)+len(done.Cuts) != 0 || done.Aside != "" {
		t.Errorf("repair of a sound directory: %+v, %v", done, err)
	}
	if got := mustDo(t, open(t, dir, nil), http.StatusOK, http.MethodGet, streamA, ""); got != "kept" {
		t.Errorf("the next server reads %q", got)
	}
	if _, err := durablestreams.Open("", nil); err == nil {
		t.Error("a server without a directory")
	}
}

func TestServe(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	ctx, stop := context.WithCancel(t.Context())
	first, second := listen(t), listen(t)
	ends := make(chan error, 2)
	go func() { ends <- s.Serve(ctx, first) }()
	go func() { ends <- s.Serve(context.Background(), second) }()
	for _, ln := range []net.Listener{first, second} {
		res, err := http.Get("http://" + ln.Addr().String() + streamA)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	stop()
	for range 2 {
		if err := <-ends; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	for _, ln := range []net.Listener{first, second} {
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			c.Close()
			t.Errorf("%v still listens", ln.Addr())
		}
	}
	late := listen(t)
	if err := s.Serve(t.Context(), late); !errors.Is(err, durablestreams.ErrShutdown) {
		t.Errorf("Serve after the end: %v", err)
	}
	if c, err := net.Dial("tcp", late.Addr().String()); err == nil {
		c.Close()
		t.Error("a listener passed to Serve too late stays open")
	}
	if s.Err() != nil {
		t.Errorf("Err: %v", s.Err())
	}
}

// A listener that breaks ends the server, with the reason.
func TestServeBrokenListener(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	ln := listen(t)
	ln.Close()
	if err := s.Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener: %v", err)
	}
}

func TestShutdownWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := durablestreams.Open("", &durablestreams.Options{InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		mustDo(t, s, http.StatusCreated, http.MethodPut, streamA, "x")
		var sse, poll string
		var appended, shut atomic.Int64
		var wg sync.WaitGroup
		r, w := io.Pipe()
		wg.Go(func() {
			status, _ := do(s.Handler(), http.MethodPost, streamA, r, "Content-Type", "text/plain")
			appended.Store(int64(status))
		})
		wg.Go(func() { _, sse = do(s.Handler(), http.MethodGet, streamA+"?offset=-1&live=sse", nil) })
		wg.Go(func() { _, poll = do(s.Handler(), http.MethodGet, streamA+"?offset=now&live=long-poll", nil) })
		synctest.Wait()

		begin := time.Now()
		wg.Go(func() {
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			shut.Store(appended.Load())
		})
		synctest.Wait()
		if status, body := do(s.Handler(), http.MethodGet, streamA, nil); status != http.StatusServiceUnavailable || !strings.Contains(body, `"shutting_down"`) {
			t.Errorf("a request during the shutdown: %d %s", status, body)
		}
		late := httptest.NewRecorder()
		s.Handler().ServeHTTP(late, httptest.NewRequest(http.MethodGet, streamA, nil))
		checkRefusal(t, late.Header())
		time.Sleep(5 * time.Second)
		if _, err := io.WriteString(w, "y"); err != nil {
			t.Error(err)
		}
		w.Close()
		wg.Wait()
		if shut.Load() != http.StatusNoContent {
			t.Errorf("Shutdown did not wait for the append, which got %d", appended.Load())
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("the shutdown took %v, want the 5 s of the append", took)
		}
		if !strings.Contains(sse, "data:x\n") || strings.Count(sse, "event: control") == 0 {
			t.Errorf("the SSE reader got %q", sse)
		}
		if poll != "" {
			t.Errorf("the long-poll got %q", poll)
		}
	})
}

// When the grace time is over requests are cut, and Shutdown comes to its end.
func TestShutdownGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := durablestreams.Open("", &durablestreams.Options{InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		mustDo(t, s, http.StatusCreated, http.MethodPut, streamA, "x")
		r, w := io.Pipe()
		var wg sync.WaitGroup
		wg.Go(func() { do(s.Handler(), http.MethodPost, streamA, r, "Content-Type", "text/plain") })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 3*time.Second+durablestreams.SettleTime {
			t.Errorf("the shutdown took %v", took)
		}
		w.Close()
		wg.Wait()
	})
}

// A disk that fails a sync ends the server: no further promise can be kept.
func TestFailedDisk(t *testing.T) {
	disk := dstest.NewDisk()
	var log bytes.Buffer
	s, err := durablestreams.OpenFS(disk, dstest.Dir, &durablestreams.Options{SegmentSize: 256 << 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ln := listen(t)
	end := make(chan error, 1)
	go func() { end <- s.Serve(t.Context(), ln) }()
	mustDo(t, s, http.StatusCreated, http.MethodPut, streamA, "x")
	disk.OnOp(func(op dstest.Op) error {
		if op.Name == "sync" && strings.Contains(op.Path, "/journal/") {
			return syscall.EIO
		}
		return nil
	})
	if status, body := do(s.Handler(), http.MethodPost, streamA, strings.NewReader("y"), "Content-Type", "text/plain"); status != http.StatusInternalServerError ||
		strings.Contains(body, "input/output") {
		t.Errorf("an append that could not be made durable: %d %s", status, body)
	}
	<-s.Failed()
	select {
	case err := <-end:
		if !errors.Is(err, syscall.EIO) || !errors.Is(s.Err(), syscall.EIO) {
			t.Errorf("Serve: %v, Err: %v", err, s.Err())
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Serve goes on")
	}
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("log:\n%s", &log)
	}
	if err := s.Shutdown(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Errorf("Shutdown: %v", err)
	}
}

// A start on a disk that fails ends, although the archive by itself would stand
// still for ever.
func TestFailedStart(t *testing.T) {
	disk := dstest.NewDisk()
	disk.OnOp(func(op dstest.Op) error {
		if op.Name == "write" && strings.Contains(op.Path, "MANIFEST") {
			return syscall.ENOSPC
		}
		return nil
	})
	end := make(chan error, 1)
	go func() {
		_, err := durablestreams.OpenFS(disk, dstest.Dir, nil)
		end <- err
	}()
	select {
	case err := <-end:
		if err == nil {
			t.Error("it serves")
		}
	case <-time.After(10 * time.Second):
		t.Error("the start hangs")
	}
}
