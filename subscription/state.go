package subscription

import (
	"crypto/sha256"
	"math"
	"time"

	"durablestreams/stream"
)

// state is one subscription at one moment. Only its transitions change it: they
// decide on the state, a command and the time, say in a [step] which rows make the
// change durable and what is to be done once they are, and touch nothing else. The
// state takes the decided form at once, so the rows of one step must be in the
// journal before those of the next.
type state struct {
	id      string // the client's name for it
	own     uint64 // the server's: random, never used again
	root    string // absolute URL of the stream root, without a slash at the end
	created int64  // Unix nanoseconds
	hash    [sha256.Size]byte
	settings

	explicit map[stream.Path]struct{}
	marks    marks
	run

	// Pending streams whose tails could not be found out are not tried before asideUntil.
	aside      map[stream.Path]*mark
	asideUntil int64

	// Streams that the current wake named and that have no mark any more, with the
	// tails that it named: acked, unlinked, or another stream is at the path now.
	// Not stored, as little as what a wake named. At most maxTold.
	left map[stream.Path]stream.Offset

	ended   uint64 // counts marks that went without an ack
	toldNow bool   // the marks know what the call of the current wake names
	deleted bool
}

// run is what changes with every wake. It has a row of its own.
type run struct {
	generation uint64 // of the last wake (§7.3)
	wakeID     string // "" while idle
	phase      phase
	holder     string // pull-wake: who claimed
	lease      int64  // end of the lease in Unix nanoseconds; 0: none

	// Webhook.
	retries uint32 // failed deliveries in a row
	retryAt int64  // no delivery before; 0: as soon as there is work
}

// phase is how far a wake has come.
type phase uint8

// The phases. The values are stored.
const (
	idle  phase = 0 // no wake is in flight
	woken phase = 1 // pull-wake: there is an event that nobody has claimed; webhook: delivery is being tried
	held  phase = 2 // a worker has the lease
)

// maxTold is how many streams a wake or a claim names at most. What is beyond
// it stays pending and comes with the next wake.
const maxTold = 1000

// pending tells whether there is work (§7).
func (s *state) pending() bool { return s.marks.len() > 0 }

// links tells whether a path is a stream of this subscription (§6.1).
func (s *state) links(path stream.Path) bool {
	_, explicit := s.explicit[path]
	return explicit || s.matches(path)
}

// callDue tells whether a webhook is to be delivered now, if there is room for it.
func (s *state) callDue(now int64) bool {
	return s.typ == Webhook && !s.deleted && s.pending() && s.retryAt <= now &&
		(s.phase == idle || s.phase == woken && s.retryAt != 0)
}

// deadline is when time alone changes the state: the next tick.
func (s *state) deadline(now int64) int64 {
	at := int64(math.MaxInt64)
	if s.lease != 0 {
		at = s.lease
	}
	if s.retryAt > now && s.pending() {
		at = min(at, s.retryAt)
	}
	if len(s.aside) > 0 {
		at = min(at, s.asideUntil)
	}
	return at
}

// step is what one transition sees of the world and asks for.
type step struct {
	now    int64 // Unix nanoseconds
	random random

	rows     []stream.Row
	announce bool     // when the rows are durable: write the event of the current wake
	cut      bool     // a call that is under way has lost its lease: end it
	swept    [][]byte // keys of rows that mean nothing any more
}

// random is the chance that transitions need, injected so that they stay pure.
type random struct {
	wakeID func() string
	unit   func() float64 // in [0, 1)
}

// do carries a transition out, on a state in which what time alone brings has
// happened, and with all that follows from it.
func (s *state) do(st *step, transition func()) {
	if s.deleted {
		return
	}
	before := s.run
	s.tick(st)
	s.settle(st)
	transition()
	if s.deleted {
		return
	}
	s.settle(st)
	if s.run != before {
		st.rows = append(st.rows, s.runRow())
	}
}

// settle makes a pull-wake subscription idle exactly if nothing is pending, unless
// a worker holds it (§7). Webhooks are woken by issue, when there is room for a call.
func (s *state) settle(st *step) {
	if s.phase == woken && !s.pending() && (s.typ == PullWake || s.retryAt != 0) {
		s.endWake() // nobody has taken the wake, and its work is gone
	}
	if s.typ == PullWake && s.phase == idle && s.pending() {
		s.beginWake(st)
		st.announce = true
	}
}

