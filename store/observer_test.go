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
	"durablestreams/internal/journal"
	"durablestreams/store"
	"durablestreams/stream"
)

// recorder is an observer that notes what it hears.
type recorder struct {
	version    atomic.Uint64
	interested func(stream.Path) bool                      // nil: all
	decide     func(c store.Change, put func([]store.Row)) // nil: nothing; called with mu held

	gate      chan struct{} // if there is one, Published waits for it
	mu        sync.Mutex
	asked     map[stream.Path]int
	decided   []store.Change
	published []stream.Path
}

func (r *recorder) Version() uint64 { return r.version.Load() }

func (r *recorder) Interested(p stream.Path) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = map[stream.Path]int{}
	}
	r.asked[p]++
	return r.interested == nil || r.interested(p)
}

func (r *recorder) Decided(c store.Change, put func([]store.Row)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decided = append(r.decided, c)
	if r.decide != nil {
		r.decide(c, put)
	}
}

func (r *recorder) Published(p stream.Path) {
	if r.gate != nil {
		<-r.gate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = append(r.published, p)
}

// heard gives what was decided since the last call, and fails unless the same
// was published.
func (r *recorder) heard(t *testing.T) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	var paths []stream.Path
	for _, c := range r.decided {
		s := fmt.Sprintf("%s %d-%d", c.Path, c.Before.Pos, c.After.Pos)
		if c.Created {
			s += " created"
		}
		if c.Gone {
			s += " gone"
		}
		list = append(list, s)
		paths = append(paths, c.Path)
	}
	if !slices.Equal(paths, r.published) {
		t.Errorf("decided %q, published %q", list, r.published)
	}
	r.decided, r.published = nil, nil
	return strings.Join(list, ", ")
}

// Every change of a stream is told, with the tail before and after; whatever
// changes nothing is not.
func TestObserverHearsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		r.version.Store(1)
		disk := dstest.NewDisk()
		o := small()
		o.Observer = r
		e := dstest.OpenEngine(t, disk, o)
		step := func(what, want string, do func()) {
			t.Helper()
			do()
			synctest.Wait()
			if got := r.heard(t); got != want {
				t.Errorf("%s: heard %q, want %q", what, got, want)
			}
		}
		apply := func(cmd stream.Command) func() { return func() { _, _ = dstest.Apply(e, cmd) } }
		twice := dstest.Text("a", "567")
		twice.Producer = &stream.Producer{ID: "p"}
		closing := dstest.Text("b", "9")
		closing.Close = true
		brief := &stream.Create{Path: "brief", ContentType: "text/plain", Lifetime: stream.Sliding(5), Data: []byte("12")}

		step("create with a body", "a 0-4 created", apply(dstest.CreateText("a", "1234")))
		step("create", "b 0-0 created", apply(dstest.CreateText("b", "")))
		step("the same again", "", apply(dstest.CreateText("b", "")))
		step("append", "a 4-7", apply(twice))
		step("duplicate", "", apply(twice))
		step("refused", "", apply(&stream.Append{Path: "a", ContentType: "x/y", HasBody: true, Data: []byte("1")}))
		step("probe", "", func() { e.Probe(dstest.Text("a", "1"), dstest.NewWaiter()) })
		step("append and close", "b 0-1", apply(closing))
		step("close again", "", apply(&stream.Append{Path: "b", Close: true}))
		step("close", "a 7-7", apply(&stream.Append{Path: "a", Close: true}))
		step("delete", "b 1-1 gone", apply(&stream.Delete{Path: "b"}))
		step("nothing to delete", "", apply(&stream.Delete{Path: "b"}))
		step("fork", "f 3-5 created", func() { fork(t, e, "f", "a", 3, "xy") })
		step("fork of the fork", "g 4-4 created", func() { fork(t, e, "g", "f", 4, "") })
		step("soft delete", "a 7-7 gone", apply(&stream.Delete{Path: "a"}))
		step("soft delete in the middle", "f 5-5 gone", apply(&stream.Delete{Path: "f"}))
		step("restart", "", func() {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = dstest.OpenEngine(t, disk, o)
		})
		step("collection of the chain", "g 4-4 gone, f 5-5 gone, a 7-7 gone", apply(&stream.Delete{Path: "g"}))
		step("short life", "brief 0-2 created", apply(brief))
		step("renewal", "", func() {
			pause(3 * time.Second)
			if _, err := e.Stat("brief", true); err != nil {
				t.Error(err)
			}
		})
		step("expiry", "brief 2-2 gone", func() { pause(6 * time.Second) })
		step("another", "brief 0-2 created", apply(brief))
		step("crash, expiry meanwhile, and its path taken at once", "brief 2-2 gone, brief 0-0 created", func() {
			left := disk.Crash(nil, dstest.Loss{})
			disk, r.interested = left, nil
			time.Sleep(10 * time.Second)
			synctest.Wait()
			r.heard(t) // of the engine that goes on with the other disk
			again := dstest.OpenEngine(t, left, o)
			dstest.MustApply(t, again, dstest.CreateText("brief", ""))
		})
	})
}

