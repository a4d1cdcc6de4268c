package durablestreams_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/auth"
	"durablestreams/internal/manage"
)

// besides gives what a list beside the streams shows with these tokens, page by page.
func besides(g *guarded, query string, lines ...string) (paths []string, requests int) {
	g.Helper()
	for after := ""; ; {
		a := g.ask("GET", "__ds/api/v1/streams?after="+url.QueryEscape(after)+query, "", lines...)
		var p manage.StreamPage
		if err := json.Unmarshal([]byte(a.text), &p); err != nil || a.StatusCode != 200 {
			g.Fatalf("%d %s", a.StatusCode, a.text)
		}
		requests++
		for _, s := range p.Streams {
			paths = append(paths, s.Path)
		}
		if after = p.Next; after == "" {
			return paths, requests
		}
		if strings.Contains(after, "secret") {
			g.Errorf("a page ends with the name of a stream that may not be seen: %s", after)
		}
	}
}

// Beside the streams everybody sees what it may read, over both adapters.
func TestPageBesideStreams(t *testing.T) {
	overBoth(t, durablestreams.Options{ReadOnlyPage: true}, func(g *guarded) {
		boss, clerk := g.key("boss"), g.key("clerk")
		g.rewrite(keyLine("boss", boss, "all:**") + keyLine("clerk", clerk, "read:orders/** append:**") + "anonymous read:news/**\n")
		put := func(path string, lines ...string) {
			g.Helper()
			if a := g.ask("PUT", path, "", append(lines, as(boss), textType)...); a.StatusCode != 201 {
				g.Fatal(a.StatusCode, a.text)
			}
		}
		for i := range 7 {
			put(fmt.Sprintf("orders/%d", i))
		}
		put("news/1")
		put("secret/plans")
		put("orders/from-secret", "Stream-Forked-From: /durable-streams/v1/stream/secret/plans")
		put("secret/from-orders", "Stream-Forked-From: /durable-streams/v1/stream/orders/1")
		late := g.token("read:orders/**", time.Now().Add(-time.Hour))

		for _, test := range []struct {
			method, target, who string
			status              int
			contains            string
		}{
			// The files of the page are no secret.
			{"GET", "page/", "", 200, "<!doctype html>"},
			{"HEAD", "page/page.js", "", 200, ""},
			{"GET", "page/config.json", "", 200, `{"streams":"../../","api":"../api/v1","readOnly":true,"version":""}`},
			{"GET", "page/page.go", "", 404, ""},
			{"POST", "page/", boss, 405, "read"},
			{"GET", "page", boss, 404, "reserved_path"},
			{"GET", "%5f%5fds/page/", boss, 404, ""},
			{"GET", "pages/", boss, 404, "reserved_path"},

			{"GET", "api/v1/streams", "", 401, "unauthenticated"},
			{"GET", "api/v1/totals", "", 401, "unauthenticated"},
			{"GET", "api/v1/streams", "dsk_none", 401, "invalid_token"},
			{"GET", "api/v1/streams", late, 401, "invalid_token"},
			{"GET", "api/v1/totals", clerk, 403, "forbidden"},
			{"GET", "api/v1/totals", boss, 200, `"streams":11,`},
			{"GET", "api/v1/streams?limit=0", clerk, 400, "invalid_parameter"},
			{"GET", "api/v1/streams?after=orders/1", clerk, 400, "invalid_parameter"},
			{"GET", "api/v1/streams?prefix=%zz", clerk, 400, "invalid_parameter"},
			{"GET", "api/v1/streams?prefix=secret", clerk, 200, `{"streams":[]}`},
			{"GET", "api/v1/streams?source=secret/plans", clerk, 200, `{"streams":[]}`},
			{"GET", "api/v1/streams?source=secret/plans", boss, 200, `"orders/from-secret"`},
			{"GET", "api/v1/streams?prefix=news", clerk, 200, `"news/1"`},

			{"GET", "api/v1/streams/orders/1", clerk, 200, `"path":"orders/1"`},
			{"GET", "api/v1/streams/secret/plans", clerk, 403, "forbidden"},
			{"GET", "api/v1/streams/secret/none", clerk, 403, "forbidden"},
			{"GET", "api/v1/streams/orders/none", clerk, 404, "not_found"},
			{"GET", "api/v1/streams/news/1", "", 200, `"path":"news/1"`},
			{"GET", "api/v1/streams/orders/1", "", 401, "unauthenticated"},
			{"GET", "api/v1/streams/a//b", boss, 400, "invalid_path"},

			// Whatever the token may do.
			{"DELETE", "api/v1/streams?prefix=orders", boss, 405, "method_not_allowed"},
			{"POST", "api/v1/totals", boss, 405, "method_not_allowed"},
			{"GET", "api/v1/subscriptions", boss, 404, "not_found"},
			{"GET", "api/v1/", boss, 404, "not_found"},
			{"PUT", "api/v1/streams/orders/1", boss, 405, "method_not_allowed"},
		} {
			target := "__ds/" + test.target
			if strings.HasPrefix(test.target, "%") {
				target = test.target
			}
			var lines []string
			if test.who != "" {
				lines = append(lines, as(test.who))
			}
			a := g.ask(test.method, target, "", lines...)
			if a.StatusCode != test.status || !strings.Contains(a.text, test.contains) {
				g.Errorf("%s %s by %.9q: %d %s, want %d %s", test.method, test.target, test.who, a.StatusCode, a.text, test.status, test.contains)
			}
			if test.status == 401 && !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer") {
				g.Errorf("%s: no challenge in %v", test.target, a.Header)
			}
			if test.status == 200 && strings.HasPrefix(test.target, "api") && (a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Access-Control-Allow-Origin") != "") {
				g.Errorf("%s: %v", test.target, a.Header)
			}
		}

		one := g.ask("GET", "__ds/api/v1/streams/orders/from-secret", "", as(clerk))
		if strings.Contains(one.text, "plans") || strings.Contains(one.text, "fork") {
			g.Errorf("what it was forked from shows: %s", one.text)
		}
		if one := g.ask("GET", "__ds/api/v1/streams/orders/1", "", as(clerk)); strings.Contains(one.text, "forks") {
			g.Errorf("how many forks there are shows: %s", one.text)
		}
		want := []string{"news/1", "orders/0", "orders/1", "orders/2", "orders/3", "orders/4", "orders/5", "orders/6", "orders/from-secret"}
		for limit, requests := range map[int]int{1: 9, 2: 5, 3: 3, 4: 3, 8: 2, 9: 1, 100: 1} {
			if got, n := besides(g, fmt.Sprintf("&limit=%d", limit), as(clerk)); !slices.Equal(got, want) || n != requests {
				g.Errorf("by %d: %q in %d requests", limit, got, n)
			}
		}
		if got, _ := besides(g, "", as(g.token("read:orders/5", time.Now().Add(time.Hour)))); !slices.Equal(got, []string{"news/1", "orders/5"}) {
			g.Errorf("by a JWT: %q", got)
		}
		if got, _ := besides(g, "&limit=1000", as(boss)); len(got) != 11 {
			g.Errorf("all: %q", got)
		}
	})
}

