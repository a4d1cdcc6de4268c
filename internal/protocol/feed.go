package protocol

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// Feed is a live read (§5.7, §5.8) that an adapter steps. It holds a position in
// the stream, not data, while it waits.
type Feed struct {
	op   *Op
	wake func()
	stop func() // of the watch; nil before there is one

	snap  stream.Snapshot // as last seen
	pos   uint64          // what the client has
	begun bool            // the place in the stream is found
	over  bool

	recheck atomic.Bool // the caller's right may have gone

	drained bool // the deadline is that of the server's end, if that comes first

	immediate bool  // as Immediate found it for the next step
	unsent    int64 // bytes held of limits.unsent, for the last frame

	deadline time.Time // of a long-poll's wait, of an SSE answer's life

	// SSE only.
	code   coding
	quiet  time.Time // when a comment is due
	spoken bool      // a control event went out
	cursor string    // of the last one
	since  time.Time // there is no room for a frame; zero: there is
}

// Action is what an adapter does next for a feed.
type Action struct {
	// Response, if not nil, is to be sent: the whole answer, or the head of an
	// SSE answer (Length -1).
	Response *Response

	// Frame is the next piece of an SSE body. It goes out at once and whole.
	// Other feeds may have the same bytes: they must not be written to.
	Frame []byte

	// Done says that nothing follows. An SSE body ends here.
	Done bool

	// Wait is when to step again at the latest if the feed is not woken before;
	// zero means at once.
	Wait time.Time
}

// Open starts a live read. wake is called from any goroutine when the feed may
// have something to give; it must not block and must not step the feed itself.
func (o *Op) Open(wake func()) *Feed { return &Feed{op: o, wake: wake} }

// Immediate reports whether the next step can do without the disk.
func (f *Feed) Immediate() bool {
	if !f.begun {
		f.immediate = f.op.Immediate()
	} else {
		f.immediate = f.op.core.store.InMemory(f.op.path, f.op.looksBackFrom(f.pos))
	}
	return f.immediate
}

// Close ends the feed and lets go of what it holds. An adapter calls it when the
// last frame has been sent, or is not to be. It is idempotent.
func (f *Feed) Close() {
	f.end()
	f.letGo()
}

// end ends the watch: there is nothing more to say.
func (f *Feed) end() {
	f.over = true
	if f.stop != nil {
		f.stop()
		f.stop = nil
		f.op.givePlace()
		if f.op.caller != nil {
			f.op.core.waiting.remove(f)
		}
		if f.op.sse {
			f.op.core.stats.sse.Add(-1)
		}
	}
}

// hold counts a frame that takes so many bytes until it has been sent.
func (f *Feed) hold(n int64) bool {
	if !f.op.core.limits.unsent.takeBytes(f.unsent, n) {
		return false
	}
	f.unsent = n
	return true
}

// holdExactly corrects the count to what the frame has become.
func (f *Feed) holdExactly(n int64) {
	f.op.core.limits.unsent.used.Add(n - f.unsent)
	f.unsent = n
}

// letGo says that the last frame has been sent.
func (f *Feed) letGo() {
	if f.unsent > 0 {
		f.op.core.limits.unsent.give(f.unsent)
		f.unsent = 0
	}
}

// Step gives the next thing to do, once everything before has been sent. It may
// read from the disk, and then waits for a place to do so. After an error, which
// only an SSE answer that has begun can have, the connection must be cut.
func (f *Feed) Step(now time.Time) (Action, error) {
	f.letGo()
	if f.over {
		return Action{Done: true}, nil
	}
	if err := f.revoked(); err != nil {
		return f.revoke(now, err), nil
	}
	if !f.immediate && !f.Immediate() {
		if err := f.op.core.limits.reads.enter(); err != nil {
			return f.refuse(err), nil
		}
		defer f.op.core.limits.reads.leave()
	}
	f.immediate = false
	head := !f.begun
	if head {
		if r := f.begin(now); r != nil {
			return f.finish(r), nil
		}
		if err := f.revoked(); err != nil {
			return f.revoke(now, err), nil
		}
	}
	from := f.pos
	a, err := f.look(now)
	switch {
	case err != nil && (head || !f.op.sse):
		return f.finish(f.op.core.Refuse(f.op.req, err)), nil
	case err != nil:
		f.end()
		f.op.core.logFailure(f.op.req, err)
		return Action{}, err
	}
	if head && f.op.sse {
		a.Response = f.sseHead(from)
	}
	if len(a.Frame) > 0 {
		f.op.core.stats.frames.Add(1)
		f.op.core.stats.bytes.Add(int64(len(a.Frame)))
	}
	if a.Done {
		f.end()
	}
	return a, nil
}

func (f *Feed) finish(r *Response) Action {
	f.end()
	return Action{Response: r, Done: true}
}

