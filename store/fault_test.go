package store_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"durablestreams/internal/dstest"
	"durablestreams/internal/journal"
	"durablestreams/store"
	"durablestreams/stream"
)

// A disk that fails in the journal stops the engine: it says so once, answers
// nobody as if all were well, and what it had acknowledged is there afterwards.
func TestJournalFailure(t *testing.T) {
	for _, failing := range []string{"write", "sync", "create", "rename"} {
		t.Run(failing, func(t *testing.T) {
			disk := dstest.NewDisk()
			var fatal atomic.Int32
			o := busy()
			o.OnFatal = func(error) { fatal.Add(1) }
			e, err := store.Open(disk, dstest.Dir, o)
			if err != nil {
				t.Fatal(err)
			}
			dstest.MustApply(t, e, dstest.CreateText("a", ""))
			var acked [6]int
			var wg sync.WaitGroup
			for i := range acked {
				wg.Go(func() {
					for n := 0; ; n++ {
						_, err := dstest.Apply(e, dstest.Text("a", fmt.Sprintf("%d.%d;", i, n)))
						if errors.Is(err, stream.Internal) {
							return
						}
						if err != nil {
							t.Errorf("append: %v", err)
							return
						}
						acked[i]++
						if n == 20 && i == 0 {
							disk.OnOp(func(op dstest.Op) error {
								if op.Name == failing && strings.Contains(op.Path, "journal/") {
									return syscall.EIO
								}
								return nil
							})
						}
					}
				})
			}
			wg.Wait()
			if _, err := dstest.Apply(e, dstest.CreateText("b", "")); !errors.Is(err, stream.Internal) {
				t.Errorf("create after the failure: %v", err)
			}
			if _, err := dstest.Apply(e, dstest.Text("a", "")); !errors.Is(err, stream.Internal) {
				t.Errorf("append after the failure: %v", err)
			}
			if _, err := e.Stat("a", false); !errors.Is(err, stream.Internal) {
				t.Errorf("stat after the failure: %v", err)
			}
			crashed := disk.Crash(nil, dstest.Loss{})
			disk.OnOp(nil)
			_ = e.Close()
			if n := fatal.Load(); n != 1 {
				t.Errorf("OnFatal was called %d times", n)
			}
			for name, d := range map[string]*dstest.Disk{"killed": disk, "power cut": crashed} {
				again := dstest.OpenEngine(t, d, busy())
				got := dstest.MustRead(t, again, "a")
				for i, n := range acked {
					for j := range n {
						if strings.Count(got, fmt.Sprintf("%d.%d;", i, j)) != 1 {
							t.Errorf("%s: append %d of writer %d was acknowledged and is there %d times", name, j, i, strings.Count(got, fmt.Sprintf("%d.%d;", i, j)))
						}
					}
				}
				if _, err := again.Stat("b", false); !errors.Is(err, stream.NotFound) {
					t.Errorf("%s: a refused creation is there: %v", name, err)
				}
			}
		})
	}
}

