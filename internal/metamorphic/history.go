package metamorphic

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/stream"
)

// History is a run with one client.
type History struct {
	Seed   uint64
	Steps  int
	Open   Opener
	Check  Checker         // nil: none
	Same   stream.SameType // as the target compares content types; nil: byte for byte
	Settle func()          // waits until nothing moves: synctest.Wait
	// Calm leaves out what makes a trace depend on the scheduler: power cuts in
	// the middle of something.
	Calm bool

	rng    *rand.Rand
	disk   *dstest.Disk
	target Target
	model  *model
	watch  []*watch
	cut    *dstest.PowerCut // armed, nil if not
	recent map[stream.Path]*stream.Create
	trace  []string
	step   int
	start  int64
	opened int64 // time of the last start after a crash
	stats  Stats
}

// Stats counts what a run has tried.
type Stats struct {
	Steps, Crashes, MidCrashes, RecoveryCrashes, Restarts, Forks, Expired, Kept, Lost, Pictures int
}

// Add sums up.
func (s *Stats) Add(o Stats) {
	s.Steps += o.Steps
	s.Crashes += o.Crashes
	s.MidCrashes += o.MidCrashes
	s.RecoveryCrashes += o.RecoveryCrashes
	s.Restarts += o.Restarts
	s.Forks += o.Forks
	s.Expired += o.Expired
	s.Kept += o.Kept
	s.Lost += o.Lost
	s.Pictures += o.Pictures
}

// watch is somebody who waits for changes of a stream.
type watch struct {
	e     *entry
	woken bool
	stop  func()
}

// Run runs the history. The error tells the seed and the last steps.
func (h *History) Run() (Stats, error) {
	if h.Same == nil {
		h.Same = func(a, b string) bool { return a == b }
	}
	h.rng = rand.New(rand.NewPCG(h.Seed, 0))
	h.start = h.now()
	h.disk = dstest.NewDisk()
	h.model = newModel(h.Same)
	h.recent = map[stream.Path]*stream.Create{}
	err := h.run()
	h.disk.OnOp(nil)
	if h.target != nil {
		cerr := h.target.Close()
		if err == nil {
			err = cerr
		}
	}
	if err == nil {
		err = h.check()
	}
	h.stats.Steps = h.step
	if err != nil {
		from := max(0, len(h.trace)-60)
		err = fmt.Errorf("seed %d, step %d: %w\nlast steps:\n%s", h.Seed, h.step, err, strings.Join(h.trace[from:], "\n"))
	}
	return h.stats, err
}

// Trace is a checksum of everything that was done and answered.
func (h *History) Trace() uint64 {
	sum := fnv.New64a()
	for _, line := range h.trace {
		sum.Write([]byte(line))
	}
	return sum.Sum64()
}

// Lines are the steps of the trace.
func (h *History) Lines() []string { return h.trace }

func (h *History) run() (err error) {
	if h.target, err = h.Open(h.disk); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	for h.step = range h.Steps {
		if err := h.one(); err != nil {
			return err
		}
		if h.cut.Fired() {
			if err := h.afterCut(nil); err != nil {
				return err
			}
		}
	}
	return h.verify(h.model, false)
}

func (h *History) note(format string, args ...any) {
	at := time.Duration(h.now() - h.start).Round(time.Microsecond)
	h.trace = append(h.trace, fmt.Sprintf("%4d %9s ", h.step, at)+fmt.Sprintf(format, args...))
}

func (h *History) now() int64 { return time.Now().UnixNano() }

// one does one random step.
func (h *History) one() error {
	switch n := h.rng.IntN(1000); {
	case n < 420:
		return h.apply(h.randomAppend())
	case n < 560:
		return h.apply(h.randomCreate())
	case n < 640:
		return h.apply(h.randomFork())
	case n < 690:
		return h.apply(&stream.Delete{Path: h.path()})
	case n < 830:
		return h.read()
	case n < 860:
		return h.startWatch()
	case n < 885:
		return h.stopWatch()
	case n < 950:
		return h.sleep()
	case n < 960:
		return h.verify(h.model, false)
	case n < 970:
		return h.restart()
	case n < 980:
		h.armCut()
		return nil
	default:
		return h.crash()
	}
}

