package lint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"durablestreams/internal/lint"
)

// root is the repository seen from this package.
const root = "../.."

// sources lists every file that is tracked or could be, without ignored ones.
func sources(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v (the rules are checked in a git checkout)", err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(names) < 5 {
		t.Fatalf("git lists only %q", names)
	}
	return names
}

func read(t *testing.T, name string) (content []byte, exists bool) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if os.IsNotExist(err) {
		return nil, false // deleted, not yet committed
	}
	if err != nil {
		t.Fatal(err)
	}
	return content, true
}

func TestTree(t *testing.T) {
	var files []*lint.File
	var findings []lint.Finding
	all := map[string]string{}
	for _, name := range sources(t) {
		content, exists := read(t, name)
		if !exists {
			continue
		}
		all[name] = string(content)
		if strings.HasPrefix(name, "docs/images/") && strings.HasSuffix(name, ".png") {
			continue // pictures of the page
		}
		if bytes.IndexByte(content, 0) >= 0 && !strings.Contains(name, "testdata/") {
			findings = append(findings, lint.Finding{File: name, Line: 1, Text: "is binary: keep built files out of git, generate test data, or put it below testdata/"})
			continue
		}
		findings = append(findings, lint.Places(name, string(content))...)
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		f, err := lint.Parse(name, content)
		if err != nil {
			t.Error(err)
			continue
		}
		files = append(files, f)
		for _, rule := range []func(*lint.File) []lint.Finding{lint.Imports, lint.Harnesses, lint.Size, lint.Calls, lint.Variables} {
			findings = append(findings, rule(f)...)
		}
	}
	findings = append(findings, lint.PackageComments(files)...)
	findings = append(findings, lint.Links(all)...)
	for _, f := range findings {
		t.Error(f)
	}
}
