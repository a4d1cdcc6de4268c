package metamorphic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/stream"
)

// Crowd is a run with many clients at once. What each answer must be depends on
// the order in which the store takes the requests, so it is not compared with
// one right answer: an audit after each round looks for broken promises.
type Crowd struct {
	Seed    uint64
	Clients int // default 8
	Rounds  int // default 12
	Steps   int // of a client in a round; default 15
	Open    Opener
	Check   Checker
	Settle  func()

	rng    *rand.Rand
	disk   *dstest.Disk
	target Target
	ledger *ledger
	log    []string
	stats  Stats
}

// Run runs the crowd. The error tells the seed and the promises broken.
func (c *Crowd) Run() (Stats, error) {
	setDefault(&c.Clients, 8)
	setDefault(&c.Rounds, 12)
	setDefault(&c.Steps, 15)
	c.rng = rand.New(rand.NewPCG(c.Seed, 2))
	c.disk = dstest.NewDisk()
	c.ledger = newLedger()
	err := c.run()
	c.disk.OnOp(nil)
	if c.target != nil {
		if cerr := c.target.Close(); err == nil {
			err = cerr
		}
	}
	if err == nil && c.Check != nil {
		err = c.Check(c.disk)
	}
	if err != nil {
		err = fmt.Errorf("seed %d: %w\nrounds: %q", c.Seed, err, c.log)
	}
	return c.stats, err
}

