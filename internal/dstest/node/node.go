// Package node runs JavaScript that tests need: it installs the packages that a
// folder's lock file names, and starts programs in a way that ends them.
package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	installLimit = 5 * time.Minute
	outputDelay  = 5 * time.Second // for what a killed program's children still hold
)

// Install installs the packages of dir as its lock file says, unless that has been
// done. Nothing is skipped when node is missing: what needs it is part of the tests.
func Install(t *testing.T, dir string) {
	t.Helper()
	defer Lock(t, filepath.Join(dir, "package.json"))()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is not installed: the tests need Node.js 20 or newer with npm", tool)
		}
	}
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(b)
	}
	want := hex.EncodeToString(sum.Sum(nil))
	stamp := filepath.Join(dir, "node_modules", ".installed-from")
	if got, err := os.ReadFile(stamp); err == nil && string(got) == want {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	if out, err := Run(ctx, dir, nil, "npm", "ci", "--no-audit", "--no-fund"); err != nil {
		t.Fatalf("npm ci in %s: %v (it needs the npm registry once)\n%s", dir, err, out)
	}
	if err := os.WriteFile(stamp, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Beside gives a temporary folder with a script in it that finds the packages installed
// in dir, for scripts that are not in dir themselves.
func Beside(t *testing.T, dir, script string) (workdir string) {
	t.Helper()
	Install(t, dir)
	packages, err := filepath.Abs(filepath.Join(dir, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	workdir = t.TempDir()
	if err := os.WriteFile(filepath.Join(workdir, filepath.Base(script)), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages, filepath.Join(workdir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return workdir
}

// Lock takes a file for this test, among those of other packages too.
func Lock(t *testing.T, name string) (unlock func()) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatalf("lock %s: %v", name, err)
	}
	return func() { _ = f.Close() }
}

// Run runs a program in dir until it ends or ctx does, and gives its whole output. Its
// children end with it.
func Run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputDelay
	out, err := cmd.CombinedOutput()
	return string(out), err
}
