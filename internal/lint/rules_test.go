package lint_test

import (
	"strings"
	"testing"

	"durablestreams/internal/lint"
)

// each applies a rule to one source text.
func each(rule func(*lint.File) []lint.Finding) func(t *testing.T, name, src string) []lint.Finding {
	return func(t *testing.T, name, src string) []lint.Finding {
		t.Helper()
		f, err := lint.Parse(name, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		return rule(f)
	}
}

func packages(fs *lint.File) []lint.Finding { return lint.PackageComments([]*lint.File{fs}) }

// TestRules shows that every rule can fail, and what it leaves alone.
func TestRules(t *testing.T) {
	const long = "package a\n"
	tests := []struct {
		what string
		rule func(*lint.File) []lint.Finding
		file string
		src  string
		want string // part of the only finding, "" for none
	}{
		{"upward import", lint.Imports, "stream/a.go", `package stream; import "durablestreams/store"`, "stream may not import durablestreams/store: the rules about a stream's state are pure"},
		{"protocol and store", lint.Imports, "internal/protocol/a.go", `package protocol; import "durablestreams/store"`, "It never imports store"},
		{"client and server", lint.Imports, "client/a.go", `package client; import "durablestreams"`, "must not get the server"},
		{"client and another module", lint.Imports, "client/a.go", `package client; import "github.com/alecthomas/kong"`, "client may not import github.com/alecthomas/kong"},
		{"journal and streams", lint.Imports, "internal/journal/a.go", `package journal; import "durablestreams/stream"`, "knows bytes, not streams"},
		{"journal and the archive's database", lint.Imports, "internal/journal/a.go", `package journal; import "github.com/cockroachdb/pebble/v2"`, "may not import"},
		{"journal and the disk seam", lint.Imports, "internal/journal/a.go", `package journal; import "github.com/cockroachdb/pebble/v2/vfs"`, ""},
		{"archive and its database", lint.Imports, "internal/archive/a.go", `package archive; import ("github.com/cockroachdb/pebble/v2/sstable"; "durablestreams/stream")`, ""},
		{"module of like name", lint.Imports, "internal/archive/a.go", `package archive; import "github.com/cockroachdb/pebble/v2x"`, "may not import"},
		{"downward import", lint.Imports, "httpapi/a.go", `package httpapi; import ("net/http"; "durablestreams/internal/protocol")`, ""},
		{"unknown package", lint.Imports, "internal/misc/a.go", `package misc`, "no row in the import table"},
		{"tests may import all", lint.Imports, "stream/a_test.go", `package stream; import "durablestreams/store"`, ""},
		{"harness may import all", lint.Imports, "internal/dstest/a.go", `package dstest; import "durablestreams"`, ""},

		{"testing in production", lint.Harnesses, "store/a.go", `package store; import "testing"`, "move this code to a _test.go file"},
		{"testing in a sub-package", lint.Harnesses, "store/a.go", `package store; import "testing/fstest"`, "testing/fstest"},
		{"testing in conformance", lint.Harnesses, "conformance/a.go", `package conformance; import "testing"`, ""},
		{"testing in the model", lint.Harnesses, "internal/metamorphic/a.go", `package metamorphic; import "testing"`, "only tests"},
		{"harness in production", lint.Harnesses, "internal/cli/a.go", `package cli; import "durablestreams/conformance"`, "would end up in the ds binary"},
		{"harness in a harness", lint.Harnesses, "internal/metamorphic/a.go", `package metamorphic; import "durablestreams/internal/dstest"`, ""},
		{"harness in a test", lint.Harnesses, "internal/cli/a_test.go", `package cli; import ("testing"; "durablestreams/internal/dstest")`, ""},

		{"long file", lint.Size, "store/a.go", long + strings.Repeat("\n", lint.MaxLines), "find the second idea"},
		{"file at the limit", lint.Size, "store/a.go", long + strings.Repeat("\n", lint.MaxLines-1), ""},
		{"long test", lint.Size, "store/a_test.go", long + strings.Repeat("\n", lint.MaxLines), ""},

		{"no package comment", packages, "store/a.go", "package store", "package store has no comment"},
		{"package comment", packages, "store/a.go", "// Package store keeps.\npackage store", ""},
		{"tests need none", packages, "store/a_test.go", "package store", ""},

		{"init", lint.Calls, "store/a.go", `package store; func init() {}`, "no init functions"},
		{"init in a test", lint.Calls, "store/a_test.go", `package store; func init() {}`, "no init functions"},
		{"method called init", lint.Calls, "store/a.go", `package store; func (t T) init() {}`, ""},
		{"printing", lint.Calls, "store/a.go", `package store; func f() { fmt.Println() }`, "take an io.Writer"},
		{"standard output", lint.Calls, "internal/cli/a.go", `package cli; func f() { use(os.Stdout) }`, "no os.Stdout below cmd"},
		{"exit", lint.Calls, "internal/cli/a.go", `package cli; func f() { os.Exit(1) }`, "let main decide"},
		{"fatal log", lint.Calls, "store/a.go", `package store; func f() { log.Fatalf("") }`, "return the error"},
		{"main prints and exits", lint.Calls, "cmd/ds/main.go", `package main; func main() { fmt.Println(os.Stdout); os.Exit(1) }`, ""},
		{"example prints", lint.Calls, "store/a_test.go", `package store; func Example() { fmt.Println() }`, ""},
		{"writing to a writer", lint.Calls, "store/a.go", `package store; func f() { fmt.Fprintln(w) }`, ""},
		{"sleep", lint.Calls, "store/a.go", `package store; func f() { time.Sleep(1) }`, "no time.Sleep"},
		{"sleep in a test", lint.Calls, "store/a_test.go", `package store; func f() { time.Sleep(1) }`, "synctest bubble"},
		{"sleep in main", lint.Calls, "cmd/ds/main.go", `package main; func f() { time.Sleep(1) }`, "no time.Sleep"},
		{"sleep in virtual time", lint.Calls, "store/a_test.go", `package store; import "testing/synctest"; func f() { time.Sleep(1) }`, ""},
		{"sleep while watching a process", lint.Calls, "internal/dstest/a.go", `package dstest; func f() { time.Sleep(1) }`, ""},

		{"counter", lint.Variables, "store/a.go", `package store; var n int`, "package variable n"},
		{"mutable default", lint.Variables, "store/a.go", `package store; var Default = 64 << 20`, "a constant"},
		{"error without value", lint.Variables, "store/a.go", `package store; var errLast error`, "errLast"},
		{"shared client", lint.Variables, "store/a.go", `package store; var c = http.DefaultClient`, "package variable c"},
		{"opened at start", lint.Variables, "store/a.go", `package store; var f, _ = os.Open("x")`, "package variable f"},
		{"group", lint.Variables, "store/a.go", "package store\nvar (\n\tErrA = errors.New(\"a\")\n\tlast time.Time\n)", "package variable last"},
		{"errors", lint.Variables, "store/a.go", `package store; var ErrA, errB = errors.New("a"), &Error{}`, ""},
		{"interface check", lint.Variables, "store/a.go", `package store; var _ io.Reader = (*R)(nil)`, ""},
		{"table", lint.Variables, "store/a.go", `package store; var t = map[string]int{"a": 1}`, ""},
		{"array by index", lint.Variables, "store/a.go", `package store; var t = [...]string{1: "a"}`, ""},
		{"computed table", lint.Variables, "store/a.go", `package store; var t = crc32.MakeTable(crc32.Castagnoli)`, ""},
		{"built table", lint.Variables, "store/a.go", `package store; var t = buildClasses()`, ""},
		{"bytes", lint.Variables, "store/a.go", `package store; var sep = []byte(",\n")`, ""},
		{"pool", lint.Variables, "store/a.go", `package store; var p = sync.Pool{New: f}`, ""},
		{"zero pool", lint.Variables, "store/a.go", `package store; var p sync.Pool`, ""},
		{"embedded file", lint.Variables, "internal/web/a.go", "package web\n\n//go:embed index.html\nvar page string", ""},
		{"inside a function", lint.Variables, "store/a.go", `package store; func f() { var n int; _ = n }`, ""},
		{"in a test", lint.Variables, "store/a_test.go", `package store; var n int`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			found := each(tt.rule)(t, tt.file, tt.src)
			switch {
			case tt.want == "" && len(found) > 0:
				t.Errorf("found %v, want nothing", found)
			case tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].Text, tt.want)):
				t.Errorf("found %v, want one finding with %q", found, tt.want)
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	const home, host = "/ro" + "ot/", "registry." + "npmjs.org"
	tests := []struct {
		line string
		want string
	}{
		{"see " + home + "notes.md", home + "notes.md"},
		{"path=\"/wo" + "rk/main\"", "/wo" + "rk/main"},
		{"/ho" + "me/me/x", "folder of one machine"},
		{`"resolved": "https://` + host + `/a.tgz"`, host},
		{"https://example.test" + home + "x", ""},
		{"." + "/wo" + "rk/x and network/root/", ""}, // in pieces, or it would be found itself
		{"/durable-streams/v1/stream/work/x", ""},
	}
	for _, tt := range tests {
		found := lint.Places("a.md", "first\n"+tt.line+"\n")
		switch {
		case tt.want == "" && len(found) > 0:
			t.Errorf("%q: found %v, want nothing", tt.line, found)
		case tt.want != "" && (len(found) != 1 || found[0].Line != 2 || !strings.Contains(found[0].Text, tt.want)):
			t.Errorf("%q: found %v, want one on line 2 with %q", tt.line, found, tt.want)
		}
	}
}

func TestLinks(t *testing.T) {
	files := map[string]string{
		"README.md": "# One: `two` & three\n", "docs/a.md": "## I want a proxy\n\n```sh\n# no heading\n```\n", "docs/design/b.go": "package b\n",
	}
	tests := []struct{ line, want string }{
		{"[a](a.md) [b](design/b.go) [c](design) [d](../README.md) [e](https://example.test/x.md) [f](#here)", ""},
		{"[a](a.md#i-want-a-proxy) [d](../README.md#one-two--three) and `[x](none.md)`", ""},
		{"```\n[x](none.md)\n```", ""},
		{"[x](none.md)", "no docs/none.md"},
		{"![x](../images/x.png)", "no images/x.png"},
		{"[x](a.md#no-heading)", "no heading"},
		{"[x](#there)", "no heading"},
	}
	for _, tt := range tests {
		files["docs/page.md"] = "# Here\n" + tt.line + "\n"
		found := lint.Links(files)
		switch {
		case tt.want == "" && len(found) > 0:
			t.Errorf("%q: found %v, want nothing", tt.line, found)
		case tt.want != "" && (len(found) != 1 || found[0].File != "docs/page.md" || found[0].Line != 2 || !strings.Contains(found[0].Text, tt.want)):
			t.Errorf("%q: found %v, want one on line 2 with %q", tt.line, found, tt.want)
		}
	}
}
