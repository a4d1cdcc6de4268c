package subscription_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/glob"
	"durablestreams/stream"
	"durablestreams/subscription"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run only this seed")
	stepsFlag = flag.Int("steps", 200, "steps of a history")
	traceFlag = flag.Bool("trace", false, "tell what happens in a history")
)

// TestHistories plays random histories against what a client knows: its acks are
// kept, cursors do not move without one, generations grow, and whatever is pending
// at the end is woken for.
func TestHistories(t *testing.T) {
	playHistories(t, 60, func(_ *testing.T, seed uint64) func(*subscription.Manager) backend {
		rnd, disk := rand.New(rand.NewPCG(seed, 3)), newDisk()
		return func(m *subscription.Manager) backend { return newEngine(disk, m, rnd) }
	})
}

// playHistories plays some seeds, or as many as DS_ROUNDS says from one on that
// nobody has tried.
func playHistories(t *testing.T, rounds uint64, start func(t *testing.T, seed uint64) func(*subscription.Manager) backend) {
	first := uint64(1)
	if s := os.Getenv("DS_ROUNDS"); s != "" {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		first, rounds = rand.Uint64()>>32, n
	}
	if *seedFlag != 0 {
		first, rounds = *seedFlag, 1
	}
	for seed := first; seed < first+rounds && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory(t, seed, start(t, seed))
			defer func() { h.stop(true) }()
			h.play(*stepsFlag)
			h.quiet()
			if t.Failed() {
				t.Logf("again: go test ./subscription -run '%s$' -seed %d -steps %d", t.Name(), seed, *stepsFlag)
			}
		})
	}
}

// backend is an engine that a history runs on, over a disk that survives it.
type backend interface {
	subscription.Engine
	subscription.WakeStreams
	create(path stream.Path, size uint64) error
	append(path stream.Path, size uint64) error
	delete(path stream.Path) error
	tail(path stream.Path) (inc stream.Incarnation, tail uint64, found bool) // decided
	events(t *testing.T, path stream.Path) []wakeEvent
	setBusy(busy bool)
	crash() // loses what is not durable; nothing is answered any more
	close()
}

type history struct {
	t       *testing.T
	open    func(*subscription.Manager) backend
	hooks   *receivers
	rnd     *rand.Rand // of the steps
	running sync.WaitGroup

	mu    sync.Mutex
	back  backend
	m     *subscription.Manager
	luck  *rand.Rand // of everything that happens beside the steps
	names int
	lives map[string]*life
	born  []func() // after a crash: looks whether a creation has happened
	good  bool     // receivers only do right
}

// life is what a client knows about one subscription.
type life struct {
	id       string
	c        subscription.Config
	pattern  glob.Pattern
	explicit map[stream.Path]bool
	deleted  bool // for certain, or about to be

	// Where cursors may be: not below what was acked or shown, not above what somebody
	// tried to ack. Without an entry a stream was linked at its beginning.
	floor, ceil map[place]uint64
	loose       map[stream.Path]int // links that are being changed

	generation uint64 // highest claimed
	wakes      []subscription.Wake
}

type place struct {
	path stream.Path
	inc  stream.Incarnation
}

var historyPaths = []stream.Path{"e/0", "e/1", "e/2", "e/x/0", "f/0", "f/1"}
var historyWakes = []stream.Path{"wake/0", "wake/1"}

func newHistory(t *testing.T, seed uint64, open func(*subscription.Manager) backend) *history {
	h := &history{t: t, open: open, hooks: &receivers{}, rnd: rand.New(rand.NewPCG(seed, 1)), luck: rand.New(rand.NewPCG(seed, 2)),
		lives: map[string]*life{}}
	h.hooks.setAnswer(h.receive)
	h.start()
	return h
}

func (h *history) start() {
	m := subscription.New(&subscription.Options{MaxCalls: 4, MaxCallsPerTarget: 2})
	back := h.open(m)
	if err := m.Start(subscription.Ports{Engine: back, WakeStreams: back, Webhooks: h.hooks, Tokens: tokens{}}); err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.back, h.m = back, m
}