// The offsets told are those that clients get, also below a fork point.
func TestObserverOffsets(t *testing.T) {
	r := &recorder{}
	r.version.Store(1)
	o := small()
	o.Observer = r
	e := dstest.OpenEngine(t, dstest.NewDisk(), o)
	a := dstest.MustApply(t, e, dstest.CreateText("a", "1234"))
	snap, err := e.Stat("a", false)
	if err != nil {
		t.Fatal(err)
	}
	f := dstest.MustApply(t, e, dstest.Fork("f", snap, 3))
	g := dstest.MustApply(t, e, dstest.Text("f", "x"))
	for i, want := range []store.Change{
		{Path: "a", Created: true, Before: a.Meta.OffsetAt(0), After: a.Tail},
		{Path: "f", Created: true, Before: a.Meta.OffsetAt(3), After: f.Tail},
		{Path: "f", Before: f.Tail, After: g.Tail},
	} {
		if got := r.decided[i]; got != want {
			t.Errorf("change %d is %+v, want %+v", i, got, want)
		}
	}
}

// Nobody is asked who has said that nothing is of interest; others are asked once
// a stream and version.
func TestObserverIsAskedOnce(t *testing.T) {
	r := &recorder{interested: func(p stream.Path) bool { return p == "b" }}
	o := small()
	o.Observer = r
	e := dstest.OpenEngine(t, dstest.NewDisk(), o)
	for version, want := range []int{0, 1, 2, 2, 3} {
		r.version.Store(uint64(version) % 3 * 7)
		if version == 3 {
			r.version.Store(0)
		}
		if version == 4 {
			r.version.Store(9)
		}
		for _, p := range []stream.Path{"a", "b"} {
			if version == 0 {
				dstest.MustApply(t, e, dstest.CreateText(p, ""))
			}
			for range 3 {
				dstest.MustApply(t, e, dstest.Text(p, "x"))
			}
			if r.asked[p] != want {
				t.Errorf("version %d: asked %d times about %s, want %d", r.version.Load(), r.asked[p], p, want)
			}
		}
		told := 3
		if r.version.Load() == 0 {
			told = 0
		}
		if n := strings.Count(r.heard(t), "b "); n != told {
			t.Errorf("version %d: told %d changes of b, want %d", r.version.Load(), n, told)
		}
	}
}

// Published comes when the change is durable and can be seen.
func TestPublishedIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		r.version.Store(1)
		disk := dstest.NewDisk()
		o := small()
		o.Observer = r
		e := dstest.OpenEngine(t, disk, o)
		dstest.MustApply(t, e, dstest.CreateText("a", ""))
		h := holdJournal(disk)
		e.Apply(dstest.Text("a", "123"), dstest.NewWaiter())
		synctest.Wait()
		e.Apply(dstest.Text("a", "45"), dstest.NewWaiter())
		synctest.Wait()
		if len(r.decided) != 3 || len(r.published) != 1 {
			t.Errorf("before the sync: %d decided, %d published", len(r.decided), len(r.published))
		}
		r.gate = make(chan struct{}) // the committer waits in Published: what it tells must be there
		h.letGo(disk)
		synctest.Wait()
		if got := look(e, "a"); got != "123" {
			t.Errorf("when it is published, a reads %q", got)
		}
		close(r.gate)
		synctest.Wait()
		if got := look(e, "a"); got != "12345" || len(r.published) != 3 {
			t.Errorf("in the end a reads %q, %d published", got, len(r.published))
		}
	})
}

// marker is an observer that keeps a row for every stream, its tail, and counts
// its decisions in another. It notes them in the order in which it takes them.
type marker struct {
	recorder
	e     *store.Engine
	rng   *rand.Rand
	calls [][]store.Row
}

