package web_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"durablestreams/internal/web"
)

func get(t *testing.T, target string, headers ...string) *http.Response {
	t.Helper()
	h, err := web.Handler("/ui/", web.Config{Streams: "/v1/stream/", API: "/api/v1", Version: "7"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestHandler(t *testing.T) {
	for _, test := range []struct {
		target string
		status int
		kind   string
	}{
		{"/ui/", 200, "text/html; charset=utf-8"},
		{"/ui/page.js", 200, "text/javascript; charset=utf-8"},
		{"/ui/page.css", 200, "text/css; charset=utf-8"},
		{"/ui/icon.svg", 200, "image/svg+xml"},
		{"/ui/config.json", 200, "application/json"},
		{"/ui/assets/page.js", 404, "text/plain; charset=utf-8"},
		{"/ui/web.go", 404, "text/plain; charset=utf-8"},
		{"/ui/../page.js", 404, "text/plain; charset=utf-8"},
		{"/page.js", 404, "text/plain; charset=utf-8"},
	} {
		answer := get(t, test.target)
		if answer.StatusCode != test.status || answer.Header.Get("Content-Type") != test.kind {
			t.Errorf("%s: %d %s, want %d %s", test.target, answer.StatusCode, answer.Header.Get("Content-Type"), test.status, test.kind)
		}
		if test.status != 200 {
			continue
		}
		if csp := answer.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", test.target, csp)
		}
		tag := answer.Header.Get("ETag")
		if again := get(t, test.target, "If-None-Match", tag); tag == "" || again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: with its tag %s: %d", test.target, tag, again.StatusCode)
		}
	}
}

var (
	imported = regexp.MustCompile(`from "\./([a-z]+\.js)"`)
	linked   = regexp.MustCompile(`(?:src|href)="([a-z]+\.[a-z]+)"`)
	outside  = regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]+`)
)

// Every file that is named is there and the other way round, and nothing comes from elsewhere.
func TestFiles(t *testing.T) {
	names, err := filepath.Glob("assets/*")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{"index.html": true}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, pattern := range []*regexp.Regexp{imported, linked} {
			for _, m := range pattern.FindAllStringSubmatch(string(content), -1) {
				named[m[1]] = true
			}
		}
		for _, address := range outside.FindAllString(strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", ""), -1) {
			t.Errorf("%s names %s: the page loads nothing from elsewhere", name, address)
		}
	}
	for _, name := range names {
		if !named[filepath.Base(name)] {
			t.Errorf("%s is used by nobody", name)
		}
		delete(named, filepath.Base(name))
	}
	for name := range named {
		t.Errorf("%s is named and does not exist", name)
	}
}