func (h *history) stop(orderly bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if !orderly {
		h.back.crash()
		cancel()
	}
	if err := h.m.Close(ctx); err != nil {
		h.t.Error(err)
	}
	if orderly {
		h.back.close()
	}
}

// parts gives the engine and the manager of the current run of the server.
func (h *history) parts() (backend, *subscription.Manager) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.back, h.m
}

func (h *history) trace(format string, args ...any) {
	if *traceFlag {
		h.t.Logf("%s "+format, append([]any{time.Now().Format("04:05.0000")}, args...)...)
	}
}

func (h *history) chance(percent int) bool { return h.rnd.IntN(100) < percent }

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// play makes steps, most of them one after the other.
func (h *history) play(steps int) {
	for range steps {
		step := pick(h.rnd, []func() func(){h.appendStep, h.appendStep, h.appendStep, h.streamStep, h.createStep, h.deleteStep, h.linkStep,
			h.claimStep, h.claimStep, h.ackStep, h.ackStep, h.ackStep, h.releaseStep, h.lookStep, h.lookStep, h.wakeStreamStep})
		if op := step(); op != nil {
			done := make(chan struct{})
			h.running.Go(func() { op(); close(done) })
			if !h.chance(15) {
				<-done
			}
		}
		switch n := h.rnd.IntN(100); {
		case n < 3:
			h.restart(false)
		case n < 4:
			h.restart(true)
		case n < 14:
			time.Sleep(time.Duration(h.rnd.IntN(45_000)) * time.Millisecond)
		case n < 40:
			time.Sleep(time.Duration(h.rnd.IntN(2000)) * time.Microsecond)
		case n < 42:
			e, _ := h.parts()
			e.setBusy(true)
			time.Sleep(time.Duration(h.rnd.IntN(5000)) * time.Millisecond)
			e.setBusy(false)
		}
	}
}

// restart ends the server and starts it again, in good order or not.
func (h *history) restart(orderly bool) {
	h.stop(orderly)
	h.running.Wait()
	h.trace("restart, orderly %v", orderly)
	h.start()
	h.mu.Lock()
	born := h.born
	h.born = nil
	h.mu.Unlock()
	for _, look := range born {
		look()
	}
}

// tolerate reports errors other than those that any request may meet here.
func (h *history) tolerate(what string, err error, codes ...subscription.Code) {
	for _, kind := range []stream.Kind{stream.ShuttingDown, stream.Busy, stream.NotFound} {
		if errors.Is(err, kind) {
			return
		}
	}
	if r, ok := errors.AsType[*subscription.Refusal](err); ok && (r.Code == subscription.NotFound || slices.Contains(codes, r.Code)) {
		return
	}
	if err != nil {
		h.t.Errorf("%s: %v", what, err)
	}
}

func (h *history) appendStep() func() {
	path, n := pick(h.rnd, historyPaths), uint64(1+h.rnd.IntN(5))
	e, _ := h.parts()
	return func() {
		err := e.append(path, n)
		h.trace("append %s by %d: %v", path, n, err)
		h.tolerate("append", err)
	}
}

func (h *history) streamStep() func() {
	path, n, end := pick(h.rnd, historyPaths), uint64(h.rnd.IntN(3)), h.chance(30)
	e, _ := h.parts()
	return func() {
		if end {
			err := e.delete(path)
			h.trace("delete %s: %v", path, err)
			h.tolerate("delete", err)
		} else {
			err := e.create(path, n)
			h.trace("create %s with %d: %v", path, n, err)
			h.tolerate("create", err)
		}
	}
}

func (h *history) wakeStreamStep() func() {
	path, end := pick(h.rnd, historyWakes), h.chance(30)
	e, _ := h.parts()
	return func() {
		if end {
			h.tolerate("delete", e.delete(path))
		} else {
			h.tolerate("create", e.create(path, 0))
		}
	}
}

