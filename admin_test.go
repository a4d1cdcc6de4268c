package durablestreams_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"durablestreams"
	"durablestreams/auth"
)

// probe asks a server's admin address.
func probe(t *testing.T, addr net.Addr, target string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + addr.String() + target)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// The admin address answers until everything has ended, and says what is going on.
func TestAdmin(t *testing.T) {
	ln := listen(t)
	s := open(t, "", &durablestreams.Options{InMemory: true, AdminListener: ln})
	for _, target := range []string{"/healthz", "/readyz"} {
		if status, text := probe(t, ln.Addr(), target); status != 200 || text != "ok\n" {
			t.Errorf("%s: %d %q", target, status, text)
		}
	}
	if status, _ := do(s.Handler(), http.MethodGet, "/healthz", nil); status != 404 {
		t.Errorf("clients of streams get to it: %d", status)
	}
	if status, _ := do(s.Admin(), http.MethodGet, "http://localhost/readyz", nil); status != 200 {
		t.Errorf("the handler itself: %d", status)
	}

	// A stop waits for this body.
	body, w := io.Pipe()
	started := make(chan struct{})
	go func() {
		do(s.Handler(), http.MethodPut, streamA, io.TeeReader(body, signal{started}), "Content-Type", "text/plain")
	}()
	_, _ = w.Write([]byte("x"))
	<-started
	stopped := make(chan error)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	for {
		status, text := probe(t, ln.Addr(), "/readyz")
		if status == 503 && strings.HasPrefix(text, "stopping") {
			break
		}
		if status != 200 {
			t.Fatalf("at the end: %d %q", status, text)
		}
	}
	if status, text := probe(t, ln.Addr(), "/healthz"); status != 200 {
		t.Errorf("a server that stops is in order: %d %q", status, text)
	}
	w.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("the admin address is still there after the end")
	}
}

type signal struct{ c chan struct{} }

func (s signal) Write(p []byte) (int, error) { close(s.c); return len(p), nil }

// A listener that was handed over is never left behind.
func TestAdminListenerCloses(t *testing.T) {
	for _, opts := range []durablestreams.Options{{}, {BasePath: "wrong"}} {
		opts.AdminListener = listen(t)
		if _, err := durablestreams.Open("", &opts); err == nil {
			t.Fatal("it opens")
		}
		if c, err := net.Dial("tcp", opts.AdminListener.Addr().String()); err == nil {
			c.Close()
			t.Error("it is still open")
		}
	}
}

// What needs an operator's token depends on where a request may have come from.
func TestAdminFromElsewhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access")
	lines := keyLine("operator", "dsk_operator", "admin:**") + keyLine("viewer", "dsk_viewer", "read:**")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	controlled := open(t, "", &durablestreams.Options{InMemory: true, Access: &auth.Options{File: file}})
	free := open(t, "", &durablestreams.Options{InMemory: true})
	here, elsewhere := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}
	const profile, list = "/debug/pprof/goroutine?debug=1", "/api/v1/streams"
	for _, tt := range []struct {
		s      *durablestreams.Server
		by     net.Addr
		key    string
		target string
		status int
	}{
		{controlled, elsewhere, "", "/readyz", 200},
		{controlled, elsewhere, "", "/metrics", 200},
		{controlled, elsewhere, "", profile, 401},
		{controlled, elsewhere, "dsk_viewer", profile, 403},
		{controlled, elsewhere, "dsk_operator", profile, 200},
		{controlled, elsewhere, "", "/debug/pprof/", 401},
		{controlled, elsewhere, "", list, 401},
		{controlled, elsewhere, "dsk_operator", list, 200},
		{controlled, here, "", profile, 200},
		{controlled, here, "", list, 401},
		{controlled, &net.UnixAddr{Name: "/run/ds.sock", Net: "unix"}, "", profile, 200},
		{free, elsewhere, "", profile, 200},
		{free, elsewhere, "", list, 200},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+tt.target, nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tt.by))
		if tt.key != "" {
			r.Header.Set("Authorization", "Bearer "+tt.key)
		}
		w := httptest.NewRecorder()
		if tt.s.Admin().ServeHTTP(w, r); w.Code != tt.status {
			t.Errorf("%s by %s with %q: %d, want %d", tt.target, tt.by, tt.key, w.Code, tt.status)
		}
	}
}
