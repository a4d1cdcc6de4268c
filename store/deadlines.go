package store

import (
	"sync"
	"time"

	"durablestreams/internal/archive"
	"durablestreams/internal/due"
	"durablestreams/stream"
)

// deadlines is the one queue of all streams in memory that can end by
// themselves. Those that are not in memory stand in the archive's index.
type deadlines struct {
	mu    sync.Mutex
	queue due.Queue[live]
	early chan struct{} // capacity 1: the first deadline may be earlier now
}

func (d *deadlines) init() { d.early = make(chan struct{}, 1) }

// add queues a stream, with its slot held. While it is watched, and so being
// read all the time, its turn comes at every grain of its window.
func (d *deadlines) add(l *live) {
	at := l.state.Deadline()
	if grain, ok := renewalGrain(l.state.Lifetime); ok && len(l.watchers) > 0 {
		at = min(at, now()+grain)
	}
	d.addAt(l, at)
}

// addAt queues a stream for a given time, with its slot held.
func (d *deadlines) addAt(l *live, at int64) {
	if at == stream.Never {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue.Set(l, &l.deadline, at) {
		select {
		case d.early <- struct{}{}:
		default:
		}
	}
}

func (d *deadlines) remove(l *live) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue.Remove(&l.deadline)
}

// due takes a stream whose deadline is not after now; if there is none it gives
// the next deadline.
func (d *deadlines) due(now int64) (l *live, next int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.queue.Pop(now); l != nil {
		return l, 0
	}
	if at, ok := d.queue.Next(); ok {
		return nil, at
	}
	return nil, stream.Never
}

// renewalGrain is the part of a sliding window, in nanoseconds, after which a
// renewal is journaled: a tenth. A crash can shorten a stream's life by no more
// than that.
func renewalGrain(l stream.Lifetime) (grain int64, ok bool) {
	window, ok := l.TTL()
	if !ok || window > stream.Never/uint64(time.Second) {
		return 0, false
	}
	return max(int64(window)*int64(time.Second/10), int64(100*time.Millisecond)), true
}

// touch counts as a read at the given time, with the slot held.
func (e *Engine) touch(l *live, at int64) {
	grain, ok := renewalGrain(l.state.Lifetime)
	if !ok || l != l.slot.cur {
		return
	}
	l.state.Touch(at)
	if at-l.journaled < grain {
		return
	}
	n, err := e.admit(recordOverhead, false)
	if err != nil {
		e.flush.mark(l) // no journal for it now: the archive learns it
		return
	}
	rec := stream.DecideTouch(&l.state, at)
	e.commit(op{live: l, rec: &rec, done: ignore{}, reserved: n})
}

// maxSweepPause bounds the sweeper's sleep, so that it notices deadlines that
// come from the archive, and steps of the clock.
const maxSweepPause = 10 * time.Second

// runSweeper ends streams whose lifetime is over, and lets idle ones leave
// memory.
func (e *Engine) runSweeper() {
	evict := time.NewTicker(max(e.opts.IdleAfter/evictParts, time.Millisecond))
	defer evict.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var archived int64 // next deadline in the archive
	part := 0
	for {
		select {
		case <-e.stopped:
			return
		case <-evict.C:
			archived = min(archived, e.evict(part))
			part = (part + 1) % evictParts
		case <-e.deadlines.early:
		case <-timer.C:
		}
		next := e.sweepMemory()
		if at := now(); at >= archived {
			archived = max(e.sweepArchive(at), at+int64(time.Second))
		}
		pause := time.Duration(min(next, archived)-now()) + time.Millisecond
		timer.Reset(min(max(pause, time.Millisecond), maxSweepPause))
	}
}

// sweepMemory ends what is due among the streams in memory and gives the next
// deadline.
func (e *Engine) sweepMemory() int64 {
	for {
		l, next := e.deadlines.due(now())
		if l == nil {
			return next
		}
		e.expire(l.slot.path)
	}
}

// expire ends the stream at a path if its time has come, or queues it again.
func (e *Engine) expire(p stream.Path) {
	s, err := e.acquire(p)
	if err != nil {
		e.log.Error("stream cannot expire", "path", p, "err", err)
		return
	}
	l, at := s.cur, now()
	if l == nil || l.state.Deleted {
		e.release(s)
		return
	}
	if len(l.watchers) > 0 {
		e.touch(l, at)
	}
	if !l.decided(at).Expired(at) {
		e.deadlines.add(l)
		e.release(s)
		return
	}
	e.release(s)
	if err := e.applyDelete(p, true, &change{done: ignore{}}); err != nil && !e.closing.Load() && e.failed() == nil {
		e.log.Warn("stream did not expire yet", "path", p, "err", err)
		l.slot.mu.Lock()
		if l == l.slot.cur {
			e.deadlines.addAt(l, now()+int64(time.Second))
		}
		l.slot.mu.Unlock()
	}
}

// sweepArchive ends what is due among the streams that are not in memory and
// gives the next deadline there.
func (e *Engine) sweepArchive(at int64) (next int64) {
	var due []archive.Due
	next, err := e.archive.FirstDue(at, func(d archive.Due) bool {
		if l := e.table.byID(d.ID); l != nil {
			// The queue in memory knows better; the index follows at a flush.
			l.slot.mu.Lock()
			if !l.gone {
				e.flush.mark(l)
			}
			l.slot.mu.Unlock()
			return true
		}
		due = append(due, d)
		return len(due) < 1000
	})
	if err != nil {
		e.log.Error("deadlines cannot be read", "err", err)
	}
	for _, d := range due {
		row, err := e.archive.Load(d.ID)
		switch {
		case err != nil:
			e.log.Error("stream cannot expire", "stream", d.ID, "err", err)
		case row == nil:
			e.stray(d)
		default:
			e.expire(row.State.Path)
		}
	}
	return next
}

// evictParts is the number of steps in which the table is searched for idle
// streams.
const evictParts = 8

// evict lets idle streams of one part of the table leave memory and gives the
// first deadline that only the archive's index knows by that.
func (e *Engine) evict(part int) (first int64) {
	first = stream.Never
	before := now() - int64(e.opts.IdleAfter)
	var idle []*slot
	for i := part * tableShards / evictParts; i < (part+1)*tableShards/evictParts; i++ {
		shard := &e.table.paths[i]
		shard.Lock()
		for _, s := range shard.m {
			idle = append(idle, s)
		}
		shard.Unlock()
	}
	for _, s := range idle {
		s.mu.Lock()
		if l := s.cur; l != nil && !s.dead && s.ended == 0 && l == s.pub && l.evictable(before) {
			first = min(first, l.indexed)
			e.deadlines.remove(l)
			e.table.removeID(l.state.ID)
			s.cur, s.pub = nil, nil
			e.table.remove(s)
		}
		s.mu.Unlock()
	}
	return first
}

// evictable reports whether the archive has all of the stream and nobody has
// used it since before.
func (l *live) evictable(before int64) bool {
	return l.usedAt < before && len(l.watchers) == 0 && !l.dirty && !l.flushing && l.lsn <= l.flushedLSN && len(l.tail.pieces) == 0
}
