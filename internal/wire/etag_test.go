package wire_test

import (
	"strings"
	"testing"

	"durablestreams/internal/wire"
)

func TestMatchETag(t *testing.T) {
	const etag = `"ab,c:1-2"`
	tests := []struct {
		name   string
		values []string
		match  bool
	}{
		{"none", nil, false},
		{"same", []string{etag}, true},
		{"weak", []string{"W/" + etag}, true},
		{"other", []string{`"zzz"`}, false},
		{"list", []string{`"zzz", ` + etag}, true},
		{"list without spaces", []string{`"zzz",W/` + etag + `,"y"`}, true},
		{"empty elements", []string{`, ,"zzz",	,` + etag + " ,"}, true},
		{"second line", []string{`"zzz"`, etag}, true},
		{"star", []string{"*"}, true},
		{"star with spaces", []string{" *\t"}, true},
		{"star on the second line", []string{`"zzz"`, "*"}, true},
		{"star in a list", []string{`"zzz", *`}, false},
		{"star in quotes", []string{`"*"`}, false},
		{"two stars", []string{"**"}, false},
		{"part of a tag", []string{`"ab"`, `"c:1-2"`, `"ab,c:1-2-gzip"`}, false},
		{"comma inside another tag", []string{`"x,"ab,c:1-2"`}, false},
		{"no quotes", []string{"ab,c:1-2"}, false},
		{"lower-case w", []string{"w/" + etag}, false},
		{"space behind W/", []string{"W/ " + etag}, false},
		{"not closed", []string{`"ab,c:1-2`}, false},
		{"no comma", []string{etag + ` "y"`}, false},
		{"junk behind", []string{etag + "x"}, false},
		{"space inside", []string{`"a b", ` + etag}, false},
		{"control inside", []string{"\"a\x00b\", " + etag}, false},
		{"backslash is no escape", []string{`"a\", ` + etag}, true},
		{"high bytes", []string{"\"\xe9\", " + etag}, true},
		{"fault in one line", []string{"junk", etag}, true},
		{"empty", []string{""}, false},
		{"only W/", []string{"W/"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := wire.MatchETag(tt.values, etag); got != tt.match {
				t.Errorf("MatchETag(%q) = %v", tt.values, got)
			}
			if got := wire.MatchETag(tt.values, "W/"+etag); got != tt.match {
				t.Errorf("MatchETag(%q) of a weak tag = %v", tt.values, got)
			}
			if wire.MatchETag(tt.values, "") {
				t.Errorf("MatchETag(%q) matches an answer without a tag", tt.values)
			}
		})
	}
}

func FuzzMatchETag(f *testing.F) {
	f.Add(`"a", W/"b"`, `"b"`)
	f.Add("*", `"b"`)
	f.Add(`"a`, `"`)
	f.Fuzz(func(t *testing.T, value, etag string) {
		match := wire.MatchETag([]string{value}, etag)
		if match && strings.Trim(value, " \t") != "*" && !strings.Contains(value, strings.TrimPrefix(etag, "W/")) {
			t.Errorf("%q is not in %q", etag, value)
		}
		// What was a list stays one with another tag in front.
		if match && strings.HasPrefix(value, `"`) && !wire.MatchETag([]string{`W/"x", ` + value}, etag) {
			t.Errorf("%q no longer matches %q behind another tag", value, etag)
		}
	})
}

func BenchmarkMatchETag(b *testing.B) {
	values := []string{`"00112233445566ff:1200-1300", W/"00112233445566ff:1300-1400"`}
	b.ReportAllocs()
	for b.Loop() {
		wire.MatchETag(values, `"00112233445566ff:1300-1400"`)
	}
}
