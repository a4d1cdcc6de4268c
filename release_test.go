package durablestreams_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo writes down how it was asked to build, instead of building for minutes.
const fakeGo = `#!/bin/sh
case $1 in
version) cat "$3" ;;
build)
  for a; do test "$last" = -o && out=$a; last=$a; done
  commit=$(git rev-parse HEAD)
  test -z "$(git status --porcelain)" || commit="$commit and more"
  echo "$GOOS/$GOARCH cgo=$CGO_ENABLED $STAMP=$commit $*" > "$out" ;;
esac
`

// make release builds the last commit and nothing else, without C, for every target,
// and refuses a binary that does not know its commit. That the real compiler makes
// static binaries of it was seen by hand: it takes minutes.
func TestRelease(t *testing.T) {
	head, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Skipf("make release needs a git checkout, and this is none: %v", err)
	}
	commit := strings.TrimSpace(string(head))
	dir := t.TempDir()
	compiler, dist := filepath.Join(dir, "go"), filepath.Join(dir, "dist")
	if err := os.WriteFile(compiler, []byte(fakeGo), 0o755); err != nil {
		t.Fatal(err)
	}
	release := func(stamp string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "make", "release", "GO="+compiler, "DIST="+dist)
		cmd.Env = append(os.Environ(), "STAMP="+stamp, "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := release("vcs.revision")
	if err != nil {
		t.Fatalf("make release: %v\n%s", err, out)
	}
	for _, target := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"} {
		name := "ds-" + strings.ReplaceAll(target, "/", "-")
		got, err := os.ReadFile(filepath.Join(dist, name))
		want := target + " cgo=0 vcs.revision=" + commit + " build -buildvcs=true -trimpath "
		if err != nil || !strings.HasPrefix(string(got), want) || !strings.HasSuffix(string(got), name+" ./cmd/ds\n") {
			t.Errorf("%s is built by %q, %v; want %q…", name, got, err, want)
		}
	}
	sums := exec.CommandContext(t.Context(), "sha256sum", "--strict", "-c", "SHA256SUMS")
	sums.Dir = dist
	if checked, err := sums.CombinedOutput(); err != nil || bytes.Count(checked, []byte(": OK")) != 4 {
		t.Errorf("the checksums: %v\n%s", err, checked)
	}
	if out, err := release("nothing"); err == nil || !strings.Contains(out, "bears no stamp") {
		t.Errorf("a binary without its commit: %v\n%s", err, out)
	}
}