// tick ends a lease that is over (§7.3). A webhook that has not answered by
// then has failed.
func (s *state) tick(st *step) {
	// Nothing is ever put off for longer, unless the clock was set back since.
	s.lease = min(s.lease, s.leaseFrom(st.now))
	s.retryAt = min(s.retryAt, st.now+int64(maxBackoff))
	s.asideUntil = min(s.asideUntil, st.now+int64(asidePause))
	if st.now >= s.asideUntil {
		for path := range s.aside {
			s.recall(path)
		}
	}
	if s.lease == 0 || st.now < s.lease {
		return
	}
	if s.typ == Webhook && s.phase == woken && s.retryAt == 0 {
		s.fail(st)
	}
	s.endWake()
	st.cut = true
}

// beginWake starts the next generation.
func (s *state) beginWake(st *step) {
	s.generation++
	s.wakeID = st.random.wakeID()
	s.phase = woken
	s.toldNow, s.left = false, nil
}

// endWake makes the subscription idle. Pending streams that were told about wait
// behind the others for their next turn.
func (s *state) endWake() {
	s.phase, s.wakeID, s.holder, s.lease = idle, "", "", 0
	s.toldNow, s.left = false, nil
	for m := s.marks.first; m != nil && m.generation != 0 && m.generation == s.generation; m = s.marks.first {
		m.generation = 0
		s.marks.postpone(m)
	}
}

// tell fixes what the current wake or claim is about: the streams that have
// waited the longest.
func (s *state) tell() {
	n := 0
	for m := s.marks.first; m != nil && n < maxTold; m = m.after {
		m.generation, m.told = s.generation, m.tail
		n++
	}
}

// told gives the marks of tell that are still there. They stand first.
func (s *state) told(yield func(*mark) bool) {
	for m := s.marks.first; m != nil && m.generation == s.generation; {
		next := m.after
		if !yield(m) {
			return
		}
		m = next
	}
}

// untold lists the first streams of which a wake could not name the tail.
func (s *state) untold() (unknown []stream.Path) {
	n := 0
	for m := s.marks.first; m != nil && n < maxTold; m = m.after {
		if !m.known {
			unknown = append(unknown, m.path)
		}
		n++
	}
	return unknown
}

// arrive takes over what a record did to a linked stream (§6.2, §7).
func (s *state) arrive(st *step, c stream.Change) {
	s.recall(c.Path)
	m := s.marks.get(c.Path)
	if m != nil && (c.Gone || c.Created) {
		s.ended++
		s.drop(st, m)
		m = nil
	}
	switch {
	case c.Gone || c.After.Pos <= c.Before.Pos:
	case m != nil:
		m.tail, m.known = c.After, true
	default:
		s.marks.add(&mark{path: c.Path, acked: c.Before, tail: c.After, known: true})
		st.rows = append(st.rows, s.markRow(c.Path, c.Before))
	}
}

// tail is what the engine says about a stream: its published state, that there
// is none (the zero value), or that it could not tell.
type tail struct {
	stream.Snapshot
	found bool
	err   error
}

// learn takes over the tail of a stream that was not known since the start.
func (s *state) learn(st *step, path stream.Path, t tail) {
	m := s.marks.get(path)
	switch {
	case m == nil || m.known:
	case t.err != nil:
		s.marks.remove(m)
		if s.aside == nil {
			s.aside = map[stream.Path]*mark{}
		}
		s.aside[path] = m
		s.asideUntil = st.now + int64(asidePause)
	case !t.found:
		s.drop(st, m)
	default:
		pos, err := t.Locate(m.acked, t.Tail)
		if err != nil || pos >= t.Tail {
			s.drop(st, m) // of a former stream, or acked already: nothing is behind it
			return
		}
		m.tail, m.known = t.TailOffset(), true
	}
}

// asidePause is how long a stream that cannot be read keeps out of the way of the
// others.
const asidePause = time.Minute

// recall makes a stream pending again that was set aside.
func (s *state) recall(path stream.Path) {
	if m := s.aside[path]; m != nil {
		delete(s.aside, path)
		s.marks.add(m)
	}
}

