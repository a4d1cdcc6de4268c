package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// busy are options under which flushes go on all the time.
func busy() *store.Options {
	return &store.Options{SegmentSize: 16 << 10, TailMemory: 4 << 10, CacheSize: 1 << 20,
		FlushInterval: time.Millisecond, IdleAfter: 20 * time.Millisecond}
}

// Appends at once never share an offset, and each is there once.
func TestParallelAppends(t *testing.T) {
	e := dstest.OpenEngine(t, dstest.NewDisk(), busy())
	dstest.MustApply(t, e, dstest.CreateText("a", ""))
	const n = 400
	tails := make([]stream.Offset, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			res, err := dstest.Apply(e, dstest.Text("a", fmt.Sprintf("%03d;", i)))
			if err != nil {
				t.Error(err)
			}
			tails[i] = res.Tail
		})
	}
	wg.Wait()
	got := dstest.MustRead(t, e, "a")
	for i, tail := range tails {
		if end := int(tail.Pos); end < 4 || end > len(got) || got[end-4:end] != fmt.Sprintf("%03d;", i) {
			t.Errorf("append %d was told offset %v, there is %q", i, tail, got[max(0, end-4):min(end, len(got))])
		}
	}
	slices.SortFunc(tails, func(a, b stream.Offset) int { return strings.Compare(a.String(), b.String()) })
	if len(slices.Compact(tails)) != n || len(got) != 4*n || tails[n-1].Pos != 4*n {
		t.Errorf("%d distinct offsets for %d appends, %d bytes", len(tails), n, len(got))
	}
}

// The same triple at once: one append, the others duplicates of it.
func TestParallelDuplicates(t *testing.T) {
	e := dstest.OpenEngine(t, dstest.NewDisk(), busy())
	dstest.MustApply(t, e, dstest.CreateText("a", ""))
	for seq := range uint64(30) {
		var taken, repeated atomic.Int32
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				a := dstest.Text("a", "x")
				a.Producer = &stream.Producer{ID: "p", Seq: seq}
				switch res, err := dstest.Apply(e, a); {
				case err != nil:
					t.Error(err)
				case res.Outcome == stream.Appended:
					taken.Add(1)
				default:
					repeated.Add(1)
				}
				if got := dstest.MustRead(t, e, "a"); len(got) != int(seq)+1 {
					t.Errorf("after the answer to %d there are %d bytes", seq, len(got))
				}
			})
		}
		wg.Wait()
		if taken.Load() != 1 || repeated.Load() != 9 {
			t.Errorf("seq %d: %d taken, %d repeated", seq, taken.Load(), repeated.Load())
		}
	}
}

// An append that was acknowledged was before the deletion, and nothing of a
// deleted stream shows up in the next one.
func TestAppendsAgainstDelete(t *testing.T) {
	e := dstest.OpenEngine(t, dstest.NewDisk(), busy())
	for round := range 100 {
		first := dstest.MustApply(t, e, dstest.CreateText("a", ""))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				res, err := dstest.Apply(e, dstest.Text("a", "old"))
				if err == nil && res.Meta.ID != first.Meta.ID || err != nil && !errors.Is(err, stream.NotFound) {
					t.Errorf("append: %v", err)
				}
			})
		}
		wg.Go(func() { remove(t, e, "a") })
		wg.Wait()
		if round%3 == 0 {
			dstest.Pause(2 * time.Millisecond)
		}
		second := dstest.MustApply(t, e, dstest.CreateText("a", "new"))
		if got := dstest.MustRead(t, e, "a"); got != "new" || second.Meta.Incarnation == first.Meta.Incarnation {
			t.Fatalf("the new stream reads %q", got)
		}
		remove(t, e, "a")
	}
}

// Forks and the deletion of their source at once: every fork that was made
// reads to its end, and when all are gone nothing is left.
func TestForksAgainstDelete(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, busy())
	for range 40 {
		dstest.MustApply(t, e, dstest.CreateText("s", "inherited"))
		snap, err := e.Stat("s", false)
		if err != nil {
			t.Fatal(err)
		}
		var made [30]bool
		var wg sync.WaitGroup
		for i := range made {
			wg.Go(func() {
				c := dstest.Fork(stream.Path(fmt.Sprint("f", i)), snap, uint64(i%10))
				_, err := dstest.Apply(e, c)
				made[i] = err == nil
				if err != nil && !errors.Is(err, stream.ForkSourceGone) && !errors.Is(err, stream.ForkSourceNotFound) {
					t.Errorf("fork: %v", err)
				}
			})
			if i == 15 {
				wg.Go(func() { remove(t, e, "s") })
			}
		}
		wg.Wait()
		for i, ok := range made {
			p := stream.Path(fmt.Sprint("f", i))
			if !ok {
				continue
			}
			if got := dstest.MustRead(t, e, p); got != "inherited"[:i%10] {
				t.Errorf("fork %d reads %q", i, got)
			}
			wg.Go(func() { remove(t, e, p) })
		}
		wg.Wait()
		if got := look(e, "s"); got != "not found" {
			t.Fatalf("source is %q when all forks are gone", got)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Check(disk, dstest.Dir, nil); err != nil || r.Streams != 0 || r.Chunks != 0 {
		t.Errorf("left over: %+v, %v", r, err)
	}
}

// pattern gives byte i of every stream in a test, so that a read at a wrong
// place shows.
func pattern(from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		p := from + i
		b[i] = byte(p ^ p>>8*7 ^ p>>16*13)
	}
	return b
}

