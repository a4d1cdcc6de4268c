package store

import (
	"errors"
	"syscall"
	"time"

	"durablestreams/internal/journal"
	"durablestreams/stream"
)

// commit puts an op into the open batch and folds its record. The slots of all
// its streams are held. Once the engine has closed it only refuses, and gives
// false.
func (e *Engine) commit(o op) bool {
	var own *batch
	if o.rec != nil && len(o.rec.Data) >= largeRecord {
		own = newBatch(len(o.rec.Data) + recordOverhead)
		o.encode(own)
	}
	var ok bool
	if changes := e.changes(&o); changes == nil {
		ok = e.open.put(&o, own)
	} else {
		o, ok = e.decide(o, own, changes)
	}
	if !ok {
		e.open.queued.Add(-o.reserved)
		o.done.Complete(stream.Result{}, errClosing)
		return false
	}
	if o.rec != nil {
		o.fold()
	}
	e.kick()
	return true
}

// kick tells the committer that there is something, unless somebody is about to
// say so.
func (e *Engine) kick() {
	if e.open.corks.Load() == 0 {
		e.open.kick()
	}
}

// Cork says that the caller is about to apply several changes and will call
// Uncork right after: they then go into one batch, which is not begun before.
// Corks are for moments; everybody's changes may wait for them.
func (e *Engine) Cork() { e.open.corks.Add(1) }

// Uncork takes a cork back and lets the committer begin.
func (e *Engine) Uncork() {
	o := &e.open
	o.corks.Add(-1)
	o.mu.Lock()
	waiting := o.cur != nil || len(o.full) > 0
	o.mu.Unlock()
	if waiting {
		o.kick()
	}
}

// awaitUncork waits while somebody is about to add more, once: two who cork in
// turns do not keep everybody waiting.
func (o *openBatch) awaitUncork(stopped <-chan struct{}) {
	if o.corks.Load() == 0 {
		return
	}
	select {
	case <-o.ready:
	case <-stopped:
	}
}

// fold applies the record to the decided states.
func (o *op) fold() {
	o.live.fold(o.rec, o.lsn)
	for _, a := range o.collected {
		a.lsn = o.lsn
	}
	if o.source != nil {
		if o.rec.Kind == stream.RecordCreate {
			o.source.state.AddFork()
		} else {
			o.source.state.DropFork()
		}
		o.source.lsn = o.lsn
	}
}

func (l *live) fold(r *stream.Record, lsn uint64) {
	l.state.Fold(r)
	l.lsn = lsn
	l.journaled = r.Time
	if r.HasProducer {
		l.producersLSN = lsn
	}
}

// runCommitter writes batch after batch until the engine stops, and then what
// is left.
func (e *Engine) runCommitter() {
	for {
		select {
		case <-e.open.ready:
			e.open.awaitUncork(e.stopped)
		case <-e.stopped:
			for sealed, deciding := false, false; !sealed; {
				e.writeBatches()
				if sealed, deciding = e.open.seal(); deciding {
					<-e.open.ready
				}
			}
			return
		}
		e.writeBatches()
	}
}

// writeBatches writes what there is.
func (e *Engine) writeBatches() {
	for more := true; more; {
		var b *batch
		if b, more = e.open.take(); b != nil {
			e.writeBatch(b)
		}
	}
}

// writeBatch makes a batch durable, publishes it and completes its requests.
func (e *Engine) writeBatch(b *batch) {
	if err := e.failed(); err != nil {
		b.refuse(err)
		return
	}
	var err error
	if b.records.Records() > 0 {
		began := time.Now()
		err = e.appendJournal(b.records)
		e.stats.commits.Took(began)
		e.stats.batches.Observe(int64(len(b.ops)))
	}
	e.open.queued.Add(-b.queued)
	if err != nil {
		e.fail(err)
		b.refuse(e.failed())
		return
	}
	if b.records.Records() > 0 {
		e.publish(b)
		defer e.written(b.records.Len())
	}
	for i := range b.ops {
		o := &b.ops[i]
		o.done.Complete(o.res, o.err)
	}
}

// refuse answers everybody in the batch with err: whether their changes are on
// the disk is unknown.
func (b *batch) refuse(err error) {
	for i := range b.ops {
		b.ops[i].done.Complete(stream.Result{}, err)
	}
}

// journalRetry is how long a batch waits before it tries again to find a segment.
const journalRetry = 100 * time.Millisecond

// appendJournal writes the records. That there is no space or no descriptor for
// a new segment is no failure: the batch waits until there is one, while the
// space guard refuses new changes.
func (e *Engine) appendJournal(b *journal.Batch) error {
	for {
		_, err := e.journal.Append(b)
		if err == nil || errors.Is(err, journal.ErrFailed) || !noSpace(err) && !noDescriptor(err) {
			return err
		}
		if noSpace(err) {
			e.space.ranOut()
		}
		e.flush.kick()
		select {
		case <-time.After(journalRetry):
		case <-e.stopped:
			return err
		}
	}
}

func noDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// publish makes a durable batch visible.
func (e *Engine) publish(b *batch) {
	var last uint64
	for i := range b.ops {
		o := &b.ops[i]
		if o.lsn == 0 {
			continue
		}
		last = o.lsn
		body := b.records.Body(o.body)
		if o.isRows() {
			if err := e.publishRows(body); err != nil {
				e.fail(err) // encoder and decoder do not agree
			}
			continue
		}
		o.publish(e, body[len(body)-o.dataLen:])
		o.rec = nil // it points into the request
	}
	e.durable.Store(last)
	if b.told {
		e.tellPublished(b)
	}
}

// publish makes one record visible; data are its bytes within the batch.
func (o *op) publish(e *Engine, data []byte) {
	l := o.live
	l.slot.mu.Lock()
	switch o.rec.Kind {
	case stream.RecordCreate, stream.RecordAppend:
		if o.rec.Kind == stream.RecordCreate {
			l.slot.pub = l
			e.fresh.add(l)
		}
		l.writtenAt = o.rec.Time
		l.tail.add(data)
		l.closed = l.closed || o.rec.Close
		e.flush.tails.Add(int64(len(data)))
	case stream.RecordDelete:
		l.deleted = true
		if !o.rec.Soft {
			e.end(l)
		}
	case stream.RecordDrop:
		e.end(l)
	}
	if o.rec.Kind != stream.RecordTouch && len(l.watchers) > 0 {
		e.wakes.add(l)
	}
	e.flush.mark(l)
	e.release(l.slot)
	if o.source != nil {
		o.source.slot.mu.Lock()
		if o.rec.Kind == stream.RecordCreate {
			o.source.forks++
		} else {
			o.source.forks--
		}
		e.flush.mark(o.source)
		o.source.slot.mu.Unlock()
	}
	for _, a := range o.collected {
		a.slot.mu.Lock()
		e.end(a)
		e.flush.mark(a)
		e.release(a.slot)
	}
}

// end takes a stream that is over out of everything but the flusher's list,
// with its slot held.
func (e *Engine) end(l *live) {
	l.gone = true
	l.slot.ended++
	if l.slot.pub == l {
		l.slot.pub = nil
	}
	e.flush.tails.Add(-l.tail.size())
	l.tail.clear()
	e.fresh.remove(l)
	e.table.removeID(l.state.ID)
	e.deadlines.remove(l)
}
