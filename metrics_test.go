package durablestreams_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"durablestreams"
	"durablestreams/internal/fastpath"
)

// samples are a server's metrics, as name{label="value",…}. A histogram is in it with its
// _count and _sum.
type samples map[string]float64

func scrape(t *testing.T, s *durablestreams.Server) samples {
	t.Helper()
	w := httptest.NewRecorder()
	s.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := samples{}
	for name, family := range families {
		for _, m := range family.Metric {
			labels := labelsOf(m)
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				found[name+labels] = m.Counter.GetValue()
				if strings.HasPrefix(name, "ds_") && !strings.HasSuffix(name, "_total") {
					t.Errorf("%s is a counter and does not say so", name)
				}
			case dto.MetricType_GAUGE:
				found[name+labels] = m.Gauge.GetValue()
			case dto.MetricType_HISTOGRAM:
				found[name+"_count"+labels] = float64(m.Histogram.GetSampleCount())
				found[name+"_sum"+labels] = m.Histogram.GetSampleSum()
				for _, b := range m.Histogram.Bucket {
					found[fmt.Sprintf("%s_bucket%s≤%g", name, labels, b.GetUpperBound())] = float64(b.GetCumulativeCount())
				}
			}
		}
	}
	return found
}

func labelsOf(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.Label {
		pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if slices.Sort(pairs); len(pairs) == 0 {
		return ""
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

// overAdapters runs a test over net/http and over the event loops.
func overAdapters(t *testing.T, opts durablestreams.Options, test func(t *testing.T, s *durablestreams.Server, url string)) {
	for _, fast := range []bool{false, true} {
		name := map[bool]string{false: "net http", true: "fast path"}[fast]
		t.Run(name, func(t *testing.T) {
			if fast && !fastpath.Supported {
				t.Skip("there is no fast path on this system")
			}
			opts.InMemory, opts.NoFastPath = true, !fast
			s := open(t, "", &opts)
			ln := listen(t)
			ended := make(chan error, 1)
			ctx, cancel := context.WithCancel(context.Background())
			go func() { ended <- s.Serve(ctx, ln) }()
			t.Cleanup(func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			test(t, s, "http://"+ln.Addr().String())
		})
	}
}

// request sends a request of which the answer's status is known.
func request(t *testing.T, status int, method, url, body string, headers ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
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
	if res.StatusCode != status {
		t.Fatalf("%s %s: %s %s, want %d", method, url, res.Status, text, status)
	}
	return string(text)
}

// Every kind of request is counted once, on both adapters, with its bytes.
func TestMetricsCount(t *testing.T) {
	overAdapters(t, durablestreams.Options{LongPollTimeout: time.Millisecond, MaxBody: 100, MaxLive: 7}, func(t *testing.T, s *durablestreams.Server, url string) {
		stream := url + streamA
		const text, subscription = "Content-Type", "/durable-streams/v1/stream/__ds/subscriptions/s"
		request(t, 201, "PUT", stream, "12345", text, "text/plain")
		request(t, 200, "PUT", stream, "", text, "text/plain")
		for range 3 {
			request(t, 204, "POST", stream, "678", text, "text/plain")
		}
		request(t, 413, "POST", stream, strings.Repeat("x", 101), text, "text/plain")
		request(t, 200, "GET", stream, "")
		request(t, 400, "GET", stream+"?offset=x", "")
		request(t, 200, "HEAD", stream, "")
		request(t, 200, "GET", stream+"?offset=-1&live=long-poll", "")
		request(t, 204, "GET", stream+"?offset=now&live=long-poll", "")
		request(t, 404, "GET", url+"/elsewhere", "")
		request(t, 204, "OPTIONS", stream, "")

		own := &http.Transport{} // some requests take their connection away from the fast path
		defer own.CloseIdleConnections()
		res, err := (&http.Client{Transport: own}).Get(stream + "?offset=-1&live=sse")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), "streamNextOffset") {
		}

		request(t, 201, "PUT", url+subscription, `{"type":"pull-wake","pattern":"a","wake_stream":"w"}`, text, "application/json")
		request(t, 404, "GET", url+subscription+"x", "")

		got := scrape(t, s)
		check := func(want samples) {
			t.Helper()
			for name, n := range want {
				if v, ok := got[name]; !ok || v != n {
					t.Errorf("%s is %v (there: %v), want %v", name, v, ok, n)
				}
			}
		}
		check(samples{
			`ds_requests_total{kind="create",status="201"}`: 1, `ds_requests_total{kind="create",status="200"}`: 1,
			`ds_requests_total{kind="append",status="204"}`: 3, `ds_requests_total{kind="append",status="413"}`: 1,
			`ds_requests_total{kind="read",status="200"}`: 1, `ds_requests_total{kind="read",status="400"}`: 1,
			`ds_requests_total{kind="head",status="200"}`:      1,
			`ds_requests_total{kind="long-poll",status="200"}`: 1, `ds_requests_total{kind="long-poll",status="204"}`: 1,
			`ds_requests_total{kind="other",status="404"}`: 1, `ds_requests_total{kind="other",status="204"}`: 1,
			`ds_requests_total{kind="control",status="201"}`: 1, `ds_requests_total{kind="control",status="404"}`: 1,
			`ds_requests_total{kind="sse",status="200"}`: 1,

			`ds_request_seconds_count{kind="append"}`: 4, `ds_request_seconds_count{kind="create"}`: 2, `ds_request_seconds_count{kind="read"}`: 2,
			`ds_request_seconds_count{kind="head"}`: 1, `ds_request_seconds_count{kind="delete"}`: 0,
			`ds_request_seconds_bucket{kind="append"}≤10`: 4,

			`ds_response_body_bytes_total{kind="head"}`: 0, `ds_response_body_bytes_total{kind="long-poll"}`: 14,
			`ds_refused_requests_total{reason="too_large"}`: 1, `ds_refused_requests_total{reason="invalid_offset"}`: 1,
			`ds_live_readers{kind="sse"}`: 1, `ds_live_readers{kind="long-poll"}`: 0,
			`ds_limit{of="live_readers"}`: 7,
			`ds_ready`:                    1, `ds_disk_full`: 0, `ds_subscriptions{type="pull-wake"}`: 1, `ds_subscriptions{type="webhook"}`: 0,
			`ds_inflight_bytes`: 0, `ds_queued_bytes`: 0, `ds_commit_queue_changes`: 0,
		})
		for _, name := range []string{"ds_sse_frames_total", "ds_sse_bytes_total", "ds_connections", "ds_commit_seconds_count", "ds_commit_seconds_sum",
			"ds_commit_changes_count", "ds_journal_records_total", "ds_journal_written_bytes_total", "ds_journal_bytes", "ds_request_seconds_sum{kind=\"append\"}",
			"go_goroutines", "ds_streams_in_memory", "ds_tail_bytes", `ds_limit{of="connections"}`} {
			if got[name] <= 0 {
				t.Errorf("%s is %v", name, got[name])
			}
		}
		if n := got["ds_commit_changes_sum"]; n != 5 {
			t.Errorf("%v changes were committed", n)
		}
		if _, slow := got[`ds_request_seconds_count{kind="sse"}`]; slow {
			t.Error("the time of a live read is counted as if it were the server's")
		}

		res.Body.Close()
		request(t, 204, "DELETE", stream, "")
		for got = scrape(t, s); got[`ds_live_readers{kind="sse"}`] != 0; got = scrape(t, s) {
			// The server hears of it in its own time.
		}
		check(samples{`ds_requests_total{kind="delete",status="204"}`: 1, `ds_request_seconds_count{kind="delete"}`: 1})
	})
}

// What is refused before it is a request is counted too.
func TestMetricsCountConnections(t *testing.T) {
	overAdapters(t, durablestreams.Options{MaxConnections: 1}, func(t *testing.T, s *durablestreams.Server, url string) {
		host := strings.TrimPrefix(url, "http://")
		first, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		if _, err := io.WriteString(first, "HEAD "+streamA+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(first).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		second, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		if line, err := bufio.NewReader(second).ReadString('\n'); err != nil || !strings.Contains(line, "503") {
			t.Fatalf("%q, %v", line, err)
		}
		if got := scrape(t, s); got["ds_refused_connections_total"] != 1 || got["ds_connections"] != 1 || got[`ds_limit{of="connections"}`] != 1 {
			t.Errorf("%v connections, %v refused", got["ds_connections"], got["ds_refused_connections_total"])
		}
	})
}

// Figures can be asked for at any time; after the end there are none of the archive.
func TestMetricsAfterTheEnd(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	mustDo(t, s, http.StatusCreated, http.MethodPut, streamA, "x")
	if got := scrape(t, s); got["ds_archive_disk_bytes"] <= 0 || got["ds_disk_free_bytes"] <= 0 {
		t.Errorf("%v", got)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, s)
	if _, there := got["ds_archive_disk_bytes"]; there || got["ds_ready"] != 0 || got[`ds_requests_total{kind="create",status="201"}`] != 1 {
		t.Errorf("%v", got)
	}
}

// The dashboard and the alert rules name metrics that a running server has.
func TestDeployNamesMetrics(t *testing.T) {
	s := open(t, t.TempDir(), nil) // a disk, so that all of it is there
	mustDo(t, s, http.StatusCreated, http.MethodPut, streamA, "x")
	mustDo(t, s, http.StatusBadRequest, http.MethodGet, streamA+"?offset=x", "")
	known := map[string]bool{}
	for name := range scrape(t, s) {
		name, _, _ = strings.Cut(name, "{")
		name, _, _ = strings.Cut(name, "≤")
		known[name] = true
	}
	name := regexp.MustCompile(`\b(?:ds|go|process)_[a-z0-9_]+`)
	check := func(file, expression string) {
		t.Helper()
		found := name.FindAllString(expression, -1)
		if len(found) == 0 && expression != `up{job="ds"} == 0` {
			t.Errorf("%s: %q names no metric", file, expression)
		}
		for _, metric := range found {
			if !known[metric] {
				t.Errorf("%s: %q names %s, which there is not", file, expression, metric)
			}
		}
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(expression, pair[:1]) != strings.Count(expression, pair[1:]) {
				t.Errorf("%s: %q: %s do not match", file, expression, pair)
			}
		}
	}

	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	const board = "deploy/grafana/durable-streams.json"
	if err := json.Unmarshal([]byte(content(t, board)), &dashboard); err != nil || len(dashboard.Panels) < 20 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			check(board, target.Expr)
		}
	}
	const rules = "deploy/prometheus/alerts.yml"
	text := content(t, rules)
	expressions := regexp.MustCompile(`(?m)^        expr: (.+)$`).FindAllStringSubmatch(text, -1)
	if len(expressions) < 10 || len(expressions) != strings.Count(text, "- alert:") {
		t.Errorf("%d expressions", len(expressions))
	}
	for _, m := range expressions {
		check(rules, m[1])
	}

	// And every metric of the server's own is explained.
	guide := content(t, "docs/observe.md")
	for metric := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(metric, "ds_") && !strings.Contains(guide, "`"+base+"`") && !strings.Contains(guide, "`"+base+"{") {
			t.Errorf("docs/observe.md does not explain %s", base)
		}
	}
}

func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
