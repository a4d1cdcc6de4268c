package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

func picture(t *testing.T, e *store.Engine) *store.Picture {
	t.Helper()
	p, err := e.Picture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func pictureDisk(t *testing.T, p *store.Picture) *dstest.Disk {
	t.Helper()
	disk, err := dstest.CopyPicture(p)
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

func leave(t *testing.T, p *store.Picture) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A picture of an engine at every step of a flush opens as what the engine had.
func TestPicture(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, small())
	empty := picture(t, e)
	checkAfter(t, pictureDisk(t, empty), small(), nil, "empty")
	leave(t, empty)
	want := richHistory(t, e)
	last := uint64(0)
	for left := 1; left > 0; {
		var err error
		if left, err = e.FlushFirst(); err != nil {
			t.Fatal(err)
		}
		p := picture(t, e)
		if last = max(last, p.LastRecord); last != p.LastRecord || last == 0 {
			t.Errorf("its last record is %d, after %d", p.LastRecord, last)
		}
		checkAfter(t, pictureDisk(t, p), small(), want, fmt.Sprintf("picture with %d streams to go", left))
		leave(t, p)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	p := picture(t, e)
	checkAfter(t, pictureDisk(t, p), small(), want, "picture after the flush")
	// It stays what it is while the engine goes on.
	for i := range 50 {
		dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprint("later/", i)), strings.Repeat("x", 10<<10)))
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	remove(t, e, "g", "closed")
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	checkAfter(t, pictureDisk(t, p), small(), want, "old picture")
	leave(t, p)
	leave(t, p) // again
	if files := disk.Files("data/pictures"); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
}

// Lasting files have the same content in every picture that has them, and there are some.
func TestPictureLasting(t *testing.T) {
	e := dstest.OpenEngine(t, dstest.NewDisk(), small())
	seen := map[string]string{}
	again := 0
	for i := range 12 {
		dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprint("s/", i)), strings.Repeat(fmt.Sprint(i), 10<<10)))
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		p := picture(t, e)
		if !slices.IsSortedFunc(p.Files, func(a, b store.PictureFile) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("files are out of order: %v", p.Files)
		}
		for _, f := range p.Files {
			if !f.Lasting {
				continue
			}
			r, err := p.Open(f)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			if err := errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			before, known := seen[f.Name]
			if known {
				again++
			}
			if known && before != string(b) || int64(len(b)) != f.Size || len(b) == 0 {
				t.Errorf("%s has changed, or has %d bytes, not %d", f.Name, len(b), f.Size)
			}
			seen[f.Name] = string(b)
		}
		leave(t, p)
	}
	if again == 0 {
		t.Error("no file was in two pictures")
	}
}

// Pictures taken while many append: each stream is a beginning of what was sent, with
// everything acknowledged before. Rows and streams of one change are both there.
func TestPictureUnderLoad(t *testing.T) {
	const writers, pictures = 8, 12
	o := small()
	o.FlushInterval, o.TailMemory = 5*time.Millisecond, 64<<10
	for name, fs := range map[string]vfs.FS{"in memory": dstest.NewDisk(), "real files": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			dir := dstest.Dir
			if fs == vfs.Default {
				dir = t.TempDir() + "/data"
			}
			e, err := store.Open(fs, dir, o)
			if err != nil {
				t.Fatal(err)
			}
			acked := make([]int, writers)
			var mu sync.Mutex
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for w := range writers {
				p := stream.Path(fmt.Sprint("w", w))
				dstest.MustApply(t, e, dstest.CreateText(p, ""))
				wg.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						if _, err := dstest.Apply(e, dstest.Text(p, fmt.Sprintf("%0*d;", 6+i%200, i))); err != nil {
							t.Errorf("append: %v", err)
							return
						}
						mu.Lock()
						acked[w] = i + 1
						mu.Unlock()
					}
				})
			}
			for range pictures {
				mu.Lock()
				before := slices.Clone(acked)
				mu.Unlock()
				disk, err := dstest.TakePicture(e)
				if err != nil {
					t.Error(err)
					break
				}
				wantWriters(t, disk, before)
			}
			stop()
			wg.Wait()
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// wantWriters checks what TestPictureUnderLoad has written.
func wantWriters(t *testing.T, disk *dstest.Disk, acked []int) {
	t.Helper()
	dstest.CheckDisk(t, disk)
	e := dstest.OpenEngine(t, disk, small())
	for w, least := range acked {
		data := dstest.MustRead(t, e, stream.Path(fmt.Sprint("w", w)))
		n := 0
		for ; data != ""; n++ {
			var ok bool
			if data, ok = strings.CutPrefix(data, fmt.Sprintf("%0*d;", 6+n%200, n)); !ok {
				t.Errorf("writer %d: after %d appends there is %.30q", w, n, data)
				return
			}
		}
		if n < least {
			t.Errorf("writer %d: %d appends, %d were acknowledged", w, n, least)
		}
	}
}

// What fails while a picture is taken is the picture's trouble, not the engine's, and
// leaves nothing.
func TestPictureFaults(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, small())
	want := richHistory(t, e)
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	dstest.MustApply(t, e, dstest.CreateText("more", "m"))
	want["more"] = "m"
	errDisk := errors.New("the disk is not in the mood")
	for n, failed := 0, true; failed; n++ {
		failed = false
		left := n
		var mu sync.Mutex
		disk.OnOp(func(op dstest.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if !strings.Contains(op.Path, "pictures") || op.Name == "remove" || failed {
				return nil
			}
			if left--; left < 0 {
				failed = true
				return errDisk
			}
			return nil
		})
		p, err := e.Picture(t.Context())
		disk.OnOp(nil)
		switch {
		case failed && err == nil: // a link that fails is a copy
			checkAfter(t, pictureDisk(t, p), small(), want, fmt.Sprintf("fault %d", n))
			leave(t, p)
		case failed && !errors.Is(err, errDisk):
			t.Fatalf("fault %d: %v", n, err)
		case !failed && err != nil:
			t.Fatal(err)
		case !failed:
			leave(t, p)
			if n < 10 {
				t.Errorf("only %d operations could fail", n)
			}
		}
		if files := disk.Files("data/pictures"); len(files) > 0 {
			t.Fatalf("fault %d: left behind: %v", n, files)
		}
	}
	lookAll(t, e, want, "after the faults")
	dstest.MustApply(t, e, dstest.Text("more", "!"))
}

