package durablestreams_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/internal/manage"
)

// tenants writes a tenants file.
func tenants(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reply is what a test of tenants looks at.
type reply struct {
	status int
	code   string // of a refusal
	text   string
	head   http.Header
}

func asked(t *testing.T, method, url, body string, headers ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var refusal struct{ Error struct{ Code string } }
	if res.StatusCode >= 400 {
		if err := json.Unmarshal(text, &refusal); err != nil {
			t.Errorf("%s %s: %v in %s", method, url, err, text)
		}
	}
	return reply{res.StatusCode, refusal.Error.Code, string(text), res.Header}
}

// usage is "streams bytes" of a tenant.
func usage(t *testing.T, s *durablestreams.Server, name string) string {
	t.Helper()
	u, err := s.Tenant(name)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(u.Streams, u.Bytes)
}

// Each quota over both adapters: what is refused and how, that nothing is changed by it,
// and that what does not add is let in.
func TestQuotas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants")
	tenants(t, file, "tenant few streams=2\ntenant small bytes=10\ntenant slow append-bytes=4\ntenant slower append-bytes=4\ntenant still appends=0\ntenant none streams=0\nothers streams=1 bytes=100\n")
	producer := func(seq string) []string {
		return []string{"Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", seq}
	}
	steps := []struct {
		method, path, body string
		headers            []string
		status             int
		code, usage        string // usage is that of the path's tenant afterwards
	}{
		{"PUT", "few/1", "abc", nil, 201, "", "1 3"},
		{"PUT", "few/1", "abc", nil, 200, "", "1 3"}, // it is there
		{"PUT", "few", "", nil, 201, "", "2 3"},
		{"PUT", "few/2", "abc", nil, 507, "quota_streams", "2 3"},
		{"PUT", "few/1", "abc", nil, 200, "", "2 3"},
		{"POST", "few/2", "abc", nil, 404, "not_found", "2 3"},
		{"PUT", "few/1", "", []string{"Content-Type", "text/html"}, 409, "config_mismatch", "2 3"},
		{"PUT", "few/2", "", []string{"Stream-Forked-From", "/durable-streams/v1/stream/few/1"}, 507, "quota_streams", "2 3"},
		{"POST", "few/1", "de", nil, 204, "", "2 5"},
		{"DELETE", "few", "", nil, 204, "", "1 5"},
		{"PUT", "few/2", "", []string{"Stream-Forked-From", "/durable-streams/v1/stream/few/1"}, 201, "", "2 5"}, // inherited bytes are its source's
		{"DELETE", "few/1", "", nil, 204, "", "2 5"},                                                             // which the fork still reads
		{"PUT", "few/3", "", nil, 507, "quota_streams", "2 5"},
		{"DELETE", "few/2", "", nil, 204, "", "not_found: there is no such tenant: it has no streams and does not stand in the tenants file"},

		{"PUT", "small/1", "12345", nil, 201, "", "1 5"},
		{"PUT", "small/2", "123456", nil, 507, "quota_bytes", "1 5"},
		{"GET", "small/2", "", nil, 404, "not_found", "1 5"},
		{"POST", "small/1", "6789", producer("0"), 200, "", "1 9"},
		{"POST", "small/1", "6789", producer("0"), 204, "", "1 9"}, // a duplicate adds nothing
		{"POST", "small/1", "ab", producer("1"), 507, "quota_bytes", "1 9"},
		{"POST", "small/1", "6789", producer("0"), 204, "", "1 9"},
		{"POST", "small/1", "ab", nil, 507, "quota_bytes", "1 9"},
		{"POST", "small/1", "ab", []string{"Stream-Closed", "true"}, 507, "quota_bytes", "1 9"},
		{"POST", "small/1", "a", producer("1"), 200, "", "1 10"}, // the number was not used up
		{"PUT", "small/2", "", nil, 201, "", "2 10"},
		{"POST", "small/1", "", []string{"Stream-Closed", "true"}, 204, "", "2 10"},
		{"GET", "small/1", "", nil, 200, "", "2 10"},

		{"PUT", "slow/1", strings.Repeat("x", 400), producer("0"), 201, "", "1 400"}, // paid off in 100 s
		{"POST", "slow/1", "7", producer("0"), 429, "quota_appends", "1 400"},
		{"PUT", "slow/1", "", nil, 200, "", "1 400"},
		{"PUT", "slow/2", "", nil, 429, "quota_appends", "1 400"},
		{"POST", "slow/1", "", []string{"Stream-Closed", "true"}, 429, "quota_appends", "1 400"},
		{"GET", "slow/1", "", nil, 200, "", "1 400"},
		{"DELETE", "slow/1", "", nil, 204, "", "0 0"},
		{"PUT", "slow/1", "", nil, 429, "quota_appends", "0 0"}, // it is not made good by that

		{"PUT", "slower/1", "", nil, 201, "", "1 0"},
		{"POST", "slower/1", strings.Repeat("x", 400), producer("0"), 200, "", "1 400"},
		{"POST", "slower/1", strings.Repeat("x", 400), producer("0"), 204, "", "1 400"}, // a duplicate costs nothing
		{"POST", "slower/1", "7", producer("1"), 429, "quota_appends", "1 400"},
		{"POST", "slower/1", "7", producer("2"), 409, "producer_sequence_gap", "1 400"}, // the number was not used up

		{"PUT", "still/1", "", nil, 429, "quota_appends", "0 0"},

		{"PUT", "none/1", "", nil, 507, "quota_streams", "0 0"},

		{"PUT", "fewer/1", "", nil, 201, "", "1 0"}, // one of the others
		{"PUT", "fewer/2", "", nil, 507, "quota_streams", "1 0"},
		{"PUT", "most/1", "", nil, 201, "", "1 0"},
	}
	overAdapters(t, durablestreams.Options{TenantsFile: file}, func(t *testing.T, s *durablestreams.Server, url string) {
		for i, tt := range steps {
			a := asked(t, tt.method, url+s.Root()+tt.path, tt.body, tt.headers...)
			if tt.path == "few/2" && tt.method == "DELETE" {
				tt.usage = "0 0"
			}
			name, _, _ := strings.Cut(tt.path, "/")
			if got := usage(t, s, name); a.status != tt.status || a.code != tt.code || got != tt.usage {
				t.Errorf("step %d, %s %s: %d %s, usage %q, want %d %s, %q: %s", i, tt.method, tt.path, a.status, a.code, got, tt.status, tt.code, tt.usage, a.text)
			}
			after, err := strconv.Atoi(a.head.Get("Retry-After"))
			if tt.status == 507 && after != 10 || tt.status == 429 && (after < 10 || after > 100) || tt.status < 429 && err == nil {
				t.Errorf("step %d: Retry-After %q", i, a.head.Get("Retry-After"))
			}
		}
	})
}

