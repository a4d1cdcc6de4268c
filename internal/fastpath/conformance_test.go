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
	for name, opt := range map[string]fastpath.Options{
		"usual":  {},
		"narrow": {Loops: 1, Workers: 1, MaxBody: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, config{store: openEngine(t, nil), fast: opt, protocol: protocol.Options{LongPollTimeout: poll}})
			conformance.Run(t, conformance.Options{BaseURL: "http://" + s.addr, LongPollTimeout: poll})
		})
	}
}
