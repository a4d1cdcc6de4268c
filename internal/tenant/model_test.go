package tenant_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/internal/tenant"
	"durablestreams/store"
	"durablestreams/stream"
)

// entry is a stream as the model knows it.
type entry struct {
	path   stream.Path
	bytes  int
	forks  int
	soft   bool
	mortal bool // its lifetime is a fixed one
	source *entry
	seq    uint64 // of its producer, the next one
}

// world is an engine with a ledger, beside a model of what both should hold.
type world struct {
	*testing.T
	rng    *rand.Rand
	disk   *dstest.Disk
	table  *tenant.Table
	limits [2]int64 // streams and bytes of tenant a
	ledger *tenant.Ledger
	engine *store.Engine
	at     map[stream.Path]*entry
	log    []string
}

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) failf(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

func (w *world) open() {
	w.Helper()
	w.ledger = tenant.NewLedger(w.table)
	var err error
	w.engine, err = store.Open(w.disk, dstest.Dir, &store.Options{SegmentSize: 64 << 10, TailMemory: 1 << 20, CacheSize: 1 << 20,
		FlushInterval: 2 * time.Second, IdleAfter: 3 * time.Second, Ledger: w.ledger})
	if err != nil {
		w.failf("open: %v", err)
	}
}

func parse(t *testing.T, text string) *tenant.Table {
	t.Helper()
	table, err := tenant.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// rebound gives tenant a other limits.
func (w *world) rebound() {
	w.limits = [2]int64{int64(w.rng.IntN(6)), int64(w.rng.IntN(200))}
	w.say("a has %d streams and %d bytes", w.limits[0], w.limits[1])
	w.table = parse(w.T, fmt.Sprintf("tenant a streams=%d bytes=%d\n", w.limits[0], w.limits[1]))
	w.ledger.Reload(w.table)
}

// used sums up the model.
func (w *world) used(name string) (streams, bytes int64) {
	for _, e := range w.at {
		if tenant.Name(e.path) == name {
			streams++
			bytes += int64(e.bytes)
		}
	}
	return streams, bytes
}

// fits says which quota of tenant a a change meets, if it does.
func (w *world) fits(p stream.Path, streams, bytes int) error {
	if tenant.Name(p) != "a" {
		return nil
	}
	usedStreams, usedBytes := w.used("a")
	switch {
	case streams > 0 && usedStreams+int64(streams) > w.limits[0]:
		return stream.QuotaStreams
	case bytes > 0 && usedBytes+int64(bytes) > w.limits[1]:
		return stream.QuotaBytes
	}
	return nil
}

// check compares the ledger with the model.
func (w *world) check() {
	w.Helper()
	for _, name := range []string{"a", "b", "c"} {
		streams, bytes := w.used(name)
		u, _ := w.ledger.Usage(name)
		if u.Streams != streams || u.Bytes != bytes {
			w.failf("tenant %s: the ledger has %d streams with %d bytes, there are %d with %d", name, u.Streams, u.Bytes, streams, bytes)
		}
	}
}

// end takes a stream out of the model, as far as no fork reads it.
func (w *world) end(e *entry) {
	if e.forks > 0 {
		e.soft = true
		return
	}
	delete(w.at, e.path)
	if src := e.source; src != nil {
		if src.forks--; src.forks == 0 && src.soft {
			w.end(src)
		}
	}
}

// expect compares the outcome of a command that would change something with the quota.
func (w *world) expect(what string, err, quota error) (done bool) {
	w.Helper()
	w.say("%s: %v", what, err)
	switch {
	case err == nil && quota == nil:
		return true
	case err != nil && quota != nil && errors.Is(err, quota):
		return false
	}
	w.failf("%s: %v, want %v", what, err, quota)
	return false
}

var paths = []stream.Path{"a", "a/1", "a/2", "a/3/x", "a/4", "b/1", "b/2", "b", "c/1", "c/2"}

func (w *world) step() {
	p := paths[w.rng.IntN(len(paths))]
	e := w.at[p]
	data := strings.Repeat("x", w.rng.IntN(60))
	switch n := w.rng.IntN(100); {
	case n < 30 && e == nil:
		c := dstest.CreateText(p, data)
		mortal := w.rng.IntN(4) == 0
		if mortal {
			c.Lifetime = stream.Until(time.Now().Add(5*time.Second), "soon")
		}
		quota := w.fits(p, 1, len(data))
		probe := dstest.NewWaiter()
		w.engine.Probe(c, probe)
		if <-probe.Done; !errors.Is(probe.Err, quota) && (probe.Err != nil || quota != nil) {
			w.failf("create %s, only asked: %v, want %v", p, probe.Err, quota)
		}
		_, err := dstest.Apply(w.engine, c)
		if w.expect(fmt.Sprintf("create %s with %d bytes, mortal %t", p, len(data), mortal), err, quota) {
			w.at[p] = &entry{path: p, bytes: len(data), mortal: mortal}
		}
	case n < 30:
		_, err := dstest.Apply(w.engine, dstest.CreateText(p, data)) // it is there, or in use
		w.say("create %s again: %v", p, err)
	case n < 60 && e != nil && !e.soft:
		w.append(e, data)
	case n < 75 && e != nil && !e.soft:
		_, err := dstest.Apply(w.engine, &stream.Delete{Path: p})
		if w.expect("delete "+string(p), err, nil) {
			w.end(e)
		}
	case n < 90:
		w.fork(w.at[paths[w.rng.IntN(len(paths))]], p, data)
	case n < 93:
		w.say("time passes")
		time.Sleep(15 * time.Second)
		synctest.Wait()
		for _, e := range w.at {
			if e.mortal && !e.soft && w.at[e.path] == e {
				w.end(e)
			}
		}
	case n < 95:
		w.rebound()
	case n < 97:
		w.say("restart")
		if err := w.engine.Close(); err != nil {
			w.failf("close: %v", err)
		}
		w.open()
	case n < 100:
		w.say("power cut")
		after := w.disk.Crash(w.rng, dstest.RandomLoss(w.rng))
		_ = w.engine.Close()
		w.disk = after
		w.open()
	}
}

func (w *world) append(e *entry, data string) {
	a := dstest.Text(e.path, data)
	again := false
	if w.rng.IntN(2) == 0 {
		a.Producer = &stream.Producer{ID: "p", Seq: e.seq}
		if again = e.seq > 0 && w.rng.IntN(3) == 0; again {
			a.Producer.Seq--
		}
	}
	quota := w.fits(e.path, 0, len(data))
	if again {
		quota = nil
	}
	res, err := dstest.Apply(w.engine, a)
	if !w.expect(fmt.Sprintf("append %d bytes to %s, again %t", len(data), e.path, again), err, quota) {
		return
	}
	if again != (res.Outcome == stream.Duplicate) {
		w.failf("outcome %d", res.Outcome)
	}
	if !again {
		e.bytes += len(data)
		if a.Producer != nil {
			e.seq++
		}
	}
}

func (w *world) fork(src *entry, p stream.Path, data string) {
	if src == nil || src.soft || w.at[p] != nil || src.path == p {
		return
	}
	snap, err := w.engine.Stat(src.path, false)
	if err != nil {
		w.failf("stat %s: %v", src.path, err)
	}
	c := dstest.Fork(p, snap, w.rng.Uint64N(snap.Tail+1))
	c.Data = []byte(data)
	_, err = dstest.Apply(w.engine, c)
	if w.expect(fmt.Sprintf("fork %s of %s with %d bytes", p, src.path, len(data)), err, w.fits(p, 1, len(data))) {
		src.forks++
		w.at[p] = &entry{path: p, bytes: len(data), mortal: src.mortal, source: src}
	}
}

// What the ledger has is what there is, after every change of random histories with
// deletions, forks, expiry, duplicates, other limits, restarts and power cuts, and so is
// what it refuses.
func TestCountsLikeTheModel(t *testing.T) {
	histories, steps := 60, 120
	if testing.Short() {
		histories = 10
	}
	for seed := range uint64(histories) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{T: t, rng: rand.New(rand.NewPCG(seed, 1)), disk: dstest.NewDisk(), table: parse(t, ""), at: map[stream.Path]*entry{}}
			w.limits = [2]int64{1 << 40, 1 << 40}
			w.say("seed %d", seed)
			w.open()
			defer func() { _ = w.engine.Close() }()
			for range steps {
				w.step()
				w.check()
			}
		})
	}
}