func (h *history) createStep() func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lives) >= 6 {
		return nil
	}
	h.names++
	l := &life{id: fmt.Sprint("s", h.names), explicit: map[stream.Path]bool{}, loose: map[stream.Path]int{}, floor: map[place]uint64{}, ceil: map[place]uint64{}}
	pattern := pick(h.rnd, []string{"e/*", "e/**", "**", "f/0", ""})
	if h.chance(50) {
		l.c = hook(pattern)
		l.c.WebhookURL = fmt.Sprintf("https://host%d.example/%s", h.rnd.IntN(2), l.id)
	} else {
		l.c = pull(pattern)
		l.c.WakeStream = string(pick(h.rnd, historyWakes))
	}
	if pattern != "" {
		l.pattern, _ = glob.Parse(pattern)
	}
	for _, path := range historyPaths {
		if pattern == "" && path == historyPaths[0] || h.chance(20) {
			l.c.Streams = append(l.c.Streams, string(path))
			l.explicit[path] = true
		}
	}
	ttl := int64(1000 + h.rnd.IntN(30_000))
	l.c.LeaseTTL = &ttl
	m := h.m
	known := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		l.linkedNow(h.back, slices.Concat(historyPaths, historyWakes)...)
		h.lives[l.id] = l
	}
	return func() {
		_, _, err := m.Create(h.t.Context(), l.id, rootURL, l.c)
		h.trace("create %s %+v: %v", l.id, l.c, err)
		h.tolerate("create subscription", err)
		switch {
		case err == nil:
			known()
		case errors.Is(err, stream.ShuttingDown):
			h.mu.Lock()
			defer h.mu.Unlock()
			h.born = append(h.born, func() {
				if _, m := h.parts(); m != nil {
					if _, err := m.Get(h.t.Context(), l.id); err == nil {
						known()
					}
				}
			})
		}
	}
}

func (l *life) links(path stream.Path) bool {
	return l.explicit[path] || l.pattern.Match(path) && string(path) != l.c.WakeStream
}

// linkedNow says that cursors of paths may be anywhere up to the tails.
func (l *life) linkedNow(e backend, paths ...stream.Path) {
	for _, path := range paths {
		if inc, tail, found := e.tail(path); found {
			p := place{path, inc}
			l.ceil[p] = max(tail, l.ceil[p])
			delete(l.floor, p)
		}
	}
}