func setDefault(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

func (c *Crowd) run() (err error) {
	if c.target, err = c.Open(c.disk); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	clients := make([]*client, c.Clients)
	for i := range clients {
		clients[i] = &client{c: c, name: fmt.Sprint("c", i), writers: map[stream.Path]*writer{}}
	}
	for round := range c.Rounds {
		if err := c.round(clients); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// round lets every client do its steps, with or without a power cut, and audits.
func (c *Crowd) round(clients []*client) error {
	var cut *dstest.PowerCut
	pictured := false
	if kind := c.rng.IntN(9); kind > 2 {
		n := c.rng.IntN(40 * c.Clients)
		cut = dstest.ArmPowerCut(c.disk, c.split(), dstest.RandomLoss(c.rng), n)
	} else if _, ok := c.target.(dstest.Pictured); ok && kind == 2 {
		cut = dstest.ArmPicture(c.disk, c.rng.IntN(40*c.Clients), c.picture)
		pictured = true
	}
	var wg sync.WaitGroup
	for _, cl := range clients {
		cl.cut, cl.rng = cut, c.split()
		wg.Go(func() {
			for range c.Steps {
				cl.step()
			}
		})
	}
	wg.Wait()
	c.Settle()
	c.stats.Steps += c.Steps * c.Clients
	if pictured && cut.Fired() {
		c.stats.Pictures++
	}
	how, err := c.between(cut, pictured)
	c.log = append(c.log, how)
	if err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	c.Settle()
	c.ledger.audit(c.target, c.paths())
	for _, p := range c.paths() {
		if err := compareMark(c.target, p, c.pause); err != nil {
			c.ledger.fault("%s: %w", p, err)
		}
	}
	if len(c.ledger.faults) > 0 {
		return fmt.Errorf("%s: %w", how, errors.Join(c.ledger.faults...))
	}
	return nil
}

// picture gives a disk with what a picture of the target has.
func (c *Crowd) picture() *dstest.Disk {
	disk, err := dstest.TakePicture(c.target.(dstest.Pictured))
	if err != nil {
		c.ledger.mu.Lock()
		defer c.ledger.mu.Unlock()
		c.ledger.fault("picture: %w", err)
	}
	return disk
}

func (c *Crowd) pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	c.Settle()
}

func (c *Crowd) split() *rand.Rand { return rand.New(rand.NewPCG(c.Seed, c.rng.Uint64())) }

func (c *Crowd) paths() (list []stream.Path) {
	for i := range names {
		list = append(list, stream.Path(names[i:i+1]))
	}
	return list
}

// between is what happens after a round.
func (c *Crowd) between(cut *dstest.PowerCut, pictured bool) (how string, err error) {
	c.disk.OnOp(nil)
	if pictured && cut.Fired() {
		if cut.After == nil {
			return "picture", errors.New("there is none")
		}
		if c.Check != nil {
			if err := c.Check(cut.After); err != nil {
				return "picture", err
			}
		}
		return "picture", c.reopen(cut.After)
	}
	if cut.Fired() {
		c.stats.MidCrashes++
		return "power cut in the middle", c.reopen(cut.After)
	}
	switch c.rng.IntN(4) {
	case 0:
		c.stats.Crashes++
		return "power cut", c.reopen(c.disk.Crash(c.split(), dstest.RandomLoss(c.rng)))
	case 1:
		c.stats.Restarts++
		if err := c.target.Close(); err != nil {
			return "stop", err
		}
		c.target = nil
		if c.Check != nil {
			if err := c.Check(c.disk); err != nil {
				return "check", err
			}
		}
		c.target, err = c.Open(c.disk)
		return "restart", err
	case 2:
		timer := time.NewTimer(time.Duration(c.rng.IntN(4000)) * time.Millisecond)
		<-timer.C
		return "pause", nil
	}
	return "nothing", nil
}

// reopen goes on with what a power cut has left.
func (c *Crowd) reopen(left *dstest.Disk) (err error) {
	_ = c.target.Close() // of a world that is no more
	c.target = nil
	c.disk = left
	for c.rng.IntN(3) == 0 {
		cut := dstest.ArmPowerCut(c.disk, c.split(), dstest.RandomLoss(c.rng), c.rng.IntN(60))
		t, err := c.Open(c.disk)
		c.Settle()
		if err == nil {
			err = t.Close()
		}
		c.disk.OnOp(nil)
		if err != nil {
			return err
		}
		if !cut.Fired() {
			break
		}
		c.stats.RecoveryCrashes++
		c.disk = cut.After
	}
	c.target, err = c.Open(c.disk)
	return err
}

// client is one of the crowd.
type client struct {
	c       *Crowd
	name    string
	rng     *rand.Rand
	cut     *dstest.PowerCut
	number  int // of the last token
	writers map[stream.Path]*writer
}

// writer is an idempotent producer of one client on one path.
type writer struct {
	inc   stream.Incarnation
	next  uint64
	retry []byte // sent, fate unknown
}

// answer is a completion that knows whether it came before the power cut.
type answer struct {
	cut  *dstest.PowerCut
	res  stream.Result
	err  error
	fate fate
	done chan struct{}
}

// Complete implements stream.Completion.
func (a *answer) Complete(res stream.Result, err error) {
	a.res, a.err, a.fate = res, err, taken
	if err != nil {
		a.fate = refused
	}
	if a.cut.Fired() {
		a.fate = unknown
	}
	close(a.done)
}

func (cl *client) apply(cmd stream.Command) *answer {
	a := &answer{cut: cl.cut, done: make(chan struct{})}
	cl.c.target.Apply(cmd, a)
	<-a.done
	switch kindOf(a.err) {
	case stream.Internal, stream.Damaged, stream.DiskFull, stream.ShuttingDown:
		cl.fault("%s: %v", describe(cmd), a.err)
	}
	return a
}

func (cl *client) fault(format string, args ...any) {
	cl.c.ledger.mu.Lock()
	defer cl.c.ledger.mu.Unlock()
	cl.c.ledger.fault(format, args...)
}

func kindOf(err error) stream.Kind {
	if e, ok := errors.AsType[*stream.Error](err); ok {
		return e.Kind
	}
	return ""
}

// token makes new data; those of producers, which may be sent again later, are
// in an order of their own.
func (cl *client) token(kind string) []byte {
	cl.number++
	size := 0
	switch cl.rng.IntN(20) {
	case 0:
		size = cl.rng.IntN(20 << 10)
	case 1, 2, 3:
		size = cl.rng.IntN(400)
	}
	return token(cl.name+kind, cl.number, size)
}

func (cl *client) path() stream.Path { return stream.Path(names[cl.rng.IntN(len(names)):][:1]) }

func (cl *client) step() {
	p := cl.path()
	switch n := cl.rng.IntN(100); {
	case n < 25:
		cl.append(p)
	case n < 47:
		cl.produce(p)
	case n < 50:
		cl.twice(p)
	case n < 62:
		cl.create(p)
	case n < 72:
		cl.fork(p)
	case n < 77:
		cl.remove(p)
	case n < 79:
		cl.close(p)
	case n < 92:
		cl.read(p)
	case n < 97:
		cl.watch(p)
	default:
		timer := time.NewTimer(time.Duration(cl.rng.IntN(30)) * time.Millisecond)
		<-timer.C
	}
}

func (cl *client) append(p stream.Path) {
	l := cl.c.ledger
	a := &stream.Append{Path: p, ContentType: "text/plain", HasBody: true, Data: cl.token("")}
	l.tried(a.Data, p)
	before := l.deletedSoFar()
	got := cl.apply(a)
	l.appended(a, got.fate, got.res, before)
}

// produce sends the next message of an idempotent producer, or again one whose
// fate is unknown.
func (cl *client) produce(p stream.Path) {
	l := cl.c.ledger
	w := cl.writers[p]
	if w == nil {
		w = &writer{}
		cl.writers[p] = w
	}
	data := w.retry
	if data == nil {
		data = cl.token("p")
	}
	a := &stream.Append{Path: p, ContentType: "text/plain", HasBody: true, Data: data,
		Producer: &stream.Producer{ID: cl.name, Seq: w.next}}
	l.tried(data, p)
	before := l.deletedSoFar()
	got := cl.apply(a)
	l.appended(a, got.fate, got.res, before)
	switch {
	case got.fate == unknown:
		w.retry = data
	case got.fate == taken:
		if got.res.Outcome == stream.Duplicate && w.retry == nil {
			cl.fault("%s: the first %s was answered as a duplicate", p, data)
		}
		w.inc, w.next, w.retry = got.res.Meta.Incarnation, w.next+1, nil
	case kindOf(got.err) == stream.ProducerGap:
		// Right only if the stream is another one by now.
		if snap, err := cl.c.target.Stat(p, false); err == nil && snap.Incarnation == w.inc && w.retry == nil {
			cl.fault("%s: producer state was lost: sent %d, %v", p, w.next, got.err)
		}
		cl.writers[p] = nil
	case kindOf(got.err) == stream.Busy:
		if w.retry == nil {
			w.retry = data
		}
	default:
		cl.writers[p] = nil
	}
}

// twice sends one message twice at once, as a client does that lost patience:
// whichever answer comes first, the message is there.
func (cl *client) twice(p stream.Path) {
	l := cl.c.ledger
	data := cl.token("d")
	l.tried(data, p)
	before := l.deletedSoFar()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			a := &stream.Append{Path: p, ContentType: "text/plain", HasBody: true, Data: data,
				Producer: &stream.Producer{ID: string(data)}}
			got := cl.apply(a)
			l.appended(a, got.fate, got.res, before)
		})
	}
	wg.Wait()
}