// apply sends a command and compares the answer with the model's.
func (h *History) apply(cmd stream.Command) error {
	if cmd == nil {
		return nil
	}
	h.calm(h.model)
	at := h.now()
	res, err := dstest.Apply(h.target, cmd)
	if h.cut.Fired() {
		h.note("%s: power cut", describe(cmd))
		return h.afterCut(cmd)
	}
	h.note("%s: %s", describe(cmd), describeResult(res, err))
	if errors.Is(err, stream.Busy) {
		return nil
	}
	if h.now() != at {
		return fmt.Errorf("%s took %v of virtual time", describe(cmd), time.Duration(h.now()-at))
	}
	idle := h.changesNothing(cmd)
	want, refusal := h.model.apply(cmd, at)
	if err := compareResult(res, err, want, refusal); err != nil {
		return fmt.Errorf("%s: %w", describe(cmd), err)
	}
	if refusal == nil {
		h.applied(cmd, want.Outcome)
	}
	h.Settle()
	if refusal != nil || want.Outcome == stream.Duplicate || idle {
		return nil
	}
	return h.wakes(cmd, want)
}

// changesNothing reports whether cmd, should it succeed, is a repeated close.
func (h *History) changesNothing(cmd stream.Command) bool {
	a, ok := cmd.(*stream.Append)
	return ok && h.model.at[a.Path] != nil && h.model.at[a.Path].state.Closed
}

func (h *History) applied(cmd stream.Command, outcome stream.Outcome) {
	c, ok := cmd.(*stream.Create)
	if ok && outcome == stream.Created {
		h.recent[c.Path] = c
		if c.Fork != nil {
			h.stats.Forks++
		}
	}
}

// wakes checks that the watchers of a changed stream were told.
func (h *History) wakes(cmd stream.Command, res stream.Result) error {
	var p stream.Path
	switch c := cmd.(type) {
	case *stream.Append:
		p = c.Path
	case *stream.Delete:
		p = c.Path
	default:
		return nil
	}
	for _, w := range h.watch {
		if w.e.state.ID != res.Meta.ID {
			continue
		}
		if !w.woken {
			return fmt.Errorf("watcher of %s was not woken", p)
		}
		w.woken = false
	}
	return nil
}

// sweepLag is how long after a deadline a store may take to notice that a
// source has lost its last fork.
const sweepLag = 1100 * time.Millisecond

// calm waits until the target has had time to end what is over: a source whose
// forks have expired is free only then.
func (h *History) calm(m *model) {
	for h.probe(m); m.eased+int64(sweepLag) > h.now(); h.probe(m) {
		h.pause(time.Duration(m.eased + int64(sweepLag) - h.now()))
	}
}

func (h *History) pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	h.Settle()
}

// probe asks about every stream of which the model is not sure; what becomes of
// one may decide what becomes of its source.
func (h *History) probe(m *model) {
	now := h.now()
	m.expire(now)
	for i := range names {
		p := stream.Path(names[i : i+1])
		e := m.at[p]
		if !e.uncertain(now) {
			continue
		}
		if _, err := h.target.Stat(p, false); errors.Is(err, stream.NotFound) || errors.Is(err, stream.Gone) {
			h.stats.Expired++
			m.end(e, now, true)
		}
	}
}