// some gives one subscription that is not known to be deleted.
func (h *history) some(fits func(*life) bool) *life {
	h.mu.Lock()
	defer h.mu.Unlock()
	var fit []*life
	for _, id := range slices.Sorted(maps.Keys(h.lives)) {
		if l := h.lives[id]; fits(l) {
			fit = append(fit, l)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return pick(h.rnd, fit)
}

func isAny(l *life) bool     { return !l.deleted }
func isPull(l *life) bool    { return !l.deleted && l.c.Type == subscription.PullWake }
func isClaimed(l *life) bool { return !l.deleted && len(l.wakes) > 0 }

func (h *history) deleteStep() func() {
	l := h.some(isAny)
	if l == nil || !h.chance(40) {
		return nil
	}
	_, m := h.parts()
	h.mu.Lock()
	l.deleted = true
	delete(h.lives, l.id)
	h.mu.Unlock()
	return func() {
		err := m.Delete(h.t.Context(), l.id)
		h.trace("delete %s: %v", l.id, err)
		h.tolerate("delete subscription", err)
		if _, lookErr := m.Get(h.t.Context(), l.id); err == nil && lookErr == nil {
			h.t.Errorf("%s is there after its deletion", l.id)
		}
		if errors.Is(err, stream.Busy) {
			time.Sleep(10 * time.Second)
			h.tolerate("delete subscription", m.Delete(h.t.Context(), l.id))
		}
	}
}

func (h *history) linkStep() func() {
	l, path, end := h.some(isAny), pick(h.rnd, historyPaths), h.chance(50)
	if l == nil {
		return nil
	}
	_, m := h.parts()
	h.mu.Lock()
	defer h.mu.Unlock()
	alone := !l.pattern.Match(path)
	if alone { // where the cursor is while this is under way nobody can say
		l.loose[path]++
	}
	l.explicit[path] = !end
	return func() {
		if alone {
			defer func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				l.loose[path]--
				l.linkedNow(h.back, path)
			}()
		}
		var err error
		if end {
			err = m.RemoveStream(h.t.Context(), l.id, string(path))
		} else {
			err = m.AddStreams(h.t.Context(), l.id, []string{string(path)})
		}
		h.trace("%s link %s end %v: %v", l.id, path, end, err)
		h.tolerate("links", err)
	}
}

func (h *history) claimStep() func() {
	l := h.some(isPull)
	if l == nil {
		return nil
	}
	_, m := h.parts()
	return func() {
		w, err := m.Claim(h.t.Context(), l.id, "worker")
		h.trace("claim %s: %+v %v", l.id, w, err)
		h.tolerate("claim", err, subscription.NoPendingWork, subscription.AlreadyClaimed)
		if err != nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if w.Generation <= l.generation {
			h.t.Errorf("%s: generation %d claimed after %d", l.id, w.Generation, l.generation)
		}
		l.generation = w.Generation
		l.wakes = append(l.wakes, w)
		for _, k := range w.Streams {
			l.check(h.t, "claimed", k.Path, k.Acked, l.floor)
			if k.Tail.Pos <= k.Acked.Pos {
				h.t.Errorf("%s: claimed %v, which has no work", l.id, k)
			}
		}
	}
}

// check compares a cursor that was shown with what is known.
func (l *life) check(t *testing.T, how string, path stream.Path, acked stream.Offset, floor map[place]uint64) {
	t.Helper()
	p := place{path, acked.Inc}
	if acked.Inc == 0 || !l.links(path) || l.loose[path] > 0 {
		return
	}
	if acked.Pos < floor[p] || acked.Pos > l.ceil[p] {
		t.Errorf("%s: %s %s with cursor %d, it is between %d and %d", l.id, how, path, acked.Pos, floor[p], l.ceil[p])
	}
}

// tried says that somebody has sent an ack.
func (l *life) tried(path stream.Path, o stream.Offset) {
	p := place{path, o.Inc}
	l.ceil[p] = max(l.ceil[p], o.Pos)
}

func (h *history) ackStep() func() {
	l := h.some(isClaimed)
	if l == nil {
		return nil
	}
	_, m := h.parts()
	h.mu.Lock()
	defer h.mu.Unlock()
	w := l.wakes[len(l.wakes)-1]
	if h.chance(20) {
		w = pick(h.rnd, l.wakes)
	}
	acks, done := h.someAcks(h.rnd, w.Streams), h.chance(50)
	stale := w.Generation < l.generation
	if !stale {
		for i, k := range w.Streams {
			if acks[i].Stream != "" {
				o, _ := stream.ParseOffset(acks[i].Offset)
				l.tried(k.Path, o)
			}
		}
	}
	return func() {
		send := slices.DeleteFunc(slices.Clone(acks), func(a subscription.Ack) bool { return a.Stream == "" })
		_, err := m.Ack(h.t.Context(), l.id, ref(w), send, done)
		h.trace("ack %s g%d %v done %v: %v", l.id, w.Generation, send, done, err)
		h.tolerate("ack", err, subscription.Fenced, subscription.InvalidOffset)
		if err != nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if stale {
			h.t.Errorf("%s: an ack of generation %d was taken after %d was claimed", l.id, w.Generation, l.generation)
		}
		for i, k := range w.Streams {
			if o, err := stream.ParseOffset(acks[i].Offset); err == nil && l.loose[k.Path] == 0 {
				p := place{k.Path, o.Inc}
				l.floor[p] = max(l.floor[p], o.Pos)
			}
		}
	}
}

// someAcks makes an ack, or none, for each stream. It needs the lock.
func (h *history) someAcks(r *rand.Rand, streams []subscription.Link) []subscription.Ack {
	acks := make([]subscription.Ack, len(streams))
	for i, k := range streams {
		if r.IntN(100) < 75 {
			o := k.Tail
			snap, err := h.back.Stat(k.Path, false)
			if r.IntN(2) == 0 && err == nil && snap.Incarnation == k.Acked.Inc { // as far as it got, not as far as was told
				o = snap.OffsetAt(k.Acked.Pos + r.Uint64N(snap.Tail-k.Acked.Pos+1))
			}
			acks[i] = subscription.Ack{Stream: string(k.Path), Offset: o.String()}
		}
	}
	return acks
}

func (h *history) releaseStep() func() {
	l := h.some(isClaimed)
	if l == nil {
		return nil
	}
	_, m := h.parts()
	h.mu.Lock()
	defer h.mu.Unlock()
	w := pick(h.rnd, l.wakes)
	stale := w.Generation < l.generation
	return func() {
		err := m.Release(h.t.Context(), l.id, ref(w))
		h.trace("release %s g%d: %v", l.id, w.Generation, err)
		h.tolerate("release", err, subscription.Fenced)
		if err == nil && stale {
			h.t.Errorf("%s: generation %d was released after %d was claimed", l.id, w.Generation, l.generation)
		}
	}
}

func (h *history) lookStep() func() {
	l := h.some(isAny)
	if l == nil {
		return nil
	}
	_, m := h.parts()
	return func() { h.look(m, l) }
}

// look compares a view with what is known.
func (h *history) look(m *subscription.Manager, l *life) (v subscription.View, err error) {
	h.mu.Lock()
	floor := maps.Clone(l.floor)
	h.mu.Unlock()
	v, err = m.Get(h.t.Context(), l.id)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.deleted && errors.Is(err, &subscription.Refusal{Code: subscription.NotFound}) {
		h.t.Errorf("%s is lost", l.id)
	}
	h.tolerate("get", err)
	for p := range floor {
		floor[p] = min(floor[p], l.floor[p]) // a link may have come and gone
	}
	for _, k := range v.Streams {
		l.check(h.t, "shown", k.Path, k.Acked, floor)
	}
	return v, err
}

// receive is what a webhook's receiver does.
func (h *history) receive(ctx context.Context, _ string, c *wakeCall) (done bool, err error) {
	h.mu.Lock()
	l := h.lives[c.ID]
	dice, pause := h.luck.IntN(100), time.Duration(h.luck.IntN(3000))*time.Millisecond
	good := h.good
	m := h.m
	h.trace("called %+v", c)
	h.mu.Unlock()
	if l == nil {
		return true, nil
	}
	told := make([]subscription.Link, len(c.Streams))
	h.mu.Lock()
	for i, s := range c.Streams {
		told[i].Path = s.Path
		told[i].Acked, _ = stream.ParseOffset(s.Acked)
		told[i].Tail, _ = stream.ParseOffset(s.Tail)
		l.check(h.t, "told", s.Path, told[i].Acked, nil)
	}
	h.mu.Unlock()
	switch {
	case good || dice < 30:
		if !good {
			time.Sleep(pause)
		}
		return h.finish(l, told), nil
	case dice < 60:
		h.running.Go(func() { h.callBack(m, l, c, told, pause) })
		return false, nil
	case dice < 70:
		h.callBack(m, l, c, told, pause)
		return dice < 65 && h.finish(l, told), nil
	case dice < 80:
		<-ctx.Done()
		return false, ctx.Err()
	}
	return false, errors.New("broken")
}

// finish acks all that was told.
func (h *history) finish(l *life, told []subscription.Link) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range told {
		l.tried(k.Path, k.Tail)
	}
	return true
}

