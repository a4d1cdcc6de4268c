//go:build linux

package fastpath_test

import (
	"testing"
	"time"

	"durablestreams/conformance"
	"durablestreams/internal/fastpath"
	"durablestreams/internal/protocol"
)

// TestConformance runs the whole protocol suite over the fast path.
func TestConformance(t *testing.T) {
	const poll = 3 * time.Second
	for name, cfg := range map[string]config{
		"usual":  {},
		"narrow": {fast: fastpath.Options{Loops: 1, MaxBody: 100}, protocol: protocol.Options{MaxReads: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.store, cfg.protocol.LongPollTimeout = openEngine(t, nil), poll
			s := start(t, cfg)
			conformance.Run(t, conformance.Options{BaseURL: "http://" + s.addr, LongPollTimeout: poll})
		})
	}
}