// follows opens a live read and gives its status; it stays open until the test calls end.
func follows(t *testing.T, url string) (r reply, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r = reply{status: res.StatusCode, head: res.Header}
	if res.Close {
		r.head.Set("Connection", "close")
	}
	return r, func() {
		cancel()
		res.Body.Close()
	}
}

// So many live reads may wait, of both kinds together; others are not concerned.
func TestLiveQuota(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants")
	tenants(t, file, "tenant a live=2\n")
	overAdapters(t, durablestreams.Options{TenantsFile: file, LongPollTimeout: time.Minute}, func(t *testing.T, s *durablestreams.Server, url string) {
		root := url + s.Root()
		for _, p := range []string{"a/1", "a/2", "b/1"} {
			asked(t, "PUT", root+p, "x")
		}
		live := func() int64 {
			u, err := s.Tenant("a")
			if err != nil {
				t.Error(err)
			}
			return u.Live
		}
		one, end := follows(t, root+"a/1?offset=now&live=sse")
		polled := make(chan reply, 1)
		go func() { polled <- asked(t, "GET", root+"a/1?offset=now&live=long-poll", "") }()
		waitFor(t, func() bool { return live() == 2 })
		if one.status != 200 {
			t.Errorf("the first: %d", one.status)
		}
		for _, query := range []string{"offset=now&live=sse", "offset=now&live=long-poll", "offset=-1&live=sse"} {
			a := asked(t, "GET", root+"a/2?"+query, "")
			if a.status != 429 || a.code != "quota_live" || a.head.Get("Retry-After") != "1" || live() != 2 {
				t.Errorf("%s beyond the limit: %d %s, Retry-After %q, %d live", query, a.status, a.code, a.head.Get("Retry-After"), live())
			}
		}
		for _, target := range []string{"a/2?offset=-1&live=long-poll", "a/2", "a/2?offset=now"} {
			if a := asked(t, "GET", root+target, ""); a.status != 200 {
				t.Errorf("%s, which does not wait: %d %s", target, a.status, a.text)
			}
		}
		other, endOther := follows(t, root+"b/1?offset=now&live=sse")
		if other.status != 200 {
			t.Errorf("another tenant: %d", other.status)
		}
		endOther()
		asked(t, "POST", root+"a/1", "y")
		if a := <-polled; a.status != 200 {
			t.Errorf("the long-poll: %d %s", a.status, a.text)
		}
		end()
		waitFor(t, func() bool { return live() == 0 })
		again, endAgain := follows(t, root+"a/2?offset=now&live=sse")
		if again.status != 200 || live() != 1 {
			t.Errorf("when there is room again: %d, %d live", again.status, live())
		}
		endAgain()
	})
}