// Without the option there is nothing.
func TestNoPageBesideStreams(t *testing.T) {
	overBoth(t, durablestreams.Options{}, func(g *guarded) {
		boss := g.key("boss")
		g.rewrite(keyLine("boss", boss, "all:**"))
		for _, target := range []string{"__ds/page/", "__ds/api/v1/streams", "__ds/api/v1/totals"} {
			if a := g.ask("GET", target, "", as(boss)); a.StatusCode != 404 || g.s.PageURL() != "" {
				g.Errorf("%s: %d %s", target, a.StatusCode, a.text)
			}
		}
	})
}

// Where existence is hidden a stream that is not there and one that may not be seen
// look the same.
func TestPageHides(t *testing.T) {
	overBoth(t, durablestreams.Options{ReadOnlyPage: true, Access: &auth.Options{Hide: true}}, func(g *guarded) {
		boss, clerk := g.key("boss"), g.key("clerk")
		g.rewrite(keyLine("boss", boss, "all:**") + keyLine("clerk", clerk, "read:orders/**"))
		if a := g.ask("PUT", "secret", "", as(boss), textType); a.StatusCode != 201 {
			g.Fatal(a.text)
		}
		there, none := g.ask("GET", "__ds/api/v1/streams/secret", "", as(clerk)), g.ask("GET", "__ds/api/v1/streams/orders/none", "", as(clerk))
		if there.StatusCode != 404 || none.StatusCode != 404 || there.text != none.text {
			g.Errorf("%d %s, and of one that is not there %d %s", there.StatusCode, there.text, none.StatusCode, none.text)
		}
	})
}

// A token that may see few of very many streams gets them in requests that end, and
// learns nothing of the others.
func TestPageAmongManyStreams(t *testing.T) {
	overBoth(t, durablestreams.Options{ReadOnlyPage: true}, func(g *guarded) {
		boss, clerk := g.key("boss"), g.key("clerk")
		g.rewrite(keyLine("boss", boss, "all:**") + keyLine("clerk", clerk, "read:z/**"))
		for i := range 12_000 {
			path := fmt.Sprintf("secret/%05d", i)
			if i == 11_999 {
				path = "z/last"
			}
			if code, text := do(g.s.Handler(), "PUT", "/durable-streams/v1/stream/"+path, nil, "Content-Type", "text/plain", "Authorization", "Bearer "+boss); code != 201 {
				g.Fatal(code, text)
			}
		}
		if got, n := besides(g, "", as(clerk)); n != 2 || !slices.Equal(got, []string{"z/last"}) {
			g.Errorf("%q in %d requests", got, n)
		}
	})
}
