package mutants_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCaught runs the tests that are to catch each mutant against it. A mutant
// reaches the compiler as an overlay: no file of the tree is touched.
func TestCaught(t *testing.T) {
	if os.Getenv("DS_MUTANTS") == "" {
		t.Skip("takes many minutes: make mutants, or DS_MUTANTS=1")
	}
	t.Run("unchanged", testUnchanged)
	if t.Failed() {
		t.Fatal("the suites fail without any mutant")
	}
	for _, m := range corpus() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			testCaught(t, &m)
		})
	}
}

// Without a change every suite passes, and is not empty: else a mutant would seem
// to be caught.
func testUnchanged(t *testing.T) {
	var done []suite
	for _, m := range corpus() {
		s := m.caught
		if slices.ContainsFunc(done, func(d suite) bool { return d.run == s.run && slices.Equal(d.packages, s.packages) }) {
			continue
		}
		done = append(done, s)
		t.Run(s.run, func(t *testing.T) {
			t.Parallel()
			if res := s.test(t, ""); res.failed || res.tests == 0 {
				t.Errorf("%d tests ran, failed: %v %s\n%s", res.tests, res.failed, res.by, res.output)
			}
		})
	}
}

func testCaught(t *testing.T, m *mutant) {
	overlay := m.overlay(t)
	build := exec.CommandContext(t.Context(), "go", "build", "./"+path.Dir(m.file))
	build.Dir, build.Env = root, environment(overlay)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the mutant does not compile: %v\n%s", err, out)
	}
	res := m.caught.test(t, overlay)
	switch {
	case res.tests == 0:
		t.Fatalf("no test ran\n%s", res.output)
	case !res.failed:
		t.Fatalf("SURVIVED: %s, and none of the %d tests saw it.\nfile %s\nold:\n%s\nnew:\n%s",
			m.promise, res.tests, m.file, m.old, m.new)
	}
	t.Logf("caught by %s", res.by)
}

// overlay writes the changed file and what tells the compiler of it.
func (m *mutant) overlay(t *testing.T) (file string) {
	t.Helper()
	dir := t.TempDir()
	changed := filepath.Join(dir, path.Base(m.file))
	original, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "overlay.json")
	if err := errors.Join(os.WriteFile(changed, []byte(m.apply(t)), 0o600), os.WriteFile(file, list, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

// environment passes an overlay on to every go command, those of tests that build
// the server themselves included.
func environment(overlay string) []string {
	env := append(os.Environ(), "JOURNAL_SEED=1", "JOURNAL_ROUNDS=100")
	if overlay != "" {
		env = append(env, fmt.Sprintf("GOFLAGS=%s -overlay=%s", os.Getenv("GOFLAGS"), overlay))
	}
	return env
}

// result is what a run of a suite has come to.
type result struct {
	failed bool
	by     string // first test that failed, or how else it ended
	tests  int
	output string
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, FailedBuild string
}

// test runs the suite over an overlay, "" for none.
func (s suite) test(t *testing.T, overlay string) result {
	t.Helper()
	args := append([]string{"test", "-json", "-count=1", "-failfast", "-vet=off", "-timeout=60s", "-run", s.run}, s.packages...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = root, environment(overlay)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var res result
	for lines := json.NewDecoder(pipe); ; {
		var e event
		if err := lines.Decode(&e); err != nil {
			break // the end, or what is no event: Wait says how it went
		}
		res.add(t, &e)
	}
	if _, err = io.Copy(io.Discard, pipe); err == nil {
		err = cmd.Wait()
	}
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	res.failed = err != nil
	return res
}

// maxOutput bounds what is kept of a run: a mutant may make a test talk without end.
const maxOutput = 64 << 10

func (r *result) add(t *testing.T, e *event) {
	if len(r.output) < maxOutput {
		r.output += e.Output
	}
	switch {
	case e.FailedBuild != "":
		t.Fatalf("tests of %s do not build with the mutant", e.Package)
	case e.Action == "run":
		r.tests++
	case strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: "):
		r.by = strings.TrimSpace(fmt.Sprintf("%s (%s) %s", r.by, e.Test, e.Output))
	case e.Action == "fail" && r.by == "":
		r.by = e.Test
	}
}