// drop makes a pending stream acked, or forgets it.
func (s *state) drop(st *step, m *mark) {
	if s.phase != idle && m.generation == s.generation {
		if s.left == nil {
			s.left = map[stream.Path]stream.Offset{}
		}
		s.left[m.path] = m.told
	}
	s.marks.remove(m)
	st.rows = append(st.rows, stream.Row{Key: s.key(markRows, m.path)})
}

// advance acks a pending stream up to an offset; cursors never go back.
func (s *state) advance(st *step, m *mark, to stream.Offset) {
	switch {
	case to.Pos <= m.acked.Pos:
	case to.Pos >= m.tail.Pos:
		s.drop(st, m)
	default:
		m.acked = to
		st.rows = append(st.rows, s.markRow(m.path, to))
	}
}

// link adds explicit links at the tails of their streams (§6.4).
func (s *state) link(st *step, paths []stream.Path) *Refusal {
	if r := s.mayLink(paths); r != nil {
		return r
	}
	if s.explicit == nil {
		s.explicit = map[stream.Path]struct{}{}
	}
	var added []stream.Path
	for _, p := range paths {
		if _, linked := s.explicit[p]; !linked {
			added = append(added, p)
		}
	}
	if len(s.explicit)+len(added) > MaxLinks {
		return refuse(LimitExceeded, "the subscription would have more than 10000 explicit streams")
	}
	for _, p := range added {
		s.explicit[p] = struct{}{}
		st.rows = append(st.rows, stream.Row{Key: s.key(linkRows, p), Value: []byte{rowVersion}})
	}
	return nil
}

// unlink takes an explicit link away; a glob link stays (§6.4).
func (s *state) unlink(st *step, path stream.Path) {
	if _, linked := s.explicit[path]; !linked {
		return
	}
	delete(s.explicit, path)
	s.recall(path)
	st.rows = append(st.rows, stream.Row{Key: s.key(linkRows, path)})
	if m := s.marks.get(path); m != nil && !s.matches(path) {
		s.drop(st, m)
	}
}

// remove ends the subscription (§6.3). Without its first row the others mean
// nothing, so they may go later.
func (s *state) remove(st *step) {
	s.deleted = true
	st.cut = true
	st.rows = append(st.rows, stream.Row{Key: s.key(mainRow, "")})
	st.swept = s.leftovers()
}

// claim gives a worker the lease of a pull-wake subscription (§7.2).
func (s *state) claim(st *step, worker string) *Refusal {
	switch {
	case s.typ != PullWake:
		return refuse(InvalidRequest, "only pull-wake subscriptions are claimed")
	case s.phase == held:
		r := refuse(AlreadyClaimed, "another worker holds the lease")
		r.Holder, r.Generation = s.holder, s.generation
		return r
	case s.phase == idle:
		return refuse(NoPendingWork, "the subscription has no pending work")
	}
	s.phase, s.holder, s.lease = held, worker, s.leaseFrom(st.now)
	s.tell()
	return nil
}

func (s *state) leaseFrom(now int64) int64 { return now + int64(s.ttl) }

// token is the one whose holder may speak for the current wake.
func (s *state) token(now int64) Token {
	return Token{Type: s.typ, ID: s.id, Own: s.own, Generation: s.generation, WakeID: s.wakeID,
		Expires: time.Unix(0, now).Add(tokenLife)}
}

// fence names the wake that a request belongs to (§7.3).
type fence struct {
	token      Token // verified
	generation uint64
	wakeID     string
}

// check refuses a request unless it belongs to the current wake (§7.3).
func (s *state) check(st *step, f fence) *Refusal {
	want := s.token(st.now)
	switch {
	case f.token.Type != want.Type || f.token.ID != want.ID || f.token.Own != want.Own:
		return refuse(TokenInvalid, "the bearer token is not one for this subscription")
	case s.phase == idle || s.typ == PullWake && s.phase != held,
		f.token.Generation != want.Generation || f.token.WakeID != want.WakeID,
		f.generation != want.Generation || f.wakeID != want.WakeID:
		return refuse(Fenced, "this wake is over")
	case f.token.Expires.UnixNano() <= st.now:
		return refuse(TokenExpired, "the bearer token has expired")
	}
	return nil
}

