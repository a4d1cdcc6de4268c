package admin_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"durablestreams/internal/admin"
)

func get(h http.Handler, target string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+target, nil))
	return w.Code, w.Body.String()
}

func TestHealth(t *testing.T) {
	var dead, busy error
	h := admin.New(&admin.Options{Alive: func() error { return dead }, Ready: func() error { return busy }})
	check := func(target string, status int, body string) {
		t.Helper()
		if got, text := get(h, target); got != status || text != body {
			t.Errorf("%s: %d %q, want %d %q", target, got, text, status, body)
		}
	}
	check("/healthz", 200, "ok\n")
	check("/readyz", 200, "ok\n")
	busy = errors.New("stopping")
	check("/healthz", 200, "ok\n")
	check("/readyz", 503, "stopping\n")
	dead = errors.New("the disk failed")
	check("/healthz", 503, "the disk failed\n")
	check("/nothing", 404, "404 page not found\n")
	if got, _ := get(admin.New(nil), "/healthz"); got != 200 {
		t.Errorf("without options: %d", got)
	}
}

func TestHandle(t *testing.T) {
	h := admin.New(nil)
	h.Handle("POST /api/v1/x", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8643/api/v1/x", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusTeapot {
		t.Errorf("status %d", w.Code)
	}
	r.Header.Set("Origin", "https://evil.example")
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("from a page: status %d", w.Code)
	}
}

func TestGuard(t *testing.T) {
	h := admin.New(nil)
	h.Handle("/change", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8643}
	public := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8643}
	const page = "Sec-Fetch-Site"
	for _, test := range []struct {
		name, method, host string
		local              net.Addr
		headers            []string
		want               int
	}{
		{"address", "GET", "127.0.0.1:8643", local, nil, 200},
		{"forwarded port", "GET", "127.0.0.1:9000", local, nil, 200},
		{"no port", "GET", "127.0.0.1", local, nil, 200},
		{"other loopback address", "GET", "127.9.9.9:8643", local, nil, 200},
		{"localhost", "GET", "LocalHost:8643", local, nil, 200},
		{"IPv6", "GET", "[::1]:8643", local, nil, 200},
		{"IPv6 without port", "GET", "[::1]", local, nil, 200},
		{"IPv4 in IPv6", "GET", "[::ffff:127.0.0.1]:8643", local, nil, 200},
		{"no Host", "GET", "", local, nil, 421},
		{"rebound name", "GET", "evil.example:8643", local, nil, 421},
		{"rebound name with an address in it", "GET", "127.0.0.1.evil.example", local, nil, 421},
		{"rebound name below localhost", "GET", "localhost.evil.example", local, nil, 421},
		{"local address unknown", "GET", "evil.example", nil, nil, 421},
		{"address of another machine", "GET", "10.0.0.1:8643", local, nil, 421},
		{"unspecified address", "GET", "0.0.0.0:8643", local, nil, 421},
		{"public listener", "GET", "ds.internal:8643", public, nil, 200},
		{"socket file", "GET", "x", &net.UnixAddr{Name: "/s"}, nil, 200},

		{"script of another site", "GET", "localhost", local, []string{page, "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, 403},
		{"script of another port", "GET", "localhost", local, []string{page, "same-site", "Sec-Fetch-Mode", "cors"}, 403},
		{"frame of another site", "GET", "localhost", local, []string{page, "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"link of another site", "GET", "localhost", local, []string{page, "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"typed address", "GET", "localhost", local, []string{page, "none"}, 200},
		{"own page", "POST", "localhost", local, []string{page, "same-origin"}, 200},
		{"form of another site", "POST", "localhost", local, []string{page, "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		{"form of another site, old browser", "POST", "localhost:8643", local, []string{"Origin", "http://evil.example"}, 403},
		{"form without origin", "POST", "localhost:8643", local, []string{"Origin", "null"}, 403},
		{"own page, old browser", "DELETE", "localhost:8643", local, []string{"Origin", "http://localhost:8643"}, 200},
		{"public listener, other site", "POST", "ds.internal", public, []string{page, "cross-site"}, 403},
		{"curl", "DELETE", "localhost:8643", local, nil, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, "http://placeholder/change", nil)
			r.Host = test.host
			if test.local != nil {
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, test.local))
			}
			for i := 0; i < len(test.headers); i += 2 {
				r.Header.Set(test.headers[i], test.headers[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != test.want {
				t.Errorf("status %d, want %d: %s", w.Code, test.want, w.Body)
			}
			for name := range w.Header() {
				if strings.HasPrefix(name, "Access-Control") {
					t.Errorf("%s: %s", name, w.Header().Get(name))
				}
			}
			if w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("header %v", w.Header())
			}
		})
	}
}

func TestProfiles(t *testing.T) {
	h := admin.New(nil)
	if status, text := get(h, "/debug/pprof/"); status != 200 || !strings.Contains(text, "\nheap?debug=1\t") {
		t.Errorf("list: %d %s", status, text)
	}
	if status, text := get(h, "/debug/pprof/heap?gc=1"); status != 200 || !strings.HasPrefix(text, "\x1f\x8b") {
		t.Errorf("heap: %d %.40q", status, text)
	}
	if status, text := get(h, "/debug/pprof/goroutine?debug=2"); status != 200 || !strings.Contains(text, "TestProfiles") {
		t.Errorf("goroutines: %d %s", status, text)
	}
	for _, target := range []string{"profile?seconds=0", "profile?seconds=-1", "trace?seconds=NaN", "profile?seconds=301", "profile?seconds=x"} {
		if status, _ := get(h, "/debug/pprof/"+target); status != 400 {
			t.Errorf("%s: %d", target, status)
		}
	}
	if status, _ := get(h, "/debug/pprof/cmdline"); status != 404 {
		t.Errorf("the command line may have secrets: %d", status)
	}
}

// A recording ends when nobody wants it any more, and two do not overlap.
func TestRecordings(t *testing.T) {
	h := admin.New(nil)
	s := httptest.NewServer(h)
	defer s.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/debug/pprof/profile", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%v, %v", res, err)
	}
	defer res.Body.Close()
	if status, text := get(h, "/debug/pprof/profile?seconds=0.01"); status != 409 {
		t.Errorf("a second one: %d %.60q", status, text)
	}
	leave()
	for {
		status, text := get(h, "/debug/pprof/profile?seconds=0.01")
		if status == 200 && strings.HasPrefix(text, "\x1f\x8b") {
			return
		}
		if status != 409 {
			t.Fatalf("after the first one: %d %.60q", status, text)
		}
	}
}

// Without somebody who tells operators apart, nobody elsewhere is one.
func TestProfilesStayHere(t *testing.T) {
	h := admin.New(nil)
	for ip, status := range map[string]int{"127.0.0.1": 200, "10.0.0.1": 403} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/debug/pprof/", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip)}))
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != status {
			t.Errorf("by %s: %d, want %d", ip, w.Code, status)
		}
	}
}