// A full disk: changes are refused, reads and deletions go on, and service
// resumes by itself.
func TestDiskFull(t *testing.T) {
	disk := dstest.NewDisk()
	o := &store.Options{SegmentSize: 256 << 10, TailMemory: 1 << 20, CacheSize: 1 << 20, FlushInterval: 20 * time.Millisecond,
		OnFatal: func(err error) { t.Errorf("the engine gave up: %v", err) }}
	disk.SetCapacity(12 << 20)
	e := dstest.OpenEngine(t, disk, o)
	content := map[stream.Path]*strings.Builder{}
	fill := func() {
		t.Helper()
		full := 0
		for i := 0; full < 20; i++ {
			p := stream.Path(fmt.Sprint("s", i/200)) // one after another: they lie apart in the archive
			data := strings.Repeat(fmt.Sprintf("%05d;", i), 2000)
			var cmd stream.Command = dstest.Text(p, data)
			if content[p] == nil {
				cmd = dstest.CreateText(p, data)
			}
			_, err := dstest.Apply(e, cmd)
			switch {
			case err == nil:
				if content[p] == nil {
					content[p] = &strings.Builder{}
				}
				content[p].WriteString(data)
				full = 0
			case errors.Is(err, stream.DiskFull):
				full++
				dstest.Pause(5 * time.Millisecond)
			default:
				t.Fatalf("append %d: %v", i, err)
			}
			if i > 100_000 {
				t.Fatal("the disk never fills")
			}
		}
		for p, want := range content {
			if got := dstest.MustRead(t, e, p); got != want.String() {
				t.Errorf("full disk: %s has %d bytes, want %d", p, len(got), want.Len())
			}
		}
	}
	resume := func(why string) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			_, err := dstest.Apply(e, dstest.Text("s1", "on"))
			if err == nil {
				content["s1"].WriteString("on")
				return
			}
			if !errors.Is(err, stream.DiskFull) {
				t.Fatalf("%s: %v", why, err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: still full, %d bytes used", why, disk.Used())
			}
			dstest.Pause(10 * time.Millisecond)
		}
	}
	fill()
	disk.SetCapacity(14 << 20)
	resume("with a larger disk")
	fill()
	remove(t, e, "s0")
	delete(content, "s0")
	resume("with a stream deleted")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = dstest.OpenEngine(t, disk, o)
	for p, want := range content {
		if got := dstest.MustRead(t, e, p); got != want.String() {
			t.Errorf("after a restart: %s has %d bytes, want %d", p, len(got), want.Len())
		}
	}
}

// cold gives an engine on whose disk streams lie in the archive only.
func cold(t *testing.T, disk *dstest.Disk, o *store.Options) *store.Engine {
	t.Helper()
	o.SegmentSize = 1 << 20 // one flush, one file
	e, err := store.Open(disk, dstest.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprint("s", i)), strings.Repeat(fmt.Sprint(i), 50<<10)))
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = store.Open(disk, dstest.Dir, o); err != nil {
		t.Fatal(err)
	}
	return e
}

// What cannot be read is damaged, for as long as it cannot be read. What is in
// memory goes on.
func TestArchiveReadFailure(t *testing.T) {
	disk := dstest.NewDisk()
	o := small()
	o.OnFatal = func(err error) { t.Errorf("the engine gave up: %v", err) }
	e := cold(t, disk, o)
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		dstest.CheckDisk(t, disk)
	}()
	dstest.MustApply(t, e, dstest.CreateText("warm", "w"))
	disk.OnOp(func(op dstest.Op) error {
		if op.Name == "read" && strings.HasSuffix(op.Path, ".sst") {
			return syscall.EIO
		}
		return nil
	})
	_, _, err := dstest.ReadAll(e, "s1")
	if !errors.Is(err, stream.Damaged) || !errors.Is(err, syscall.EIO) {
		t.Errorf("reading a stream that cannot be read: %v", err)
	}
	dstest.MustApply(t, e, dstest.Text("warm", "x"))
	if got := dstest.MustRead(t, e, "warm"); got != "wx" {
		t.Errorf("reads %q", got)
	}
	disk.OnOp(nil)
	for i := range 5 {
		p := stream.Path(fmt.Sprint("s", i))
		if got := dstest.MustRead(t, e, p); got != strings.Repeat(fmt.Sprint(i), 50<<10) {
			t.Errorf("%s: %d bytes when the disk works again", p, len(got))
		}
	}
}

// A read that fails in the middle says so; it does not end as if it were whole.
func TestArchiveReadFailsMidway(t *testing.T) {
	disk := dstest.NewDisk()
	e := cold(t, disk, small())
	defer e.Close()
	snap, err := e.Stat("s3", false)
	if err != nil {
		t.Fatal(err)
	}
	disk.OnOp(func(op dstest.Op) error {
		if op.Name == "read" && strings.HasSuffix(op.Path, ".sst") {
			return syscall.EIO
		}
		return nil
	})
	data, err := dstest.ReadRange(e, snap, 0, snap.Tail)
	if !errors.Is(err, stream.Damaged) {
		t.Errorf("%d of %d bytes, %v", len(data), snap.Tail, err)
	}
}