// Usage survives a stop, other limits are taken by a reload, and a wrong file leaves the
// old ones.
func TestTenantsAfterRestartAndReload(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "tenants")
	tenants(t, file, "tenant a streams=1\n")
	opts := &durablestreams.Options{TenantsFile: file}
	s := open(t, dir, opts)
	put := func(want int, name string) {
		t.Helper()
		if got, text := do(s.Handler(), "PUT", s.Root()+name, strings.NewReader("12345"), "Content-Type", "text/plain"); got != want {
			t.Errorf("PUT %s: %d %s, want %d", name, got, text, want)
		}
	}
	put(201, "a/1")
	put(507, "a/2")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, opts)
	if got := usage(t, s, "a"); got != "1 5" {
		t.Errorf("after a restart %q", got)
	}
	put(507, "a/2")
	tenants(t, file, "tenant a streams=2\n")
	if err := s.Reload(opts); err != nil {
		t.Fatal(err)
	}
	put(201, "a/2")
	put(507, "a/3")
	tenants(t, file, "tenant a streams=two\n")
	if err := s.Reload(opts); err == nil || !strings.Contains(err.Error(), "tenants:1: ") {
		t.Errorf("a wrong file: %v", err)
	}
	put(507, "a/3")
	if _, err := durablestreams.Open(t.TempDir(), opts); err == nil {
		t.Error("a server starts with a wrong file")
	}
}

// Without a tenants file there are no tenants, and the API says so.
func TestNoTenants(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	mustDo(t, s, 201, "PUT", s.Root()+"a/1", "x")
	if page := answerTo[manage.TenantPage](t, s.Admin(), "/api/v1/tenants"); len(page.Tenants) != 0 || page.Tenants == nil {
		t.Errorf("%+v", page)
	}
	for method, target := range map[string]string{"GET": "/api/v1/tenants/a", "DELETE": "/api/v1/tenants/a/streams"} {
		if w := operator(s.Admin(), method, target, ""); w.Code != 404 || !strings.Contains(w.Body.String(), `"not_found"`) {
			t.Errorf("%s %s: %d %s", method, target, w.Code, w.Body)
		}
	}
	if got := mustDo(t, s, 200, "GET", s.Root()+"a/1", ""); got != "x" {
		t.Errorf("%q", got)
	}
}

