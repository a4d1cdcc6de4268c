package durablestreams_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// block is one fenced block of a document.
type block struct{ lang, text string }

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// document gives the blocks of a Markdown file in order.
func document(t *testing.T, name string) (blocks []block) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(string(content), -1) {
		if m[1] != "sh" && m[1] != "text" {
			t.Errorf("%s: a block of %q, which nobody tries", name, m[1])
		}
		blocks = append(blocks, block{m[1], m[2]})
	}
	return blocks
}

const mark = "@@ end of block"

// paste runs sh blocks in one shell, as somebody who pastes them one after the
// other, and compares what each prints with the text block behind it, in which …
// stands for anything.
func paste(t *testing.T, dir string, blocks []block, replace *strings.Replacer) {
	t.Helper()
	var script strings.Builder
	for _, b := range blocks {
		if b.lang == "sh" {
			fmt.Fprintf(&script, "%s\necho '%s'\n", replace.Replace(b.text), mark)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-eu", "-o", "pipefail", "-c", script.String())
	shell.Dir = dir
	shell.Env = append(os.Environ(), "CURL_HOME="+quietCurl(t))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = time.Second
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := strings.Split(strings.ReplaceAll(string(out), "\r", ""), mark+"\n")
	for i, b := range blocks {
		if b.lang == "sh" {
			if len(printed) == 0 {
				t.Fatalf("no output for %q", b.text)
			}
			continue
		}
		if i == 0 || blocks[i-1].lang != "sh" {
			t.Fatalf("no commands before %q", b.text)
		}
		n := 0
		for _, before := range blocks[:i] {
			if before.lang == "sh" {
				n++
			}
		}
		want := `(?s)^\s*` + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(replace.Replace(b.text))), "…", ".*") + `\s*$`
		if got := printed[n-1]; !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s\nprints\n%s\nand the text says\n%s", blocks[i-1].text, got, b.text)
		}
	}
}

// quietCurl is a home for curl in which it is as quiet as on a terminal, and fails
// when a request does.
func quietCurl(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".curlrc"), []byte("silent\nshow-error\nfail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReadme does what README.md says, from the command that starts the server to
// the last line of curl.
func TestReadme(t *testing.T) {
	blocks := document(t, "README.md")
	if len(blocks) < 4 || blocks[0].text != "go run ./cmd/ds serve\n" || blocks[1].text != "make test\n" {
		t.Fatalf("README.md does not begin with its two commands: %q", blocks)
	}
	if out, err := exec.CommandContext(t.Context(), "make", "-n", "test").CombinedOutput(); err != nil {
		t.Errorf("make -n test: %v\n%s", err, out)
	}
	host := startAsDocumented(t, strings.Fields(blocks[0].text))
	paste(t, t.TempDir(), blocks[2:], strings.NewReplacer("127.0.0.1:8642", host))
}

// startAsDocumented runs the command in this folder, on a free port and with a
// temporary data directory, and gives the server's address.
func startAsDocumented(t *testing.T, command []string) (host string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "DS_LISTEN=127.0.0.1:0", "DS_DATA_DIR="+filepath.Join(t.TempDir(), "data"))
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

// TestRunning does what docs/running.md says, next to a binary.
func TestRunning(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "ds"), "./cmd/ds").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ln := listen(t)
	host := ln.Addr().String()
	ln.Close()
	paste(t, dir, document(t, "docs/running.md"), strings.NewReplacer("127.0.0.1:8642", host))
}
