package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/dstest"
	"durablestreams/store"
)

// A store whose directory has another one in its place takes nothing any more.
func TestAnotherDirectory(t *testing.T) {
	root := t.TempDir()
	data, other := filepath.Join(root, "data"), filepath.Join(root, "other")
	open := func(dir string) *store.Engine {
		e, err := store.Open(vfs.Default, dir, &store.Options{SegmentSize: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		dstest.MustApply(t, e, dstest.CreateText("a", "x"))
		return e
	}
	if err := open(other).Close(); err != nil {
		t.Fatal(err)
	}
	e := open(data)
	if err := errors.Join(os.Rename(data, filepath.Join(root, "away")), os.Rename(other, data)); err != nil {
		t.Fatal(err)
	}
	e.LookAtSpace()
	if _, err := dstest.Apply(e, dstest.CreateText("b", "y")); err == nil {
		t.Error("it goes on")
	}
	_ = e.Close() // says why it could not go on
}