// refuse ends a read for which there is no place. An SSE answer that has begun
// just ends: the client comes back with its offset and is told then.
func (f *Feed) refuse(err error) Action {
	if f.begun && f.op.sse {
		f.end()
		return Action{Done: true}
	}
	return f.finish(f.op.core.Refuse(f.op.req, err))
}

// begin finds the place in the stream and watches it. It gives a response if the
// read is over with that.
func (f *Feed) begin(now time.Time) *Response {
	o := f.op
	var err error
	if f.snap, err = o.core.store.Stat(o.path, true); err == nil {
		f.pos, err = o.core.locate(o.from, f.snap)
	}
	if err != nil {
		return o.core.Refuse(o.req, err)
	}
	opt := &o.core.opt
	if o.sse {
		f.code = codingOf(f.snap.ContentType)
		f.deadline = o.until(now.Add(spread(opt.SSEMaxAge)))
		f.quiet = now.Add(opt.KeepAlive)
	} else {
		f.deadline = o.until(now.Add(opt.LongPollTimeout))
		if r := f.pollData(now); r != nil {
			return r
		}
	}
	if err := o.takePlace(); err != nil {
		r := o.core.Refuse(o.req, err)
		r.Last = true // or who is refused would take the connections of others
		return r
	}
	f.begun = true
	if o.sse {
		o.core.stats.sse.Add(1)
	}
	// The watch comes before the look that decides to wait, so that no change
	// falls between the two.
	f.stop = o.core.store.Watch(f.snap, f.wake)
	f.await()
	return nil
}

// takePlace counts a live read that is going to wait, or gives the refusal.
func (o *Op) takePlace() error {
	if !o.core.limits.live.place() {
		return busy("too many clients are waiting for data")
	}
	if o.core.opt.Tenants == nil {
		return nil
	}
	err := o.core.opt.Tenants.Follow(o.path)
	if err != nil {
		o.core.limits.live.give(1)
	}
	return err
}

func (o *Op) givePlace() {
	o.core.limits.live.give(1)
	if o.core.opt.Tenants != nil {
		o.core.opt.Tenants.Unfollow(o.path)
	}
}

// spread gives d ±10 %, so that clients which came together do not come back
// together.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// look decides by the stream's state of now.
func (f *Feed) look(now time.Time) (Action, error) {
	snap, err := f.op.core.store.Stat(f.op.path, false)
	if err == nil && snap.ID != f.snap.ID {
		err = refuse(stream.NotFound, "the stream was deleted")
	}
	if f.op.sse {
		return f.lookSSE(snap, err, now)
	}
	if err != nil {
		return Action{}, err
	}
	f.snap = snap
	if r := f.pollData(now); r != nil {
		return Action{Response: r, Done: true}, nil
	}
	if f.timeUp(now) {
		return Action{Response: f.pollEmpty(now), Done: true}, nil
	}
	return Action{Wait: f.deadline}, nil
}

// timeUp reports whether a feed that has nothing to give ends. When the server does,
// each feed has its own moment.
func (f *Feed) timeUp(now time.Time) bool {
	if !f.drained && f.op.core.isDraining() {
		f.drained = true
		if end := now.Add(time.Duration(rand.Float64() * float64(f.op.core.ending))); end.Before(f.deadline) {
			f.deadline = end
		}
	}
	return !now.Before(f.deadline)
}

// pollData answers a long-poll that has data or is at the end of a closed stream,
// else nil.
func (f *Feed) pollData(now time.Time) *Response {
	switch {
	case f.pos < f.snap.Tail:
		r, err := f.op.page(f.snap, f.pos)
		if err != nil {
			return f.op.core.Refuse(f.op.req, err)
		}
		if r.Get(wire.HeaderStreamClosed) == "" {
			r.add(wire.HeaderStreamCursor, f.nextCursor(now))
		}
		return r
	case f.snap.Closed:
		return f.pollEmpty(now)
	}
	return nil
}

// pollEmpty is the 204 of a long-poll.
func (f *Feed) pollEmpty(now time.Time) *Response {
	r := f.op.core.answer(f.op.req, 204)
	r.add("Cache-Control", cacheNever)
	r.add(wire.HeaderStreamNextOffset, f.snap.OffsetAt(f.pos).String())
	r.add(wire.HeaderStreamUpToDate, wire.True)
	if f.snap.Closed {
		r.add(wire.HeaderStreamClosed, wire.True)
	} else {
		r.add(wire.HeaderStreamCursor, f.nextCursor(now))
	}
	return r
}

// nextCursor gives the cursor of an answer. Within one SSE answer it never goes
// back (§10.1).
func (f *Feed) nextCursor(now time.Time) string {
	if f.cursor == "" {
		f.cursor = wire.NextCursor(now, f.op.cursor, rand.Uint64N)
		return f.cursor
	}
	c := wire.NextCursor(now, "", nil)
	if len(c) > len(f.cursor) || len(c) == len(f.cursor) && c > f.cursor {
		f.cursor = c
	}
	return f.cursor
}
