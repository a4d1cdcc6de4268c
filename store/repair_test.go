package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// grown gives a disk whose archive has several files, and what must be seen of its
// streams. Some records are in the journal only.
func grown(t *testing.T) (*dstest.Disk, map[stream.Path]string) {
	t.Helper()
	disk := dstest.NewDisk()
	disk.SetCapacity(16 << 20) // small files then
	want := map[stream.Path]string{}
	for round := range 4 {
		e, err := store.Open(disk, dstest.Dir, still())
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			maps.Copy(want, richHistory(t, e))
		}
		for i := range 6 {
			p := stream.Path(fmt.Sprint("many/", i))
			data := strings.Repeat(fmt.Sprintf("%d.%d;", round, i), 3000*i)
			if want[p] == "" {
				dstest.MustApply(t, e, dstest.CreateText(p, data))
			} else if data != "" && i != round {
				dstest.MustApply(t, e, dstest.Text(p, data))
			} else {
				continue
			}
			want[p] += data
		}
		mustPutRows(t, e, row(fmt.Sprint("row ", round), fmt.Sprint("value ", round)), row("same", fmt.Sprint(round)))
		if round > 0 {
			remove(t, e, stream.Path(fmt.Sprint("gone/", round-1)))
			want[stream.Path(fmt.Sprint("gone/", round-1))] = "not found"
		}
		if round < 3 {
			dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprint("gone/", round)), strings.Repeat("g", 40<<10)))
		}
		if round == 3 {
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
			dstest.MustApply(t, e, dstest.Text("many/1", "journal"))
			mustPutRows(t, e, row("row 0"), row("row 1", "journal"))
			want["many/1"] += "journal"
			left := disk.Crash(nil, dstest.Loss{})
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			return left, want
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	panic("not reached")
}

const archivePath = "data/archive/"

// newest gives the last of the archive's files whose name begins with a prefix.
func newest(t *testing.T, disk *dstest.Disk, prefix string) string {
	t.Helper()
	names := slices.DeleteFunc(disk.Files(archivePath), func(n string) bool { return !strings.HasPrefix(n, prefix) })
	if len(names) == 0 {
		t.Fatalf("the archive has no file %s", prefix)
	}
	return archivePath + names[len(names)-1]
}

