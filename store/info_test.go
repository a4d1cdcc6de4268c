package store_test

import (
	"errors"
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

// infoModel is what a listing has to show.
type infoModel map[stream.Path]*infoWanted

type infoWanted struct {
	base, tail uint64
	closed     bool
	gone       bool
	forks      int
	source     stream.Path
	made       int64
	written    int64
	ttl        uint64
}

func (m infoModel) line(p stream.Path) string {
	w := m[p]
	return fmt.Sprint(p, " ", w.tail-w.base, " of ", w.tail, " closed ", w.closed, " gone ", w.gone, " forks ", w.forks,
		" of ", w.source, " made ", w.made, " written ", w.written, " ttl ", w.ttl)
}

func infoLine(i *store.Info) string {
	source := stream.Path("")
	if i.Fork != nil {
		source = i.Fork.SourcePath
	}
	ttl, _ := i.Lifetime.TTL()
	return fmt.Sprint(i.Path, " ", i.Size(), " of ", i.Tail, " closed ", i.Closed, " gone ", i.Gone, " forks ", i.Forks,
		" of ", source, " made ", i.CreatedAt, " written ", i.WrittenAt, " ttl ", ttl)
}

func (m infoModel) want(prefix string, after stream.Path) (list []string) {
	for _, p := range slices.Sorted(maps.Keys(m)) {
		if p > after && strings.HasPrefix(string(p), prefix) {
			list = append(list, m.line(p))
		}
	}
	return list
}

// remove models a deletion: what forks still read stays until the last of them goes.
func (m infoModel) remove(p stream.Path) {
	w := m[p]
	if w.forks > 0 {
		w.gone = true
		return
	}
	delete(m, p)
	if w.source == "" {
		return
	}
	src := m[w.source]
	if src.forks--; src.gone && src.forks == 0 {
		m.remove(w.source)
	}
}

// pages lists page by page, and, from the start, with the same outcome in one walk.
func pages(t *testing.T, e *store.Engine, prefix string, after stream.Path, size int) (list []string) {
	t.Helper()
	first := after
	for {
		p, err := e.Page(prefix, after, size)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Streams) > size {
			t.Errorf("a page of %d has %d streams", size, len(p.Streams))
		}
		for i := range p.Streams {
			list = append(list, infoLine(&p.Streams[i]))
		}
		if p.Next == "" {
			break
		}
		if p.Next <= after {
			t.Fatalf("after %q it goes on after %q", after, p.Next)
		}
		after = p.Next
	}
	if first == "" {
		if got := walked(t, e, prefix, size); !slices.Equal(got, list) {
			t.Errorf("a walk below %q by %d gives %q, want %q", prefix, size, got, list)
		}
	}
	return list
}

func walked(t *testing.T, e *store.Engine, prefix string, size int) (list []string) {
	t.Helper()
	w := e.Walk(prefix)
	for {
		p, err := w.Next(size)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Streams {
			list = append(list, infoLine(&p.Streams[i]))
		}
		if p.Next == "" {
			return list
		}
	}
}

// A walk comes to the same as pages of any size, also where the archive has nothing yet.
func TestWalk(t *testing.T) {
	e := dstest.OpenEngine(t, dstest.NewDisk(), nil)
	var want []string
	for i := range 7 {
		path := stream.Path(fmt.Sprintf("a/%d", i))
		dstest.MustApply(t, e, dstest.CreateText(path, "x"))
		info, err := e.Inspect(path)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, infoLine(&info))
	}
	dstest.MustApply(t, e, dstest.CreateText("b", "x"))
	for size := 1; size < 9; size++ {
		if got := pages(t, e, "a/", "", size); !slices.Equal(got, want) {
			t.Errorf("by %d: %q, want %q", size, got, want)
		}
	}
}

// Random histories of creations, forks, appends, closes and deletions, one by one and
// by prefix, listed in pages of every size: what is shown is exact, wherever the
// streams are.
func TestPagesAgainstModel(t *testing.T) {
	for seed := range uint64(rounds(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { pageHistory(t, rand.New(rand.NewPCG(seed, 11))) })
		})
	}
}

