package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/backup"
	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// still are options of an engine that flushes only when it is told to.
func still() *store.Options {
	return &store.Options{SegmentSize: 64 << 10, CacheSize: 1 << 20, FlushInterval: 50 * time.Millisecond, TailMemory: 16 << 10}
}

// fill makes streams with content of some size.
func fill(t *testing.T, e *store.Engine, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		dstest.MustApply(t, e, dstest.CreateText(pathOf(i), contentOf(i)))
	}
}

func pathOf(i int) stream.Path { return stream.Path(fmt.Sprint("s/", i)) }
func contentOf(i int) string   { return strings.Repeat(fmt.Sprint(i, ";"), 1+i%7*1000) }
func newSet(t *testing.T, disk *dstest.Disk, e *store.Engine) *backup.Set {
	t.Helper()
	p, err := e.Picture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, err := backup.NewSet(disk, dstest.Dir, p)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// tarOf gives a backup as it goes over the wire.
func tarOf(t *testing.T, disk *dstest.Disk, e *store.Engine, sums *backup.Sums, have []backup.File) []byte {
	t.Helper()
	set := newSet(t, disk, e)
	var b bytes.Buffer
	_, err := sums.Send(t.Context(), &b, set, have, "test")
	if err := errors.Join(err, set.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// take backs an engine up.
func take(t *testing.T, disk *dstest.Disk, e *store.Engine, sums *backup.Sums, fs vfs.FS) *backup.Taken {
	t.Helper()
	d := open(t, fs)
	defer done(t, d)
	have, err := d.Have()
	if err != nil {
		t.Fatal(err)
	}
	taken, err := d.Take(bytes.NewReader(tarOf(t, disk, e, sums, have)))
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

const dest = "backups"

func open(t *testing.T, fs vfs.FS) *backup.Destination {
	t.Helper()
	d, err := backup.Open(fs, dest)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func done(t *testing.T, d *backup.Destination) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// sound checks that all backups are what they should be.
func sound(t *testing.T, fs vfs.FS, backups int) {
	t.Helper()
	d, err := backup.Look(fs, dest)
	if err != nil {
		t.Fatal(err)
	}
	list, err := d.List()
	if err != nil || len(list) != backups {
		t.Errorf("%d backups, want %d (%v)", len(list), backups, err)
	}
	damage, files, err := d.Verify()
	if err != nil || len(damage) > 0 || backups > 0 && files == 0 {
		t.Errorf("verified %d files: %v, %v", files, damage, err)
	}
}

// restore restores a backup to a directory on the same disk.
func restore(t *testing.T, fs vfs.FS, number int, dir string) {
	t.Helper()
	d, err := backup.Look(fs, dest)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Find(number)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Restore(e, dir); err != nil {
		t.Fatal(err)
	}
	r, err := store.Check(fs, dir, nil)
	if err != nil || !r.OK() {
		t.Fatalf("check: %+v, %v", r, err)
	}
}

// wantStreams opens a directory and compares streams with what fill has made.
func wantStreams(t *testing.T, fs vfs.FS, dir string, n int, not ...int) {
	t.Helper()
	e, err := store.Open(fs, dir, still())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range n {
		if got := dstest.MustRead(t, e, pathOf(i)); got != contentOf(i) {
			t.Errorf("%s: stream %d has %d bytes, want %d", dir, i, len(got), len(contentOf(i)))
		}
	}
	for _, i := range not {
		if _, err := e.Stat(pathOf(i), false); !errors.Is(err, stream.NotFound) {
			t.Errorf("%s: stream %d: %v", dir, i, err)
		}
	}
}

// putFile makes a file as a server does.
func putFile(t *testing.T, fs vfs.FS, path, content string) {
	t.Helper()
	if err := fs.MkdirAll(fs.PathDir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte(content))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, fs vfs.FS, path string) string {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}