// A flipped bit in the archive harms the streams it is in and no other.
func TestFlippedByteInArchive(t *testing.T) {
	disk := dstest.NewDisk()
	o := small()
	e := cold(t, disk, o)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	flipped := 0
	for _, name := range disk.Files("data/archive") {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		disk.Edit("data/archive/"+name, func(b []byte) []byte {
			if i := strings.Index(string(b), "2222222222"); i >= 0 {
				b[i+1000] ^= 4
				flipped++
			}
			return b
		})
	}
	if flipped == 0 {
		t.Fatal("the stream's bytes are not where they should be")
	}
	var fatal atomic.Bool
	o.OnFatal = func(error) { fatal.Store(true) }
	e, err := store.Open(disk, dstest.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		p := stream.Path(fmt.Sprint("s", i))
		data, _, err := dstest.ReadAll(e, p)
		if i == 2 && !errors.Is(err, stream.Damaged) {
			t.Errorf("%s: %d bytes, %v, want damaged", p, len(data), err)
		}
		if i != 2 && (err != nil || string(data) != strings.Repeat(fmt.Sprint(i), 50<<10)) {
			t.Errorf("%s: %d bytes, %v", p, len(data), err)
		}
	}
	dstest.MustApply(t, e, dstest.Text("s4", "on"))
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if fatal.Load() {
		t.Error("one damaged stream stopped the engine")
	}
	if r, err := store.Check(disk, dstest.Dir, nil); err == nil && r.OK() {
		t.Error("the check finds nothing")
	}
}

