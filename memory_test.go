package durablestreams_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"durablestreams"
)

// A server in memory has a size. When it is full changes are refused, reads and
// deletions go on, and so do changes when there is room again.
func TestFullMemory(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true, MaxMemory: 16 << 20, TailMemory: 1 << 20, SegmentSize: 256 << 10})
	const gone, kept = streamA + "/gone", streamA + "/kept"
	mustDo(t, s, http.StatusCreated, http.MethodPut, gone, strings.Repeat("g", 3<<20))
	mustDo(t, s, http.StatusCreated, http.MethodPut, kept, "")
	until := func(want int, more string) (taken int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ctx.Err() == nil {
			switch got, answer := do(s.Handler(), http.MethodPost, kept, strings.NewReader(more), "Content-Type", "text/plain"); {
			case got == http.StatusNoContent && want == got:
				return taken + len(more)
			case got == http.StatusNoContent:
				taken += len(more)
			case got == want:
				return taken
			case got != http.StatusServiceUnavailable && got != http.StatusInsufficientStorage:
				t.Fatalf("%d %s", got, answer)
			}
		}
		t.Fatalf("no %d, after %d bytes", want, taken)
		return 0
	}
	taken := until(http.StatusInsufficientStorage, strings.Repeat("k", 64<<10))
	if taken < 1<<20 || taken > 13<<20 {
		t.Errorf("full after %d bytes beside 3 MiB, in 16 MiB", taken)
	}
	if got := mustDo(t, s, http.StatusOK, http.MethodGet, kept, ""); len(got) != 1<<20 {
		t.Errorf("a page of %d bytes", len(got))
	}
	mustDo(t, s, http.StatusNoContent, http.MethodDelete, gone, "")
	until(http.StatusNoContent, strings.Repeat("k", 64<<10))
}
