package glob_test

import (
	"errors"
	"strings"
	"testing"

	"durablestreams/internal/glob"
	"durablestreams/stream"
)

func mustParse(t testing.TB, text string) glob.Pattern {
	t.Helper()
	p, err := glob.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return p
}

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern string
		yes, no string // paths, separated by spaces
	}{
		{"events", "events", "event events2 events/a Events a/events"},
		{"events/*", "events/a events/%2F events/* events/a%20b", "events events/a/b event/a x/events/a"},
		{"/events/*", "events/a", "events"},
		{"*", "a %2A abc", "a/b"},
		{"*/*", "a/b", "a a/b/c"},
		{"**", "a a/b a/b/c", ""},
		{"**/**", "a a/b a/b/c", ""},
		{"a/**", "a a/b a/b/c", "b ab ab/c b/a"},
		{"**/a", "a b/a b/c/a a/a", "b a/b ba"},
		{"a/**/b", "a/b a/x/b a/x/y/b a/b/b a/b/x/b", "a b a/b/x x/a/b"},
		{"a/**/*", "a/b a/b/c", "a"},
		{"a/*/**", "a/b a/b/c", "a"},
		{"**/*", "a a/b", ""},
		{"*/**/*", "a/b a/b/c", "a"},
		{"**/a/**", "a a/b b/a b/a/c", "b b/c ab"},
		{"**/a/*/b/**", "a/x/b y/a/x/b/z a/a/b/b a/a/x/b", "a/b a/x/y/b"},
		{"**/a/**/a/**", "a/a a/b/a b/a/a/b", "a b/a a/b"},
		{"a/**/b/**/c", "a/b/c a/x/b/y/c a/b/c/b/c a/b/b/c", "a/c a/c/b b/c a/b/c/d"},
		{"a%2Fb", "a%2Fb", "a/b a%2fb"},
		{"a/%2A", "a/* a/%2A a/%2a", "a/b a/%252A"},
		{"%2A%2a", "** %2A* *%2a", "a *"},
		{"a%2Ab/*", "a*b/c a%2ab/c", "axb/c"},
	}
	for _, tt := range tests {
		p := mustParse(t, tt.pattern)
		for path := range strings.FieldsSeq(tt.yes) {
			if !p.Match(stream.Path(path)) {
				t.Errorf("%q does not match %q", tt.pattern, path)
			}
			if !strings.HasPrefix(path, p.Prefix()) {
				t.Errorf("%q matches %q, which does not begin with its prefix %q", tt.pattern, path, p.Prefix())
			}
		}
		for path := range strings.FieldsSeq(tt.no) {
			if p.Match(stream.Path(path)) {
				t.Errorf("%q matches %q", tt.pattern, path)
			}
		}
	}
}

func TestPrefix(t *testing.T) {
	for pattern, want := range map[string]string{
		"a/b/c": "a/b/c", "a/b/*": "a/b/", "a/b/**": "a/b", "a/*/c": "a/", "a/**/c": "a",
		"*": "", "**": "", "**/a": "", "a": "a", "//a/*": "a/", "a/b%2Ac/d": "a/", "%2A": "", "a%2F/*": "a%2F/",
	} {
		if got := mustParse(t, pattern).Prefix(); got != want {
			t.Errorf("the prefix of %q is %q, want %q", pattern, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		pattern string
		kind    stream.Kind
		says    string
	}{
		{"", stream.InvalidPath, "empty"},
		{"/", stream.InvalidPath, "empty"},
		{"a//b", stream.InvalidPath, "empty segment"},
		{"a/", stream.InvalidPath, "empty segment"},
		{"a/../b", stream.InvalidPath, "dot segment"},
		{"a/%2e/b", stream.InvalidPath, "dot segment"},
		{"a/%zz", stream.InvalidPath, "percent-encoding"},
		{"a b", stream.InvalidPath, "percent-encoded"},
		{"a/*?x", stream.InvalidPath, "percent-encoded"},
		{"ä/*", stream.InvalidPath, "percent-encoded"},
		{"__ds/**", stream.Reserved, "__ds"},
		{"/%5F_ds/**", stream.Reserved, "__ds"},
		{"agent-*", stream.InvalidPath, "inside a segment"},
		{"a/*b/c", stream.InvalidPath, "inside a segment"},
		{"***", stream.InvalidPath, "inside a segment"},
		{"a/**b", stream.InvalidPath, "inside a segment"},
		{strings.Repeat("a/", 512) + "a", stream.InvalidPath, "1024"},
		{strings.Repeat("a/", glob.MaxSegments) + "a", stream.InvalidPath, "64 segments"},
		{strings.Repeat("**/a/", glob.MaxDeep) + "**", stream.InvalidPath, "8 times"},
	}
	for _, tt := range tests {
		_, err := glob.Parse(tt.pattern)
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Parse(%q) = %v; want %q that says %q", tt.pattern, err, tt.kind, tt.says)
		}
	}
	mustParse(t, strings.Repeat("a/", glob.MaxSegments-1)+"a")
	mustParse(t, strings.Repeat("**/a/", glob.MaxDeep-1)+"**")
	mustParse(t, strings.Repeat("**/", 300)+"a")
}

func TestZeroPatternMatchesNothing(t *testing.T) {
	var p glob.Pattern
	for _, path := range []stream.Path{"", "a", "a/b"} {
		if p.Match(path) {
			t.Errorf("matches %q", path)
		}
	}
	var x glob.Index[int]
	x.Add(p, 1)
	if got := x.Lookup("a"); got != nil {
		t.Errorf("found as %v", got)
	}
	x.Remove(p, 1)
}

// hostile are patterns that take a matcher which tries all ways longer than anybody
// waits, and a path that none of them matches.
func hostile() (patterns []string, path stream.Path) {
	for _, unit := range []string{"**/a/", "**/a/*/", "**/*/a/", "**/a/a/a/"} {
		patterns = append(patterns, strings.Repeat(unit, glob.MaxDeep)+"b")
	}
	return patterns, stream.Path(strings.Repeat("a/", stream.MaxPathLen/2-1) + "a")
}

func TestMatchOfHostilePatternsEnds(t *testing.T) {
	patterns, path := hostile()
	for _, pattern := range patterns {
		if mustParse(t, pattern).Match(path) {
			t.Errorf("%q matches", pattern)
		}
	}
}
