package wire_test

import (
	"math"
	"testing"

	"durablestreams/internal/wire"
)

func TestAppendJSONArray(t *testing.T) {
	for framed, want := range map[string]string{
		"":                   "[]",
		"1,\n":               "[1]",
		"1,\n{\"a\":2},\n":   "[1,\n{\"a\":2}]",
		"\",\",\n\"\\n\",\n": "[\",\",\n\"\\n\"]",
	} {
		if got := wire.AppendJSONArray([]byte("dst"), []byte(framed)); string(got) != "dst"+want {
			t.Errorf("AppendJSONArray(%q) = %q, want %q", framed, got, want)
		}
	}
}

func TestCutMessages(t *testing.T) {
	const framed = "1,\n22,\n333,\n" // ends at 3, 7, 12
	for limit, want := range map[int]int{
		math.MinInt: 0, -1: 0, 0: 0, 1: 0, 2: 0, 3: 3, 4: 3, 6: 3, 7: 7, 11: 7, 12: 12, 13: 12, math.MaxInt: 12,
	} {
		if got := wire.CutMessages([]byte(framed), limit); got != want {
			t.Errorf("CutMessages(limit %d) = %d, want %d", limit, got, want)
		}
	}
	if got := wire.CutMessages(nil, 10); got != 0 {
		t.Errorf("CutMessages(nil) = %d", got)
	}
}

func TestNthMessageEnd(t *testing.T) {
	const framed = "1,\n22,\n333,\n"
	for _, tt := range []struct {
		n    uint64
		end  int
		seen uint64
	}{{0, 0, 0}, {1, 3, 1}, {2, 7, 2}, {3, 12, 3}, {4, 12, 3}, {math.MaxUint64, 12, 3}} {
		end, seen := wire.NthMessageEnd([]byte(framed), tt.n)
		if end != tt.end || seen != tt.seen {
			t.Errorf("NthMessageEnd(%d) = %d, %d; want %d, %d", tt.n, end, seen, tt.end, tt.seen)
		}
	}
	if end, seen := wire.NthMessageEnd(nil, 1); end != 0 || seen != 0 {
		t.Errorf("NthMessageEnd(nil) = %d, %d", end, seen)
	}
}

func FuzzFramed(f *testing.F) {
	f.Add([]byte("1,\n22,\n333,\n"), 7, uint64(2))
	f.Add([]byte(","), 1, uint64(1))
	f.Fuzz(func(t *testing.T, framed []byte, limit int, n uint64) {
		wire.AppendJSONArray(nil, framed)
		cut := wire.CutMessages(framed, limit)
		if cut < 0 || cut > len(framed) || cut > max(0, limit) || cut > 0 && framed[cut-1] != '\n' {
			t.Errorf("CutMessages(%q, %d) = %d", framed, limit, cut)
		}
		end, seen := wire.NthMessageEnd(framed, n)
		if end < 0 || end > len(framed) || seen > n || end > 0 && framed[end-1] != '\n' {
			t.Errorf("NthMessageEnd(%q, %d) = %d, %d", framed, n, end, seen)
		}
		if e, s := wire.NthMessageEnd(framed[:end], math.MaxUint64); e != end || s != seen {
			t.Errorf("NthMessageEnd(%q): the first %d messages count as %d", framed, seen, s)
		}
	})
}
