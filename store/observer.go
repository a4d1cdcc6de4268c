package store

import (
	"errors"
	"fmt"

	"durablestreams/stream"
)

// Observer learns of changes of streams as they are decided, and may have rows
// kept with them. Its methods are called at once from any goroutine, but not for
// what a start replays.
//
// Locks are taken in the order stream, observer's own, open batch. So an observer
// may hold its lock while it calls put or PutRows, and then the order of its
// decisions is the order in the journal; but with its lock held it must not call
// any other method of the engine.
type Observer interface {
	// Version changes whenever Interested may answer otherwise; 0 says that nobody
	// is interested in anything. It is read on every change of a stream, so it
	// must be an atomic load.
	Version() uint64

	// Interested says whether changes of the stream at a path are to be reported.
	// It is asked about once a stream in memory and version, with the stream's
	// lock held. A change that has read an older version goes by that.
	Interested(path stream.Path) bool

	// Decided is called with the stream's lock held when a record is about to go
	// into the open batch and cannot be refused any more: an append, a close, a
	// creation, any end of a stream. The first call of put, even without rows, puts
	// the record there; if there is none, that happens when Decided returns. Rows
	// go into the same batch behind it: a crash keeps all of it or nothing. The
	// batch waits for Decided to return, so it must be quick; put must not be
	// called after that. A misuse of put stops the engine, since the record could
	// not be kept without its rows.
	//
	// An end of the last fork may collect sources that were deleted before: their
	// end is then reported a second time.
	Decided(c Change, put func([]Row))

	// Published is called when what was decided has become durable and visible,
	// once for each Decided, unless the engine fails. It must not block nor call
	// the engine.
	Published(path stream.Path)
}

// Change is what one record does to one stream. At an end Before and After are both
// the tail, or the zero offset if the stream was damaged and its tail unknown.
type Change = stream.Change

// changes gives what the observer is to hear of an op, mostly nothing. The slots
// of all its streams are held.
func (e *Engine) changes(o *op) (list []Change) {
	if e.opts.Observer == nil || o.rec == nil || o.rec.Kind == stream.RecordTouch {
		return nil
	}
	version := e.opts.Observer.Version()
	if version == 0 {
		return nil
	}
	if e.observed(o.live.slot, version) {
		list = append(list, o.change())
	}
	for _, a := range o.collected {
		if e.observed(a.slot, version) {
			list = append(list, a.ending())
		}
	}
	return list
}

// observed reports whether the observer wants to hear of a slot that is held.
func (e *Engine) observed(s *slot, version uint64) bool {
	if s.asked != version {
		s.asked, s.wanted = version, e.opts.Observer.Interested(s.path)
	}
	return s.wanted
}

// change is what the op's record does to its own stream, before it is folded.
func (o *op) change() Change {
	meta := o.live.state.Meta
	switch o.rec.Kind {
	case stream.RecordDelete, stream.RecordDrop:
		return o.live.ending()
	case stream.RecordCreate:
		meta = o.rec.Meta
	}
	return Change{Path: meta.Path, Created: o.rec.Kind == stream.RecordCreate,
		Before: meta.OffsetAt(o.rec.Pos), After: meta.OffsetAt(o.rec.Pos + uint64(len(o.rec.Data)))}
}

func (l *live) ending() Change {
	tail := l.state.TailOffset() // 0 of incarnation 0 if it is damaged
	return Change{Path: l.state.Path, Gone: true, Before: tail, After: tail}
}

// decision is an op on its way into the open batch, with the observer looking on.
type decision struct {
	e       *Engine
	op      op
	own     *batch // as for openBatch.put
	changes []Change
	placed  bool // the record is in the batch; guarded by openBatch.mu
	pinned  bool // and the batch waits for the end; guarded by openBatch.mu
	over    bool
}

// decide puts an op into the open batch as openBatch.put does, and what the
// observer adds behind it. It gives the op as it stands in the batch.
func (e *Engine) decide(o op, own *batch, changes []Change) (op, bool) {
	if !e.open.begin() {
		return o, false
	}
	d := &decision{e: e, op: o, own: own, changes: changes}
	d.op.told = d
	defer d.end()
	for _, c := range changes {
		e.opts.Observer.Decided(c, d.put)
	}
	e.open.place(d, nil, 0)
	d.over = true
	return d.op, true
}

// put is what the observer puts rows with.
func (d *decision) put(rows []Row) {
	size, err := checkRows(rows)
	if err == nil && d.over {
		err = errors.New("put was called after Decided had returned")
	}
	if err != nil {
		d.e.fail(fmt.Errorf("rows of an observer: %w", err))
		return
	}
	d.e.open.place(d, rows, int64(size))
}

// end lets the batch go.
func (d *decision) end() {
	if !d.over { // a panic, which somebody above may recover from: the record is lost
		d.over = true
		d.e.fail(errors.New("the observer has panicked"))
		defer d.e.open.kick()
	}
	d.e.open.end(d)
	d.op, d.own = op{}, nil
}

// tellPublished reports what a batch has made visible.
func (e *Engine) tellPublished(b *batch) {
	for i := range b.ops {
		d := b.ops[i].told
		if d == nil {
			continue
		}
		for _, c := range d.changes {
			e.opts.Observer.Published(c.Path)
		}
	}
}