func compareResult(res stream.Result, err error, want stream.Result, refusal *stream.Error) error {
	if refusal != nil {
		var got *stream.Error
		if !errors.As(err, &got) {
			return fmt.Errorf("answered %s, want %v", describeResult(res, err), refusal)
		}
		if got.Kind != refusal.Kind || got.Expected != refusal.Expected || got.Received != refusal.Received ||
			got.Epoch != refusal.Epoch || got.Tail != refusal.Tail {
			return fmt.Errorf("refused with %+v, want %+v", *got, *refusal)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("refused with %w, want %s", err, describeResult(want, nil))
	}
	if res.Outcome != want.Outcome || res.Tail != want.Tail || res.Closed != want.Closed || res.Highest != want.Highest ||
		res.Meta.ID != want.Meta.ID {
		return fmt.Errorf("answered %s, want %s", describeResult(res, nil), describeResult(want, nil))
	}
	return nil
}

// read reads a random stretch.
func (h *History) read() error {
	p := h.path()
	h.calm(h.model)
	touch := h.rng.IntN(3) > 0
	snap, err := h.target.Stat(p, touch)
	h.Settle() // a renewal may be on its way to the disk
	cut := h.cut.Fired()
	e, want := h.model.stat(p, h.now())
	h.note("stat %s touch=%v: tail %d closed %v, %v", p, touch, snap.Tail, snap.Closed, err)
	if want != nil {
		if !errors.Is(err, want.(*stream.Error).Kind) {
			return fmt.Errorf("stat %s: %v, want %v", p, err, want)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("stat %s: %w, want tail %d", p, err, e.state.Tail)
	}
	if err := e.compareSnapshot(snap); err != nil {
		return fmt.Errorf("stat %s: %w", p, err)
	}
	if touch {
		if cut {
			e.state.Touch(h.now())
		} else {
			e.used(h.now(), false)
		}
	}
	from := uint64(h.rng.Int64N(int64(snap.Tail) + 1))
	to := from + uint64(h.rng.Int64N(int64(snap.Tail-from)+1))
	if h.rng.IntN(3) == 0 {
		from, to = 0, snap.Tail
	}
	data, err := dstest.ReadRange(h.target, snap, from, to)
	if err != nil {
		return fmt.Errorf("read %s [%d, %d): %w", p, from, to, err)
	}
	if err := compareData(data, e.data[from:to], from); err != nil {
		return fmt.Errorf("read %s [%d, %d): %w", p, from, to, err)
	}
	return nil
}

func (h *History) startWatch() error {
	p := h.path()
	h.calm(h.model)
	e, want := h.model.stat(p, h.now())
	snap, err := h.target.Stat(p, false)
	if (want == nil) != (err == nil) {
		return fmt.Errorf("stat %s: %v, want %v", p, err, want)
	}
	if err != nil || len(h.watch) > 20 {
		return nil
	}
	w := &watch{e: e}
	w.stop = h.target.Watch(snap, func() { w.woken = true })
	h.Settle()
	if !h.cut.Fired() {
		e.used(h.now(), false)
	}
	e.state.Touch(h.now())
	e.watchers++
	h.watch = append(h.watch, w)
	h.note("watch %s", p)
	return nil
}

func (h *History) stopWatch() error {
	if len(h.watch) == 0 {
		return nil
	}
	i := h.rng.IntN(len(h.watch))
	w := h.watch[i]
	h.watch = append(h.watch[:i], h.watch[i+1:]...)
	w.stop()
	w.stop()
	h.Settle()
	if w.e.watchers > 0 {
		w.e.watchers--
		w.e.state.Touch(h.now())
		if !h.cut.Fired() {
			w.e.used(h.now(), false)
		}
	}
	h.note("stop watching %s", w.e.state.Path)
	return nil
}

// sleep lets time go by: flushes, evictions and deadlines happen.
func (h *History) sleep() error {
	var d time.Duration
	switch h.rng.IntN(20) {
	case 0:
		d = time.Duration(h.rng.IntN(70)) * time.Second
	case 1, 2, 3, 4, 5:
		d = time.Duration(h.rng.IntN(3000)) * time.Millisecond
	default:
		d = time.Duration(h.rng.IntN(60)) * time.Millisecond
	}
	h.note("sleep %v", d)
	h.pause(d)
	return nil
}
