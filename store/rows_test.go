package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// row makes a row; without a value it is one that is to go.
func row(key string, value ...string) store.Row {
	r := store.Row{Key: []byte(key)}
	if len(value) > 0 {
		r.Value = []byte(value[0])
	}
	return r
}

// putRows puts rows and waits until they are durable.
func putRows(e *store.Engine, rows ...store.Row) error {
	done := make(chan error, 1)
	e.PutRows(rows, func(err error) { done <- err })
	return <-done
}

func mustPutRows(t testing.TB, e *store.Engine, rows ...store.Row) {
	t.Helper()
	if err := putRows(e, rows...); err != nil {
		t.Fatal(err)
	}
}

// fold is what rows do to a model of them.
func fold(m map[string]string, rows []store.Row) {
	for _, r := range rows {
		if r.Value == nil {
			delete(m, string(r.Key))
		} else {
			m[string(r.Key)] = string(r.Value)
		}
	}
}

// allRows gives the rows with a prefix, and fails if they are out of order.
func allRows(t testing.TB, e *store.Engine, prefix string) map[string]string {
	t.Helper()
	m := map[string]string{}
	last := ""
	err := e.Rows([]byte(prefix), func(r store.Row) error {
		if string(r.Key) <= last || !strings.HasPrefix(string(r.Key), prefix) || r.Value == nil {
			t.Errorf("prefix %q: %q with value %q after %q", prefix, r.Key, r.Value, last)
		}
		last = string(r.Key)
		m[last] = string(r.Value)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return m
}

func brief(m map[string]string) (s string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s += fmt.Sprintf("%.20q=%.20q(%d) ", k, m[k], len(m[k]))
	}
	return s
}

func wantRows(t testing.TB, e *store.Engine, want map[string]string, when string) {
	t.Helper()
	if got := allRows(t, e, ""); !maps.Equal(got, want) {
		t.Errorf("%s: rows are %s, want %s", when, brief(got), brief(want))
	}
}

func TestRowBounds(t *testing.T) {
	e := dstest.OpenEngine(t, dstest.NewDisk(), small())
	for _, c := range []struct {
		key, value int
		ok         bool
	}{
		{0, 1, false}, {1, 0, true}, {store.MaxRowKey, store.MaxRowValue, true},
		{store.MaxRowKey + 1, 1, false}, {1, store.MaxRowValue + 1, false},
	} {
		key := strings.Repeat("k", c.key)
		err := putRows(e, row("beside", "x"), row(key, strings.Repeat("v", c.value)))
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, stream.TooLarge) {
			t.Errorf("key of %d, value of %d bytes: %v", c.key, c.value, err)
		}
		want := map[string]string{}
		if c.ok {
			want = map[string]string{"beside": "x", key: strings.Repeat("v", c.value)}
		}
		wantRows(t, e, want, fmt.Sprintf("%d, %d", c.key, c.value))
		mustPutRows(t, e, row("beside"), row(strings.Repeat("k", max(1, min(c.key, store.MaxRowKey)))))
	}
	if store.MaxRowKey >= 2<<10 || store.MaxRowValue >= 64<<10 {
		t.Error("the bounds have moved")
	}
}

func FuzzDecodeRows(f *testing.F) {
	f.Add([]byte{})
	f.Add(store.AppendRows([]store.Row{row("a", "b"), row("c"), row("d", "")}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1, 'a', 0})
	for _, cut := range []string{"\x01\x01a\x02", "\x01\x02a", "\x02\x01a\x00"} {
		f.Add([]byte(cut))
		if _, err := store.DecodeRows([]byte(cut)); err == nil {
			f.Errorf("%q is taken for whole rows", cut)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := store.DecodeRows(body)
		if err != nil {
			return
		}
		again, err := store.DecodeRows(store.AppendRows(rows))
		if err != nil || !reflect.DeepEqual(rows, again) {
			t.Errorf("%q: %q, encoded and decoded again %q, %v", body, rows, again, err)
		}
	})
}

