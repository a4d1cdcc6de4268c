package durablestreams_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"durablestreams"
	"durablestreams/internal/manage"
)

// operator sends a request as an operator on this machine does.
func operator(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func answerTo[T any](t *testing.T, h http.Handler, target string) (v T) {
	t.Helper()
	w := operator(h, "GET", target, "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%s: %d %v", target, w.Code, w.Header())
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s: %v in %s", target, err, w.Body)
	}
	return v
}

func TestManageAPI(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	h := s.Admin()
	put := func(path, body string, headers ...string) {
		t.Helper()
		if w := operator(h, "PUT", s.Root()+path, body, append(headers, "Content-Type", "text/plain")...); w.Code != 201 {
			t.Fatalf("PUT %s: %d %s", path, w.Code, w.Body)
		}
	}
	put("a/1", "hello", "Stream-TTL", "60")
	put("a/%2F", "", "Stream-Closed", "true")
	put("b", "", "Stream-Forked-From", s.Root()+"a/1", "Stream-Expires-At", "2999-01-01T00:00:00Z")

	one := answerTo[manage.Stream](t, h, "/api/v1/streams/a/1")
	tail := operator(h, "HEAD", s.Root()+"a/1", "").Header().Get("Stream-Next-Offset")
	if one.Path != "a/1" || one.Bytes != 5 || one.Offset != tail || *one.TTLSeconds != 60 || one.EndsAt == "" || one.Created == "" || one.LastWrite == "" || one.Forks != 1 || one.ContentType != "text/plain" {
		t.Errorf("%+v", one)
	}
	fork := answerTo[manage.Stream](t, h, "/api/v1/streams/b")
	if fork.ForkedFrom != "a/1" || fork.ForkOffset != tail || fork.Bytes != 0 || fork.ExpiresAt != "2999-01-01T00:00:00Z" || fork.TTLSeconds != nil {
		t.Errorf("%+v", fork)
	}
	if closed := answerTo[manage.Stream](t, h, "/api/v1/streams/a/%2F"); !closed.Closed || closed.Path != "a/%2F" {
		t.Errorf("%+v", closed)
	}

	first := answerTo[manage.StreamPage](t, h, "/api/v1/streams?limit=2")
	rest := answerTo[manage.StreamPage](t, h, "/api/v1/streams?limit=2&after="+first.Next)
	if len(first.Streams) != 2 || first.Streams[1].Path != first.Next || len(rest.Streams) != 1 || rest.Next != "" {
		t.Errorf("pages %+v and %+v", first, rest)
	}
	if some := answerTo[manage.StreamPage](t, h, "/api/v1/streams?prefix=a/"); len(some.Streams) != 2 {
		t.Errorf("by prefix: %+v", some)
	}
	sum := answerTo[manage.Totals](t, h, "/api/v1/totals?prefix=")
	if sum.Streams != 3 || sum.Bytes != 5 || sum.Closed != 1 || sum.Forks != 1 || sum.Expiring != 1 {
		t.Errorf("%+v", sum)
	}
	if some := answerTo[manage.Totals](t, h, "/api/v1/totals?prefix=b"); some.Streams != 1 {
		t.Errorf("%+v", some)
	}

	operator(h, "DELETE", s.Root()+"a/1", "")
	if gone := answerTo[manage.Stream](t, h, "/api/v1/streams/a/1"); !gone.Deleted {
		t.Errorf("kept for its fork: %+v", gone)
	}
	w := operator(h, "PUT", s.Root()+"__ds/subscriptions/work", `{"type":"pull-wake","pattern":"a/**","wake_stream":"wakes"}`, "Content-Type", "application/json")
	if w.Code != 201 {
		t.Fatalf("subscribe: %d %s", w.Code, w.Body)
	}
	if subs := answerTo[manage.SubscriptionPage](t, h, "/api/v1/subscriptions"); len(subs.Subscriptions) != 1 || subs.Subscriptions[0].ID != "work" || subs.Subscriptions[0].State != "idle" || subs.Subscriptions[0].Pattern != "a/**" {
		t.Errorf("%+v", subs)
	}

	for _, test := range []struct {
		method, target string
		status         int
		code           string
	}{
		{"GET", "/api/v1/streams/never", 404, "not_found"},
		{"GET", "/api/v1/streams/", 400, "invalid_path"},
		{"GET", "/api/v1/streams/a//b", 400, "invalid_path"},
		{"GET", "/api/v1/streams/a/../b", 400, "invalid_path"},
		{"GET", "/api/v1/streams?limit=0", 400, "invalid_parameter"},
		{"GET", "/api/v1/streams?limit=x", 400, "invalid_parameter"},
		{"GET", "/api/v1/streams?limit=10001", 400, "invalid_parameter"},
		{"GET", "/api/v1/streams?prefix=%zz", 400, "invalid_parameter"},
		{"DELETE", "/api/v1/streams/b", 405, "method_not_allowed"},
		{"POST", "/api/v1/totals", 405, ""},
	} {
		w := operator(h, test.method, test.target, "")
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.code) {
			t.Errorf("%s %s: %d %s, want %d %s", test.method, test.target, w.Code, w.Body, test.status, test.code)
		}
	}
}