// However many changes there are at once, the figures fit what is there afterwards, and
// no limit was ever passed.
func TestCountsUnderLoad(t *testing.T) {
	const streams, bytes = 20, 3000
	ledger := tenant.NewLedger(parse(t, fmt.Sprintf("tenant a streams=%d bytes=%d", streams, bytes)))
	e := dstest.OpenEngine(t, dstest.NewDisk(), &store.Options{SegmentSize: 64 << 10, TailMemory: 16 << 10, CacheSize: 1 << 20,
		FlushInterval: time.Millisecond, IdleAfter: 5 * time.Millisecond, Ledger: ledger})
	var all sync.WaitGroup
	for worker := range uint64(8) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(worker, 2))
			for range 400 {
				p := stream.Path(fmt.Sprintf("%c/%d", 'a'+rune(rng.IntN(2)), rng.IntN(40)))
				var cmd stream.Command
				switch rng.IntN(4) {
				case 0:
					cmd = &stream.Delete{Path: p}
				case 1:
					cmd = dstest.Text(p, strings.Repeat("x", 1+rng.IntN(200)))
				default:
					cmd = dstest.CreateText(p, strings.Repeat("x", rng.IntN(100)))
				}
				_, _ = dstest.Apply(e, cmd)
				if u, _ := ledger.Usage("a"); u.Streams > streams || u.Bytes > bytes || u.Streams < 0 || u.Bytes < 0 {
					t.Errorf("%d streams with %d bytes", u.Streams, u.Bytes)
				}
			}
		})
	}
	all.Wait()
	for _, name := range []string{"a", "b"} {
		page, err := e.Page(tenant.Prefix(name), "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		var size uint64
		for i := range page.Streams {
			size += page.Streams[i].Size()
		}
		u, _ := ledger.Usage(name)
		if int(u.Streams) != len(page.Streams) || uint64(u.Bytes) != size {
			t.Errorf("tenant %s: the ledger has %d streams with %d bytes, there are %d with %d", name, u.Streams, u.Bytes, len(page.Streams), size)
		}
	}
	if u, _ := ledger.Usage("a"); u.Refused.Streams == 0 || u.Refused.Bytes == 0 {
		t.Errorf("no limit was met: %+v", u.Refused)
	}
}
