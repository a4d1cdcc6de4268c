package store_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
	"durablestreams/stream"
)

// waiter turns a completion into a call.
type waiter struct {
	res stream.Result
	err error
	ok  chan struct{}
}

func (w *waiter) Complete(res stream.Result, err error) { w.res, w.err = res, err; close(w.ok) }

func apply(e *store.Engine, cmd stream.Command) (stream.Result, error) {
	w := &waiter{ok: make(chan struct{})}
	e.Apply(cmd, w)
	<-w.ok
	return w.res, w.err
}

func open(t *testing.T, fs vfs.FS) *store.Engine {
	t.Helper()
	e, err := store.Open(fs, "data", &store.Options{SegmentSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func readAll(t *testing.T, e *store.Engine, p stream.Path) string {
	t.Helper()
	snap, err := e.Stat(p, true)
	if err != nil {
		t.Fatal(err)
	}
	b := e.Read(snap, 0, snap.Tail)
	defer b.Close()
	var all []byte
	for {
		block, err := b.Next()
		if errors.Is(err, io.EOF) {
			return string(all)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, block...)
	}
}

func TestForksSurviveRestart(t *testing.T) {
	fs := vfs.NewMem()
	e := open(t, fs)
	must := func(_ stream.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(apply(e, &stream.Create{Path: "a", ContentType: "text/plain", Data: []byte("hello")}))
	for i := range 5000 {
		must(apply(e, &stream.Append{Path: "a", ContentType: "text/plain", HasBody: true, Data: fmt.Appendf(nil, " %d", i)}))
	}
	snap, err := e.Stat("a", false)
	if err != nil {
		t.Fatal(err)
	}
	must(apply(e, &stream.Create{Path: "f", Fork: &stream.ForkRequest{SourcePath: "a", Source: snap.ID, AskedOffset: "x", Point: 5}}))
	must(apply(e, &stream.Append{Path: "f", ContentType: "text/plain", HasBody: true, Data: []byte("X")}))
	whole := readAll(t, e, "a")
	must(apply(e, &stream.Delete{Path: "a"}))
	if got := readAll(t, e, "f"); got != "helloX" {
		t.Fatalf("fork reads %q", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, fs)
	if got := readAll(t, e, "f"); got != "helloX" {
		t.Fatalf("fork reads %q after restart", got)
	}
	if _, err := e.Stat("a", false); !errors.Is(err, stream.Gone) {
		t.Fatalf("deleted source: %v", err)
	}
	if len(whole) < 20000 {
		t.Fatal("short read of the source")
	}
	must(apply(e, &stream.Delete{Path: "f"}))
	if _, err := e.Stat("a", false); !errors.Is(err, stream.NotFound) {
		t.Fatalf("collected source: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := store.Check(fs, "data", nil)
	if err != nil || !r.OK() {
		t.Fatalf("check: %+v, %v", r, err)
	}
}

// What is in a data directory is for nobody but its owner, however it was made; one that
// was there before keeps its permissions.
func TestDataDirectoryIsTheOwnersAlone(t *testing.T) {
	perm := func(dir string) os.FileMode {
		t.Helper()
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	open := func(dir string) {
		t.Helper()
		e, err := store.Open(vfs.Default, dir, still())
		if err == nil {
			err = e.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	opened, restored, shared := filepath.Join(dir, "opened"), filepath.Join(dir, "restored"), filepath.Join(dir, "shared")
	open(opened)
	if err := store.BeginRestore(vfs.Default, restored); err != nil {
		t.Fatal(err)
	}
	if o, r := perm(opened), perm(restored); o != 0o700 || r != 0o700 {
		t.Errorf("a new one has %o, a restored one %o", o, r)
	}
	if err := errors.Join(os.Mkdir(shared, 0o700), os.Chmod(shared, 0o750)); err != nil {
		t.Fatal(err)
	}
	open(shared)
	if s := perm(shared); s != 0o750 {
		t.Errorf("one that was there has %o now", s)
	}
}