// callBack works on a wake as a receiver does that has its own time.
func (h *history) callBack(m *subscription.Manager, l *life, c *wakeCall, told []subscription.Link, pause time.Duration) {
	for done := false; !done; {
		time.Sleep(pause)
		h.mu.Lock()
		acks := h.someAcks(h.luck, told)
		done = h.luck.IntN(2) == 0
		send := []subscription.Ack{}
		for i, a := range acks {
			if o, err := stream.ParseOffset(a.Offset); err == nil {
				l.tried(told[i].Path, o)
				send = append(send, a)
			}
		}
		h.mu.Unlock()
		_, err := m.Callback(h.t.Context(), l.id, c.ref(), send, done)
		h.trace("callback %s g%d %v done %v: %v", l.id, c.Generation, send, done, err)
		h.tolerate("callback", err, subscription.Fenced, subscription.InvalidOffset)
		if err != nil {
			return
		}
	}
}

// quiet lets everything come to rest and looks whether all work was woken for.
func (h *history) quiet() {
	h.restart(h.chance(50))
	h.mu.Lock()
	h.good = true
	h.mu.Unlock()
	e, m := h.parts()
	for _, path := range historyWakes {
		must(h.t, e.create(path, 0))
	}
	for n := range h.names { // deletions and creations that a crash has cut off
		if id := fmt.Sprint("s", n+1); h.lives[id] == nil {
			must(h.t, m.Delete(h.t.Context(), id))
		}
	}
	time.Sleep(time.Hour)
	h.running.Wait()
	settle()
	for _, id := range slices.Sorted(maps.Keys(h.lives)) {
		l := h.lives[id]
		v, err := h.look(m, l)
		if err != nil {
			continue
		}
		if l.c.Type == subscription.PullWake {
			h.drain(e, m, l, v)
		}
	}
	settle()
	must(h.t, e.Rows([]byte("sub/"), func(r stream.Row) error {
		if strings.Contains(string(r.Key), "/m") {
			h.t.Errorf("row %q is left when all is acked", r.Key)
		}
		return nil
	}))
	for _, l := range h.lives {
		h.rested(e, m, l)
	}
}

