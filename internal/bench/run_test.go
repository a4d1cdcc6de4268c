package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/internal/bench"
)

// believed fails the test unless the run succeeded and verified something.
func believed(t *testing.T, report bench.Report, out string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	records := int64(0)
	for _, res := range report.Results {
		if res.Count == 0 || res.Elapsed <= 0 || len(res.Errors) > 0 {
			t.Errorf("%+v", res)
		}
		if res.Verify != nil {
			records += res.Verify.Records
		}
	}
	if records == 0 && report.Scenario != "null" {
		t.Errorf("nothing was verified\n%s", out)
	}
}

func TestHonestServer(t *testing.T) {
	tests := map[string]func(o *bench.Options){
		"append":                     func(o *bench.Options) {},
		"append JSON":                func(o *bench.Options) { o.JSON = true },
		"append with producers":      func(o *bench.Options) { o.Producers = true },
		"append JSON with producers": func(o *bench.Options) { o.JSON, o.Producers, o.Streams = true, true, 30 },
		"append to one stream":       func(o *bench.Options) { o.Streams = 1 },
		"append to many streams":     func(o *bench.Options) { o.Streams = 50 },
		"append by schedule":         func(o *bench.Options) { o.Rate = 2000 },
		"append with a warm-up":      func(o *bench.Options) { o.Warmup = 50 * time.Millisecond },
		"append by two threads":      func(o *bench.Options) { o.Loops = 2 },
		"append the smallest record": func(o *bench.Options) { o.Size = 28 },
		"append large records":       func(o *bench.Options) { o.Connections, o.Streams, o.Size, o.Requests = 1, 1, 6<<20, 2 },
		"append and delete":          func(o *bench.Options) { o.Delete = true },
		"append for a time":          func(o *bench.Options) { o.Requests, o.Duration = 0, time.Second },
		"create":                     func(o *bench.Options) {},
		"create JSON, then delete":   func(o *bench.Options) { o.JSON, o.Delete = true, true },
		"catchup":                    func(o *bench.Options) { o.Requests = 3 },
		"catchup JSON":               func(o *bench.Options) { o.Requests, o.JSON = 3, true },
		"fanout":                     func(o *bench.Options) { o.Requests, o.Rate, o.Subscribers = 40, 1000, 9 },
		"fanout with producers":      func(o *bench.Options) { o.Requests, o.Rate, o.Subscribers, o.Producers = 40, 1000, 9, true },
		"longpoll":                   func(o *bench.Options) { o.Requests, o.Rate, o.Subscribers = 40, 1000, 9 },
		"longpoll with time-outs":    func(o *bench.Options) { o.Requests, o.Rate, o.Subscribers = 2, 2, 3 },
		"idle":                       func(o *bench.Options) { o.Duration, o.Subscribers = 100*time.Millisecond, 20 },
		"mixed":                      func(o *bench.Options) { o.Requests = 100 },
		"sustained":                  func(o *bench.Options) { o.Requests, o.Duration = 0, time.Second },
		"streams":                    func(o *bench.Options) {},
		"null":                       func(o *bench.Options) {},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, portable bool) {
				scenario, _, _ := strings.Cut(name, " ")
				opts := small(serve(t, nil), scenario)
				opts.Portable = portable
				change(&opts)
				report, out, err := run(t, opts)
				believed(t, report, out, err)
			})
		})
	}
}

// A server that ends the connection with every answer costs, but is no failure.
func TestServerThatClosesConnections(t *testing.T) {
	both(t, func(t *testing.T, portable bool) {
		opts := small(serve(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "close")
				next.ServeHTTP(w, r)
			})
		}), "append")
		opts.Portable = portable
		report, out, err := run(t, opts)
		believed(t, report, out, err)
		if n := report.Results[0].Reconnects; n < 150 {
			t.Errorf("%d connections opened again\n%s", n, out)
		}
	})
}

// Neither is one that closes connections on which nothing happens.
func TestServerThatClosesIdleConnections(t *testing.T) {
	both(t, func(t *testing.T, portable bool) {
		url := serveWith(t, &durablestreams.Options{}, 200*time.Millisecond, nil)
		opts := small(url, "append")
		opts.Portable, opts.Rate, opts.Requests = portable, 4, 8 // each connection once a second
		report, out, err := run(t, opts)
		believed(t, report, out, err)
		if n := report.Results[0].Reconnects; n < 4 {
			t.Errorf("%d connections opened again\n%s", n, out)
		}
	})
}

// Errors that the options allow are counted and no more, and what was in doubt may be
// there.
func TestAllowedErrors(t *testing.T) {
	both(t, func(t *testing.T, portable bool) {
		opts := small(serve(t, nth("POST", 60, func(e *exchange) { e.send(e.ask(e.body), 503, nil) })), "append")
		opts.Portable, opts.AllowErrors = portable, true
		report, out, err := run(t, opts)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		res := report.Results[0]
		if len(res.Errors) != 1 || res.Errors[0] != (bench.ErrorCount{What: "HTTP 503", Count: 1}) || res.Verify.Doubtful != 1 ||
			res.Count != 199 || res.Verify.Records != 200 {
			t.Errorf("%+v\n%s", res, out)
		}
	})
}

// A producer repeats what got no answer; the server knows it again.
func TestProducersRetry(t *testing.T) {
	both(t, func(t *testing.T, portable bool) {
		opts := small(serve(t, nth("POST", 60, func(e *exchange) {
			e.ask(e.body)
			e.hijack("")
		})), "append")
		opts.Portable, opts.Producers, opts.AllowErrors = portable, true, true
		report, out, err := run(t, opts)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		res := report.Results[0]
		if res.Retries != 1 || res.Duplicates != 1 || res.Count != 200 || res.Verify.Records != 200 || res.Verify.Acknowledged != 200 {
			t.Errorf("%+v\n%s", res, out)
		}
	})
}

