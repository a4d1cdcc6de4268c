package dstest

import (
	"testing"

	"durablestreams/store"
	"durablestreams/stream"
)

// OpenEngine opens an engine. When the test ends, the engine is closed and its
// disk checked. A nil o means the defaults.
func OpenEngine(t testing.TB, disk *Disk, o *store.Options) *store.Engine {
	t.Helper()
	e, err := store.Open(disk, Dir, o)
	if err != nil {
		t.Fatalf("open engine: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close engine: %v", err)
			return
		}
		CheckDisk(t, disk)
	})
	return e
}

// CheckDisk checks the data directory of a closed engine.
func CheckDisk(t testing.TB, disk *Disk) {
	t.Helper()
	r, err := store.Check(disk, Dir, nil)
	if err != nil {
		t.Errorf("check: %v", err)
		return
	}
	for _, p := range r.Problems {
		t.Errorf("check: %s: %s", p.Where, p.What)
	}
}

// MustApply applies a command that must succeed.
func MustApply(t testing.TB, e Applier, cmd stream.Command) stream.Result {
	t.Helper()
	res, err := Apply(e, cmd)
	if err != nil {
		t.Fatalf("%T: %v", cmd, err)
	}
	return res
}

// MustRead reads all of the stream at a path.
func MustRead(t testing.TB, e Reader, p stream.Path) string {
	t.Helper()
	data, _, err := ReadAll(e, p)
	if err != nil {
		t.Fatalf("read %s: %v", p, err)
	}
	return string(data)
}
