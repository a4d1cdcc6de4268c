package journal_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/journal"
)

// copyPicture puts a picture into the journal directory of another file system.
func copyPicture(t *testing.T, fs vfs.FS, from string, files []journal.PictureFile) *vfs.MemFS {
	t.Helper()
	mem := newMem(t)
	if err := mem.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b := readFile(t, fs, fs.PathJoin(from, f.Name))
		if int64(len(b)) < f.Size {
			t.Fatalf("%s has %d bytes, the picture says %d", f.Name, len(b), f.Size)
		}
		w, err := mem.Create(mem.PathJoin(dir, f.Name), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(b[:f.Size])
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

func readFile(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

// takePicture takes one into a directory of its own.
func takePicture(t *testing.T, fs vfs.FS, j *journal.Journal, to string) ([]journal.PictureFile, uint64) {
	t.Helper()
	if err := fs.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	release := j.Hold()
	files, last, err := j.Picture(to)
	if err := errors.Join(err, release()); err != nil {
		t.Fatal(err)
	}
	return files, last
}

// Whatever a journal holds, its picture holds the same, and goes on holding it while the
// journal appends, rolls and lets segments go.
func TestPicture(t *testing.T) {
	for _, records := range []int{0, 1, 30, 100, 163} {
		for _, released := range []uint64{0, 20, 100} {
			t.Run(fmt.Sprint(records, " records, released ", released), func(t *testing.T) {
				fs := newMem(t)
				j, _ := mustOpen(t, fs, smallSegments, 0)
				fill(t, j, 1, records)
				from := min(released, uint64(records))
				if err := j.Release(from); err != nil {
					t.Fatal(err)
				}
				files, last := takePicture(t, fs, j, "/data/picture")
				if last != uint64(records) {
					t.Errorf("its last record is %d", last)
				}
				fill(t, j, records+1, records+300)
				if err := j.Release(uint64(records + 300)); err != nil {
					t.Fatal(err)
				}
				fill(t, j, records+301, records+600)
				at := copyPicture(t, fs, "/data/picture", files)
				if err := journal.Check(at, dir, from); err != nil {
					t.Fatal(err)
				}
				p, got := mustOpen(t, at, smallSegments, from)
				wantRecords(t, got, numbered(int(from)+1, records))
				fill(t, p, records+1, records+50)
				closeSound(t, p, at, from)
				closeSound(t, j, fs, uint64(records+300))
			})
		}
	}
}

// A file that a picture has is not written again, on file systems with real links too.
func TestPictureIsNotWritten(t *testing.T) {
	base := t.TempDir()
	at, to := base+"/journal", base+"/picture"
	j, err := journal.Open(vfs.Default, at, smallSegments, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, j, 1, 100)
	files, _ := takePicture(t, vfs.Default, j, to)
	before := map[string]string{}
	for _, f := range files {
		before[f.Name] = string(readFile(t, vfs.Default, to+"/"+f.Name)[:f.Size])
	}
	recycled := j.Stats().Recycled
	for i := range 10 {
		fill(t, j, 101+100*i, 200+100*i)
		if err := j.Release(uint64(200 + 100*i)); err != nil {
			t.Fatal(err)
		}
	}
	if j.Stats().Recycled == recycled {
		t.Error("no segment was used again at all")
	}
	for _, f := range files {
		if string(readFile(t, vfs.Default, to+"/"+f.Name)[:f.Size]) != before[f.Name] {
			t.Errorf("%s has changed", f.Name)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// A hold keeps segments, for as long as the last of several lasts.
func TestHold(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	fill(t, j, 1, 100)
	segments := j.Stats().Segments
	first, second := j.Hold(), j.Hold()
	want := func(held bool, when string) {
		t.Helper()
		if s := j.Stats(); held != (s.Segments == segments) || held != (s.FirstLSN == 1) {
			t.Errorf("%s: %d segments from record %d on", when, s.Segments, s.FirstLSN)
		}
	}
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	step(j.Release(90))
	step(j.Release(50)) // a late one
	want(true, "held twice")
	step(second())
	want(true, "held once")
	step(first())
	want(false, "not held")
	if s := j.Stats(); s.FirstLSN <= 51 || s.FirstLSN > 91 {
		t.Errorf("released up to record 90, it begins with %d", s.FirstLSN)
	}
	step(j.Hold()()) // nothing was released meanwhile
	closeSound(t, j, fs, 90)
}

// That the end of a picture has got lost is noticed.
func TestPictureIsNoted(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	fill(t, j, 1, 10)
	files, _ := takePicture(t, fs, j, "/data/picture")
	files[0].Size -= 100
	err := journal.Check(copyPicture(t, fs, "/data/picture", files), dir, 0)
	if _, ok := errors.AsType[*journal.CorruptionError](err); !ok {
		t.Errorf("check: %v", err)
	}
	closeSound(t, j, fs, 0)
}

// The picture of a journal that nobody has open, after an end in order and without one.
func TestPictureOf(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	fill(t, j, 1, 100)
	for _, from := range []uint64{0, 50, 100} {
		files, last, err := journal.PictureOf(fs, dir, from)
		if err != nil || last != 100 {
			t.Fatalf("from %d: up to %d, %v", from, last, err)
		}
		at := copyPicture(t, fs, dir, files)
		p, got := mustOpen(t, at, smallSegments, from)
		wantRecords(t, got, numbered(int(from)+1, 100))
		closeSound(t, p, at, from)
	}
	closeSound(t, j, fs, 0)
	if _, _, err := journal.PictureOf(fs, dir, 101); err == nil {
		t.Error("one that ends too early has a picture")
	}
	if files, last, err := journal.PictureOf(newMem(t), dir, 0); len(files) > 0 || last > 0 || err != nil {
		t.Errorf("of none: %v, %d, %v", files, last, err)
	}
}

// A journal that is closed, or has failed, has no picture.
func TestNoPicture(t *testing.T) {
	fs := newMem(t)
	j, _ := mustOpen(t, fs, smallSegments, 0)
	closeSound(t, j, fs, 0)
	if _, _, err := j.Picture("/data/picture"); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
