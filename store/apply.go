package store

import (
	"errors"

	"durablestreams/stream"
)

// recordOverhead is a generous bound of a record's size besides its data, in bytes.
const recordOverhead = 4 << 10

// Apply decides cmd at once and completes done exactly once, when the outcome
// is durable; that may be before Apply returns. It blocks on the disk only to
// load a stream that is not in memory.
func (e *Engine) Apply(cmd stream.Command, done stream.Completion) {
	e.run(cmd, &change{done: done})
}

// Probe decides cmd as Apply would, but changes nothing: done gets the refusal,
// or no error if Apply would have succeeded at that moment.
func (e *Engine) Probe(cmd stream.Command, done stream.Completion) {
	e.run(cmd, &change{done: done, dry: true})
}

// change is a command on its way into a commit batch.
type change struct {
	done     stream.Completion
	dry      bool
	reserved int64 // what it holds of Options.MaxQueued
}

// take passes the reservation on, to the batch.
func (c *change) take() int64 {
	n := c.reserved
	c.reserved = 0
	return n
}

// run carries a command out. What the batch has not taken over of its
// reservation is given back.
func (e *Engine) run(cmd stream.Command, ch *change) {
	err := e.dispatch(cmd, ch)
	e.open.queued.Add(-ch.reserved)
	if err != nil {
		ch.done.Complete(stream.Result{}, err)
	}
}

// dispatch and the apply functions return an error only if they did not pass
// ch.done on.
func (e *Engine) dispatch(cmd stream.Command, ch *change) (err error) {
	switch c := cmd.(type) {
	case *stream.Append:
		if ch.reserved, err = e.admit(appendSize(c), false); err != nil {
			return err
		}
		return e.applyAppend(c, ch)
	case *stream.Create:
		if ch.reserved, err = e.admit(len(c.Data)+recordOverhead, false); err != nil {
			return err
		}
		return e.applyCreate(c, ch)
	case *stream.Delete:
		if ch.reserved, err = e.admit(recordOverhead, true); err != nil {
			return err
		}
		return e.applyDelete(c.Path, false, ch)
	}
	return &stream.Error{Kind: stream.Internal, Message: "unknown command"}
}

// appendSize bounds the size of an append's record in bytes.
func appendSize(c *stream.Append) int {
	n := len(c.Data) + 64
	if c.Producer != nil {
		n += len(c.Producer.ID) + 16
	}
	if c.Seq != nil {
		n += len(*c.Seq)
	}
	return n
}

func (e *Engine) applyAppend(c *stream.Append, ch *change) error {
	s, err := e.acquire(c.Path)
	if err != nil {
		return err
	}
	defer e.release(s)
	l, at := s.cur, now()
	rec, res, refusal := stream.DecideAppend(l.decided(at), c, e.opts.SameType, at)
	if rec.Kind != 0 && e.opts.Ledger != nil {
		refusal = e.chargeAppend(s, len(rec.Data), ch.dry)
	}
	if refusal != nil || rec.Kind == 0 || ch.dry {
		if refusal == nil && !ch.dry {
			e.touch(l, at) // a duplicate is a write too, as far as the lifetime goes
		}
		e.answer(res, refusal, ch.done, s)
		return nil
	}
	e.commit(op{live: l, rec: &rec, res: res, done: ch.done, reserved: ch.take()})
	return nil
}

// decided gives the state to decide on, nil for no stream. A stream that is
// being watched counts as just read.
func (l *live) decided(at int64) *stream.State {
	if l == nil {
		return nil
	}
	l.usedAt = at
	if len(l.watchers) > 0 {
		l.state.Touch(at)
	}
	return &l.state
}

// answer completes a command that changes nothing. What the answer tells of the
// slots, which are held, may rest on records still under way: then it waits for
// them.
func (e *Engine) answer(res stream.Result, refusal *stream.Error, done stream.Completion, slots ...*slot) {
	var err error
	if refusal != nil {
		err = refusal
	}
	for _, s := range slots {
		if l := s.cur; l == nil && s.pub != nil || l != nil && l.lsn > e.durable.Load() {
			e.commit(op{res: res, err: err, done: done})
			return
		}
	}
	done.Complete(res, err)
}

func (e *Engine) applyCreate(c *stream.Create, ch *change) error {
	if c.Fork != nil {
		e.forks.Lock()
		defer e.forks.Unlock()
	}
	s, err := e.acquire(c.Path)
	if err != nil {
		return err
	}
	at := now()
	for s.cur != nil && s.cur.state.Forks == 0 && s.cur.decided(at).Expired(at) {
		// The path is free: end the expired stream first. That may take other
		// slots, so this one is let go and everything looked at again.
		e.release(s)
		if c.Fork != nil {
			err = e.expireHoldingForks(c.Path)
		} else {
			err = e.applyDelete(c.Path, true, &change{done: ignore{}})
		}
		if err != nil && !errors.Is(err, stream.NotFound) {
			return err
		}
		if s, err = e.acquire(c.Path); err != nil {
			return err
		}
		at = now()
	}
	defer e.release(s)
	return e.createIn(s, c, at, ch)
}

