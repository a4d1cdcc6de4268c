package subscription

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"durablestreams/stream"
)

// news is what the engine's goroutines tell the loop.
type news struct {
	sub        *sub
	generation uint64
	replaced   bool  // the wake stream was created or has gone
	written    bool  // the outcome of writing the wake event, with err
	err        error // else the rows of this generation are durable
}

// inbox holds news until the loop reads them. Its lock is taken last.
type inbox struct {
	mu  sync.Mutex
	all []news
}

func (m *Manager) post(n ...news) {
	if len(n) == 0 {
		return
	}
	m.inbox.mu.Lock()
	m.inbox.all = append(m.inbox.all, n...)
	m.inbox.mu.Unlock()
	m.nudge()
}

func (m *Manager) nudge() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []news {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	b.all = nil
	return all
}

// wakeEvent is how far the event of the current wake of a pull-wake subscription
// has come.
type wakeEvent struct {
	durable  uint64 // generation of which it is durable that it was woken
	written  uint64 // generation whose event is in the wake stream
	writing  bool
	again    bool // the wake stream was replaced while the event was being written
	failures uint32
	at       int64  // not tried before
	problem  string // why it could not be written
}

// eventDue tells whether there is an event to be written, be it later. One that comes
// so late that a worker has acked all its work would name no stream.
func (s *sub) eventDue() bool {
	return s.typ == PullWake && s.phase != idle && s.pending() && !s.deleted && !s.event.writing &&
		s.event.durable == s.generation && s.event.written != s.generation
}

// schedule sets when the loop looks at a subscription next.
func (m *Manager) schedule(s *sub, now int64) {
	at := int64(math.MaxInt64)
	if !s.deleted {
		at = s.deadline(now)
	}
	if s.eventDue() {
		s.event.at = min(s.event.at, now+int64(maxBackoff)) // see tick
		at = min(at, s.event.at)
	}
	if at == math.MaxInt64 {
		m.due.Remove(&s.entry)
	} else if m.due.Set(s, &s.entry, at) {
		m.nudge()
	}
}

// maxPause bounds the loop's sleep, so that it notices steps of the clock; clockStep
// is the least that counts as one.
const (
	maxPause  = 10 * time.Second
	clockStep = time.Second
)

// run is the one goroutine that ends leases, makes retries due and writes wake
// events.
func (m *Manager) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-m.stopped:
			return
		case <-m.kick:
		case <-timer.C:
		}
		events, next := m.turn()
		for _, e := range events {
			m.WakeStreams.AppendEvent(e.path, e.body, e.producer, e.done)
		}
		timer.Reset(min(time.Duration(max(next-now(), 0)), maxPause))
	}
}

// maxTurn bounds how many subscriptions one turn looks at, since it keeps appends waiting.
const maxTurn = 500

// turn does what is due. It gives the events to be written and the next deadline.
func (m *Manager) turn() (events []event, next int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := now()
	for _, n := range m.inbox.take() {
		m.hear(n, at)
	}
	if at < m.turned-int64(clockStep) { // the clock was set back: no deadline is right
		for _, s := range m.subs {
			m.due.Set(s, &s.entry, at)
		}
	}
	m.turned = at
	switch {
	case m.closing:
		return nil, math.MaxInt64
	case m.Engine.Ready() != nil:
		return nil, at + int64(readyPause)
	}
	for range maxTurn {
		s := m.due.Pop(at)
		if s == nil {
			return events, m.next()
		}
		st := m.change(s, func(*step) {})
		if len(st.rows) > 0 {
			m.commit(s, st)
		}
		if s.eventDue() && s.event.at <= at {
			s.event.writing = true
			events = append(events, m.newEvent(s, at))
			m.schedule(s, at)
		}
	}
	return events, at // there may be more
}

// next is when the loop has to look again.
func (m *Manager) next() int64 {
	if at, ok := m.due.Next(); ok {
		return at
	}
	return math.MaxInt64
}

// hear takes news in.
func (m *Manager) hear(n news, at int64) {
	s, e := n.sub, &n.sub.event
	switch {
	case n.written:
		again := e.again
		e.writing, e.again = false, false
		if !again {
			m.eventWritten(s, n, at)
		}
	case n.replaced:
		e.written, e.failures, e.at, e.again = 0, 0, 0, e.writing
	default:
		e.durable = max(e.durable, n.generation)
	}
	m.schedule(s, at)
}

func (m *Manager) eventWritten(s *sub, n news, at int64) {
	e := &s.event
	m.stats.eventWritten(n.err)
	if n.err == nil {
		e.written, e.failures, e.at, e.problem = n.generation, 0, 0, ""
		return
	}
	if s.deleted || s.generation != n.generation || s.phase == idle {
		return // nobody waits for this event any more
	}
	e.failures++
	e.at = at + int64(backoff(e.failures, m.random.unit()))
	switch refusal, ok := errors.AsType[*stream.Error](n.err); {
	case ok && refusal.Kind == stream.NotFound:
		e.problem = "the wake stream does not exist"
	case ok:
		e.problem = "the wake stream does not take events: " + refusal.Message
	default:
		e.problem = "the wake stream does not take events"
	}
	m.log.Warn("wake event cannot be written", "subscription", s.id, "stream", s.wakeStream, "err", n.err)
}

// event is a wake event on its way.
type event struct {
	path     stream.Path
	body     []byte
	producer stream.Producer
	done     func(error)
}

// newEvent makes the wake event of the current generation (§7.2). Its producer
// tuple makes it one event a generation, however often it is written.
func (m *Manager) newEvent(s *sub, at int64) event {
	generation := s.generation
	body := encode(struct {
		Type       string      `json:"type"`
		ID         string      `json:"subscription_id"`
		Stream     stream.Path `json:"stream"`
		Generation uint64      `json:"generation"`
		Time       int64       `json:"ts"`
	}{"wake", s.id, s.firstPending(), generation, at / int64(time.Millisecond)})
	return event{path: s.wakeStream, body: body,
		producer: stream.Producer{ID: fmt.Sprintf("__ds/%016x", s.own), Epoch: generation},
		done:     func(err error) { m.post(news{sub: s, generation: generation, written: true, err: err}) }}
}

// firstPending is the stream that has waited the longest, "" if none is pending.
func (s *state) firstPending() stream.Path {
	if s.marks.first == nil {
		return ""
	}
	return s.marks.first.path
}
