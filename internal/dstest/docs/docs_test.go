package docs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"durablestreams/internal/dstest/docs"
)

// What a block has started and not ended has ended when Paste returns.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	docs.Paste(t, dir, []docs.Block{
		{Lang: "sh", Text: "mkfifo held; exec 8<>held\n(trap '' TERM HUP; sleep 1000) >log 2>&1 &\necho started\n"},
		{Lang: "text", Text: "started\n"},
	}, strings.NewReplacer())
	held, err := os.OpenFile(filepath.Join(dir, "held"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if !errors.Is(err, syscall.ENXIO) { // nobody has it open for reading
		t.Errorf("the process in the background still runs: %v, %v", held, err)
	}
}