// tailSegment gives the last segment and where its frames end.
func tailSegment(t *testing.T, disk *dstest.Disk) (path string, end int64) {
	t.Helper()
	sum, err := journal.Scan(disk, "data/journal", &journal.Visitor{Segment: func(s journal.SegmentInfo) error {
		path = "data/journal/" + s.Name
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return path, sum.EndOffset
}

// crashed gives a disk after a crash with so many appends in the journal only.
func crashed(t *testing.T, n int) *dstest.Disk {
	t.Helper()
	disk := dstest.NewDisk()
	e, err := store.Open(disk, dstest.Dir, small())
	if err != nil {
		t.Fatal(err)
	}
	dstest.MustApply(t, e, dstest.CreateText("a", ""))
	for i := range n {
		dstest.MustApply(t, e, dstest.Text("a", fmt.Sprintf("%03d;", i)))
	}
	left := disk.Crash(nil, dstest.Loss{})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return left
}

// What lies behind the acknowledged end of the journal is never shown; damage
// before it is never passed over.
func TestDamagedJournal(t *testing.T) {
	whole := crashed(t, 50)
	path, end := tailSegment(t, whole)
	all := look(dstest.OpenEngine(t, whole.Crash(nil, dstest.Loss{}), small()), "a")
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   string // "" is: refused
	}{
		{"garbage after the tail", func(b []byte) []byte {
			for i := range 3000 {
				b[int(end)+i] = byte(i * 31)
			}
			return b
		}, all},
		{"a half record after the tail", func(b []byte) []byte { copy(b[end:end+70], b[end-72:end-2]); return b }, all},
		{"the last record torn", func(b []byte) []byte { clear(b[end-8:]); return b }, all[:len(all)-4]},
		{"the file cut in the last record", func(b []byte) []byte { return b[:end-8] }, all[:len(all)-4]},
		{"a byte flipped in the middle", func(b []byte) []byte { b[end/2] ^= 1; return b }, ""},
		{"a byte flipped at the beginning", func(b []byte) []byte { b[3] ^= 1; return b }, ""},
		{"a record in the middle zeroed", func(b []byte) []byte { clear(b[end/2 : end/2+80]); return b }, ""},
		{"no such file", func([]byte) []byte { return nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := whole.Crash(nil, dstest.Loss{})
			disk.Edit(path, c.change)
			e, err := store.Open(disk, dstest.Dir, small())
			if c.want == "" {
				damage, ok := errors.AsType[*journal.CorruptionError](err)
				if !ok || damage.Segment == 0 {
					t.Fatalf("opened, or refused without a place: %v", err)
				}
				if r, err := store.Check(disk, dstest.Dir, nil); err != nil || r.OK() {
					t.Errorf("check: %+v, %v", r, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := look(e, "a"); got != c.want {
				t.Errorf("reads %q, want %q", got, c.want)
			}
			dstest.MustApply(t, e, dstest.Text("a", "on"))
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			checkAfter(t, disk, small(), map[stream.Path]string{"a": c.want + "on"}, c.name)
		})
	}
}

// Damage of the last acknowledged record is told from a torn end once the record is
// some seconds old.
func TestDamagedEndOfJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := dstest.NewDisk()
		e, err := store.Open(disk, dstest.Dir, small())
		if err != nil {
			t.Fatal(err)
		}
		dstest.MustApply(t, e, dstest.CreateText("a", "kept"))
		dstest.MustApply(t, e, dstest.Text("a", " and acknowledged"))
		time.Sleep(3 * time.Second)
		left := disk.Crash(nil, dstest.Loss{})
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		path, end := tailSegment(t, left)
		left.Edit(path, func(b []byte) []byte { b[end-12] ^= 1; return b })
		if _, err := store.Open(left, dstest.Dir, small()); !errors.Is(err, store.ErrDamaged) {
			t.Fatalf("open: %v", err)
		}
		if r, err := store.Check(left, dstest.Dir, nil); err != nil || r.OK() {
			t.Errorf("check: %+v, %v", r, err)
		}
		if done, err := store.Repair(left, dstest.Dir, nil); err != nil || len(done.Cuts) != 1 {
			t.Fatalf("repair: %+v, %v", done, err)
		}
		if got := look(dstest.OpenEngine(t, left, small()), "a"); got != "kept" {
			t.Errorf("reads %q", got)
		}
	})
}

// zeroRow overwrites the state row of a stream.
func zeroRow(t *testing.T, disk *dstest.Disk, id stream.ID) {
	t.Helper()
	o := &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest}
	for i := range o.Levels {
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	db, err := pebble.Open("data/archive", o)
	if err != nil {
		t.Fatal(err)
	}
	key := binary.BigEndian.AppendUint64([]byte{'s'}, uint64(id))
	if err := db.Set(key, make([]byte, 60), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// brokenRow gives a disk on which one stream's row is broken, and what is to be seen
// of the others. With active the journal has more of all of them.
func brokenRow(t *testing.T, active bool) (*dstest.Disk, map[stream.Path]string) {
	t.Helper()
	disk := dstest.NewDisk()
	e, err := store.Open(disk, dstest.Dir, small())
	if err != nil {
		t.Fatal(err)
	}
	create := dstest.CreateText("broken", "bytes")
	create.Lifetime = stream.Sliding(3600)
	broken := dstest.MustApply(t, e, create).Meta.ID
	dstest.MustApply(t, e, dstest.CreateText("other", "o"))
	fork(t, e, "fork", "broken", 5, "+")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	want := map[stream.Path]string{"other": "o", "fork": "bytes+"}
	if active {
		if e, err = store.Open(disk, dstest.Dir, small()); err != nil {
			t.Fatal(err)
		}
		dstest.MustApply(t, e, dstest.Text("broken", " more"))
		dstest.MustApply(t, e, dstest.Text("other", "!"))
		fork(t, e, "fork2", "broken", 5, "#")
		remove(t, e, "fork")
		left := disk.Crash(nil, dstest.Loss{})
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		disk = left
		want = map[stream.Path]string{"other": "o!", "fork": "not found", "fork2": "bytes#"}
	}
	zeroRow(t, disk, broken)
	return disk, want
}

// One stream's broken row is taken from its second copy, and is sound again after
// the next flush.
func TestBrokenRowIsRescued(t *testing.T) {
	for name, active := range map[string]bool{"idle": false, "with records in the journal": true} {
		t.Run(name, func(t *testing.T) {
			disk, want := brokenRow(t, active)
			if r, err := store.Check(disk, dstest.Dir, nil); err != nil || r.OK() {
				t.Errorf("check: %+v, %v", r, err)
			}
			want["broken"] = "bytes"
			if active {
				want["broken"] = "bytes more"
			}
			e, err := store.Open(disk, dstest.Dir, small())
			if err != nil {
				t.Fatal(err)
			}
			if info, err := e.Inspect("broken"); err != nil || info.Damaged || info.Tail != uint64(len(want["broken"])) {
				t.Errorf("it shows as %+v, %v", info, err)
			}
			lookAll(t, e, want, name)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			checkAfter(t, disk, small(), want, name)
		})
	}
}

// With no copy of a stream's row left the others serve, the broken one is reported
// and its bytes are kept for those who inherit them. It can be deleted, and made
// anew.
func TestBrokenRow(t *testing.T) {
	for name, active := range map[string]bool{"idle": false, "with records in the journal": true} {
		t.Run(name, func(t *testing.T) {
			disk, want := brokenRow(t, active)
			if err := disk.Remove(mirrorPath); err != nil {
				t.Fatal(err)
			}
			damaged := func(e *store.Engine, when string) {
				t.Helper()
				lookAll(t, e, want, when)
				if _, err := e.Stat("broken", false); !errors.Is(err, stream.Damaged) {
					t.Errorf("%s: the broken stream: %v", when, err)
				}
				if _, err := dstest.Apply(e, dstest.CreateText("broken", "again")); !errors.Is(err, stream.Damaged) {
					t.Errorf("%s: creating over the broken stream: %v", when, err)
				}
				info, err := e.Inspect("broken")
				page, pageErr := e.Page("broken", "", 1)
				if err != nil || pageErr != nil || !info.Damaged || info.Size() != 0 || len(page.Streams) != 1 || !page.Streams[0].Damaged {
					t.Errorf("%s: the broken stream shows as %+v, %v, %+v, %v", when, info, err, page, pageErr)
				}
			}
			for range 2 {
				e, err := store.Open(disk, dstest.Dir, small())
				if err != nil {
					t.Fatalf("one broken row stops the server: %v", err)
				}
				damaged(e, name)
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if r, err := store.Check(disk, dstest.Dir, nil); err != nil || r.OK() {
				t.Errorf("check: %+v, %v", r, err)
			}
			e, err := store.Open(disk, dstest.Dir, small())
			if err != nil {
				t.Fatal(err)
			}
			remove(t, e, "broken")
			if _, err := dstest.Apply(e, &stream.Delete{Path: "broken"}); !errors.Is(err, stream.NotFound) {
				t.Errorf("deleted again: %v", err)
			}
			want["broken"] = "not found"
			lookAll(t, e, want, "deleted")
			crashed := disk.Crash(nil, dstest.Loss{})
			dstest.MustApply(t, e, dstest.CreateText("broken", "anew"))
			want["broken"] = "anew"
			lookAll(t, e, want, "made anew")
			crashedLater := disk.Crash(nil, dstest.Loss{})
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			for when, d := range map[string]*dstest.Disk{"closed": disk, "killed when made anew": crashedLater, "killed when deleted": crashed} {
				want["broken"] = "anew"
				if d == crashed {
					want["broken"] = "not found"
				}
				for range 2 {
					e, err := store.Open(d, dstest.Dir, small())
					if err != nil {
						t.Fatal(err)
					}
					lookAll(t, e, want, when)
					if err := e.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// While a damaged stream's deletion is on its way to the disk it is still damaged for
// readers; who makes the stream anew meanwhile comes behind it.
func TestDropUnderWay(t *testing.T) {
	disk, _ := brokenRow(t, false)
	if err := disk.Remove(mirrorPath); err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	r.version.Store(1)
	o := small()
	o.Observer = r
	e, err := store.Open(disk, dstest.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	goOn := make(chan struct{})
	disk.OnOp(func(op dstest.Op) error {
		if op.Name == "sync" && strings.Contains(op.Path, "journal/") {
			<-goOn
		}
		return nil
	})
	deleted, created := dstest.NewWaiter(), dstest.NewWaiter()
	e.Apply(&stream.Delete{Path: "broken"}, deleted)
	if _, err := e.Stat("broken", false); !errors.Is(err, stream.Damaged) {
		t.Errorf("deletion under way: %v", err)
	}
	for _, s := range listed(t, e, "", "") {
		if strings.HasPrefix(s, "broken") {
			t.Errorf("deletion under way: listed as %q", s)
		}
	}
	e.Apply(dstest.CreateText("broken", "anew"), created)
	close(goOn)
	<-deleted.Done
	<-created.Done
	if deleted.Err != nil || created.Err != nil {
		t.Errorf("deleted: %v, created: %v", deleted.Err, created.Err)
	}
	if got := dstest.MustRead(t, e, "broken"); got != "anew" {
		t.Errorf("reads %q", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := r.heard(t), "broken 0-0 gone, broken 0-4 created"; got != want {
		t.Errorf("the observer heard %q, want %q", got, want)
	}
}

// Deleting a stream of which nothing is left but the name gives its space back, and
// its place in the deadline index.
func TestDroppedStreamLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := dstest.NewDisk()
		e, err := store.Open(disk, dstest.Dir, small())
		if err != nil {
			t.Fatal(err)
		}
		create := dstest.CreateText("broken", strings.Repeat("b", 100<<10))
		create.Lifetime = stream.Sliding(60)
		id := dstest.MustApply(t, e, create).Meta.ID
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		zeroRow(t, disk, id)
		if err := disk.Remove(mirrorPath); err != nil {
			t.Fatal(err)
		}
		if e, err = store.Open(disk, dstest.Dir, small()); err != nil {
			t.Fatal(err)
		}
		remove(t, e, "broken")
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // its deadline passes
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := store.Check(disk, dstest.Dir, nil)
		if err != nil || !r.OK() || r.Chunks != 0 {
			t.Errorf("check: %+v, %v", r, err)
		}
	})
}

// TestArchiveThatLostItsMarker shows that a directory whose archive Pebble would
// take for a new one is refused and left as it is.
func TestArchiveThatLostItsMarker(t *testing.T) {
	disk := dstest.NewDisk()
	e, err := store.Open(disk, dstest.Dir, nil) // not checked at the end: it is broken then
	if err != nil {
		t.Fatal(err)
	}
	dstest.MustApply(t, e, dstest.CreateText("a", "kept"))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	dir := disk.PathJoin(dstest.Dir, "archive")
	names := func() (all []string) {
		list, err := disk.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list {
			if !strings.HasPrefix(n, "marker.manifest") {
				all = append(all, n)
			}
		}
		slices.Sort(all)
		return all
	}
	list, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list {
		if strings.HasPrefix(n, "marker.manifest") {
			if err := disk.Remove(disk.PathJoin(dir, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := names()
	if e, err := store.Open(disk, dstest.Dir, nil); err == nil {
		e.Close()
		t.Fatal("the engine started without its archive")
	}
	if after := names(); !slices.Equal(before, after) {
		t.Errorf("the archive had %v, now it has %v", before, after)
	}
	if r, err := store.Check(disk, dstest.Dir, nil); err != nil || r.OK() {
		t.Errorf("check: %+v, %v", r, err)
	}
}
