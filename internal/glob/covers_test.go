package glob_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"durablestreams/stream"
)

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		yes, no string // other patterns, separated by spaces
	}{
		{"**", "** * a a/* a/**/b */**", ""},
		{"*", "* a %2A", "** a/b */a a/**"},
		{"a/**", "a a/** a/* a/b/** a/**/c a/*/*", "** * b/** */a **/a ab/**"},
		{"a/*", "a/* a/b", "a a/** a/b/c */b"},
		{"a", "a", "* ** b A a/a"},
		{"**/a", "a b/a **/a */a b/**/a", "** a/b a/** *"},
		{"a/**/b", "a/b a/x/b a/**/b a/*/b a/**/x/b a/b/b", "a a/** a/**/c **/b"},
		{"*/**", "*/** a a/b a/** *", "**"},
		{"a%2Ab", "a%2ab", "a%2Bb *"},
		{"**/x/*/y/**", "x/a/y q/x/*/y/z/** x/x/y/y", "x/y x/**/y"},
	} {
		p := mustParse(t, tt.pattern)
		for other := range strings.FieldsSeq(tt.yes) {
			if !p.Covers(mustParse(t, other)) {
				t.Errorf("%q does not cover %q", tt.pattern, other)
			}
		}
		for other := range strings.FieldsSeq(tt.no) {
			if p.Covers(mustParse(t, other)) {
				t.Errorf("%q covers %q", tt.pattern, other)
			}
		}
	}
}

// What a covered pattern matches, the covering one matches.
func TestCoversIsSafe(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string {
		segments := make([]string, 1+r.IntN(4))
		for i := range segments {
			segments[i] = from[r.IntN(len(from))]
		}
		return strings.Join(segments, "/")
	}
	covered := 0
	for range 30_000 {
		p, other := mustParse(t, pick("a", "b", "*", "**")), mustParse(t, pick("a", "b", "*", "**"))
		if !p.Covers(other) {
			continue
		}
		covered++
		for range 10 {
			if path := stream.Path(pick("a", "b", "c")); other.Match(path) && !p.Match(path) {
				t.Fatalf("%q covers %q, which alone matches %q", p, other, path)
			}
		}
	}
	if covered < 1000 {
		t.Errorf("only %d pairs", covered)
	}
}
