package node

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Reference runs the protocol's reference server until the test ends, from its folder
// conformance/reference, and gives the URL below which its streams are.
func Reference(t *testing.T, dir string) (root string) {
	t.Helper()
	Install(t, dir)
	cmd := exec.Command("node", "serve.mjs")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // it ends then
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	root, ok := strings.CutPrefix(strings.TrimSpace(line), "streams ")
	if !ok {
		t.Fatalf("the reference server says %q, %v", line, err)
	}
	return root
}