// createIn decides a Create with the slot of its path held, and for a fork the
// forks lock too; at is the time at which the path was free.
func (e *Engine) createIn(s *slot, c *stream.Create, at int64, ch *change) error {
	var source *live
	about := []*slot{s} // an answer that changes nothing tells of these
	if c.Fork != nil {
		if c.Fork.SourcePath == c.Path {
			source = s.cur
		} else {
			src, err := e.acquire(c.Fork.SourcePath)
			if err != nil {
				return err
			}
			defer e.release(src)
			source = src.cur
			about = append(about, src)
		}
	}
	c.ID, c.Incarnation = e.newIdentity()
	rec, res, refusal := stream.DecideCreate(s.cur.decided(at), source.decided(at), c, e.opts.SameType, at)
	var account Account
	if rec.Kind != 0 && e.opts.Ledger != nil {
		account, refusal = e.opts.Ledger.Create(c.Path, len(rec.Data), ch.dry)
	}
	if refusal != nil || rec.Kind == 0 || ch.dry {
		if refusal == nil && !ch.dry {
			e.touch(s.cur, at)
		}
		e.answer(res, refusal, ch.done, about...)
		return nil
	}
	l := &live{slot: s, indexed: stream.Never, journaled: at, usedAt: at}
	l.tail.start = rec.Meta.Base()
	if !e.commit(op{live: l, source: source, rec: &rec, res: res, done: ch.done, reserved: ch.take()}) {
		return nil
	}
	s.cur, s.account = l, account
	e.table.addID(l)
	e.deadlines.add(l)
	return nil
}

// applyDelete deletes, or with expire ends, the stream at a path. Only a fork
// whose deletion may free its sources needs more than its own slot.
func (e *Engine) applyDelete(p stream.Path, expire bool, ch *change) error {
	s, err := e.acquire(p)
	if errors.Is(err, stream.Damaged) && !expire {
		return e.drop(p, ch)
	}
	if err != nil {
		return err
	}
	if s.cur == nil || s.cur.state.Fork == nil {
		defer e.release(s)
		return e.deleteIn(s, nil, expire, ch)
	}
	e.release(s)
	e.forks.Lock()
	defer e.forks.Unlock()
	return e.deleteHoldingForks(p, expire, ch)
}

func (e *Engine) expireHoldingForks(p stream.Path) error {
	return e.deleteHoldingForks(p, true, &change{done: ignore{}})
}

func (e *Engine) deleteHoldingForks(p stream.Path, expire bool, ch *change) error {
	s, err := e.acquire(p)
	if err != nil {
		return err
	}
	defer e.release(s)
	var ancestors []*live
	for l := s.cur; l != nil && l.state.Fork != nil; {
		a, err := e.acquire(l.state.Fork.SourcePath)
		if err != nil {
			return err
		}
		defer e.release(a)
		if a.cur == nil || a.cur.state.ID != l.state.Fork.Source {
			return &stream.Error{Kind: stream.Damaged, Message: "the source of this fork is missing"}
		}
		l = a.cur
		ancestors = append(ancestors, l)
		if !l.state.Deleted || l.state.Forks > 1 {
			break
		}
	}
	return e.deleteIn(s, ancestors, expire, ch)
}

// deleteIn decides a deletion with the slots of the stream and of its ancestors
// held.
func (e *Engine) deleteIn(s *slot, ancestors []*live, expire bool, ch *change) error {
	l, at := s.cur, now()
	states := make([]*stream.State, len(ancestors))
	for i, a := range ancestors {
		states[i] = &a.state
	}
	rec, res, refusal := stream.DecideDelete(l.decided(at), states, expire, at)
	if refusal != nil || ch.dry {
		e.answer(res, refusal, ch.done, s)
		return nil
	}
	collected := ancestors[:len(rec.Collected)]
	var unref *live
	if rec.Unref != 0 {
		unref = ancestors[len(rec.Collected)]
	}
	if !e.commit(op{live: l, source: unref, collected: collected, rec: &rec, res: res, done: ch.done, reserved: ch.take()}) {
		return nil
	}
	if !rec.Soft {
		s.cur = nil
		e.giveBack(l)
		for _, a := range collected {
			a.slot.cur = nil
			e.giveBack(a)
		}
	}
	return nil
}

// ignore is the completion of a change that nobody waits for.
type ignore struct{}

func (ignore) Complete(stream.Result, error) {}