// Rows are read as of one moment, wherever a flush has them.
func TestRowsAcrossFlush(t *testing.T) {
	e := dstest.OpenEngine(t, dstest.NewDisk(), still())
	for i := range 100 {
		mustPutRows(t, e, row("twice", strings.Repeat(fmt.Sprint(i%10), 100)))
	}
	if n := e.Unflushed(); n < 100 || n > 400 {
		t.Errorf("one row that was put often takes %d bytes", n)
	}
	mustPutRows(t, e, row("archived", "1"), row("changed", "1"), row("removed", "1"), row("twice", "1"), row("empty", ""))
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	mustPutRows(t, e, row("changed", "2"), row("removed"), row("new", "2"), row("twice", "2"), row("short", "2"))
	want := map[string]string{"archived": "1", "changed": "2", "new": "2", "twice": "2", "short": "2", "empty": ""}
	wantRows(t, e, want, "before the flush")
	err := e.FlushRowsInSteps(func() {
		wantRows(t, e, want, "before the archive has them")
		mustPutRows(t, e, row("twice", "3"), row("later", "3"), row("short"))
		want["twice"], want["later"] = "3", "3"
		delete(want, "short")
		wantRows(t, e, want, "changed before the archive has them")
	}, func() {
		wantRows(t, e, want, "before memory lets go of them")
		mustPutRows(t, e, row("new"), row("removed", "4"))
		delete(want, "new")
		want["removed"] = "4"
	})
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, e, want, "after the flush")
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, e, want, "after another flush")
	if n := e.Unflushed(); n != 0 {
		t.Errorf("%d bytes are in memory after a flush", n)
	}
	for _, prefix := range []string{"", "n", "re", "removed", "removed0", "z"} {
		part := maps.Clone(want)
		maps.DeleteFunc(part, func(k, _ string) bool { return !strings.HasPrefix(k, prefix) })
		if got := allRows(t, e, prefix); !maps.Equal(got, part) {
			t.Errorf("prefix %q: %q, want %q", prefix, got, part)
		}
	}
	stop := errors.New("enough")
	n := 0
	if err := e.Rows(nil, func(store.Row) error { n++; return stop }); err != stop || n != 1 {
		t.Errorf("a walk that is ended visits %d rows: %v", n, err)
	}
}

// rowCalls is a random history of PutRows.
func rowCalls(rng *rand.Rand, n int) (calls [][]store.Row) {
	for i := range n {
		rows := make([]store.Row, rng.IntN(4))
		for j := range rows {
			key := fmt.Sprint("k", rng.IntN(12))
			rows[j] = row(key)
			if rng.IntN(3) > 0 {
				rows[j] = row(key, strings.Repeat(fmt.Sprint(i, ";"), rng.IntN(30)))
			}
		}
		if i == n/2 { // a batch of its own
			for j := range 6 {
				rows = append(rows, row(fmt.Sprint("large", j), strings.Repeat("l", 50<<10)))
			}
		}
		calls = append(calls, rows)
	}
	return calls
}

// prefixOf says after how many calls, at least so many, the rows would be got.
func prefixOf(calls [][]store.Row, start, got map[string]string, least int) (n int, ok bool) {
	m := maps.Clone(start)
	for n = 0; ; n++ {
		if n >= least && maps.Equal(m, got) {
			return n, true
		}
		if n == len(calls) {
			return 0, false
		}
		fold(m, calls[n])
	}
}

func rounds(quick int) int {
	if n, err := strconv.Atoi(os.Getenv("DS_ROUNDS")); err == nil {
		return n
	}
	return quick
}