// When there is none, and that an end takes those away that are open.
func TestNoPicture(t *testing.T) {
	disk := dstest.NewDisk()
	o := small()
	o.OnFatal = func(error) {}
	e, err := store.Open(disk, dstest.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	dstest.MustApply(t, e, dstest.CreateText("a", "a"))
	gone, stop := context.WithCancel(t.Context())
	stop()
	if _, err := e.Picture(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody wants it: %v", err)
	}
	disk.SetCapacity(disk.Used())
	e.LookAtSpace()
	if _, err := e.Picture(t.Context()); !errors.Is(err, stream.DiskFull) {
		t.Errorf("full disk: %v", err)
	}
	disk.SetCapacity(0)
	e.LookAtSpace()
	open := picture(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if files := disk.Files("data/pictures"); len(files) > 0 {
		t.Errorf("left behind by the end: %v", files)
	}
	if _, err := open.Open(open.Files[0]); err == nil {
		t.Error("a picture can be read after the engine's end")
	}
	leave(t, open)
	if _, err := e.Picture(t.Context()); !errors.Is(err, stream.ShuttingDown) {
		t.Errorf("after the end: %v", err)
	}
	failed, err := store.Open(disk, dstest.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	disk.OnOp(func(op dstest.Op) error {
		if op.Name == "syncdata" || op.Name == "sync" {
			return errors.New("broken")
		}
		return nil
	})
	if _, err := dstest.Apply(failed, dstest.Text("a", "b")); !errors.Is(err, stream.Internal) {
		t.Fatalf("append on a broken disk: %v", err)
	}
	if _, err := failed.Picture(t.Context()); !errors.Is(err, stream.Internal) {
		t.Errorf("after a failure: %v", err)
	}
	disk.OnOp(nil)
	_ = failed.Close()
}

// What a kill has left of a picture is no part of the directory and goes at the next start.
func TestPictureLeftBehind(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, small())
	want := richHistory(t, e)
	picture(t, e)
	killed := disk.Crash(rand.New(rand.NewPCG(1, 2)), dstest.Loss{Keep: 100})
	if len(killed.Files("data/pictures")) == 0 {
		t.Fatal("there is nothing to be left")
	}
	dstest.CheckDisk(t, killed)
	again := dstest.OpenEngine(t, killed, small())
	lookAll(t, again, want, "after the kill")
	if files := killed.Files("data"); slices.Contains(files, "pictures") {
		t.Errorf("still there: %v", files)
	}
}

// The picture of a directory that no engine has open is what the next one would open.
func TestPictureOf(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, small())
	want := richHistory(t, e)
	for left := 1; left > 0; {
		var err error
		if left, err = e.FlushFirst(); err != nil {
			t.Fatal(err)
		}
		killed := disk.Crash(nil, dstest.Loss{})
		p, err := store.PictureOf(killed, dstest.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(killed, dstest.Dir, small()); !errors.Is(err, store.ErrLocked) {
			t.Errorf("while it is open a start gives %v", err)
		}
		checkAfter(t, pictureDisk(t, p), small(), want, fmt.Sprintf("%d streams to go", left))
		leave(t, p)
		checkAfter(t, killed, small(), want, "the directory itself")
	}
	if _, err := store.PictureOf(disk, dstest.Dir); !errors.Is(err, store.ErrLocked) {
		t.Errorf("of one that is open: %v", err)
	}
	damaged := disk.Crash(nil, dstest.Loss{})
	for _, name := range damaged.Files("data/archive") {
		if strings.HasPrefix(name, "MANIFEST") {
			damaged.Edit("data/archive/"+name, func(b []byte) []byte { return nil })
		}
	}
	if _, err := store.PictureOf(damaged, dstest.Dir); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("of a damaged one: %v", err)
	}
	if _, err := store.PictureOf(dstest.NewDisk(), dstest.Dir); err == nil {
		t.Error("of none")
	}
}

// Nobody opens a directory that is being restored, until all of it is there.
func TestRestoring(t *testing.T) {
	disk := dstest.NewDisk()
	if err := store.BeginRestore(disk, dstest.Dir); err != nil {
		t.Fatal(err)
	}
	disk = disk.Crash(nil, dstest.Loss{}) // the mark is durable
	_, opened := store.Open(disk, dstest.Dir, small())
	_, checked := store.Check(disk, dstest.Dir, nil)
	_, repaired := store.Repair(disk, dstest.Dir, nil)
	_, pictured := store.PictureOf(disk, dstest.Dir)
	again := store.BeginRestore(disk, dstest.Dir)
	for what, err := range map[string]error{"open": opened, "check": checked, "repair": repaired, "picture": pictured, "another restore": again} {
		if !errors.Is(err, store.ErrRestoring) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := store.EndRestore(disk, dstest.Dir); err != nil {
		t.Fatal(err)
	}
	disk = disk.Crash(nil, dstest.Loss{})
	dstest.MustApply(t, dstest.OpenEngine(t, disk, small()), dstest.CreateText("a", "a"))
	if err := store.BeginRestore(disk, dstest.Dir); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("restore into a directory that is used: %v", err)
	}
}
