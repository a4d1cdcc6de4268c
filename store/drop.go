package store

import (
	"durablestreams/internal/archive"
	"durablestreams/stream"
)

// A stream whose state cannot be read, in neither copy, can still be deleted: its
// name is freed and what there is of it goes. How its source counts it is beyond
// help, so a source that is only waiting for it stays.

// drop deletes the stream at a path that cannot be loaded.
func (e *Engine) drop(p stream.Path, ch *change) error {
	s := e.table.slot(p)
	defer e.release(s)
	if s.loaded.Load() {
		return unreadable(nil) // somebody was quicker: the next try sees what is there
	}
	id, found, err := e.archive.Lookup(p)
	if err == nil && !found {
		return stream.Access(nil, now())
	}
	l := damagedAt(s, id)
	if ch.dry {
		ch.done.Complete(stream.Result{Meta: l.state.Meta}, nil)
		return nil
	}
	rec := stream.DecideDrop(id, p, now())
	if e.commit(op{live: l, rec: &rec, res: stream.Result{Meta: l.state.Meta}, done: ch.done, reserved: ch.take()}) {
		s.loaded.Store(true)
		s.cur, s.pub = nil, l
	}
	return nil
}

// damagedAt stands for a stream of which only the name is known, and perhaps the
// number.
func damagedAt(s *slot, id stream.ID) *live {
	l := &live{slot: s, damaged: true, indexed: stream.Never, usedAt: now()}
	l.state.Meta = &stream.Meta{ID: id, Path: s.path}
	return l
}

// putDrop writes the end of such a stream into the batch.
func (e *Engine) putDrop(w *archive.Batch, l *live, keepName bool) {
	inherited := e.inherited(l.state.ID)
	w.Drop(l.state.ID, l.state.Path, keepName, inherited)
	if !inherited {
		e.flush.reclaimLater(l.state.ID)
	}
	e.log.Warn("a damaged stream was deleted", "stream", l.state.ID, "path", l.state.Path)
}

// inherited reports whether a stream may read data of the one with this number.
func (e *Engine) inherited(id stream.ID) (found bool) {
	inherits := func(m *stream.Meta) {
		if m.Fork == nil {
			return
		}
		for _, a := range m.Fork.Lineage {
			found = found || a.ID == id
		}
	}
	err := e.archive.Rows(func(row *archive.Row) error {
		inherits(row.State.Meta)
		return nil
	}, func(other stream.ID, _ error) { found = found || other != id }) // who knows
	e.table.eachID(func(l *live) { inherits(l.state.Meta) })
	return found || err != nil
}

// eachID visits every stream in memory. Its slot is not held: only what never
// changes may be looked at.
func (t *table) eachID(visit func(*live)) {
	for i := range t.ids {
		shard := &t.ids[i]
		shard.RLock()
		for _, l := range shard.m {
			visit(l)
		}
		shard.RUnlock()
	}
}

// stray notes an entry of the archive's deadline index that no stream stands for; the
// flusher takes it away.
func (e *Engine) stray(d archive.Due) {
	e.flush.mu.Lock()
	defer e.flush.mu.Unlock()
	if len(e.flush.strays) < maxReclaim {
		e.flush.strays = append(e.flush.strays, d)
	}
}

func (e *Engine) hasStrays() bool {
	e.flush.mu.Lock()
	defer e.flush.mu.Unlock()
	return len(e.flush.strays) > 0
}

// putStrays takes what was noted out of the index.
func (e *Engine) putStrays(w *archive.Batch) {
	e.flush.mu.Lock()
	defer e.flush.mu.Unlock()
	for _, d := range e.flush.strays {
		w.DropDeadline(d)
	}
	e.flush.strays = nil
}
