package stream_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"durablestreams/stream"
)

func TestParseOffsetRefuses(t *testing.T) {
	good := stream.Offset{Pos: 12345, Inc: 0xabcdef123456}.String()
	if _, err := stream.ParseOffset(good); err != nil {
		t.Fatalf("%s: %v", good, err)
	}
	for i := range good {
		for _, c := range []byte{'0', '1', 'a', 'f', 'A', 'g', '_', ' ', '+', '-', 0x80} {
			b := []byte(good)
			if b[i] == c {
				continue
			}
			b[i] = c
			if o, err := stream.ParseOffset(string(b)); err == nil {
				t.Errorf("%s was taken as %+v", b, o)
			}
		}
	}
	for _, s := range []string{"", "-1", "now", "0", good[:32], good + "0", strings.ToUpper(good), "9999999999999999_9999999999999999",
		"0000000000000000_0000000000000001", "0000000000000001_0000000000000000", "0000000000000000-0000000000000000"} {
		if _, err := stream.ParseOffset(s); !errors.Is(err, stream.InvalidOffset) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// Offsets of a stream sort as strings like positions, fit a URL and are never
// taken for a literal.
func TestOffsetsGrow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := plain(t, 1, "")
	f := forkOf(t, made(t, &stream.Create{Path: "b", ContentType: "text/plain", ID: 8, Incarnation: 1<<48 - 1, Data: make([]byte, 500)}, nil), 9, 300, "")
	for _, s := range []*stream.State{s, f} {
		var all []string
		for pos := uint64(0); pos < stream.MaxPosition; pos = pos*2 + rng.Uint64N(100) + 1 {
			all = append(all, s.OffsetAt(pos).String())
		}
		all = append(all, s.OffsetAt(stream.MaxPosition).String())
		if !slices.IsSorted(all) || len(slices.Compact(all)) != len(all) {
			t.Errorf("offsets do not grow: %v", all)
		}
		for _, o := range all {
			if len(o) != stream.OffsetLen || strings.ContainsAny(o, ",&=?/ #%+") || o <= stream.StartLiteral {
				t.Errorf("offset %q", o)
			}
		}
	}
}

// Which bytes a chain of forks shows, and whose offsets they have.
func TestLineage(t *testing.T) {
	a := plain(t, 1, "0123456789")
	b := forkOf(t, a, 2, 6, "abcdef") // 012345abcdef
	c := forkOf(t, b, 3, 9, "xyz")    // 012345abcxyz
	d := forkOf(t, b, 4, 4, "D")      // 0123D
	e := forkOf(t, c, 5, 6, "")       // 012345
	g := forkOf(t, e, 6, 0, "g")      // g
	owners := func(s *stream.State) string {
		var out []byte
		for _, sp := range s.Spans(nil, 0, s.Tail) {
			for range sp.To - sp.From {
				out = append(out, 'A'+byte(sp.ID-1))
			}
		}
		return string(out)
	}
	for _, x := range []struct {
		s    *stream.State
		want string
	}{{a, "AAAAAAAAAA"}, {b, "AAAAAABBBBBB"}, {c, "AAAAAABBBCCC"}, {d, "AAAAD"}, {e, "AAAAAA"}, {g, "F"}} {
		if got := owners(x.s); got != x.want {
			t.Errorf("stream %d: bytes of %s, want %s", x.s.ID, got, x.want)
		}
		// Every part of every stretch.
		for from := range x.s.Tail + 1 {
			for to := from; to <= x.s.Tail; to++ {
				var got string
				for _, sp := range x.s.Spans(nil, from, to) {
					if sp.From >= sp.To {
						t.Fatalf("stream %d: empty span %+v", x.s.ID, sp)
					}
					got += strings.Repeat(string('A'+byte(sp.ID-1)), int(sp.To-sp.From))
				}
				if got != x.want[from:to] {
					t.Errorf("stream %d, [%d, %d): %s", x.s.ID, from, to, got)
				}
			}
		}
		// An offset keeps its stream's name up to and at the point of divergence.
		for pos := range x.s.Tail + 1 {
			owner := x.s.ID
			if pos > 0 {
				owner = stream.ID(x.want[pos-1]-'A') + 1
			} else if x.s.Fork != nil && len(x.s.Fork.Lineage) > 0 {
				owner = x.s.Fork.Lineage[0].ID
			}
			o := x.s.OffsetAt(pos)
			if o.Pos != pos || o.Inc != stream.Incarnation(1000+owner) {
				t.Errorf("stream %d, offset at %d: %+v, want of stream %d", x.s.ID, pos, o, owner)
			}
			if got, err := x.s.Locate(o, x.s.Tail); err != nil || got != pos {
				t.Errorf("stream %d: own offset at %d is located at %d, %v", x.s.ID, pos, got, err)
			}
		}
	}
	for _, x := range []struct {
		name string
		s    *stream.State
		o    stream.Offset
		want error
	}{
		{"start of any stream", d, stream.Offset{}, nil},
		{"source's offset above the point", d, a.OffsetAt(5), stream.OffsetGone},
		{"fork's offset in its source", a, b.OffsetAt(7), stream.OffsetGone},
		{"inherited offset in the source", a, b.OffsetAt(6), nil},
		{"beyond the tail", a, a.OffsetAt(11), stream.InvalidOffset},
		{"sibling's", c, d.OffsetAt(5), stream.OffsetGone},
		{"former incarnation's", a, stream.Offset{Pos: 3, Inc: 4711}, stream.OffsetGone},
		{"former incarnation's beyond the tail", a, stream.Offset{Pos: 30, Inc: 4711}, stream.OffsetGone},
	} {
		_, err := x.s.Locate(x.o, x.s.Tail)
		if x.want == nil && err != nil || x.want != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
	}
}

func FuzzParseOffset(f *testing.F) {
	for _, s := range []string{"", "-1", stream.StartLiteral, stream.Offset{Pos: 1, Inc: 2}.String(),
		stream.Offset{Pos: stream.MaxPosition, Inc: 1<<48 - 1}.String(), "9999999999999999_9999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := stream.ParseOffset(s)
		if err == nil && o.String() != s {
			t.Errorf("%q parses to %+v, which is written %q", s, o, o)
		}
		if err == nil && o.Pos > stream.MaxPosition {
			t.Errorf("%q has position %d", s, o.Pos)
		}
	})
}

