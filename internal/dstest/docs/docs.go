// Package docs tries what documents say: it takes the fenced blocks of a Markdown
// file, runs the commands as somebody who pastes them, and compares what they print.
package docs

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Block is one fenced block of a document.
type Block struct{ Lang, Text string }

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// Read gives the blocks of a Markdown file in order. They are commands (sh), what the
// commands print (text), and programs in other languages that the test tries itself.
func Read(t *testing.T, name string, others ...string) (blocks []Block) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(string(content), -1) {
		if m[1] != "sh" && m[1] != "text" && !slices.Contains(others, m[1]) {
			t.Errorf("%s: a block of %q, which nobody tries", name, m[1])
		}
		blocks = append(blocks, Block{m[1], m[2]})
	}
	return blocks
}

const mark = "@@ end of block"

// limit is how long the commands of a document may take.
const limit = 3 * time.Minute

// Paste runs sh blocks in one shell, as somebody who pastes them one after the
// other, and compares what each prints with the text block behind it, in which …
// stands for anything.
func Paste(t *testing.T, dir string, blocks []Block, replace *strings.Replacer) {
	t.Helper()
	var script strings.Builder
	for _, b := range blocks {
		if b.Lang == "sh" {
			fmt.Fprintf(&script, "%s\necho '%s'\n", replace.Replace(b.Text), mark)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-eu", "-o", "pipefail", "-c", script.String())
	shell.Dir = dir
	shell.Env = append(os.Environ(), "CURL_HOME="+quietCurl(t))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = time.Second
	out, err := runToItsEnd(t, shell)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := strings.Split(strings.ReplaceAll(string(out), "\r", ""), mark+"\n")
	for i, b := range blocks {
		if b.Lang == "sh" {
			if len(printed) == 0 {
				t.Fatalf("no output for %q", b.Text)
			}
			continue
		}
		if i == 0 || blocks[i-1].Lang != "sh" {
			t.Fatalf("no commands before %q", b.Text)
		}
		n := 0
		for _, before := range blocks[:i] {
			if before.Lang == "sh" {
				n++
			}
		}
		want := `(?s)^\s*` + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(replace.Replace(b.Text))), "…", ".*") + `\s*$`
		if got := printed[n-1]; !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s\nprints\n%s\nand the text says\n%s", blocks[i-1].Text, got, b.Text)
		}
	}
}

// runToItsEnd runs a shell that leads its process group, kills what it has left behind,
// and waits until nothing of it runs and writes into directories that the test removes.
func runToItsEnd(t *testing.T, shell *exec.Cmd) (out []byte, err error) {
	t.Helper()
	// Whatever the shell starts has the other end of this pipe too.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	shell.ExtraFiles = []*os.File{w}
	out, err = shell.CombinedOutput()
	_ = w.Close()
	if shell.Process != nil {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	}
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Errorf("what the shell has started does not end: %v", err)
	}
	return out, err
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