// A server that stops answering ends the run in time, as a failure.
func TestSilentServer(t *testing.T) {
	both(t, func(t *testing.T, portable bool) {
		release := make(chan struct{})
		opts := small(serve(t, nth("POST", 60, func(*exchange) { <-release })), "append")
		t.Cleanup(func() { close(release) }) // before the server's own, which waits for it
		opts.Portable, opts.Timeout = portable, 200*time.Millisecond
		report, out, err := run(t, opts)
		if !errors.Is(err, bench.ErrFailed) || report.Results[0].Errors[0].What != "time-out" {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func TestServerThatIsNotThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts := small("http://"+listener.Addr().String()+"/v1/stream", "append")
	listener.Close()
	both(t, func(t *testing.T, portable bool) {
		opts := opts
		opts.Portable = portable
		if _, _, err := run(t, opts); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%v", err)
		}
	})
}

func TestCancel(t *testing.T) {
	for _, scenario := range []string{"append", "fanout", "idle", "mixed", "catchup"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, portable bool) {
				ctx, cancel := context.WithCancel(t.Context())
				var gets atomic.Int64
				opts := small(serve(t, func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.Method != "PUT" && gets.Add(1) == 10 {
							cancel()
						}
						next.ServeHTTP(w, r)
					})
				}), scenario)
				opts.Portable, opts.Requests, opts.Duration = portable, 0, 30*time.Second
				start := time.Now()
				_, err := bench.Run(ctx, opts, new(strings.Builder))
				if !errors.Is(err, context.Canceled) || time.Since(start) > 10*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		})
	}
}

func TestCompare(t *testing.T) {
	opts := small(serve(t, nil), "append")
	opts.Compare, opts.Rounds, opts.PID, opts.ComparePID = serve(t, nil), 2, os.Getpid(), os.Getpid()
	opts.SyncDir = t.TempDir()
	report, out, err := run(t, opts)
	believed(t, report, out, err)
	var order []string
	for _, res := range report.Results {
		order = append(order, res.URL)
		if res.Disk == nil || res.Disk.Before.Count == 0 || res.Disk.After.Count == 0 {
			t.Errorf("the disk was not measured: %+v", res.Disk)
		}
	}
	if want := []string{opts.URL, opts.Compare, opts.URL, opts.Compare}; strings.Join(order, " ") != strings.Join(want, " ") {
		t.Errorf("measured in the order %q", order)
	}
	if len(report.Ratios) < 3 || report.Ratios[0].Figure != "rate" || report.Ratios[0].Rounds != 2 ||
		report.Ratios[0].Min > report.Ratios[0].Median || report.Ratios[0].Median > report.Ratios[0].Max {
		t.Errorf("%+v", report.Ratios)
	}
}

func TestPlainFile(t *testing.T) {
	file := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 100_000)) })
	}
	opts := small(serve(t, nil), "catchup")
	opts.Compare, opts.ComparePlain, opts.Rounds, opts.Requests = serve(t, file), true, 1, 40
	report, out, err := run(t, opts)
	believed(t, report, out, err)
	if len(report.Results) != 2 || report.Results[1].Bytes != 4*40*100_000 {
		t.Errorf("%s", out)
	}
}

func TestFormats(t *testing.T) {
	url := serve(t, nil)
	for _, format := range []string{"text", "json", "benchstat"} {
		t.Run(format, func(t *testing.T) {
			opts := small(url, "append")
			opts.Format, opts.PID = format, os.Getpid()
			report, out, err := run(t, opts)
			believed(t, report, out, err)
			var back bench.Report
			switch format {
			case "json":
				if err := json.Unmarshal([]byte(out), &back); err != nil || back.Results[0].Count != report.Results[0].Count {
					t.Errorf("%v: %s", err, out)
				}
			case "benchstat":
				if lines := strings.Split(out, "\n"); !strings.HasPrefix(lines[1], "BenchmarkAppend 200 ") || !strings.Contains(lines[1], " ns/op ") {
					t.Errorf("%s", out)
				}
			}
		})
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]func(o *bench.Options){
		"scenario":    func(o *bench.Options) { o.Scenario = "dance" },
		"format":      func(o *bench.Options) { o.Format = "xml" },
		"URL":         func(o *bench.Options) { o.URL = "https://127.0.0.1/v1/stream" },
		"size":        func(o *bench.Options) { o.Size = 8 },
		"connections": func(o *bench.Options) { o.Connections = 1 << 20 },
		"rate":        func(o *bench.Options) { o.Rate = -1 },
		"duration":    func(o *bench.Options) { o.Duration = 48 * time.Hour },
		"streams":     func(o *bench.Options) { o.Counts = []int{-1} },
		"deliveries":  func(o *bench.Options) { o.Scenario, o.Duration, o.Subscribers = "fanout", time.Hour, 60000 },
		"plain":       func(o *bench.Options) { o.Plain = true },
		"requests":    func(o *bench.Options) { o.Requests = -1 },
	}
	if err := (bench.Options{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	for name, change := range tests {
		var o bench.Options
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := bench.Run(t.Context(), o, new(strings.Builder)); err == nil {
			t.Errorf("%s: runs", name)
		}
	}
	for _, scenario := range bench.Scenarios() {
		if err := (bench.Options{Scenario: scenario}).Validate(); err != nil {
			t.Errorf("%s: %v", scenario, err)
		}
	}
}