func FuzzOffsetRoundTrip(f *testing.F) {
	f.Add(uint64(0), uint64(1))
	f.Fuzz(func(t *testing.T, pos, inc uint64) {
		o := stream.Offset{Pos: pos % (stream.MaxPosition + 1), Inc: stream.Incarnation(inc>>16 | 1)}
		if got, err := stream.ParseOffset(o.String()); err != nil || got != o {
			t.Errorf("%+v is written %s and read as %+v, %v", o, o, got, err)
		}
	})
}

func ExampleOffset() {
	fmt.Println(stream.Offset{Pos: 5, Inc: 0x0123456789ab})
	// Output: 0000000000000005_0123456789abc857
}

func TestNewIncarnation(t *testing.T) {
	seen := map[byte]bool{}
	for i := range uint64(1000) {
		random := i * 0x9E3779B97F4A7C15
		inc := stream.NewIncarnation(random)
		half := stream.Offset{Pos: 7, Inc: inc}.String()[17:]
		if half[0] < 'a' || half[0] > 'f' {
			t.Fatalf("%x begins with a digit: %s", random, half)
		}
		if inc>>stream.IncarnationBits != 0 || stream.NewIncarnation(random^1) == inc {
			t.Fatalf("%x makes %x", random, inc)
		}
		seen[half[0]] = true
	}
	if len(seen) != 6 {
		t.Errorf("not all letters come: %v", seen)
	}
}
