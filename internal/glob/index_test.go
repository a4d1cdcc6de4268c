package glob_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"durablestreams/internal/glob"
	"durablestreams/stream"
)

var seed = flag.Uint64("seed", 0, "repeat the random tests with this seed")

// source gives random choices and prints how to get them again.
func source(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("repeat with: go test ./internal/glob -run %s -seed %d", t.Name(), s)
	return rand.New(rand.NewPCG(s, 0))
}

// naive matches by trying every way, on the texts themselves.
func naive(pattern, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	if pattern[0] == "**" {
		return naive(pattern[1:], path) || len(path) > 0 && naive(pattern, path[1:])
	}
	if len(path) == 0 {
		return false
	}
	star := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "%2A", "*"), "%2a", "*") }
	return (pattern[0] == "*" || star(pattern[0]) == star(path[0])) && naive(pattern[1:], path[1:])
}

func naiveMatch(pattern string, path stream.Path) bool {
	return naive(strings.Split(strings.TrimLeft(pattern, "/"), "/"), strings.Split(string(path), "/"))
}

func randomJoin(r *rand.Rand, longest int, from ...string) string {
	parts := make([]string, 1+r.IntN(longest))
	for i := range parts {
		parts[i] = from[r.IntN(len(from))]
	}
	return strings.Join(parts, "/")
}

func randomPattern(r *rand.Rand) string {
	return randomJoin(r, 6, "a", "b", "c", "%2A", "*", "**")
}
func randomPath(r *rand.Rand) stream.Path {
	return stream.Path(randomJoin(r, 7, "a", "b", "c", "*", "%2a"))
}

func TestMatchAgainstNaive(t *testing.T) {
	r := source(t)
	for range 20_000 {
		pattern, path := randomPattern(r), randomPath(r)
		if got, want := mustParse(t, pattern).Match(path), naiveMatch(pattern, path); got != want {
			t.Fatalf("%q on %q: %v, want %v", pattern, path, got, want)
		}
	}
}

func TestIndexAgainstNaive(t *testing.T) {
	r := source(t)
	for range 30 {
		var x glob.Index[int]
		type pair struct {
			pattern string
			id      int
		}
		there := map[pair]bool{}
		for range 300 {
			p := pair{randomPattern(r), r.IntN(4)}
			if r.IntN(3) > 0 {
				x.Add(mustParse(t, p.pattern), p.id)
				there[p] = true
			} else {
				x.Remove(mustParse(t, p.pattern), p.id)
				for other := range there {
					if other.id == p.id && samePlace(other.pattern, p.pattern) {
						delete(there, other)
					}
				}
			}
			path := randomPath(r)
			want := map[int]bool{}
			for p := range there {
				want[p.id] = want[p.id] || naiveMatch(p.pattern, path)
			}
			got := map[int]bool{}
			for _, id := range x.Lookup(path) {
				got[id] = true
			}
			for id := range 4 {
				if got[id] != want[id] {
					t.Fatalf("id %d for %q: %v, want %v, with %v", id, path, got[id], want[id], there)
				}
			}
		}
		for p := range there {
			x.Remove(mustParse(t, p.pattern), p.id)
		}
		if n := x.Nodes(); n != 1 {
			t.Fatalf("%d nodes are left of an empty index", n)
		}
	}
}

// samePlace tells whether two texts are one pattern apart from repeated **.
func samePlace(a, b string) bool {
	once := func(s string) []string {
		return slices.CompactFunc(strings.Split(s, "/"), func(a, b string) bool { return a == "**" && b == "**" })
	}
	return slices.Equal(once(a), once(b))
}

func TestLookupGivesPairsOnce(t *testing.T) {
	var x glob.Index[string]
	for _, pattern := range []string{"**", "**/**", "a/**", "**/a/**", "**/a/**/a/**", "*/a", "a/a"} {
		x.Add(mustParse(t, pattern), pattern)
		x.Add(mustParse(t, pattern), pattern)
	}
	got := x.Lookup("a/a")
	slices.Sort(got)
	want := []string{"**", "**/**", "**/a/**", "**/a/**/a/**", "*/a", "a/**", "a/a"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestLookupIsBoundedByTheTree(t *testing.T) {
	patterns, path := hostile()
	var x glob.Index[int]
	for i, pattern := range patterns {
		x.Add(mustParse(t, pattern), i)
	}
	if got := x.Lookup(path); got != nil {
		t.Errorf("found %v", got)
	}
	if widest, nodes := x.Widest(path), x.Nodes(); widest > nodes {
		t.Errorf("a lookup holds %d nodes of a tree of %d", widest, nodes)
	}
}

func TestIndexIsSafeForManyGoroutines(t *testing.T) {
	var x glob.Index[int]
	x.Add(mustParse(t, "a/**"), -1)
	var group sync.WaitGroup
	for id := range 4 {
		p := mustParse(t, fmt.Sprintf("**/%d/*", id))
		path := stream.Path(fmt.Sprintf("a/%d/x", id))
		group.Go(func() {
			for range 200 {
				x.Add(p, id)
				x.Remove(p, id)
			}
		})
		group.Go(func() {
			for range 200 {
				if got := x.Lookup(path); len(got) < 1 || len(got) > 2 {
					t.Errorf("%q is matched by %v", path, got)
				}
			}
		})
	}
	group.Wait()
}

func FuzzGlob(f *testing.F) {
	patterns, path := hostile()
	for _, p := range patterns {
		f.Add(p, string(path))
	}
	for _, p := range []string{"a/*", "**/a/**", "a/**/b", "%2A/b", "//*", "***", "a/%2f*"} {
		f.Add(p, "a/b/%2a")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := glob.Parse(pattern)
		if err != nil {
			return
		}
		again, err := glob.Parse(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q reads as %q, and that as %q, %v", pattern, p, again, err)
		}
		where, err := stream.ParsePath(path)
		if err != nil {
			return
		}
		matches := p.Match(where)
		if matches && !strings.HasPrefix(path, p.Prefix()) {
			t.Fatalf("%q matches %q against its prefix %q", pattern, path, p.Prefix())
		}
		var x glob.Index[int]
		x.Add(p, 1)
		if found := len(x.Lookup(where)); (found == 1) != matches || found > 1 {
			t.Fatalf("%q on %q: match %v, found %d times", pattern, path, matches, found)
		}
		if strings.Count(path, "/") < 12 { // the naive one has to end, too
			if want := naiveMatch(pattern, where); matches != want {
				t.Fatalf("%q on %q: %v, want %v", pattern, path, matches, want)
			}
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	for _, shape := range []string{"tenant-%d/events/*", "tenant-%d/**", "**/kind-%d", "*/%d/**/done"} {
		b.Run(strings.ReplaceAll(shape, "/", "|"), func(b *testing.B) {
			var x glob.Index[int]
			for i := range 10_000 {
				x.Add(mustParse(b, fmt.Sprintf(shape, i)), i)
			}
			for b.Loop() {
				x.Lookup("tenant-77/events/abc/done")
			}
		})
	}
}

func BenchmarkLookupHostile(b *testing.B) {
	patterns, path := hostile()
	var x glob.Index[int]
	for i, pattern := range patterns {
		x.Add(mustParse(b, pattern), i)
	}
	for b.Loop() {
		x.Lookup(path)
	}
}