// ack is one offset that a worker has processed, looked up in its stream.
type ack struct {
	path   stream.Path
	offset stream.Offset
	tail   tail // not before the offset; not found if the stream has ended: then there is nothing to ack

	// former: the offset is none of the stream that is there now.
	former bool
}

// late tells whether an ack speaks of a stream that the current wake named and that
// is none of the subscription's any more. The worker could not know: it is right,
// and there is nothing to ack.
func (s *state) late(a *ack) bool {
	named, ok := s.left[a.path]
	return ok && (a.offset.Inc == named.Inc || !s.links(a.path))
}

// ack applies the acks of a worker, all or none, and extends the lease or with
// done gives it back (§7.1, §7.2). unfit is why the acks cannot be applied, known
// beforehand.
func (s *state) ack(st *step, f fence, acks []ack, unfit *Refusal, done bool) *Refusal {
	if r := s.check(st, f); r != nil {
		return r
	}
	if unfit != nil {
		return unfit
	}
	for i := range acks {
		a := &acks[i]
		late := s.late(a)
		if !s.links(a.path) {
			if !late {
				return refuse(InvalidOffset, "an ack names a stream that is not linked")
			}
			continue // and has no mark
		}
		if !a.tail.found {
			continue // its offset is 0 and moves nothing
		}
		s.recall(a.path)
		if !a.former {
			s.learn(st, a.path, a.tail)
		}
		if m := s.marks.get(a.path); a.former || m != nil && m.tail.Inc != a.tail.Incarnation {
			if !late {
				return refuse(InvalidOffset, "an ack names an offset of another stream or of a former one")
			}
			a.offset.Pos = 0 // moves nothing
		}
	}
	for _, a := range acks {
		if m := s.marks.get(a.path); m != nil {
			s.advance(st, m, a.offset)
		}
	}
	s.phase, s.lease = held, s.leaseFrom(st.now)
	s.retries, s.retryAt = 0, 0
	if done {
		s.endWake()
	}
	return nil
}

// release gives a claim back without acking (§7.2).
func (s *state) release(st *step, f fence) *Refusal {
	if s.typ != PullWake {
		return refuse(InvalidRequest, "only pull-wake subscriptions are released")
	}
	if r := s.check(st, f); r != nil {
		return r
	}
	s.endWake()
	return nil
}

// issue begins a delivery (§7.1): another attempt of the current wake if it is
// still known what that is about, else a new wake. It gives false if none is due.
func (s *state) issue(st *step) bool {
	if !s.callDue(st.now) {
		return false
	}
	if s.phase == idle || !s.toldNow || s.marks.first.generation != s.generation {
		s.endWake()
		s.beginWake(st)
		s.tell()
		s.toldNow = true
	}
	s.lease, s.retryAt = s.leaseFrom(st.now), 0
	return true
}

// verdict is what came of a delivery.
type verdict uint8

const (
	failed   verdict = iota // no 2xx
	accepted                // 2xx: the worker will call back
	finished                // {"done": true}
)

// conclude takes over what came of the delivery of a wake.
func (s *state) conclude(st *step, wakeID string, v verdict) {
	if s.phase == idle || s.wakeID != wakeID {
		return
	}
	if v == failed {
		if s.phase == woken && s.retryAt == 0 {
			s.fail(st)
		}
		return
	}
	s.phase, s.retries, s.retryAt = held, 0, 0
	if v == finished {
		for m := range s.told {
			s.advance(st, m, m.told)
		}
		s.endWake()
	}
}

// fail schedules the next delivery.
func (s *state) fail(st *step) {
	s.retries++
	s.retryAt = st.now + int64(backoff(s.retries, st.random.unit()))
}

// maxBackoff is the longest pause.
const maxBackoff = 72 * time.Second

// backoff is the pause before a retry: it doubles from 1 s to 60 s, give or take 20 % (§7.1).
func backoff(failures uint32, unit float64) time.Duration {
	pause := time.Minute
	if failures < 7 {
		pause = time.Second << (failures - 1)
	}
	return pause + time.Duration(float64(pause)*0.2*(2*unit-1))
}
