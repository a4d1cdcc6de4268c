package wire_test

import (
	"mime"
	"strings"
	"testing"

	"durablestreams/internal/wire"
)

func TestParseMediaType(t *testing.T) {
	long := "text/plain; p=" + strings.Repeat("x", wire.MaxMediaType-len("text/plain; p="))
	tests := []struct {
		in, essence string // "" = refused
	}{
		{"text/plain", "text/plain"},
		{"TEXT/Plain", "text/plain"},
		{"application/json ; charset=utf-8", "application/json"},
		{"application/json\t;\tcharset=utf-8", "application/json"},
		{"application/json;charset=\"utf-8\"", "application/json"},
		{`text/plain; a="x;y, \" \\ z"; b=c`, "text/plain"},
		{`text/plain; a=""`, "text/plain"},
		{"text/plain;", "text/plain"},
		{"text/plain; ;; a=b ;", "text/plain"},
		{" text/plain\t", "text/plain"},
		{"text/plain; a=\"\xe9\"", "text/plain"},
		{"application/vnd.api+json", "application/vnd.api+json"},
		{"x!#$%&'*+-.^_`|~1/y", "x!#$%&'*+-.^_`|~1/y"},
		{"*/*", "*/*"},
		{long, "text/plain"},

		{long + "x", ""},
		{"", ""},
		{" ", ""},
		{"text", ""},
		{"text/", ""},
		{"/plain", ""},
		{"/", ""},
		{"text /plain", ""},
		{"text/ plain", ""},
		{"text/plain/x", ""},
		{"text/plain junk", ""},
		{"text/plain, text/html", ""},
		{"text/plain; charset", ""},
		{"text/plain; charset=", ""},
		{"text/plain; =utf-8", ""},
		{"text/plain; charset =utf-8", ""},
		{"text/plain; charset= utf-8", ""},
		{"text/plain; a=b c", ""},
		{`text/plain; a="b`, ""},
		{`text/plain; a="b\`, ""},
		{`text/plain; a="b"c`, ""},
		{`text/plain; "b"`, ""},
		{"text/plain; a=\xe9", ""},
		{"text/pl\x00ain", ""},
		{"text/plain\n", ""},
		{"text/plain; a=\"\x01\"", ""},
		{"text/plain; a=\"\\\n\"", ""},
		{"text/plain; a=\"\x7f\"", ""},
		{"t\xc3\xa9xt/plain", ""},
		{"text/plain\x80", ""},
		{"not a content type", ""},
	}
	for _, tt := range tests {
		e, ok := wire.ParseMediaType(tt.in)
		if e != tt.essence || ok != (tt.essence != "") {
			t.Errorf("ParseMediaType(%q) = %q, %v; want %q", tt.in, e, ok, tt.essence)
		}
	}
}

func TestSameMediaType(t *testing.T) {
	tests := []struct {
		a, b string
		same bool
	}{
		{"text/plain", "text/plain", true},
		{"text/plain", "TEXT/plain; charset=utf-8", true},
		{"application/json ; charset=utf-8", "application/json", true},
		{"text/plain", "text/html", false},
		{"text/plain", "text/plainx", false},
		{"text/plain", "text", false},
		{"text", "text/plain", false},
		{"text/plain", "text/plain junk", false},
		{"text junk", "text ", false},
		{"text junk", "text junk", true},
		{"application/json", "application/vnd.api+json", false},
		{"application/\u212a", "application/k", false}, // the Kelvin sign folds to k
	}
	for _, tt := range tests {
		if got := wire.SameMediaType(tt.a, tt.b); got != tt.same {
			t.Errorf("SameMediaType(%q, %q) = %v", tt.a, tt.b, got)
		}
	}
}

func TestIsJSONIsText(t *testing.T) {
	tests := []struct {
		in         string
		json, text bool
	}{
		{"application/json", true, false},
		{"Application/JSON", true, false},
		{"application/json ; charset=utf-8", true, false},
		{"application/vnd.api+json", false, false},
		{"application/json5", false, false},
		{"application/x-ndjson", false, false},
		{"application/json junk", false, false},
		{"text/json", false, true},
		{"text/plain", false, true},
		{"TEXT/html; a=b", false, true},
		{"text/event-stream", false, true},
		{"text/", false, false},
		{"textual/plain", false, false},
		{"text/plain junk", false, false},
		{"application/octet-stream", false, false},
		{"", false, false},
	}
	for _, tt := range tests {
		if got := wire.IsJSON(tt.in); got != tt.json {
			t.Errorf("IsJSON(%q) = %v", tt.in, got)
		}
		if got := wire.IsText(tt.in); got != tt.text {
			t.Errorf("IsText(%q) = %v", tt.in, got)
		}
	}
}

func TestMediaTypeDoesNotAllocate(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		wire.ParseMediaType("application/json ; charset=utf-8")
		wire.SameMediaType("application/JSON", "application/json;charset=utf-8")
		wire.IsJSON("Application/Json; a=b")
		wire.IsText("Text/plain; a=b")
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzMediaType(f *testing.F) {
	for _, s := range []string{"text/plain", "a/b ; c=\"d\\\"\" ;; e=f", "text", "A/B;x", "\xff/\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, ok := wire.ParseMediaType(s)
		if !ok {
			if e != "" || wire.IsJSON(s) || wire.IsText(s) || wire.SameMediaType(s, s+" ") {
				t.Errorf("refused %q counts as a type", s)
			}
			return
		}
		if e2, ok := wire.ParseMediaType(e); !ok || e2 != e {
			t.Errorf("essence %q of %q reads as %q, %v", e, s, e2, ok)
		}
		if !wire.SameMediaType(s, e) || !wire.SameMediaType(e, s) {
			t.Errorf("%q is not the same as its essence", s)
		}
		if wire.IsJSON(s) != (e == "application/json") || wire.IsText(s) != strings.HasPrefix(e, "text/") {
			t.Errorf("%q: kind differs from that of its essence", s)
		}
		if m, _, err := mime.ParseMediaType(s); err == nil && m != e {
			t.Errorf("%q: essence %q, package mime says %q", s, e, m)
		}
	})
}

func BenchmarkSameMediaType(b *testing.B) {
	for _, bb := range []struct{ name, a, b string }{
		{"equal", "application/json", strings.Clone("application/json")},
		{"parameters", "application/json", "application/json; charset=utf-8"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				wire.SameMediaType(bb.a, bb.b)
			}
		})
	}
}