// damages are ways to damage an archive, with the file that the check must name.
func damages(t *testing.T, disk *dstest.Disk) map[string]func(*dstest.Disk) {
	t.Helper()
	all := map[string]func(*dstest.Disk){}
	edit := func(path string, change func([]byte) []byte) func(*dstest.Disk) {
		return func(d *dstest.Disk) { d.Edit(path, change) }
	}
	drop := func(path string) func(*dstest.Disk) {
		return func(d *dstest.Disk) {
			dir, err := d.OpenDir(d.PathDir(path))
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(d.Remove(path), dir.Sync(), dir.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	for _, name := range tables(disk) {
		all[name+" missing"] = drop(archivePath + name)
		all[name+" empty"] = edit(archivePath+name, func([]byte) []byte { return nil })
		all[name+" cut in half"] = edit(archivePath+name, func(b []byte) []byte { return b[:len(b)/2] })
		all[name+" without a footer"] = edit(archivePath+name, func(b []byte) []byte { clear(b[len(b)-40:]); return b })
		all[name+" with a flipped bit"] = edit(archivePath+name, func(b []byte) []byte { b[len(b)/3] ^= 1; return b })
	}
	all["every table missing"] = func(d *dstest.Disk) {
		for _, name := range tables(disk) {
			drop(archivePath + name)(d)
		}
	}
	manifest := newest(t, disk, "MANIFEST-")
	all["manifest missing"] = drop(manifest)
	all["manifest flipped"] = edit(manifest, func(b []byte) []byte { b[30] ^= 1; return b })
	all["manifest empty"] = edit(manifest, func([]byte) []byte { return nil })
	all["manifest's end flipped"] = edit(manifest, func(b []byte) []byte { b[len(b)-10] ^= 1; return b })
	all["marker missing"] = drop(newest(t, disk, "marker.manifest"))
	all["version missing"] = drop(newest(t, disk, "marker.format-version"))
	all["settings garbled"] = edit(newest(t, disk, "OPTIONS-"), func(b []byte) []byte {
		return bytes.Replace(b, []byte("Bytewise"), []byte("Pagewise"), 1)
	})
	all["everything missing"] = func(d *dstest.Disk) {
		for _, name := range disk.Files(archivePath) {
			drop(archivePath + name)(d)
		}
		drop("data/archive")(d)
	}
	return all
}

// checkRepaired opens a repaired directory. Streams are what they were, but for
// those that the repair has named: of those a read gives a beginning.
func checkRepaired(t *testing.T, disk *dstest.Disk, lost []store.Lost, want map[stream.Path]string, when string) {
	t.Helper()
	named := map[stream.Path]bool{}
	for _, l := range lost {
		named[l.Path] = true
	}
	// A fork reads what it inherits.
	if named["s"] || named["f"] {
		named["g"] = true
	}
	e, err := store.Open(disk, dstest.Dir, small())
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	for p, w := range want {
		got := look(e, p)
		if got == w {
			continue
		}
		data, snap, err := dstest.ReadAll(e, p)
		if !named[p] || err == nil || snap.Closed != strings.HasSuffix(w, " closed") || !strings.HasPrefix(w, string(data)) {
			t.Errorf("%s: %s is %.60q (%v), want %.60q; lost is %+v", when, p, got, err, w, lost)
		}
	}
	rows := map[string]string{"row 1": "journal", "row 2": "value 2", "row 3": "value 3", "same": "3"}
	if got := allRows(t, e, ""); !maps.Equal(got, rows) {
		t.Errorf("%s: the rows are %q, want %q", when, got, rows)
	}
	id := dstest.MustApply(t, e, dstest.CreateText("new", "n")).Meta.ID
	if id <= 20 {
		t.Errorf("%s: stream number %d is used again", when, id)
	}
	again := dstest.Text("closed", "!")
	again.Close, again.Producer = true, &stream.Producer{ID: "p"}
	if _, err := dstest.Apply(e, again); err != nil {
		t.Errorf("%s: the producer's last append again: %v", when, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := store.Check(disk, dstest.Dir, nil)
	if err != nil || r.OK() != (len(lost) == 0) {
		t.Errorf("%s: check after the repair: %+v, %v", when, r, err)
	}
	if e, err = store.Open(disk, dstest.Dir, small()); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	for p, w := range want {
		if w != "not found" && w != "gone" {
			remove(t, e, p)
		}
	}
	remove(t, e, "new")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	r, err = store.Check(disk, dstest.Dir, nil)
	if err != nil || !r.OK() || r.Streams != 0 || r.Chunks != 0 {
		t.Errorf("%s: all was deleted, check says %+v, %v", when, r, err)
	}
}

// Whatever happens to a file of the archive: the check places it, and after a repair
// the server serves everything that is still there.
func TestRepairArchive(t *testing.T) {
	whole, want := grown(t)
	if n := len(tables(whole)); n < 2 {
		t.Fatalf("only %d tables", n)
	}
	lostSomething := 0
	for name, damage := range damages(t, whole) {
		t.Run(name, func(t *testing.T) {
			disk := whole.Crash(nil, dstest.Loss{})
			damage(disk)
			report, err := store.Check(disk, dstest.Dir, nil)
			if err != nil {
				t.Fatalf("check: %v", err)
			}
			file, _, _ := strings.Cut(name, " ")
			if report.OK() || strings.HasSuffix(file, ".sst") && !strings.Contains(report.Problems[0].Where, file) {
				t.Errorf("check: %+v", report.Problems)
			}
			done, err := store.Repair(disk, dstest.Dir, nil)
			if err != nil {
				t.Fatalf("repair: %v", err)
			}
			if done.Aside == "" || len(done.Wrong) == 0 {
				t.Errorf("repair: %+v", done)
			}
			lostSomething += len(done.Lost)
			said := 0
			for _, p := range report.Problems {
				if strings.Contains(p.What, "are lost") {
					said++
				}
			}
			if said != len(done.Lost) {
				t.Errorf("the check has said that %d ranges are lost, the repair %+v", said, done.Lost)
			}
			if again, err := store.Repair(disk, dstest.Dir, nil); err != nil || again.Aside != "" {
				t.Errorf("repaired again: %+v, %v", again, err)
			}
			checkRepaired(t, disk, done.Lost, want, name)
		})
	}
	if lostSomething == 0 {
		t.Error("no damage has lost anything")
	}
}

// The power goes at every change that a repair makes: doing it again gives the same,
// and no server starts in between with less.
func TestPowerCutDuringRepair(t *testing.T) {
	whole, want := grown(t)
	names := slices.Sorted(maps.Keys(damages(t, whole)))
	rng := rand.New(rand.NewPCG(3, 4))
	quick := os.Getenv("DS_ROUNDS") == "" // else make stress
	if quick {
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:3]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			disk := whole.Crash(nil, dstest.Loss{})
			damages(t, whole)[name](disk)
			var mu sync.Mutex // Pebble works in the background
			var pictures []*dstest.Disk
			disk.OnOp(func(op dstest.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if op.Changes() {
					pictures = append(pictures, disk.Crash(rng, dstest.Loss{Keep: 50 * len(pictures) % 150}))
				}
				return nil
			})
			done, err := store.Repair(disk, dstest.Dir, nil)
			disk.OnOp(nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range pictures {
				if quick && rng.IntN(len(pictures)) >= 8 {
					continue
				}
				when := fmt.Sprintf("%s, power cut %d of %d", name, i, len(pictures))
				if e, err := store.Open(d.Crash(nil, dstest.Loss{}), dstest.Dir, small()); err == nil {
					for p, w := range want {
						data, _, err := dstest.ReadAll(e, p)
						if err == nil && !strings.HasPrefix(w, string(data)) || err == nil && len(w) > 100 && len(data) != len(w) {
							t.Errorf("%s: a server starts and %s has %d bytes, want %d", when, p, len(data), len(w))
						}
					}
					_ = e.Close()
				}
				if _, err := store.Repair(d, dstest.Dir, nil); err != nil {
					t.Errorf("%s: repair: %v", when, err)
					continue
				}
				checkRepaired(t, d, done.Lost, want, when)
			}
		})
	}
}

// Without the second copy of the rows a repair takes the newest that it finds. What
// is there is not changed by that, though what was deleted may be there again.
func TestRepairWithoutMirror(t *testing.T) {
	whole, want := grown(t)
	for name, damage := range damages(t, whole) {
		t.Run(name, func(t *testing.T) {
			disk := whole.Crash(nil, dstest.Loss{})
			damage(disk)
			disk.Edit(mirrorPath, func(b []byte) []byte { clear(b[:1100]); return b })
			if r, err := store.Check(disk, dstest.Dir, nil); err != nil || r.OK() {
				t.Errorf("check: %+v, %v", r, err)
			}
			done, err := store.Repair(disk, dstest.Dir, nil)
			if err != nil {
				t.Fatalf("repair: %v", err)
			}
			e, err := store.Open(disk, dstest.Dir, small())
			if err != nil {
				t.Fatal(err)
			}
			for p, w := range want {
				data, _, err := dstest.ReadAll(e, p)
				if w == "not found" || w == "gone" || err != nil && strings.Contains(name, ".sst") || strings.Contains(name, "every") {
					continue
				}
				if w = strings.TrimSuffix(w, " closed"); !strings.HasPrefix(w, string(data)) || !strings.Contains(name, ".sst") && len(data) != len(w) {
					t.Errorf("%s is %.60q (%v), want %.60q; lost is %+v", p, data, err, w, done.Lost)
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if again, err := store.Repair(disk, dstest.Dir, nil); err != nil || again.Aside != "" {
				t.Errorf("repaired again: %+v, %v", again, err)
			}
		})
	}
}

// A crash in the middle of a flush, and then the archive's manifest is lost: the
// rows are as of the flush before, and the journal has the rest.
func TestRepairAfterPartialFlush(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, small())
	want := richHistory(t, e)
	check := func(left int) {
		t.Helper()
		picture := disk.Crash(nil, dstest.Loss{})
		damages(t, picture)["manifest missing"](picture)
		done, err := store.Repair(picture, dstest.Dir, nil)
		if err != nil || done.Aside == "" || len(done.Lost) != 0 {
			t.Fatalf("with %d streams to go: %+v, %v", left, done, err)
		}
		checkAfter(t, picture, small(), want, fmt.Sprintf("power cut with %d streams to go", left))
	}
	for left := 1; left > 0; {
		var err error
		if left, err = e.FlushFirst(); err != nil {
			t.Fatal(err)
		}
		check(left)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	dstest.MustApply(t, e, dstest.Text("kept", "more"))
	want["kept"] += "more"
	remove(t, e, "again", "g")
	want["again"], want["s"], want["f"], want["g"] = "not found", "not found", "not found", "not found"
	for left := 1; left > 0; {
		var err error
		if left, err = e.FlushFirst(); err != nil {
			t.Fatal(err)
		}
		check(left)
	}
}
