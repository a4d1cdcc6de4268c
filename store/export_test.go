package store

import (
	"time"

	"durablestreams/stream"
)

// FlushInSteps flushes what is dirty, but stops before the archive takes it and
// before memory lets go of it, so that tests can act in between. The engine's
// own flusher must have no reason to run.
func (e *Engine) FlushInSteps(beforeApply, beforeSettle func()) error {
	var group []flushing
	for _, l := range e.flush.take() {
		group = append(group, e.snapshotForFlush(l))
	}
	w := e.archive.NewBatch()
	for i := range group {
		e.put(w, &group[i])
	}
	beforeApply()
	if err := w.Apply(); err != nil {
		return err
	}
	beforeSettle()
	for i := range group {
		e.settle(&group[i])
	}
	return nil
}

// FlushFirst flushes the first dirty stream, as a crash in the middle of a flush
// would leave it: the archive has it for good, but does not say up to where it
// has the journal. It gives the number of streams that are still dirty.
func (e *Engine) FlushFirst() (left int, err error) {
	list := e.flush.take()
	if len(list) == 0 {
		return 0, nil
	}
	e.flush.dirty = list[:1:1]
	if err := e.FlushInSteps(func() {}, func() {}); err != nil {
		return 0, err
	}
	e.flush.dirty = list[1:]
	return len(list) - 1, e.archive.Sync()
}

// GiveWay is the pause of a flush that has worked for so long, with so many bytes in
// the tails.
func (e *Engine) GiveWay(worked time.Duration, tails int64) time.Duration {
	before := e.flush.tails.Swap(tails)
	defer e.flush.tails.Store(before)
	began := time.Now()
	e.giveWay(worked)
	return time.Since(began)
}

// Loaded is the number of paths and streams in memory.
func (e *Engine) Loaded() (n int) {
	for i := range tableShards {
		e.table.paths[i].Lock()
		n += len(e.table.paths[i].m)
		e.table.paths[i].Unlock()
		e.table.ids[i].RLock()
		n += len(e.table.ids[i].m)
		e.table.ids[i].RUnlock()
	}
	return n
}

// Renew renews a stream's lifetime as a read does for which there is no place in
// the journal: only the archive learns it.
func (e *Engine) Renew(p stream.Path) error {
	s, err := e.acquire(p)
	if err != nil {
		return err
	}
	defer e.release(s)
	s.cur.state.Touch(now())
	e.flush.mark(s.cur)
	return nil
}

// Flush is a whole flush.
func (e *Engine) Flush() error { return e.flushAll() }

// FlushRowsInSteps is FlushInSteps for rows.
func (e *Engine) FlushRowsInSteps(beforeApply, beforeSettle func()) error {
	w, err := e.flushRows()
	if err != nil {
		return err
	}
	beforeApply()
	if err := w.Apply(); err != nil {
		return err
	}
	beforeSettle()
	e.flush.tails.Add(-e.rows.moved())
	return e.archive.Sync()
}

// AppendRows encodes rows as the journal has them.
func AppendRows(rows []Row) []byte { return appendRows(nil, rows) }

// Unflushed is the number of bytes in memory that the archive does not have.
func (e *Engine) Unflushed() int64 { return e.flush.tails.Load() }

// Queued is the number of bytes that changes on their way to the disk have reserved.
func (e *Engine) Queued() int64 { return e.open.queued.Load() }

// LookAtSpace is what the engine does now and then.
func (e *Engine) LookAtSpace() { e.checkSpace() }

// Note has the journal note what is durable.
func (e *Engine) Note() error { return e.journal.Note() }