// Random rows, flushed and not, through power cuts at any moment: after each
// there is what some number of calls has made, and at least the acknowledged.
func TestRowsAgainstModel(t *testing.T) {
	for seed := range uint64(rounds(6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			disk := dstest.NewDisk()
			model := map[string]string{}
			o := still()
			o.SegmentSize = 512 << 10 // more than a life writes: no flush but ours
			if seed%2 == 0 {
				o = busy()
			}
			for life := range 6 {
				e, err := store.Open(disk, dstest.Dir, o)
				if err != nil {
					t.Fatal(err)
				}
				wantRows(t, e, model, fmt.Sprintf("life %d", life))
				calls := rowCalls(rng, 60)
				var mu sync.Mutex
				acked, atCut := 0, 0
				var after *dstest.Disk
				left := rng.IntN(40)
				cutRNG := rand.New(rand.NewPCG(seed, uint64(life)))
				loss := dstest.Loss{Keep: rng.IntN(101), Tear: rng.IntN(3) == 0}
				disk.OnOp(func(op dstest.Op) error {
					mu.Lock()
					defer mu.Unlock()
					if op.Changes() {
						if left--; left == -1 {
							atCut = acked
							after = disk.Crash(cutRNG, loss)
						}
					}
					return nil
				})
				var wg sync.WaitGroup
				for i, rows := range calls {
					wg.Add(1)
					e.PutRows(rows, func(err error) {
						mu.Lock()
						defer mu.Unlock()
						if err != nil || acked != i {
							t.Errorf("call %d is answered after %d others: %v", i, acked, err)
						}
						acked++
						wg.Done()
					})
					switch rng.IntN(20) {
					case 0:
						wg.Wait()
					case 1:
						dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprint(seed, life, i)), "beside"))
					case 2:
						if seed%2 == 1 { // nobody else flushes then
							if err := e.Flush(); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				wg.Wait()
				disk.OnOp(nil)
				start := maps.Clone(model)
				for _, rows := range calls {
					fold(model, rows)
				}
				wantRows(t, e, model, "in the end")
				if rng.IntN(4) == 0 {
					after, atCut = disk.Crash(cutRNG, loss), len(calls)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				dstest.CheckDisk(t, disk)
				if after == nil {
					continue
				}
				disk = after
				dstest.CheckDisk(t, disk)
				if e, err = store.Open(disk, dstest.Dir, o); err != nil {
					t.Fatal(err)
				}
				got := allRows(t, e, "")
				if _, ok := prefixOf(calls, start, got, atCut); !ok {
					t.Fatalf("again with seed %d: life %d, %d calls were acknowledged before the power cut: %s", seed, life, atCut, brief(got))
				}
				model = got
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// The power goes at every change that a flush of rows makes in the archive.
func TestPowerCutDuringRowFlush(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, small())
	want := map[string]string{}
	put := func(rows ...store.Row) {
		mustPutRows(t, e, rows...)
		fold(want, rows)
	}
	for i := range 200 {
		put(row(fmt.Sprint("kept", i), "1"), row(fmt.Sprint("gone", i), "1"), row(fmt.Sprint("changed", i), "1"))
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	dstest.MustApply(t, e, dstest.CreateText("a", "x"))
	for i := range 200 {
		put(row(fmt.Sprint("gone", i)), row(fmt.Sprint("changed", i), "2"), row(fmt.Sprint("new", i), ""))
	}
	check := func(t *testing.T, disk *dstest.Disk, when string) {
		t.Helper()
		for range 2 {
			dstest.CheckDisk(t, disk)
			e, err := store.Open(disk, dstest.Dir, small())
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			wantRows(t, e, want, when)
			if err := e.Close(); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			when += ", after another start"
		}
	}
	if err := e.FlushRowsInSteps(nothing, nothing); err != nil {
		t.Fatal(err)
	}
	check(t, disk.Crash(nil, dstest.Loss{}), "the archive has the rows and does not say so")
	put(row("kept1"), row("last", "3"))
	rng := rand.New(rand.NewPCG(3, 4))
	pictures := 0
	var mu sync.Mutex
	disk.OnOp(func(op dstest.Op) error {
		if !op.Changes() || !strings.Contains(op.Path, "archive") {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		pictures++
		after := disk.Crash(rng, dstest.Loss{Keep: 50})
		done := make(chan struct{}) // the archive's own goroutine must not end with the test
		go func() {
			defer close(done)
			check(t, after, fmt.Sprintf("power cut at %s of %s", op.Name, op.Path))
		}()
		<-done
		return nil
	})
	err := e.Close()
	disk.OnOp(nil)
	if err != nil {
		t.Fatal(err)
	}
	if pictures < 3 {
		t.Errorf("the flush made %d changes: too few to cut the power within it", pictures)
	}
	check(t, disk, "no power cut")
}

// Rows are acknowledged, and shown, when they are durable; an answer never comes
// from within the call.
func TestRowsBeforeTheyAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := dstest.NewDisk()
		e := dstest.OpenEngine(t, disk, small())
		mustPutRows(t, e, row("a", "1"))
		h := holdJournal(disk)
		var mu sync.Mutex // the caller's own
		var answers []string
		put := func(name string, rows ...store.Row) {
			mu.Lock()
			defer mu.Unlock()
			e.PutRows(rows, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				answers = append(answers, fmt.Sprint(name, " ", err))
			})
		}
		put("first", row("a", "2"))
		synctest.Wait() // it has a batch of its own
		kept := row("b", "2")
		put("second", kept)
		kept.Key[0], kept.Value[0] = 'x', 'x' // the engine has its own
		put("third")
		e.PutRows([]store.Row{row("c", "2")}, nil)
		synctest.Wait()
		wantRows(t, e, map[string]string{"a": "1"}, "before the sync")
		mu.Lock()
		if len(answers) > 0 {
			t.Errorf("answered before the sync: %q", answers)
		}
		mu.Unlock()
		put("refused", row("", "no key"))
		h.letGo(disk)
		synctest.Wait()
		slices.Sort(answers)
		want := []string{"first <nil>", "refused too_large: a row needs a key", "second <nil>", "third <nil>"}
		if fmt.Sprint(answers) != fmt.Sprint(want) {
			t.Errorf("answers %q, want %q", answers, want)
		}
		wantRows(t, e, map[string]string{"a": "2", "b": "2", "c": "2"}, "after the sync")
	})
}

// What is waiting for the disk keeps others out, not rows that were decided; what
// cannot be kept is refused, once.
func TestRefusedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := dstest.NewDisk()
		o := small()
		o.MaxQueued = 8 << 10
		e, err := store.Open(disk, dstest.Dir, o)
		if err != nil {
			t.Fatal(err)
		}
		h := holdJournal(disk)
		taken, ready := 0, 0
		for i := range 20 {
			if err := e.Ready(); err == nil {
				ready++
			} else if !errors.Is(err, stream.Busy) {
				t.Error(err)
			}
			e.PutRows([]store.Row{row(fmt.Sprint(i), strings.Repeat("v", 1000))}, func(err error) {
				if err != nil {
					t.Error(err)
				}
				taken++
			})
			synctest.Wait()
		}
		if ready != 9 || taken != 0 {
			t.Errorf("ready %d times while 20 kB go into a queue of 8 KiB, %d taken", ready, taken)
		}
		if _, err := dstest.Apply(e, dstest.CreateText("a", "")); !errors.Is(err, stream.Busy) {
			t.Errorf("a new stream: %v", err)
		}
		h.letGo(disk)
		synctest.Wait()
		if taken != 20 || e.Ready() != nil {
			t.Errorf("%d taken of 20; %v", taken, e.Ready())
		}
		for range 5000 { // their reservations come back
			mustPutRows(t, e)
		}
		dstest.MustApply(t, e, dstest.CreateText("a", ""))
		disk.OnOp(func(op dstest.Op) error {
			if op.Name == "sync" && strings.Contains(op.Path, "journal/") {
				return syscall.EIO
			}
			return nil
		})
		for range 2 {
			if err := putRows(e, row("failed", "x")); !errors.Is(err, stream.Internal) {
				t.Errorf("on a failing disk: %v", err)
			}
		}
		if err := e.Rows(nil, func(store.Row) error { return nil }); !errors.Is(err, stream.Internal) || !errors.Is(e.Ready(), stream.Internal) {
			t.Errorf("after the failure: %v, %v", err, e.Ready())
		}
		disk.OnOp(nil)
		_ = e.Close()
		if e, err = store.Open(disk, dstest.Dir, o); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := putRows(e, row("closed", "x")); !errors.Is(err, stream.ShuttingDown) || !errors.Is(e.Ready(), stream.ShuttingDown) {
			t.Errorf("after closing: %v, %v", err, e.Ready())
		}
		if err := e.Rows(nil, func(store.Row) error { return nil }); !errors.Is(err, stream.ShuttingDown) {
			t.Errorf("reading after closing: %v", err)
		}
	})
}