// Readers pass from the archive into memory and back while bytes move.
func TestReadsWhileFlushing(t *testing.T) {
	o := busy()
	o.TailMemory = 64 << 10
	e := dstest.OpenEngine(t, dstest.NewDisk(), o)
	dstest.MustApply(t, e, &stream.Create{Path: "a", ContentType: "text/plain"})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				snap, err := e.Stat("a", false)
				if err != nil {
					t.Error(err)
					return
				}
				from := snap.Tail - min(snap.Tail, 600<<10)
				data, err := dstest.ReadRange(e, snap, from, snap.Tail)
				if err != nil || !bytes.Equal(data, pattern(int(from), int(snap.Tail-from))) {
					t.Errorf("read [%d, %d) is wrong (%d bytes): %v", from, snap.Tail, len(data), err)
					return
				}
			}
		})
	}
	pos := 0
	for i := range 500 {
		n := 1 + i*37%9000
		dstest.MustApply(t, e, dstest.Text("a", string(pattern(pos, n))))
		pos += n
	}
	close(done)
	wg.Wait()
}

// Whatever arrives while the engine closes is answered, and what was
// acknowledged is there. Nothing keeps running.
func TestCloseUnderLoad(t *testing.T) {
	before := runtime.NumGoroutine()
	disk := dstest.NewDisk()
	for round := range 30 {
		e, err := store.Open(disk, dstest.Dir, busy())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var acked [8]int
		for i := range acked {
			p := stream.Path(fmt.Sprintf("%d/%d", round, i))
			wg.Go(func() {
				for n := 0; ; n++ {
					_, err := dstest.Apply(e, dstest.CreateText(p, "x"))
					if err == nil && n%2 == 0 {
						_, err = dstest.Apply(e, &stream.Create{Path: p + "/f", Fork: &stream.ForkRequest{SourcePath: p, AtTail: true}})
						if errors.Is(err, stream.ForkSourceNotFound) {
							err = nil // it wants to be told the source's number
						}
					}
					if err == nil {
						_, err = dstest.Apply(e, dstest.Text(p, "y"))
					}
					if err == nil {
						acked[i]++
						continue
					}
					if !errors.Is(err, stream.ShuttingDown) {
						t.Errorf("%v", err)
					}
					return
				}
			})
		}
		dstest.Pause(time.Duration(round%5) * time.Millisecond)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		dstest.CheckDisk(t, disk)
		if e, err = store.Open(disk, dstest.Dir, busy()); err != nil {
			t.Fatal(err)
		}
		for i, n := range acked {
			p := stream.Path(fmt.Sprintf("%d/%d", round, i))
			if got := look(e, p); n > 0 && (strings.Count(got, "y") < n || strings.Count(got, "y") > n+1) {
				t.Errorf("%s: %d acknowledged, reads %q", p, n, got)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before+2 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+2 {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after:\n%s", before, n, buf[:runtime.Stack(buf, true)])
	}
}

// Tails that overflow all the time stall the committer while forks, deletions
// and reads go on; everything must come to an end.
func TestNoDeadlockUnderStall(t *testing.T) {
	o := busy()
	o.TailMemory, o.MaxQueued = 64, 4<<10
	e := dstest.OpenEngine(t, dstest.NewDisk(), o)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 150 {
				p := stream.Path(fmt.Sprint("p", (w+i)%5))
				q := stream.Path(fmt.Sprint("p", (w*3+i*7)%5))
				var cmd stream.Command
				switch (w + i) % 4 {
				case 0:
					cmd = dstest.CreateText(p, "data of some length")
				case 1:
					cmd = &stream.Delete{Path: p}
				case 2:
					c := &stream.Create{Path: p, Fork: &stream.ForkRequest{SourcePath: q, AtTail: true}}
					if snap, err := e.Stat(q, true); err == nil {
						c.Fork.Source = snap.ID
					}
					cmd = c
				default:
					cmd = dstest.Text(p, strings.Repeat("z", 100*w))
				}
				_, _ = dstest.Apply(e, cmd)
				if _, _, err := dstest.ReadAll(e, q); err != nil && errors.Is(err, stream.Internal) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