// drain is a worker that reads the wake stream and does what there is to do.
func (h *history) drain(e backend, m *subscription.Manager, l *life, v subscription.View) {
	pending := slices.ContainsFunc(v.Streams, func(k subscription.Link) bool { return k.Pending })
	seen := map[uint64]int{}
	for _, event := range e.events(h.t, stream.Path(l.c.WakeStream)) {
		if event.ID == l.id {
			seen[event.Generation]++
		}
	}
	for generation, n := range seen {
		if n != 1 {
			h.t.Errorf("%s: %d events of generation %d", l.id, n, generation)
		}
	}
	if pending && seen[v.Generation] != 1 {
		h.t.Errorf("%s: work is pending, but generation %d has no event", l.id, v.Generation)
	}
	for range 10 {
		w, err := m.Claim(h.t.Context(), l.id, "worker")
		if errors.Is(err, &subscription.Refusal{Code: subscription.NoPendingWork}) {
			if pending {
				h.t.Errorf("%s: shown as pending, but there is nothing to claim", l.id)
			}
			return
		}
		must(h.t, err)
		for _, k := range w.Streams {
			l.tried(k.Path, k.Tail)
		}
		next, err := m.Ack(h.t.Context(), l.id, ref(w), ackAll(w), true)
		must(h.t, err)
		pending = next
		settle()
	}
}

// rested checks that every stream is acked up to its tail.
func (h *history) rested(e backend, m *subscription.Manager, l *life) {
	v, err := h.look(m, l)
	if err != nil {
		return
	}
	for _, k := range v.Streams {
		var tail stream.Offset
		if snap, err := e.Stat(k.Path, false); err == nil {
			tail = snap.TailOffset()
		}
		if k.Acked != tail || k.Pending {
			if l.c.Type == subscription.PullWake && slices.Contains(historyWakes, k.Path) {
				continue // woken by the others' wake events, in turn
			}
			h.t.Errorf("%s: %s is acked to %v, its tail is %v", l.id, k.Path, k.Acked, tail)
		}
	}
}
