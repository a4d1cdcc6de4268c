package durablestreams_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"durablestreams/internal/dstest/docs"
)

// TestEmbedding makes the program of docs/embedding.md, beside this checkout, and does
// with it what the text says.
func TestEmbedding(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(here, filepath.Join(dir, "ds")); err != nil {
		t.Fatal(err)
	}
	shop := filepath.Join(dir, "shop")
	if err := os.Mkdir(shop, 0o700); err != nil {
		t.Fatal(err)
	}
	ln := listen(t)
	replace := strings.NewReplacer("127.0.0.1:9010", ln.Addr().String())
	ln.Close()
	blocks := docs.Read(t, "docs/embedding.md", "go")
	for _, b := range blocks {
		if b.Lang != "go" {
			continue
		}
		name, ok := strings.CutPrefix(strings.SplitN(b.Text, "\n", 2)[0], "// ")
		if !ok {
			t.Fatalf("a program that does not say its name: %.40q", b.Text)
		}
		if err := os.WriteFile(filepath.Join(shop, name), []byte(replace.Replace(b.Text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GONOSUMDB", "*") // what the checkout has verified need not be looked up again
	docs.Paste(t, shop, slices.DeleteFunc(blocks, func(b docs.Block) bool { return b.Lang == "go" }), replace)
}
