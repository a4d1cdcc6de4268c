//go:build linux

package fastpath_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/dstest"
	"durablestreams/internal/wire"
	"durablestreams/store"
	"durablestreams/stream"
)

// openEngine opens an engine in memory that the test's end closes. fs may be nil.
func openEngine(t testing.TB, fs vfs.FS) *store.Engine {
	t.Helper()
	if fs == nil {
		fs = vfs.NewMem()
	}
	e, err := store.Open(fs, dstest.Dir, &store.Options{SameType: wire.SameMediaType, SegmentSize: 4 << 20, TailMemory: 16 << 20, CacheSize: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// archived gives an engine that has a stream "a" with these data on its disk only.
func archived(t testing.TB, data string) *store.Engine {
	t.Helper()
	fs := vfs.NewMem()
	e := openEngine(t, fs)
	dstest.MustApply(t, e, dstest.CreateText("a", ""))
	for len(data) > 0 {
		n := min(len(data), 64<<10)
		dstest.MustApply(t, e, dstest.Text("a", data[:n]))
		data = data[n:]
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openEngine(t, fs)
	if e.InMemory(stream.Path("a"), 0) {
		t.Fatal("it is in memory")
	}
	return e
}