func newMarker(seed uint64) *marker {
	m := &marker{rng: rand.New(rand.NewPCG(seed, 11))}
	m.version.Store(1)
	m.interested = func(p stream.Path) bool { return !strings.HasPrefix(string(p), "quiet") }
	m.decide = m.mark
	return m
}

func (m *marker) mark(c store.Change, put func([]store.Row)) {
	tail := row("tail/" + string(c.Path))
	if !c.Gone {
		tail.Value = []byte(c.After.String())
	}
	m.write(func(count store.Row) {
		if m.rng.IntN(2) == 0 {
			put([]store.Row{tail, count})
		} else { // several calls, with time between them
			put([]store.Row{tail})
			if m.rng.IntN(4) == 0 {
				dstest.Pause(50 * time.Microsecond)
			}
			put(nil)
			put([]store.Row{count})
		}
	}, tail)
}

// write makes one decision, with mu held.
func (m *marker) write(put func(count store.Row), others ...store.Row) {
	count := row("count", fmt.Sprint(len(m.calls)+1))
	m.calls = append(m.calls, append(others, count))
	put(count)
}

// aside is a decision that is about no stream.
func (m *marker) aside(done func(error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	aside := row("aside", fmt.Sprint(len(m.calls)))
	if m.rng.IntN(2) == 0 {
		aside.Value = nil
	}
	m.write(func(count store.Row) { m.e.PutRows([]store.Row{aside, count}, done) }, aside)
}

// The order of decisions that an observer takes under its own lock is the order
// in the journal, and each is kept or lost with the change it is about: after a
// power cut at any moment the rows are those of some number of decisions, and
// tell the tails that the streams have.
func TestDecisionsInOrder(t *testing.T) {
	for seed := range uint64(rounds(6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { decisionsInOrder(t, seed) })
	}
}

func decisionsInOrder(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	disk := dstest.NewDisk()
	for life := range 3 {
		o := still()
		if seed%2 == 0 {
			o = busy()
		}
		m := newMarker(seed)
		o.Observer = m
		e, err := store.Open(disk, dstest.Dir, o)
		if err != nil {
			t.Fatal(err)
		}
		m.e = e
		start := allRows(t, e, "")
		var mu sync.Mutex
		var after *dstest.Disk
		left := rng.IntN(200)
		cutRNG := rand.New(rand.NewPCG(seed, uint64(life)))
		loss := dstest.Loss{Keep: rng.IntN(101), Tear: rng.IntN(3) == 0}
		disk.OnOp(func(op dstest.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Changes() {
				if left--; left == -1 {
					after = disk.Crash(cutRNG, loss)
				}
			}
			return nil
		})
		crowd(t, e, m, rng)
		disk.OnOp(nil)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if after == nil {
			after = disk.Crash(cutRNG, loss)
		}
		if len(m.decided) != len(m.published) {
			t.Errorf("%d decided, %d published", len(m.decided), len(m.published))
		}
		for _, d := range []*dstest.Disk{disk, after} {
			if e, err = store.Open(d, dstest.Dir, still()); err != nil {
				t.Fatal(err)
			}
			got := allRows(t, e, "")
			least := 0
			if d == disk {
				least = len(m.calls)
			}
			n, ok := prefixOf(m.calls, start, got, least)
			if !ok {
				t.Errorf("seed %d, life %d: no number of the %d decisions leads to %s", seed, life, len(m.calls), brief(got))
			}
			if d == after {
				t.Logf("%d of %d decisions are left", n, len(m.calls))
			}
			err := e.List("", "", func(s stream.Snapshot) bool {
				key := "tail/" + string(s.Path)
				if want := s.TailOffset().String(); got[key] != want && m.interested(s.Path) {
					t.Errorf("seed %d, life %d: %s ends at %s, its row says %s", seed, life, s.Path, want, got[key])
				}
				delete(got, key)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			for key := range got {
				if strings.HasPrefix(key, "tail/") {
					t.Errorf("seed %d, life %d: row %s is left of a stream that is gone", seed, life, key)
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			dstest.CheckDisk(t, d)
		}
		disk = after
	}
}

// crowd changes streams from many goroutines at once.
func crowd(t *testing.T, e *store.Engine, m *marker, rng *rand.Rand) {
	large := strings.Repeat("large ", 50<<10)
	var wg sync.WaitGroup
	for w := range 6 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), uint64(w)))
		wg.Go(func() {
			for i := range 40 {
				p := stream.Path(fmt.Sprint("s", rng.IntN(5)))
				var cmd stream.Command
				switch rng.IntN(16) {
				case 0:
					cmd = &stream.Delete{Path: p}
				case 1:
					if snap, err := e.Stat(p, false); err == nil {
						cmd = dstest.Fork(stream.Path(fmt.Sprint("f", rng.IntN(5))), snap, snap.Tail)
					}
				case 2:
					cmd = &stream.Delete{Path: stream.Path(fmt.Sprint("f", rng.IntN(5)))}
				case 3:
					m.aside(nil)
				case 4, 5:
					q := stream.Path(fmt.Sprint("quiet", rng.IntN(5)))
					_, _ = dstest.Apply(e, dstest.CreateText(q, ""))
					cmd = dstest.Text(q, large) // a batch of its own
					if i%8 > 0 {
						cmd = dstest.Text(q, "y")
					}
				case 6, 7, 8:
					cmd = dstest.CreateText(p, "x")
				default:
					cmd = dstest.Text(p, "x")
					if rng.IntN(20) == 0 {
						cmd = dstest.Text(p, large)
					}
				}
				if cmd == nil {
					continue
				}
				if _, err := dstest.Apply(e, cmd); errors.Is(err, stream.Internal) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// frames gives the kinds of the records in each frame of a journal.
func frames(t *testing.T, disk *dstest.Disk) (list []string) {
	t.Helper()
	last := ^uint64(0)
	_, err := journal.Scan(disk, "data/journal", &journal.Visitor{Record: func(f journal.FrameInfo, r journal.Record) error {
		if f.Seq != last {
			list = append(list, "")
			last = f.Seq
		}
		list[len(list)-1] += stream.RecordKind(r.Kind).String() + " "
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// While an observer decides, its batch waits for it once it has rows, and nobody
// else waits before.
func TestBatchWaitsForDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, between := make(chan struct{}), make(chan struct{})
		r := &slowObserver{before: before, between: between}
		disk := dstest.NewDisk()
		o := still()
		o.Observer = r
		e := dstest.OpenEngine(t, disk, o)
		dstest.MustApply(t, e, dstest.CreateText("other", ""))
		first := dstest.NewWaiter()
		go e.Apply(dstest.CreateText("slow", ""), first)
		synctest.Wait()
		dstest.MustApply(t, e, dstest.Text("other", "not kept waiting"))
		if len(frames(t, disk)) != 2 {
			t.Errorf("frames %q", frames(t, disk))
		}
		close(before)
		synctest.Wait() // one row is in the batch
		second, third, rows := dstest.NewWaiter(), dstest.NewWaiter(), make(chan error, 1)
		e.Apply(dstest.Text("other", strings.Repeat("would have a batch of its own", 10<<10)), second)
		synctest.Wait()
		e.PutRows([]store.Row{row("beside", "x")}, func(err error) { rows <- err })
		go e.Apply(dstest.CreateText("slow2", ""), third)
		synctest.Wait()
		for i, w := range []*dstest.Waiter{first, second, third} {
			select {
			case <-w.Done:
				t.Errorf("%d is answered while its batch is open: %v", i, w.Err)
			default:
			}
		}
		close(between)
		synctest.Wait()
		for i, w := range []*dstest.Waiter{first, second, third} {
			if <-w.Done; w.Err != nil {
				t.Errorf("%d: %v", i, w.Err)
			}
		}
		if err := <-rows; err != nil {
			t.Error(err)
		}
		want := []string{"create ", "append ", "create rows append rows rows ", "create rows rows "}
		if got := frames(t, disk); !slices.Equal(got, want) {
			t.Errorf("frames %q, want %q", got, want)
		}
	})
}

// An empty put is enough to have the record in its place before whatever is decided
// next, and PutRows tells when that is durable and visible.
func TestPutOfNothingPlacesTheRecord(t *testing.T) {
	for name, want := range map[string]string{"put": "create rows ", "no put": "rows create "} {
		r := &recorder{}
		r.version.Store(1)
		disk := dstest.NewDisk()
		o := still()
		o.Observer = r
		e := dstest.OpenEngine(t, disk, o)
		seen := make(chan string, 1)
		r.decide = func(c store.Change, put func([]store.Row)) {
			if name == "put" {
				put(nil)
			}
			e.PutRows([]store.Row{row("k", "v")}, nil)
			e.PutRows(nil, func(error) {
				if name == "put" {
					seen <- look(e, c.Path)
				} else {
					seen <- "x"
				}
			})
		}
		e.Cork() // one frame
		w := dstest.NewWaiter()
		e.Apply(dstest.CreateText("a", "x"), w)
		e.Uncork()
		<-w.Done
		if got := <-seen; got != "x" {
			t.Errorf("%s: a reads %q when that is said to be durable", name, got)
		}
		if got := frames(t, disk); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: frames %q, want %q", name, got, want)
		}
	}
}

// slowObserver takes its time over streams called slow.
type slowObserver struct{ before, between chan struct{} }

func (s *slowObserver) Version() uint64               { return 1 }
func (s *slowObserver) Interested(p stream.Path) bool { return strings.HasPrefix(string(p), "slow") }
func (s *slowObserver) Published(stream.Path)         {}
func (s *slowObserver) Decided(c store.Change, put func([]store.Row)) {
	<-s.before
	put([]store.Row{row("1"+string(c.Path), "x")})
	<-s.between
	put([]store.Row{row("2"+string(c.Path), "x")})
}

// What is decided while the engine closes is kept, answered and published.
func TestDecisionsWhileClosing(t *testing.T) {
	disk := dstest.NewDisk()
	for round := range 30 {
		m := newMarker(uint64(round))
		o := busy()
		o.Observer = m
		e, err := store.Open(disk, dstest.Dir, o)
		if err != nil {
			t.Fatal(err)
		}
		start := allRows(t, e, "")
		var taken atomic.Int32
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					_, err := dstest.Apply(e, dstest.CreateText(stream.Path(fmt.Sprint(round, "/", w, "/", i)), "x"))
					if errors.Is(err, stream.ShuttingDown) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					taken.Add(1)
				}
			})
		}
		dstest.Pause(time.Duration(round%5) * time.Millisecond)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if n := int(taken.Load()); len(m.decided) != n || len(m.published) != n {
			t.Errorf("%d decided, %d published, %d answered", len(m.decided), len(m.published), n)
		}
		for _, rows := range m.calls {
			fold(start, rows)
		}
		if e, err = store.Open(disk, dstest.Dir, still()); err != nil {
			t.Fatal(err)
		}
		if got := allRows(t, e, ""); !maps.Equal(got, start) {
			t.Errorf("%d rows, want %d", len(got), len(start))
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An observer that breaks the rules ends the engine: nothing is kept without the
// rows that belong to it.
func TestMisuseOfPut(t *testing.T) {
	var late func([]store.Row)
	for name, decide := range map[string]func(c store.Change, put func([]store.Row)){
		"too large": func(_ store.Change, put func([]store.Row)) {
			put([]store.Row{row("k", strings.Repeat("v", store.MaxRowValue+1))})
		},
		"no key": func(_ store.Change, put func([]store.Row)) { put([]store.Row{row("", "v")}) },
		"too late": func(c store.Change, put func([]store.Row)) {
			if late == nil {
				late = put
			} else {
				late([]store.Row{row("k", "v")})
			}
		},
		"panic": func(_ store.Change, put func([]store.Row)) {
			put([]store.Row{row("k", "v")})
			panic("observer")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			r.version.Store(1)
			disk := dstest.NewDisk()
			o := small()
			o.Observer = r
			fatal := make(chan error, 10)
			o.OnFatal = func(err error) { fatal <- err }
			e, err := store.Open(disk, dstest.Dir, o)
			if err != nil {
				t.Fatal(err)
			}
			dstest.MustApply(t, e, dstest.CreateText("a", ""))
			r.decide = decide
			if name == "too late" {
				dstest.MustApply(t, e, dstest.Text("a", "1"))
			}
			func() {
				defer func() { _ = recover() }()
				if _, err := dstest.Apply(e, dstest.Text("a", "2")); !errors.Is(err, stream.Internal) {
					t.Errorf("the change is answered with %v", err)
				}
			}()
			if err := <-fatal; err == nil || len(fatal) > 0 {
				t.Errorf("%v, and %d more", err, len(fatal))
			}
			_ = e.Close()
			if e, err = store.Open(disk, dstest.Dir, still()); err != nil {
				t.Fatal(err)
			}
			if got := dstest.MustRead(t, e, "a"); strings.Contains(got, "2") {
				t.Errorf("a reads %q", got)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
