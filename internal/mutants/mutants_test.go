package mutants_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository seen from this package.
const root = "../.."

// mutant is one change of one file that breaks a promise.
type mutant struct {
	name    string
	promise string // that is broken
	file    string // slash-separated, in the repository
	old     string // occurs exactly once in the file
	new     string
	caught  suite // has to fail
}

// suite is what go test runs against a mutant. Its choices must be the same on
// every run, so that a mutant is caught always or never.
type suite struct {
	packages []string
	run      string // as for -run; empty: everything
}

func in(run string, packages ...string) suite { return suite{packages: packages, run: run} }

// The suites that should catch whole kinds of faults. They cannot catch what is
// wrong in package stream, whose rules their model takes from there.
var (
	histories     = in("TestHistories|TestCrowds", "./internal/metamorphic")
	crashPictures = in("TestCrashes|TestCrashAfterCrash|TestFaults", "./internal/journal")
	rules         = in("", "./stream")
)

func corpus() []mutant {
	return slices.Concat(streamMutants, journalMutants, archiveMutants, storeMutants, protocolMutants, adapterMutants, clientMutants, guardMutants)
}

// apply gives the file's text with the change made.
func (m *mutant) apply(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		t.Fatalf("the old text of this mutant occurs %d times in %s and must occur once: the code has moved on, so say anew how to break the promise %q.\nold text:\n%s",
			n, m.file, m.promise, m.old)
	}
	return strings.Replace(string(b), m.old, m.new, 1)
}

// The corpus fits the code as it is now: every change can be made, and the tests
// that are to catch it exist.
func TestCorpus(t *testing.T) {
	names := map[string]bool{}
	for _, m := range corpus() {
		t.Run(m.name, func(t *testing.T) {
			if names[m.name] {
				t.Error("there are two of this name")
			}
			names[m.name] = true
			if m.promise == "" {
				t.Error("it does not say which promise it breaks")
			}
			if _, err := parser.ParseFile(token.NewFileSet(), m.file, m.apply(t), parser.SkipObjectResolution); err != nil {
				t.Errorf("the changed file does not parse: %v", err)
			}
			for _, p := range m.caught.packages {
				checkRun(t, m.caught.run, p)
			}
		})
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// checkRun checks that every alternative of a pattern names a test of the package.
func checkRun(t *testing.T, run, pkg string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testFunc.FindAllSubmatch(b, -1) {
			tests = append(tests, string(found[1]))
		}
	}
	top, _, _ := strings.Cut(run, "/")
	for name := range strings.SplitSeq(top, "|") {
		matches := regexp.MustCompile(name).MatchString
		if !slices.ContainsFunc(tests, matches) {
			t.Errorf("%s has no test %q", pkg, name)
		}
	}
}