// What operators see of tenants, and what they are told where there is nothing.
func TestTenantsAPI(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants")
	tenants(t, file, "tenant a streams=1 bytes=1KiB appends=100 append-bytes=1MiB live=7\ntenant idle\n")
	s := open(t, "", &durablestreams.Options{InMemory: true, TenantsFile: file})
	h := s.Admin()
	mustDo(t, s, 201, "PUT", s.Root()+"a/1", "12345")
	mustDo(t, s, 507, "PUT", s.Root()+"a/2", "")
	mustDo(t, s, 201, "PUT", s.Root()+"b", "1")
	mustDo(t, s, 201, "PUT", s.Root()+"c%20d/x", "12")

	w := operator(h, "GET", "/api/v1/tenants/a", "")
	const want = `{"name":"a","listed":true,"streams":1,"bytes":5,"liveReaders":0,` +
		`"limits":{"streams":1,"bytes":1024,"appendsPerSecond":100,"appendBytesPerSecond":1048576,"liveReaders":7},` +
		`"refused":{"streams":1,"bytes":0,"appends":0,"liveReaders":0}}` + "\n"
	if w.Body.String() != want {
		t.Errorf("%s, want %s", w.Body, want)
	}
	var names []string
	for target := "/api/v1/tenants?limit=3"; target != ""; {
		page := answerTo[manage.TenantPage](t, h, target)
		for _, tenant := range page.Tenants {
			names = append(names, fmt.Sprint(tenant.Name, " ", tenant.Streams, " ", tenant.Bytes, " ", tenant.Listed))
		}
		if target = ""; page.Next != "" {
			target = "/api/v1/tenants?limit=3&after=" + url.QueryEscape(page.Next)
		}
	}
	if got := strings.Join(names, ", "); got != "a 1 5 true, b 1 1 false, c%20d 1 2 false, idle 0 0 true" {
		t.Errorf("%s", got)
	}
	if one := answerTo[manage.Tenant](t, h, "/api/v1/tenants/c%20d"); one.Bytes != 2 {
		t.Errorf("%+v", one)
	}
	for _, tt := range []struct {
		method, target string
		status         int
		code           string
	}{
		{"GET", "/api/v1/tenants/nobody", 404, "not_found"},
		{"GET", "/api/v1/tenants/a/b", 404, "not_found"},
		{"GET", "/api/v1/tenants?limit=0", 400, "invalid_parameter"},
		{"GET", "/api/v1/tenants/a/streams", 405, "method_not_allowed"},
		{"POST", "/api/v1/tenants", 405, "method_not_allowed"},
		{"DELETE", "/api/v1/tenants/a", 405, "method_not_allowed"},
		{"DELETE", "/api/v1/tenants/nobody/streams", 404, "not_found"},
		{"DELETE", "/api/v1/tenants/a/streams?prefix=x", 400, "invalid_parameter"},
		{"DELETE", "/api/v1/tenants/a/streams/a/1", 404, "not_found"},
	} {
		if w := operator(h, tt.method, tt.target, ""); w.Code != tt.status || !strings.Contains(w.Body.String(), `"`+tt.code+`"`) {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.target, w.Code, w.Body, tt.status, tt.code)
		}
	}
	if got := usage(t, s, "a"); got != "1 5" {
		t.Errorf("something was deleted: %s", got)
	}
	m := scrape(t, s)
	for name, want := range map[string]float64{`ds_tenant_streams{tenant="a"}`: 1, `ds_tenant_bytes{tenant="a"}`: 5, `ds_tenant_live_readers{tenant="a"}`: 0,
		`ds_tenant_limit{of="bytes",tenant="a"}`: 1024, `ds_tenant_refused_total{reason="quota_streams",tenant="a"}`: 1, `ds_tenant_streams{tenant="idle"}`: 0} {
		if got, ok := m[name]; got != want || !ok {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name := range m {
		if strings.Contains(name, `tenant="b"`) {
			t.Errorf("%s: only tenants of the file have metrics", name)
		}
	}
}

// A purge takes all of a tenant and nothing of others, however much goes on meanwhile:
// what was there before is gone when it answers, and the figures are right.
func TestPurgeUnderLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants")
	tenants(t, file, "tenant shop bytes=1GiB\n")
	overAdapters(t, durablestreams.Options{TenantsFile: file}, func(t *testing.T, s *durablestreams.Server, url string) {
		root := url + s.Root()
		for _, p := range []string{"shop", "shopping", "shop-2/x", "other/1"} {
			asked(t, "PUT", root+p, "kept")
		}
		for i := range 50 {
			asked(t, "PUT", fmt.Sprintf("%sshop/old/%d", root, i), "old")
		}
		asked(t, "PUT", root+"other/fork", "", "Stream-Forked-From", s.Root()+"shop/old/7")
		sse, end := follows(t, root+"shop/old/3?offset=now&live=sse")
		defer end()
		if sse.status != 200 {
			t.Fatalf("follow: %d", sse.status)
		}
		var stop atomic.Bool
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for i := 0; !stop.Load(); i++ {
					p := fmt.Sprintf("%sshop/new/%d-%d", root, worker, i%20)
					switch a := asked(t, "PUT", p, "new"); a.status {
					case 200, 201, 503:
					default:
						t.Errorf("PUT: %d %s", a.status, a.text)
					}
					switch a := asked(t, "POST", p, "more"); a.status {
					case 204, 404:
					default:
						t.Errorf("POST: %d %s", a.status, a.text)
					}
				}
			})
		}
		for range 3 {
			w := operator(s.Admin(), "DELETE", "/api/v1/tenants/shop/streams", "")
			if w.Code != 200 {
				t.Errorf("purge: %d %s", w.Code, w.Body)
			}
			for i := range 50 {
				want := 404
				if i == 7 {
					want = 410 // a fork of another tenant reads it
				}
				if a := asked(t, "GET", fmt.Sprintf("%sshop/old/%d", root, i), ""); a.status != want {
					t.Errorf("old/%d is there after the purge: %d", i, a.status)
				}
			}
		}
		stop.Store(true)
		all.Wait()
		asked(t, "PUT", root+"shop/last", "x")
		during := 0
		if _, err := s.PurgeTenant(t.Context(), "shop", func(durablestreams.Deletion) {
			during++
			if a := asked(t, "PUT", root+"shop/during", "x"); a.status != 503 || a.code != "busy" || a.head.Get("Retry-After") != "1" {
				t.Errorf("a stream is made during the purge: %d %s", a.status, a.text)
			}
		}); err != nil || during == 0 {
			t.Errorf("purge: %v, %d steps", err, during)
		}
		w := operator(s.Admin(), "DELETE", "/api/v1/tenants/shop/streams", "")
		if w.Code != 200 {
			t.Errorf("purge: %d %s", w.Code, w.Body)
		}
		if got := usage(t, s, "shop"); got != "1 3" {
			t.Errorf("afterwards shop has %q, want what the fork reads", got)
		}
		for _, p := range []string{"shopping", "shop-2/x", "other/1", "other/fork"} {
			if a := asked(t, "GET", root+p, ""); a.status != 200 {
				t.Errorf("%s is gone: %d", p, a.status)
			}
		}
		if a := asked(t, "DELETE", root+"other/fork", ""); a.status != 204 {
			t.Error(a)
		}
		if got := usage(t, s, "shop"); got != "0 0" {
			t.Errorf("without the fork shop has %q", got)
		}
		if a := asked(t, "PUT", root+"shop/next", "x"); a.status != 201 {
			t.Errorf("after the purge: %d %s", a.status, a.text)
		}
		waitFor(t, func() bool { u, err := s.Tenant("shop"); return err == nil && u.Live == 0 })
	})
}

