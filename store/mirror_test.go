package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/archive"
	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

const mirrorPath = "data/mirror"

// archived gives a disk whose engine was closed twice, so that the archive has
// two commits, and what its streams hold.
func archived(t *testing.T) (*dstest.Disk, map[stream.Path]string) {
	t.Helper()
	disk := dstest.NewDisk()
	want := map[stream.Path]string{}
	for round := range 2 {
		e, err := store.Open(disk, dstest.Dir, still())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			p := stream.Path(fmt.Sprint(round, "-", i))
			want[p] = strings.Repeat(fmt.Sprint(round, i), 20<<10)
			dstest.MustApply(t, e, dstest.CreateText(p, want[p]))
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return disk, want
}

// tables lists the archive's files that hold data.
func tables(disk *dstest.Disk) []string {
	return slices.DeleteFunc(disk.Files("data/archive"), func(name string) bool { return !strings.HasSuffix(name, ".sst") })
}

// The archive's header shares a block with data. When it cannot be read, its
// second copy is used.
func TestUnreadableHeader(t *testing.T) {
	whole, want := archived(t)
	served := 0
	for _, name := range tables(whole) {
		disk := whole.Crash(nil, dstest.Loss{})
		disk.Edit("data/archive/"+name, func(b []byte) []byte { b[30] ^= 1; return b })
		e, err := store.Open(disk, dstest.Dir, small())
		if err != nil {
			t.Fatal(err)
		}
		for p, w := range want {
			switch got := look(e, p); {
			case got == w:
				served++
			case !strings.Contains(got, "cannot be read"):
				t.Errorf("%s reads %.80q", p, got)
			}
		}
		id := dstest.MustApply(t, e, dstest.CreateText("a new one", "n")).Meta.ID
		if id <= 8 {
			t.Errorf("stream number %d is used again", id)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if served == 0 {
		t.Error("one flipped bit has harmed all streams")
	}
}

// harmless opens a damaged directory: that must lose nothing, whether it is refused
// or not. It reports whether the second copy told of the damage.
func harmless(t *testing.T, disk *dstest.Disk, want map[stream.Path]string, why string) (told bool) {
	t.Helper()
	before := tables(disk)
	e, err := store.Open(disk, dstest.Dir, small())
	if err == nil {
		lookAll(t, e, want, why)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		return false
	}
	for _, name := range before {
		if !slices.Contains(tables(disk), name) {
			t.Errorf("%s: the refused start has removed %s", why, name)
		}
	}
	_, told = errors.AsType[*archive.DamageError](err)
	return told
}

// An archive that is as of an earlier time is not taken for the present one.
func TestOldArchive(t *testing.T) {
	disk, want := archived(t)
	files := map[string][]byte{}
	for _, name := range disk.Files("data/archive") {
		disk.Edit("data/archive/"+name, func(b []byte) []byte { files[name] = slices.Clone(b); return b })
	}
	e, err := store.Open(disk, dstest.Dir, small())
	if err != nil {
		t.Fatal(err)
	}
	dstest.MustApply(t, e, dstest.CreateText("later", "l"))
	want["later"] = "l"
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range disk.Files("data/archive") {
		if err := disk.Remove("data/archive/" + name); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		disk.Put("data/archive/"+name, content)
	}
	if !harmless(t, disk, want, "an archive from a backup") {
		t.Error("it is not refused")
	}
}

// Pebble takes a manifest whose end is damaged for a shorter one, and removes the
// tables that only the rest names.
func TestDamagedEndOfManifest(t *testing.T) {
	whole := dstest.NewDisk()
	want := map[stream.Path]string{}
	told := 0
	for i := range 6 {
		e, err := store.Open(whole, dstest.Dir, small())
		if err != nil {
			t.Fatal(err)
		}
		p := stream.Path(fmt.Sprint(i))
		want[p] = "content"
		dstest.MustApply(t, e, dstest.CreateText(p, want[p]))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		disk := whole.Crash(nil, dstest.Loss{})
		names := slices.DeleteFunc(disk.Files("data/archive"), func(name string) bool { return !strings.HasPrefix(name, "MANIFEST-") })
		disk.Edit("data/archive/"+names[len(names)-1], func(b []byte) []byte { b[len(b)-20] ^= 1; return b })
		if harmless(t, disk, want, fmt.Sprintf("a damaged manifest, round %d", i)) {
			told++
		}
	}
	if told == 0 {
		t.Error("Pebble has noticed every time")
	}
}

// flipLastCommit flips a bit in the last commit of a second copy, where it looks
// like one that has never been finished.
func flipLastCommit(b []byte) []byte {
	b[bytes.LastIndex(b, []byte("1-1"))] ^= 1
	return b
}

// The second copy is made anew when it is damaged or missing.
func TestDamagedMirror(t *testing.T) {
	for name, damage := range map[string]func(*dstest.Disk) error{
		"missing": func(d *dstest.Disk) error { return d.Remove(mirrorPath) },
		"flipped": func(d *dstest.Disk) error {
			d.Edit(mirrorPath, func(b []byte) []byte { b[len(b)-30] ^= 1; return b })
			return nil
		},
		"flipped in the last commit": func(d *dstest.Disk) error { d.Edit(mirrorPath, flipLastCommit); return nil },
		"without a mark": func(d *dstest.Disk) error {
			d.Edit(mirrorPath, func(b []byte) []byte { clear(b[:1024]); return b })
			return nil
		},
		"empty": func(d *dstest.Disk) error { d.Edit(mirrorPath, func([]byte) []byte { return nil }); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			disk, want := archived(t)
			if err := damage(disk); err != nil {
				t.Fatal(err)
			}
			e := dstest.OpenEngine(t, disk, small())
			lookAll(t, e, want, name)
			dstest.MustApply(t, e, dstest.CreateText("new", "n"))
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			dstest.CheckDisk(t, disk)
			if !slices.Contains(disk.Files("data"), "mirror") {
				t.Error("there is no second copy")
			}
		})
	}
}

// A copy that does not follow does not stay, also if no other can be made.
func TestDamagedMirrorWithoutRoom(t *testing.T) {
	disk, want := archived(t)
	disk.Edit(mirrorPath, flipLastCommit)
	e := dstest.OpenEngine(t, disk, small())
	disk.OnOp(func(op dstest.Op) error {
		if op.Name == "write" && strings.HasPrefix(op.Path, mirrorPath) {
			return syscall.ENOSPC
		}
		return nil
	})
	dstest.MustApply(t, e, dstest.CreateText("new", "n"))
	want["new"] = "n"
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(disk.Files("data"), "mirror") {
		t.Error("the damaged copy is still there")
	}
	disk.OnOp(nil)
	checkAfter(t, disk, small(), want, "without a copy")
}

// Where there is no room for the second copy the engine goes on without one, and
// makes one when there is room again.
func TestNoRoomForMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := dstest.NewDisk()
		o := small()
		o.OnFatal = func(err error) { t.Errorf("the engine gave up: %v", err) }
		e := dstest.OpenEngine(t, disk, o)
		there := func() bool { return slices.Contains(disk.Files("data"), "mirror") }
		round := 0
		flush := func() {
			round++
			dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprint("a", round)), "a"))
			time.Sleep(2 * o.FlushInterval)
		}
		flush()
		if !there() {
			t.Fatal("there is no second copy")
		}
		disk.OnOp(func(op dstest.Op) error {
			if op.Name == "write" && strings.HasPrefix(op.Path, mirrorPath) {
				return syscall.ENOSPC
			}
			return nil
		})
		flush()
		if there() {
			t.Fatal("a copy that does not follow any more is still there")
		}
		flush()
		disk.OnOp(nil)
		time.Sleep(2 * time.Minute)
		flush()
		if !there() {
			t.Fatal("there is room again and no second copy")
		}
	})
}
