package durablestreams_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"durablestreams/internal/dstest/docs"
)

// TestReadme does what README.md says, from the command that starts the server to
// the last line of curl.
func TestReadme(t *testing.T) {
	blocks := docs.Read(t, "README.md")
	if len(blocks) < 4 || blocks[0].Text != "go run ./cmd/ds serve\n" || blocks[1].Text != "make test\n" {
		t.Fatalf("README.md does not begin with its two commands: %q", blocks)
	}
	if out, err := exec.CommandContext(t.Context(), "make", "-n", "test").CombinedOutput(); err != nil {
		t.Errorf("make -n test: %v\n%s", err, out)
	}
	host := startAsDocumented(t, strings.Fields(blocks[0].Text))
	docs.Paste(t, t.TempDir(), blocks[2:], strings.NewReplacer("127.0.0.1:8642", host))
}

// startAsDocumented runs the command in this folder, on a free port and with a
// temporary data directory, and gives the server's address.
func startAsDocumented(t *testing.T, command []string) (host string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "DS_LISTEN=127.0.0.1:0", "DS_ADMIN_LISTEN=127.0.0.1:0", "DS_DATA_DIR="+filepath.Join(t.TempDir(), "data"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	url := regexp.MustCompile(`^streams +http://([^/]+)/`)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if m := url.FindStringSubmatch(lines.Text()); m != nil {
			return m[1]
		}
	}
	t.Fatalf("%s ends without a URL\n%s", strings.Join(command, " "), &stderr)
	return ""
}

// TestRunning and the others do what the guides for operators say, next to a binary.
func TestRunning(t *testing.T) { pasteGuide(t, "docs/running.md") }
func TestObserve(t *testing.T) { pasteGuide(t, "docs/observe.md") }
func TestOperate(t *testing.T) { pasteGuide(t, "docs/operate.md") }

func TestTenantsGuide(t *testing.T) { pasteGuide(t, "docs/tenants.md") }

func TestAccessGuide(t *testing.T) { pasteGuide(t, "docs/access.md", "toml") }

func TestPageGuide(t *testing.T) { pasteGuide(t, "docs/page.md") }

// TestCommandLine does what docs/cli.md says, while a server runs.
func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "ds"), "./cmd/ds").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	host := startAsDocumented(t, []string{filepath.Join(dir, "ds"), "serve"})
	found := docs.Block{Lang: "sh", Text: "PATH=$PWD:$PATH\n"}
	docs.Paste(t, dir, append([]docs.Block{found}, docs.Read(t, "docs/cli.md")...), strings.NewReplacer("127.0.0.1:8642", host))
}

func pasteGuide(t *testing.T, name string, others ...string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "ds"), "./cmd/ds").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ln, admin := listen(t), listen(t)
	ln.Close()
	admin.Close()
	host, operators := ln.Addr().String(), admin.Addr().String()
	blocks := slices.DeleteFunc(docs.Read(t, name, others...), func(b docs.Block) bool { return slices.Contains(others, b.Lang) })
	docs.Paste(t, dir, blocks, strings.NewReplacer("--listen 127.0.0.1:8642", "--admin-listen "+operators+" --listen "+host,
		"./ds serve --access-file", "./ds serve --admin-listen "+operators+" --listen "+host+" --access-file",
		"127.0.0.1:8642", host, "127.0.0.1:8643", operators, "--listen 127.0.0.1:0", "--admin-listen off --listen 127.0.0.1:0"))
}
