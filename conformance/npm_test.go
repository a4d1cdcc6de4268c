package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"durablestreams/internal/dstest/node"
)

// officialTests is what the pinned official suite holds. A change of the pin changes it.
const officialTests = 338

const npmDir = "npm"

// vitestReport is the part of vitest's JSON report that is judged.
type vitestReport struct {
	Success     bool
	TestResults []struct {
		Message          string
		AssertionResults []struct {
			FullName        string
			AncestorTitles  []string
			Status          string
			FailureMessages []string
		}
	}
}

// outcome counts a report by status and lists what failed.
func (r *vitestReport) outcome() (count map[string]int, skipped map[string]int, failures []string) {
	count, skipped = map[string]int{}, map[string]int{}
	for _, file := range r.TestResults {
		if len(file.AssertionResults) == 0 {
			failures = append(failures, file.Message)
		}
		for _, test := range file.AssertionResults {
			count[test.Status]++
			switch test.Status {
			case "passed":
			case "skipped", "pending":
				skipped[strings.Join(test.AncestorTitles, " > ")]++
			default:
				failures = append(failures, fmt.Sprintf("%s: %s\n\t%s", test.Status, test.FullName, strings.Join(test.FailureMessages, "\n\t")))
			}
		}
	}
	return count, skipped, failures
}

// runVitest runs one test file and gives its report.
func runVitest(t *testing.T, file string, limit time.Duration, env ...string) *vitestReport {
	t.Helper()
	node.Install(t, npmDir)
	reportFile := filepath.Join(t.TempDir(), "report.json")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, runErr := node.Run(ctx, npmDir, env,
		"node", filepath.Join("node_modules", "vitest", "vitest.mjs"), "run", file, "--reporter=json", "--outputFile="+reportFile)
	data, err := os.ReadFile(reportFile)
	if err != nil {
		t.Fatalf("vitest %s left no report: %v (%v)\n%s", file, runErr, err, out)
	}
	var report vitestReport
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatalf("read the report of vitest %s: %v", file, err)
	}
	if runErr != nil && report.Success {
		t.Errorf("vitest %s reports success and ends with %v\n%s", file, runErr, out)
	}
	return &report
}

// setup is a way to run the server, all of which have to speak the same.
type setup struct {
	name string
	args []string
	disk bool // survives a kill
}

// setups are both storage engines behind the event loops (where the system has
// them), and the plain net/http adapter.
func setups(t *testing.T) []setup {
	return []setup{
		{"disk", []string{"--data-dir", filepath.Join(t.TempDir(), "data")}, true},
		{"memory", []string{"--in-memory"}, false},
		{"net-http", []string{"--no-fast-path", "--data-dir", filepath.Join(t.TempDir(), "data")}, true},
	}
}

// TestOfficial runs the suite that the protocol's authors publish. Its fork tests
// name sources as /v1/stream/..., so the server runs without a base path.
func TestOfficial(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for a minute")
	}
	for _, setup := range append(setups(t), setup{"net-http, memory", []string{"--no-fast-path", "--in-memory"}, false}) {
		t.Run(setup.name, func(t *testing.T) {
			s := startServer(t, buildServer(t, false), append(setup.args, "--base-path", "/", "--long-poll-timeout", "300ms", "--webhook-allow-local")...)
			report := runVitest(t, "official.test.ts", 5*time.Minute, "DS_URL="+s.origin())
			count, skipped, failures := report.outcome()
			for _, f := range failures {
				t.Error(f)
			}
			if count["passed"] != officialTests || len(skipped) > 0 {
				t.Errorf("%d tests passed, want %d: %v, skipped %v", count["passed"], officialTests, count, skipped)
			}
			t.Logf("official suite, %s: %v", setup.name, count)
		})
	}
}

// TestTypeScriptClient lets the published client work a day against the server.
// On disk the server is killed and started again below the client's feet.
func TestTypeScriptClient(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for a minute")
	}
	for _, setup := range setups(t) {
		t.Run(setup.name, func(t *testing.T) {
			s := startServer(t, buildServer(t, false), setup.args...)
			env := []string{"DS_STREAMS=" + s.Streams}
			if setup.disk {
				env = append(env, "DS_CONTROL="+restartControl(t, s))
			}
			count, skipped, failures := runVitest(t, "client.test.ts", 4*time.Minute, env...).outcome()
			for _, f := range failures {
				t.Error(f)
			}
			if count["passed"] < 12 || len(skipped) > 0 && setup.disk {
				t.Errorf("too few tests ran: %v, skipped %v", count, skipped)
			}
		})
	}
}

// restartControl lets a test in another process crash and restart the server.
func restartControl(t *testing.T, s *server) (url string) {
	var mu sync.Mutex
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodPost || r.URL.Path != "/restart" {
			http.NotFound(w, r)
			return
		}
		if err := s.restart(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(control.Close)
	return control.URL
}