func pageHistory(t *testing.T, rng *rand.Rand) {
	disk := dstest.NewDisk()
	o := small()
	o.SegmentSize = 1 << 20
	e := dstest.OpenEngine(t, disk, o)
	m := infoModel{}
	name := func() stream.Path { return stream.Path(fmt.Sprintf("%c/%02d", 'a'+rng.IntN(3), rng.IntN(40))) }
	for step := range 600 {
		time.Sleep(time.Millisecond)
		at := time.Now().UnixNano()
		p := name()
		w := m[p]
		switch r := rng.IntN(100); {
		case r < 3:
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
		case r < 4:
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = dstest.OpenEngine(t, disk, o)
		case r < 5:
			crashed := disk.Crash(nil, dstest.Loss{})
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			disk = crashed
			e = dstest.OpenEngine(t, disk, o)
		case r < 7:
			prefix := string(p[:3])
			var want store.Deletion
			for _, q := range slices.Sorted(maps.Keys(m)) { // in this order a source goes before its fork, or after
				if v := m[q]; v != nil && strings.HasPrefix(string(q), prefix) && !v.gone {
					want.Streams++
					want.Bytes += v.tail - v.base
					m.remove(q)
				}
			}
			got := deleteAll(t, e, prefix, 1+rng.IntN(5))
			if got != want {
				t.Errorf("step %d: deletion of %q: %+v, want %+v", step, prefix, got, want)
			}
		case w == nil && r < 80:
			c := dstest.CreateText(p, "12345"[:rng.IntN(6)])
			v := &infoWanted{tail: uint64(len(c.Data)), made: at, written: at}
			if r < 20 {
				c.Lifetime, v.ttl = stream.Sliding(5000), 5000
			}
			if r < 30 {
				c.Closed, v.closed = true, true
			}
			m[p] = v
			dstest.MustApply(t, e, c)
		case w == nil:
			src := name()
			s := m[src]
			if s == nil || s.gone {
				continue
			}
			fork(t, e, p, src, s.tail, "fork")
			s.forks++
			m[p] = &infoWanted{base: s.tail, tail: s.tail + 4, source: src, made: at, written: at, ttl: s.ttl}
		case w.gone:
		case r < 30:
			remove(t, e, p)
			m.remove(p)
		case !w.closed:
			a := dstest.Text(p, "67")
			a.Close = r < 50
			w.closed = a.Close
			w.tail += 2
			w.written = at
			dstest.MustApply(t, e, a)
		}
		if step%7 != 0 {
			continue
		}
		prefix := []string{"", "b/", "b/1", "a/0", "x"}[rng.IntN(5)]
		after := []stream.Path{"", name(), "b"}[rng.IntN(3)]
		if got, want := pages(t, e, prefix, after, 1+rng.IntN(30)), m.want(prefix, after); !slices.Equal(got, want) {
			t.Fatalf("step %d: prefix %q after %q:\n%s\nwant\n%s", step, prefix, after, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if info, err := e.Inspect(p); m[p] == nil && !errors.Is(err, stream.NotFound) || m[p] != nil && infoLine(&info) != m.line(p) {
			t.Fatalf("step %d: %s shows %+v, %v, want %+v", step, p, info, err, m[p])
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"page": second(e.Page("", "", 1)), "inspect": second(e.Inspect("a")), "delete": second(e.DeletePage("", "", 1)), "walk": second(e.Walk("").Next(1))} {
		if err == nil {
			t.Errorf("%s: a closed engine answers", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// deleteAll deletes page after page.
func deleteAll(t *testing.T, e *store.Engine, prefix string, size int) (sum store.Deletion) {
	t.Helper()
	for after := stream.Path(""); ; {
		d, err := e.DeletePage(prefix, after, size)
		if err != nil {
			t.Fatal(err)
		}
		sum.Streams += d.Streams
		sum.Bytes += d.Bytes
		if after = d.Next; after == "" {
			return sum
		}
	}
}

// Streams that stay are shown once each, and never less of them than before,
// whatever others create, fork, delete and delete by prefix meanwhile.
func TestPagesWhileThingsMove(t *testing.T) {
	e := dstest.OpenEngine(t, dstest.NewDisk(), busy())
	const stay = 200
	for i := range stay {
		dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprintf("stay/%04d", i)), "x"))
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := 0; !done.Load(); i++ {
				dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprintf("stay/%04d/%d", i*7%stay, w)), "y"))
				dstest.MustApply(t, e, dstest.Text(stream.Path(fmt.Sprintf("stay/%04d", i*13%stay)), "z"))
				if d, err := e.DeletePage(fmt.Sprintf("stay/%04d/%d", i*7%stay, w), "", 10); err != nil || d.Streams != 1 {
					t.Errorf("%+v, %v", d, err)
				}
			}
		})
	}
	last := map[stream.Path]store.Info{}
	for round := range 6 {
		n, walk := 0, e.Walk("stay/")
		for after := stream.Path(""); ; {
			p, err := e.Page("stay/", after, 37)
			if round%2 == 1 {
				p, err = walk.Next(37)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range p.Streams {
				if strings.Count(string(i.Path), "/") == 1 {
					n++
					if before := last[i.Path]; i.Tail < before.Tail || i.WrittenAt < before.WrittenAt || i.Path <= after {
						t.Errorf("after %q: %+v, before %+v", after, i, before)
					}
					last[i.Path] = i
				}
			}
			if after = p.Next; after == "" {
				break
			}
			dstest.Pause(time.Millisecond) // others go on meanwhile
		}
		if n != stay {
			t.Errorf("%d of %d streams that stay are shown", n, stay)
		}
	}
	done.Store(true)
	wg.Wait()
}

// What is on its way to the disk is not shown.
func TestPagesShowWhatIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := dstest.NewDisk()
		e := dstest.OpenEngine(t, disk, small())
		dstest.MustApply(t, e, dstest.CreateText("a", "12"))
		began := time.Now().UnixNano()
		time.Sleep(time.Second)
		h := holdJournal(disk)
		closing := dstest.Text("a", "345")
		closing.Close = true
		e.Apply(closing, dstest.NewWaiter())
		e.Apply(dstest.CreateText("b", "x"), dstest.NewWaiter())
		snap, err := e.Stat("a", false)
		if err != nil {
			t.Fatal(err)
		}
		e.Apply(dstest.Fork("c", snap, 1), dstest.NewWaiter())
		synctest.Wait()
		want := infoModel{"a": {tail: 2, made: began, written: began}}
		if got := pages(t, e, "", "", 10); !slices.Equal(got, want.want("", "")) {
			t.Errorf("before the sync: %q", got)
		}
		h.letGo(disk)
		synctest.Wait()
		at := time.Now().UnixNano()
		want = infoModel{"a": {tail: 5, closed: true, forks: 1, made: began, written: at},
			"b": {tail: 1, made: at, written: at}, "c": {base: 1, tail: 1, source: "a", made: at, written: at}}
		if got := pages(t, e, "", "", 10); !slices.Equal(got, want.want("", "")) {
			t.Errorf("after the sync: %q, want %q", got, want.want("", ""))
		}
	})
}
