package subscription

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"durablestreams/internal/due"
	"durablestreams/internal/glob"
	"durablestreams/stream"
)

// Options configure a manager. The zero value works.
type Options struct {
	MaxSubscriptions  int // default 100,000
	MaxCalls          int // webhook calls under way at once; default 256
	MaxCallsPerTarget int // of them to one host and port; default 8

	Logger *slog.Logger // default: discard
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	setDefault(&d.MaxSubscriptions, 100_000)
	setDefault(&d.MaxCalls, 256)
	setDefault(&d.MaxCallsPerTarget, 8)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

func setDefault(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

// Manager holds all subscriptions of a server. Its methods may be called at once
// from any goroutine.
type Manager struct {
	opts   Options
	log    *slog.Logger
	random random
	Ports  // set by Start

	version atomic.Uint64
	inbox   inbox
	kick    chan struct{} // capacity 1: there is something in the inbox, or an earlier deadline

	calls    context.Context // of all webhook calls
	cutCalls context.CancelFunc
	stopped  chan struct{}
	workers  sync.WaitGroup

	mu       sync.Mutex
	started  bool
	closing  bool
	early    map[stream.Path]struct{} // streams that ended before the start
	versions uint64
	subs     map[string]*sub // by the client's id
	globs    glob.Index[*sub]
	explicit registry
	wakes    registry // by wake stream
	due      due.Queue[sub]
	turned   int64 // when the loop looked at it last
	gate     gate

	stats stats
}

// sub is a subscription with what is known of it in memory only.
type sub struct {
	state
	entry  due.Entry[sub] // when the loop looks at it next
	event  wakeEvent
	call   *call // the delivery of the current wake that is under way
	queued bool  // waits for room to deliver
}

// registry finds subscriptions by a path that they name.
type registry map[stream.Path]map[*sub]struct{}

func (r registry) add(path stream.Path, s *sub) {
	if r[path] == nil {
		r[path] = map[*sub]struct{}{}
	}
	r[path][s] = struct{}{}
}

func (r registry) remove(path stream.Path, s *sub) {
	delete(r[path], s)
	if len(r[path]) == 0 {
		delete(r, path)
	}
}

// New gives a manager that is to be made the engine's observer before the engine
// is opened, and started before clients are served. opts may be nil.
func New(opts *Options) *Manager {
	m := &Manager{opts: opts.withDefaults(), kick: make(chan struct{}, 1), stopped: make(chan struct{}),
		early: map[stream.Path]struct{}{}, subs: map[string]*sub{}, explicit: registry{}, wakes: registry{}}
	m.log = m.opts.Logger
	m.calls, m.cutCalls = context.WithCancel(context.Background())
	m.gate.init(m.opts.MaxCalls, m.opts.MaxCallsPerTarget)
	m.random = random{wakeID: newWakeID, unit: mathrand.Float64}
	m.stats.init()
	m.bump()
	return m
}

func newWakeID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return "w_" + hex.EncodeToString(b[:])
}

// bump says that Interested may answer otherwise from now on.
func (m *Manager) bump() {
	m.versions++
	if m.started && len(m.subs) == 0 {
		m.version.Store(0)
	} else {
		m.version.Store(m.versions)
	}
}

// install makes a subscription known.
func (m *Manager) install(s *sub) {
	m.subs[s.id] = s
	m.globs.Add(s.pattern, s)
	for path := range s.state.explicit {
		m.explicit.add(path, s)
	}
	if s.typ == PullWake {
		m.wakes.add(s.wakeStream, s)
	}
}

// uninstall is the counterpart of install.
func (m *Manager) uninstall(s *sub) {
	delete(m.subs, s.id)
	m.globs.Remove(s.pattern, s)
	for path := range s.state.explicit {
		m.explicit.remove(path, s)
	}
	m.wakes.remove(s.wakeStream, s)
	m.due.Remove(&s.entry)
}

// change carries out a transition of s with the lock held, and all that follows
// from it in memory. The caller puts the step's rows into the journal before it
// lets the lock go.
func (m *Manager) change(s *sub, transition func(*step)) *step {
	st := &step{now: now(), random: m.random}
	s.do(st, func() { transition(st) })
	m.follow(s, st)
	return st
}

func now() int64 { return time.Now().UnixNano() }

// follow brings calls and deadlines in line with a changed state.
func (m *Manager) follow(s *sub, st *step) {
	if c := s.call; c != nil && (st.cut || c.wakeID != s.wakeID) {
		c.letGo(st.cut, s.ttl)
		s.call = nil
	}
	if !s.queued && !m.closing && s.callDue(st.now) {
		s.queued = true
		m.gate.enter(s)
		m.startCalls()
	}
	m.schedule(s, st.now)
}

// commit puts the rows of a step into the journal, with the lock held. The
// channel gets the outcome once they and all that they rest on are durable.
func (m *Manager) commit(s *sub, st *step) <-chan error {
	durable := make(chan error, 1)
	var announced []news
	if st.announce {
		announced = []news{{sub: s, generation: s.generation}}
	}
	m.Engine.PutRows(st.rows, func(err error) {
		if err == nil {
			m.post(announced...)
		}
		durable <- err
	})
	if st.swept != nil && !m.closing {
		m.workers.Go(func() { m.sweep(st.swept) })
	}
	return durable
}

// wait waits for what commit promised.
func wait(ctx context.Context, durable <-chan error) error {
	select {
	case err := <-durable:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Version implements the engine's observer.
func (m *Manager) Version() uint64 { return m.version.Load() }

// Interested implements the engine's observer.
func (m *Manager) Interested(path stream.Path) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.started || len(m.explicit[path]) > 0 || len(m.wakes[path]) > 0 || len(m.globs.Lookup(path)) > 0
}

// Decided implements the engine's observer: the marks of a change, and the wakes
// that it causes, become durable with it. put is called in any case, so that the
// record itself is in the journal before whatever is decided next.
func (m *Manager) Decided(c stream.Change, put func([]stream.Row)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.started {
		if c.Gone {
			m.early[c.Path] = struct{}{}
		}
		return
	}
	var rows []stream.Row
	var announced []news
	for s := range m.linked(c.Path) {
		st := m.change(s, func(st *step) { s.arrive(st, c) })
		rows = append(rows, st.rows...)
		if st.announce {
			announced = append(announced, news{sub: s, generation: s.generation})
		}
	}
	if c.Created || c.Gone {
		for s := range m.wakes[c.Path] {
			announced = append(announced, news{sub: s, replaced: true}) // a new wake stream lacks the event of the old one
		}
	}
	put(rows)
	if len(announced) > 0 {
		m.Engine.PutRows(nil, func(err error) {
			if err == nil {
				m.post(announced...)
			}
		})
	}
}

// Published implements the engine's observer. What waits for a change waits for
// the rows that were put behind it.
func (m *Manager) Published(stream.Path) {}

// linked gives every subscription that has a path among its streams, once.
func (m *Manager) linked(path stream.Path) func(yield func(*sub) bool) {
	return func(yield func(*sub) bool) {
		for _, s := range m.globs.Lookup(path) {
			if s.matches(path) && !yield(s) {
				return
			}
		}
		for s := range m.explicit[path] {
			if !s.matches(path) && !yield(s) {
				return
			}
		}
	}
}
