package conformance_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/docs"
	"durablestreams/internal/dstest/node"
)

// TestSubscriptionsGuide does what docs/subscriptions.md says: its commands, its
// receivers and its worker, on ports that are free.
func TestSubscriptionsGuide(t *testing.T) {
	t.Setenv("DS_ADMIN_LISTEN", "off")
	dir := t.TempDir()
	if err := os.Symlink(buildServer(t, false), filepath.Join(dir, "ds")); err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer("8642", freePort(t), "9001", freePort(t), "9002", freePort(t), "node receiver.ts", "node receiver.mjs", "node worker.ts", "node worker.mjs")
	blocks := docs.Read(t, "../docs/subscriptions.md", "ts", "go")
	strip := []string{"strip-types.mjs"}
	programs := 0
	for _, b := range blocks {
		first, _, _ := strings.Cut(b.Text, "\n")
		name, named := strings.CutPrefix(first, "// ")
		if b.Lang == "sh" || b.Lang == "text" {
			continue
		}
		if programs++; !named || filepath.Ext(name) != "."+b.Lang {
			t.Fatalf("a program that does not say its name: %q", first)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(replace.Replace(b.Text)), 0o600); err != nil {
			t.Fatal(err)
		}
		if b.Lang == "ts" {
			strip = append(strip, file)
		}
	}
	if programs != 3 {
		t.Errorf("%d programs, want 3", programs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	node.Install(t, npmDir)
	if out, err := node.Run(ctx, npmDir, nil, "node", strip...); err != nil {
		t.Fatalf("take the types away: %v\n%s", err, out)
	}
	blocks = slices.DeleteFunc(blocks, func(b docs.Block) bool { return b.Lang != "sh" && b.Lang != "text" })
	docs.Paste(t, dir, blocks, replace)
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
}
