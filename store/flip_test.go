package store_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// lived gives a directory with a file of every kind in it, as a crash leaves it, and
// what was acknowledged.
func lived(t *testing.T) (*dstest.Disk, map[stream.Path]string) {
	t.Helper()
	disk := dstest.NewDisk()
	disk.SetCapacity(16 << 20)
	o := &store.Options{SegmentSize: 16 << 10, CacheSize: 1 << 20, TailMemory: 32 << 10}
	want := map[stream.Path]string{}
	for round := range 3 {
		e, err := store.Open(disk, dstest.Dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			maps.Copy(want, richHistory(t, e))
		}
		for i := range 8 {
			p := stream.Path(fmt.Sprint("some/", i))
			if want[p] == "" {
				dstest.MustApply(t, e, dstest.CreateText(p, ""))
			}
			for k := range 12 {
				data := strings.Repeat(fmt.Sprintf("%d.%d.%d;", round, i, k), 40)
				dstest.MustApply(t, e, dstest.Text(p, data))
				want[p] += data
			}
		}
		mustPutRows(t, e, row(fmt.Sprint("row ", round), "value"))
		e.LookAtSpace()
		if round < 2 {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			p, data := stream.Path(fmt.Sprint("some/", i)), fmt.Sprintf("in the journal %d;", i)
			dstest.MustApply(t, e, dstest.Text(p, data))
			want[p] += data
		}
		if err := e.Note(); err != nil {
			t.Fatal(err)
		}
		left := disk.Crash(nil, dstest.Loss{})
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		return left, want
	}
	panic("not reached")
}

// A byte that flips in any file is noticed, with its place, or does no harm: nobody
// reads anything that was not acknowledged, or less without being told. After a
// repair the server serves what is still there.
//
// DS_ROUNDS sets how many bytes of each file are tried, DS_SEED which.
func TestFlippedByte(t *testing.T) {
	rounds, seed := 3, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("DS_ROUNDS")); err == nil {
		rounds = n
	}
	if n, err := strconv.ParseUint(os.Getenv("DS_SEED"), 10, 64); err == nil {
		seed = n
	}
	whole, want := lived(t)
	kinds := map[string]int{}
	for _, dir := range []string{"data/", "data/journal/", "data/archive/"} {
		for _, name := range whole.Files(dir) {
			if info, err := whole.Stat(dir + name); err != nil || info.IsDir() || info.Size() == 0 {
				continue
			}
			var content []byte
			whole.Edit(dir+name, func(b []byte) []byte { content = b; return b })
			size := len(content)
			kinds[kindOf(name)]++
			h := fnv.New64a()
			h.Write([]byte(name))
			rng := rand.New(rand.NewPCG(seed, h.Sum64()))
			for range rounds {
				// Beginnings and ends hold what the rest depends on.
				at := []int{rng.IntN(size), rng.IntN(min(size, 200)), size - 1 - rng.IntN(min(size, 200))}[rng.IntN(3)]
				for k := 0; k < 20 && content[at] == 0; k++ { // the rest of a file is often empty
					at = rng.IntN(size)
				}
				mask := byte(1 + rng.IntN(255))
				t.Run(fmt.Sprintf("%s%s at %d by %02x", dir, name, at, mask), func(t *testing.T) {
					disk := whole.Crash(nil, dstest.Loss{})
					disk.Edit(dir+name, func(b []byte) []byte { b[at] ^= mask; return b })
					flipped(t, disk, want)
				})
			}
		}
	}
	for _, kind := range []string{"seg", "free", "HEAD", "sst", "MANIFEST", "OPTIONS", "mirror", "ballast"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was tried, only %v", kind, kinds)
		}
	}
}

// kindOf is the part of a file's name that says what it is.
func kindOf(name string) string {
	if _, ext, ok := strings.Cut(name, "."); ok && !strings.HasPrefix(name, "marker") {
		return ext
	}
	kind, _, _ := strings.Cut(name, "-")
	return kind
}

// flipped opens, checks and repairs a directory with one flipped byte.
func flipped(t *testing.T, disk *dstest.Disk, want map[stream.Path]string) {
	t.Helper()
	served := disk.Crash(nil, dstest.Loss{})
	o := small()
	o.OnFatal = func(err error) { t.Errorf("the engine gave up: %v", err) }
	e, err := store.Open(served, dstest.Dir, o)
	harm := err != nil
	if err != nil && !errors.Is(err, store.ErrDamaged) {
		t.Errorf("refused, but not as damaged: %v", err)
	}
	if err == nil {
		for p, w := range want {
			if got := look(e, p); got != w {
				harm = true
				if !strings.HasPrefix(got, "damaged: ") {
					t.Errorf("%s reads %.60q, want %.60q", p, got, w)
				}
			}
		}
		// Whether there is such a stream cannot always be told at once.
		if _, err := dstest.Apply(e, dstest.CreateText("new", "n")); err != nil {
			harm = true
			if !errors.Is(err, stream.Damaged) {
				t.Errorf("create: %v", err)
			}
		}
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	report, err := store.Check(disk, dstest.Dir, nil)
	if err != nil {
		t.Errorf("check: %v", err)
		return
	}
	if harm && report.OK() {
		t.Error("there is harm, and the check finds nothing")
	}
	if report.OK() {
		return
	}
	done, err := store.Repair(disk, dstest.Dir, nil)
	if err != nil {
		t.Errorf("repair: %v; check said %+v", err, report.Problems)
		return
	}
	lost := map[stream.Path]bool{}
	for _, l := range done.Lost {
		lost[l.Path] = true
	}
	if lost["s"] || lost["f"] {
		lost["g"] = true
	}
	if e, err = store.Open(disk, dstest.Dir, o); err != nil {
		t.Errorf("open after the repair: %v", err)
		return
	}
	for p, w := range want {
		switch got := look(e, p); {
		case got == w:
		case lost[p] && strings.HasPrefix(got, "damaged: "):
		case len(done.Cuts) > 0 && strings.HasPrefix(w, got):
		default:
			t.Errorf("after the repair %s reads %.60q, want %.60q; repaired %+v", p, got, w, done)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if r, err := store.Check(disk, dstest.Dir, nil); err != nil || r.OK() != (len(done.Lost) == 0) {
		t.Errorf("check after the repair: %+v, %v", r, err)
	}
}