// Rows put while the engine closes are answered, and kept if that said so.
func TestRowsWhileClosing(t *testing.T) {
	disk := dstest.NewDisk()
	for round := range 20 {
		e, err := store.Open(disk, dstest.Dir, busy())
		if err != nil {
			t.Fatal(err)
		}
		want := allRows(t, e, "")
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					r := row(fmt.Sprint(round, w, i), "x")
					if err := putRows(e, r); err != nil {
						if !errors.Is(err, stream.ShuttingDown) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					fold(want, []store.Row{r})
					mu.Unlock()
				}
			})
		}
		dstest.Pause(time.Duration(round%4) * time.Millisecond)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if e, err = store.Open(disk, dstest.Dir, busy()); err != nil {
			t.Fatal(err)
		}
		wantRows(t, e, want, "after closing")
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// On a full disk small changes go on for as long as there is half of the reserve.
// What was decided before is kept in any case.
func TestRowsOnFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := dstest.NewDisk()
		filler, err := disk.Create("filler", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := filler.Write(make([]byte, 40<<20)); err != nil {
			t.Fatal(err)
		}
		e := dstest.OpenEngine(t, disk, small())
		for _, c := range []struct {
			left         int64 // of the reserve, in percent
			rows, others bool
		}{
			{120, true, true}, {80, true, false}, {60, true, false}, {40, false, false}, {110, true, true},
		} {
			// A quarter of the disk is the reserve: used = capacity - left/400 of it.
			disk.SetCapacity(disk.Used() * 400 / (400 - c.left))
			pause(3 * time.Second)
			if err := e.Ready(); c.rows != (err == nil) || !c.rows && !errors.Is(err, stream.DiskFull) {
				t.Errorf("%d %% of the reserve left: rows are refused with %v", c.left, err)
			}
			mustPutRows(t, e, row("left", fmt.Sprint(c.left)))
			_, err := dstest.Apply(e, dstest.CreateText(stream.Path(fmt.Sprint(c.left)), "x"))
			if c.others != (err == nil) || !c.others && !errors.Is(err, stream.DiskFull) {
				t.Errorf("%d %% of the reserve left: a new stream: %v", c.left, err)
			}
		}
		disk.SetCapacity(0)
		pause(3 * time.Second)
	})
}