// Forks are found by their source, page by page.
func TestForksOfAStream(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	for _, put := range [][]string{{"a"}, {"b", "a"}, {"c"}, {"d", "a"}, {"e", "b"}} {
		headers := []string{"Content-Type", "text/plain"}
		if len(put) > 1 {
			headers = append(headers, "Stream-Forked-From", s.Root()+put[1])
		}
		if w := operator(s.Admin(), "PUT", s.Root()+put[0], "", headers...); w.Code != 201 {
			t.Fatal(w.Code, w.Body)
		}
	}
	var found []string
	after, steps := "", 0
	for more := true; more; steps++ {
		p := answerTo[manage.StreamPage](t, s.Admin(), "/api/v1/streams?limit=2&source=a&after="+after)
		for _, i := range p.Streams {
			found = append(found, i.Path)
		}
		after, more = p.Next, p.Next != ""
	}
	if steps != 3 || !slices.Equal(found, []string{"b", "d"}) {
		t.Errorf("%q in %d steps", found, steps)
	}
}

// A deletion by prefix goes step by step and does nothing that was not said plainly.
func TestDeleteByAPI(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	h := s.Admin()
	for _, path := range []string{"a/1", "a/2", "a/3", "b"} {
		if w := operator(h, "PUT", s.Root()+path, "123", "Content-Type", "text/plain"); w.Code != 201 {
			t.Fatal(w.Code, w.Body)
		}
	}
	for query, code := range map[string]string{
		"":                          "needs a prefix",
		"?after=a":                  "needs a prefix",
		"?prefix=":                  "all=true",
		"?prefix=&all=false":        "all is true",
		"?prefix=&all=1":            "all is true",
		"?prefix=a&prefix=b":        "more than once",
		"?prefix=a&dry-run=true":    "nothing else",
		"?prefix=a&Limit=1":         "nothing else",
		"?prefix=a&limit=0":         "limit",
		"?prefix=a/&limit=10001":    "limit",
		"?prefix=a/&after=%zz":      "malformed",
		"?prefix=a/;all=true":       "malformed",
		"?prefix=&all=true&limit=x": "limit",
	} {
		if w := operator(h, "DELETE", "/api/v1/streams"+query, ""); w.Code != 400 || !strings.Contains(w.Body.String(), code) {
			t.Errorf("%q: %d %s, want %q", query, w.Code, w.Body, code)
		}
	}
	if w := operator(h, "DELETE", "/api/v1/streams?prefix=&all=true", "", "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
		t.Errorf("a page of another site: %d", w.Code)
	}
	if w := operator(h, "POST", "/api/v1/streams?prefix=&all=true", ""); w.Code != 405 || !strings.Contains(w.Header().Get("Allow"), "DELETE") {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
	step := func(query string) (d manage.Deletion) {
		t.Helper()
		w := operator(h, "DELETE", "/api/v1/streams"+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		return d
	}
	if sum := answerTo[manage.Totals](t, h, "/api/v1/totals?prefix=a/"); sum.Streams != 3 {
		t.Errorf("a refused deletion has deleted: %+v", sum)
	}
	if got, want := step("?prefix=a/&limit=2"), (manage.Deletion{Streams: 2, Bytes: 6, Next: "a/2"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := step("?prefix=a/&limit=2&after=a/2"), (manage.Deletion{Streams: 1, Bytes: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if w := operator(h, "HEAD", s.Root()+"b", ""); w.Code != 200 {
		t.Errorf("another prefix: %d", w.Code)
	}
	if got, want := step("?prefix=&all=true"), (manage.Deletion{Streams: 1, Bytes: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Nothing that the admin listener has may be read by a page of another origin.
func TestAdminHasOneOrigin(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	for _, target := range []string{"/ui/", "/api/v1/streams", s.Root() + "x"} {
		w := operator(s.Admin(), "GET", target, "", "Origin", "https://evil.example")
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control") {
				t.Errorf("%s: %s", target, name)
			}
		}
		if got := w.Header().Values("Cross-Origin-Resource-Policy"); len(got) != 1 || got[0] != "same-origin" {
			t.Errorf("%s: %v", target, got)
		}
		if w := operator(s.Admin(), "GET", target, "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"); w.Code != 403 {
			t.Errorf("%s for another site: %d", target, w.Code)
		}
	}
	if w := operator(s.Admin(), "GET", "/", "", "Accept", "text/html"); w.Code != 302 || w.Header().Get("Location") != "/ui/" {
		t.Errorf("a browser: %d %v", w.Code, w.Header())
	}
}