// Events of a wake stream count for its tenant: where they do not fit they wait, the
// subscription says why, and they come when there is room.
func TestWakeEventsCount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants")
	tenants(t, file, "tenant w bytes=0\n")
	opts := &durablestreams.Options{InMemory: true, TenantsFile: file}
	s := open(t, "", opts)
	put := func(name, contentType string) {
		t.Helper()
		if got, text := do(s.Handler(), "PUT", s.Root()+name, nil, "Content-Type", contentType); got != 201 {
			t.Fatalf("%d %s", got, text)
		}
	}
	put("w/wakes", "application/json")
	put("a/1", "text/plain")
	if got, text := do(s.Handler(), "PUT", s.Root()+"__ds/subscriptions/jobs", strings.NewReader(`{"type":"pull-wake","pattern":"a/*","wake_stream":"w/wakes"}`), "Content-Type", "application/json"); got != 201 {
		t.Fatalf("%d %s", got, text)
	}
	mustDo(t, s, 204, "POST", s.Root()+"a/1", "x")
	waitFor(t, func() bool { return scrape(t, s)[`ds_wake_events_total{result="failed"}`] > 0 })
	if got := usage(t, s, "w"); got != "1 0" {
		t.Errorf("w uses %q", got)
	}
	if list := s.Subscriptions("", 1); len(list) != 1 || list[0].Problem != "the wake stream does not take events: this would be more than the 0 bytes of the tenant" {
		t.Errorf("%+v", list)
	}
	tenants(t, file, "tenant w bytes=1KiB\n")
	if err := s.Reload(opts); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return strings.Contains(mustDo(t, s, 200, "GET", s.Root()+"w/wakes", ""), `"jobs"`) })
	if got := usage(t, s, "w"); got == "1 0" {
		t.Errorf("w uses %q", got)
	}
}

// Where access is controlled, tenants are for those who may operate everything.
func TestTenantsNeedAdmin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants")
	tenants(t, file, "tenant a\n")
	overBoth(t, durablestreams.Options{TenantsFile: file}, func(g *guarded) {
		boss, clerk := g.key("boss"), g.key("clerk")
		g.rewrite(keyLine("boss", boss, "all:**") + keyLine("clerk", clerk, "all:a/**"))
		g.ask("PUT", "a/1", "x", textType, as(boss))
		for _, tt := range []struct {
			who    []string
			status int
		}{{nil, 401}, {[]string{"Authorization", "Bearer " + clerk}, 403}, {[]string{"Authorization", "Bearer " + boss}, 200}} {
			for _, ask := range [][2]string{{"GET", "/api/v1/tenants"}, {"GET", "/api/v1/tenants/a"}, {"DELETE", "/api/v1/tenants/a/streams"}} {
				before := usage(g.T, g.s, "a")
				if w := operator(g.s.Admin(), ask[0], ask[1], "", tt.who...); w.Code != tt.status {
					g.Errorf("%s %s by %q: %d %s, want %d", ask[0], ask[1], tt.who, w.Code, w.Body, tt.status)
				}
				if after := usage(g.T, g.s, "a"); tt.status != 200 && after != before {
					g.Errorf("%s %s by %q: %s, then %s", ask[0], ask[1], tt.who, before, after)
				}
			}
		}
	})
}
