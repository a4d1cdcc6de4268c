package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// listed gives what List shows, as "path tail", and fails if it is out of order.
func listed(t *testing.T, e *store.Engine, prefix string, after stream.Path) (list []string) {
	t.Helper()
	last := after
	err := e.List(prefix, after, func(s stream.Snapshot) bool {
		if s.Path <= last || !strings.HasPrefix(string(s.Path), prefix) {
			t.Errorf("%q is listed after %q, prefix %q", s.Path, last, prefix)
		}
		last = s.Path
		list = append(list, fmt.Sprint(s.Path, " ", s.Tail))
		return true
	})
	if err != nil {
		t.Error(err)
	}
	return list
}

// Streams in memory, in the archive, in both and gone from one of them, listed
// from every place, page after page.
func TestList(t *testing.T) {
	for seed := range uint64(rounds(2)) {
		disk := dstest.NewDisk()
		o := small()
		o.SegmentSize = 2 << 20
		e := dstest.OpenEngine(t, disk, o)
		rng := rand.New(rand.NewPCG(seed, 3))
		tails := map[stream.Path]int{}
		name := func() stream.Path {
			return stream.Path(fmt.Sprintf("%c/%03d", 'a'+rng.IntN(3), rng.IntN(140)))
		}
		step := func(n int) {
			for range n {
				p := name()
				_, there := tails[p]
				switch r := rng.IntN(10); {
				case !there:
					dstest.MustApply(t, e, dstest.CreateText(p, "12345"))
					tails[p] = 5
				case r == 0:
					remove(t, e, p)
					delete(tails, p)
				case r < 4:
					dstest.MustApply(t, e, dstest.Text(p, "678"))
					tails[p] += 3
				}
			}
		}
		check := func(when string) {
			t.Helper()
			for _, prefix := range []string{"", "b/", "b/1", "x"} {
				for _, after := range []stream.Path{"", "b", name(), "c/120"} {
					var want []string
					for _, p := range slices.Sorted(maps.Keys(tails)) {
						if p > after && strings.HasPrefix(string(p), prefix) {
							want = append(want, fmt.Sprint(p, " ", tails[p]))
						}
					}
					if got := listed(t, e, prefix, after); !slices.Equal(got, want) {
						t.Fatalf("seed %d, %s: prefix %q after %q: %d streams, want %d:\n%q\n%q", seed, when, prefix, after, len(got), len(want), got, want)
					}
				}
			}
		}
		step(700)
		check("all in memory")
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		check("all in the archive")
		step(200)
		check("some in both")
		flush(t, e, func() { step(100); check("within a flush") }, func() { check("before memory lets go") })
		step(100)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := e.List("", "", func(stream.Snapshot) bool { return true }); err == nil {
			t.Error("a closed engine is listed")
		}
		e = dstest.OpenEngine(t, disk, o)
		check("none in memory")
		if n := e.Loaded(); n != 0 {
			t.Errorf("listing has loaded %d streams", n)
		}
		step(200)
		check("a few in memory")
		n := 0
		if err := e.List("", "", func(stream.Snapshot) bool { n++; return n < 3 }); err != nil || n != 3 {
			t.Errorf("a listing that is ended gives %d streams, %v", n, err)
		}
	}
}

// What readers must not see is not listed, wherever it is, and being listed is
// not being read.
func TestListShowsWhatReadersSee(t *testing.T) {
	for name, restart := range map[string]bool{"in memory": false, "in the archive": true} {
		synctest.Test(t, func(t *testing.T) {
			disk := dstest.NewDisk()
			o := small()
			e := dstest.OpenEngine(t, disk, o)
			dstest.MustApply(t, e, dstest.CreateText("gone", "x"))
			fork(t, e, "its-fork", "gone", 1, "f")
			remove(t, e, "gone")
			dstest.MustApply(t, e, &stream.Create{Path: "brief", ContentType: "text/plain", Lifetime: stream.Sliding(10), Closed: true})
			dstest.MustApply(t, e, &stream.Create{Path: "open", ContentType: "text/plain", Data: []byte("12")})
			h := holdJournal(disk)
			e.Apply(dstest.Text("open", "345"), dstest.NewWaiter())
			e.Apply(dstest.CreateText("new", "x"), dstest.NewWaiter())
			e.Apply(&stream.Delete{Path: "its-fork"}, dstest.NewWaiter())
			synctest.Wait()
			if got := fmt.Sprint(listed(t, e, "", "")); got != "[brief 0 its-fork 2 open 2]" {
				t.Errorf("%s: before the sync: %s", name, got)
			}
			h.letGo(disk)
			synctest.Wait()
			if restart {
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				e = dstest.OpenEngine(t, disk, o)
			}
			pause(6 * time.Second)
			closed := ""
			if err := e.List("", "", func(s stream.Snapshot) bool { closed += fmt.Sprint(s.Path, s.Closed, " "); return true }); err != nil {
				t.Error(err)
			}
			if closed != "brieftrue newfalse openfalse " {
				t.Errorf("%s: after 6 seconds: %s", name, closed)
			}
			pause(4*time.Second - time.Millisecond) // the sweeper comes a moment later
			pause(time.Millisecond)
			if got := fmt.Sprint(listed(t, e, "", "")); got != "[new 1 open 5]" {
				t.Errorf("%s: after 10 seconds: %s", name, got)
			}
		})
	}
}

// Streams that stay are listed once each, whatever others do and wherever the
// engine moves them meanwhile.
func TestListWhileThingsMove(t *testing.T) {
	e := dstest.OpenEngine(t, dstest.NewDisk(), busy())
	const stay = 300
	for i := range stay {
		dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprintf("stay/%04d", i)), "x"))
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := 0; !done.Load(); i++ {
				p := stream.Path(fmt.Sprintf("stay/%04d.%d", i*7%stay, w))
				dstest.MustApply(t, e, dstest.CreateText(p, "y"))
				dstest.MustApply(t, e, dstest.Text(stream.Path(fmt.Sprintf("stay/%04d", i*13%stay)), "z"))
				remove(t, e, p)
			}
		})
	}
	for range 5 {
		n := 0
		last := map[stream.Path]uint64{}
		err := e.List("stay/", "", func(s stream.Snapshot) bool {
			if !strings.Contains(string(s.Path), ".") {
				n++
				if s.Tail < last[s.Path] || s.Tail == 0 {
					t.Errorf("%s has %d bytes, %d before", s.Path, s.Tail, last[s.Path])
				}
				last[s.Path] = s.Tail
			}
			if n%100 == 0 {
				dstest.Pause(time.Millisecond) // others go on meanwhile
			}
			return true
		})
		if err != nil || n != stay {
			t.Errorf("%d of %d streams that stay are listed, %v", n, stay, err)
		}
	}
	done.Store(true)
	wg.Wait()
}
