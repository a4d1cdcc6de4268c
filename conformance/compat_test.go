package conformance_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"durablestreams/internal/dstest/node"
)

// compatTests is what compat.test.mjs holds.
const compatTests = "4"

// TestCompatibility lets published packages that build on the protocol work against the
// server: the state package, the transports of two AI toolkits, and the Yjs provider.
func TestCompatibility(t *testing.T) {
	if testing.Short() {
		t.Skip("installs packages")
	}
	const dir = "compat"
	node.Install(t, dir)
	for _, setup := range setups(t) {
		t.Run(setup.name, func(t *testing.T) {
			s := startServer(t, buildServer(t, false), setup.args...)
			baseless := startServer(t, buildServer(t, false), "--in-memory", "--base-path", "/")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			out, err := node.Run(ctx, dir, []string{"STREAMS=" + s.Streams + "/", "BASELESS=" + baseless.origin()}, "node", "--test", "--test-force-exit", "--test-reporter=tap", "compat.test.mjs")
			passed := regexp.MustCompile(`(?m)^# pass (\d+)$`).FindStringSubmatch(out)
			if err != nil || passed == nil || passed[1] != compatTests {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