func (cl *client) create(p stream.Path) {
	c := &stream.Create{Path: p, ContentType: "text/plain"}
	if cl.rng.IntN(2) == 0 {
		c.Data = cl.token("")
	}
	if cl.rng.IntN(4) == 0 {
		c.Lifetime = stream.Sliding(uint64(1 + cl.rng.IntN(4)))
	}
	cl.sendCreate(c)
}

func (cl *client) sendCreate(c *stream.Create) {
	l := cl.c.ledger
	l.tried(c.Data, c.Path)
	got := cl.apply(c)
	f := got.fate
	if f == taken && got.res.Outcome != stream.Created {
		l.exists(got.res)
		f = refused
	}
	if len(c.Data) > 0 && f != unknown {
		l.mu.Lock()
		l.tokens[string(c.Data)] = tokenFate{path: c.Path, fate: f}
		l.mu.Unlock()
	}
	l.created(c, f, got.res)
}

func (cl *client) fork(p stream.Path) {
	source := cl.path()
	snap, err := cl.c.target.Stat(source, true)
	if err != nil {
		return
	}
	c := &stream.Create{Path: p, Fork: &stream.ForkRequest{SourcePath: source, Source: snap.ID}}
	if cl.rng.IntN(2) == 0 {
		c.Fork.AtTail = true
	} else {
		c.Fork.Point = uint64(cl.rng.Int64N(int64(snap.Tail) + 1))
		c.Fork.AskedOffset = snap.OffsetAt(c.Fork.Point).String()
	}
	if cl.rng.IntN(2) == 0 {
		c.Data = cl.token("")
	}
	cl.c.stats.addFork(cl.c.ledger)
	cl.sendCreate(c)
}

func (s *Stats) addFork(l *ledger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Forks++
}

func (cl *client) remove(p stream.Path) {
	l := cl.c.ledger
	l.deleting(p)
	got := cl.apply(&stream.Delete{Path: p})
	if got.fate == taken {
		l.deletedAt(got.res.Meta)
	}
	// Streams that others create meanwhile are meant too.
	if got.fate == unknown {
		l.deleting(p)
	}
}

func (cl *client) close(p stream.Path) {
	l := cl.c.ledger
	l.closing(p)
	a := &stream.Append{Path: p, Close: true}
	before := l.deletedSoFar()
	got := cl.apply(a)
	l.appended(a, got.fate, got.res, before)
}

// read reads all there is. What came after a power cut does not count.
func (cl *client) read(p stream.Path) {
	l := cl.c.ledger
	before := l.deletedSoFar()
	data, snap, err := dstest.ReadAll(cl.c.target, p)
	if cl.cut.Fired() {
		return
	}
	switch kind := kindOf(err); {
	case err == nil:
		l.read(snap, data, before)
	case kind == stream.Internal:
		cl.fault("read %s: %v", p, err)
	}
}

// watch waits for a change, a little, and looks whether it may be seen.
func (cl *client) watch(p stream.Path) {
	snap, err := cl.c.target.Stat(p, false)
	if err != nil {
		return
	}
	woken := make(chan struct{}, 1)
	stop := cl.c.target.Watch(snap, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	defer stop()
	timer := time.NewTimer(time.Duration(cl.rng.IntN(20)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	}
	now, err := cl.c.target.Stat(p, false)
	if err == nil && now.Incarnation == snap.Incarnation && now.Tail < snap.Tail {
		cl.fault("%s went from %d to %d", p, snap.Tail, now.Tail)
	}
	cl.read(p)
}
