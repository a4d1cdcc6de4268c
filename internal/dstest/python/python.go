// Package python makes the environment in which tests run Python: the packages that a
// folder's requirements.txt names, in a folder .venv beside it.
package python

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"durablestreams/internal/dstest/node"
)

const installLimit = 5 * time.Minute

// usable asks whether this Python can run what the tests have, and make environments.
const usable = `import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))`

// Install installs what dir/requirements.txt says, unless that has been done, and gives
// the folder with the program python. Without a Python that can do that it says why not:
// unlike Go and Node.js, Python need not be there for the tests.
func Install(t *testing.T, dir string) (bin, missing string) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "python3", "-c", usable).Run(); err != nil {
		return "", "there is no Python 3.10 or newer with venv here (python3: " + err.Error() + ")"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "requirements.txt")
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Lock(t, name)()
	venv := filepath.Join(dir, ".venv")
	bin = filepath.Join(venv, "bin")
	stamp := filepath.Join(venv, "installed-from.txt")
	if got, err := os.ReadFile(stamp); err == nil && bytes.Equal(got, want) && works(t, bin) {
		return bin, ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", venv},
		{filepath.Join(bin, "python"), "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r", name},
	} {
		if out, err := node.Run(ctx, dir, nil, args[0], args[1:]...); err != nil {
			t.Fatalf("%q in %s: %v (it needs the Python package index once)\n%s", args, dir, err, out)
		}
	}
	if err := os.WriteFile(stamp, want, 0o644); err != nil {
		t.Fatal(err)
	}
	return bin, ""
}

// works tells whether the Python that an environment was made with is still there.
func works(t *testing.T, bin string) bool {
	return exec.CommandContext(t.Context(), filepath.Join(bin, "python"), "-c", "import durable_streams").Run() == nil
}