// Rows count as what a flush moves out of memory.
func TestRowsLeaveMemory(t *testing.T) {
	o := still()
	o.TailMemory = 256 << 10
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, o)
	for i := range 400 {
		mustPutRows(t, e, row(fmt.Sprint(i), strings.Repeat("v", 4<<10)), row("same", fmt.Sprint(i)))
	}
	if n := e.Unflushed(); n > 2*o.TailMemory+8<<10 {
		t.Errorf("%d bytes are in memory, more than twice %d", n, o.TailMemory)
	}
	if got := allRows(t, e, ""); len(got) != 401 || got["same"] != "399" {
		t.Errorf("%d rows, %q", len(got), got["same"])
	}
	if r, err := store.Check(disk, dstest.Dir, nil); err == nil {
		t.Errorf("checked a directory in use: %+v", r)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Check(disk, dstest.Dir, nil); err != nil || r.Rows != 401 {
		t.Errorf("check: %+v, %v", r, err)
	}
}

// Check reads rows from the journal too, and reports one that makes no sense;
// repair cuts a journal that has rows.
func TestCheckAndRepairWithRows(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, still())
	dstest.MustApply(t, e, dstest.CreateText("a", "x"))
	var large []store.Row
	for i := range 6 {
		large = append(large, row(fmt.Sprint(i), strings.Repeat("l", 60<<10)), row("none"))
	}
	mustPutRows(t, e, large...)
	for i := range 50 {
		mustPutRows(t, e, row(fmt.Sprint(i%40), fmt.Sprint(i)), row("none"))
	}
	left := disk.Crash(nil, dstest.Loss{})
	if r, err := store.Check(left, dstest.Dir, nil); err != nil || !r.OK() || r.Rows != 40 || r.Records != 52 {
		t.Errorf("check: %+v, %v", r, err)
	}
	path, end := tailSegment(t, left)
	left.Edit(path, func(b []byte) []byte { b[end-1500] ^= 1; return b })
	if _, err := store.Open(left, dstest.Dir, still()); err == nil {
		t.Fatal("a damaged journal is opened")
	}
	if done, err := store.Repair(left, dstest.Dir, nil); err != nil || len(done.Cuts) != 1 {
		t.Fatalf("repair: %+v, %v", done, err)
	}
	again := dstest.OpenEngine(t, left, still())
	got := allRows(t, again, "")
	if n := len(got); n == 0 || n >= 40 || got["0"] != "0" {
		t.Errorf("after the repair there are %q", got)
	}
	if strings.Contains(fmt.Sprint(got), "none") || !bytes.Equal([]byte(dstest.MustRead(t, again, "a")), []byte("x")) {
		t.Errorf("after the repair there are %q", got)
	}
}
