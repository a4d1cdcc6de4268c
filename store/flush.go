package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"durablestreams/internal/archive"
	"durablestreams/internal/journal"
	"durablestreams/stream"
)

// flusher moves published bytes and changed states from memory and journal into
// the archive.
type flusher struct {
	mu    sync.Mutex
	dirty []*live // in the order in which they became dirty

	strays []archive.Due // see Engine.stray; guarded by mu

	moved   sync.Cond // with mu: durable moved on, a flush ended, or the engine failed
	need    uint64    // LSN that the flusher waits for; guarded by mu
	ready   chan struct{}
	tails   atomic.Int64 // bytes in the tails of all streams, and of rows
	pending atomic.Int64 // bytes in the journal since the last flush began
	applied uint64       // LSN that the archive's header tells; flusher only

	// deleted lists the streams whose space the archive has not given back yet,
	// as far as they are worth it; flusher only.
	deleted []stream.ID

	// Buffers that serve again; flusher only.
	rows, chunk []byte
	pieces      [][]byte
}

func (f *flusher) init() {
	f.ready = make(chan struct{}, 1)
	f.moved.L = &f.mu
}

// kick asks for a flush soon.
func (f *flusher) kick() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// mark lists a stream for the next flush, with its slot held.
func (f *flusher) mark(l *live) {
	if l.dirty {
		return
	}
	l.dirty = true
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty = append(f.dirty, l)
}

func (f *flusher) take() []*live {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.dirty
	f.dirty = nil
	return list
}

// progress tells waiters to look again.
func (f *flusher) progress() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved.Broadcast()
}

// wait blocks until done says so.
func (f *flusher) wait(done func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !done() {
		f.moved.Wait()
	}
}

// flushSegments is how many segments' worth of records a flush waits for. What it
// costs is counted in streams, so fewer flushes are cheaper; what they leave to a
// recovery is what more would cost.
const flushSegments = 2

// written accounts for a published batch and asks for a flush when enough has
// gathered or the tails have used up their memory. When the flusher cannot keep
// up, it holds the committer back.
func (e *Engine) written(n int64) {
	e.flush.progress()
	if e.flush.pending.Add(n) >= flushSegments*e.opts.SegmentSize || e.flush.tails.Load() >= e.opts.TailMemory {
		e.flush.kick()
	}
	if e.journal.Room() < e.opts.SegmentSize*3/4 {
		e.space.kick()
	}
	if e.flush.tails.Load() < 2*e.opts.TailMemory {
		return
	}
	e.flush.wait(func() bool {
		return e.flush.tails.Load() < 2*e.opts.TailMemory || e.flush.need > e.durable.Load() ||
			e.failed() != nil || e.closing.Load()
	})
}

// runFlusher flushes when asked to, and at least every FlushInterval.
func (e *Engine) runFlusher() {
	tick := time.NewTicker(e.opts.FlushInterval)
	defer tick.Stop()
	for {
		select {
		case <-e.flush.ready:
		case <-tick.C:
		case <-e.stopped:
			return
		}
		if e.failed() != nil {
			return
		}
		began := time.Now()
		err := e.flushAll()
		e.stats.flushes.Took(began)
		if err != nil {
			if !e.closing.Load() || !noSpace(err) {
				e.fail(err)
			}
			return
		}
		e.checkSpace()
	}
}

// flushGroup is about how many bytes go into the archive as one batch.
const flushGroup = 2 << 20

// flushAll moves everything that is published at its beginning into the
// archive, makes it durable there and lets go of the journal up to there.
func (e *Engine) flushAll() error {
	// Whatever was published up to here is in the dirty list by now.
	upTo := e.durable.Load()
	e.flush.pending.Store(0)
	list := e.flush.take()
	if len(list) == 0 && upTo == e.flush.applied && !e.hasStrays() {
		return e.reclaim()
	}
	for len(list) > 0 {
		began := time.Now()
		n, err := e.flushSome(list)
		if err != nil {
			return err
		}
		list = list[n:]
		e.flush.progress()
		if len(list) > 0 {
			e.giveWay(time.Since(began))
		}
	}
	w, err := e.flushRows()
	if err != nil {
		return err
	}
	e.putStrays(w)
	w.SetApplied(upTo, stream.ID(e.nextID.Load()))
	if err := w.Apply(); err != nil {
		return err
	}
	e.flush.tails.Add(-e.rows.moved())
	e.flush.progress()
	if err := e.archive.Sync(); err != nil {
		return err
	}
	e.flush.applied = upTo
	if err := e.journal.Release(upTo); err != nil {
		if errors.Is(err, journal.ErrFailed) {
			return err
		}
		e.log.Warn("journal segments stay for now", "err", err)
	}
	return e.reclaim()
}

// Shares of a flush's time that it leaves to others, and how long it pauses at most.
const (
	flushPauses   = 7
	maxFlushPause = 100 * time.Millisecond
)

// giveWay pauses a flush that has worked for so long, unless memory is getting
// short: at full speed it takes a processor for half a second, and appends that
// need nearly all of them wait for 0.2 s.
func (e *Engine) giveWay(worked time.Duration) {
	if e.flush.tails.Load() >= e.opts.TailMemory*5/4 {
		return
	}
	select {
	case <-time.After(min(flushPauses*worked, maxFlushPause)):
	case <-e.stopped:
	}
}

// reclaim gives deleted streams' space back at once when the disk is full;
// otherwise the archive does so in its own time. It takes some space itself, and
// where even that is missing it is tried again later.
func (e *Engine) reclaim() error {
	if len(e.flush.deleted) == 0 || !e.space.full() {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-e.stopped: // it may take long, or wait for space that never comes
			cancel()
		case <-ctx.Done():
		}
	}()
	err := e.archive.Reclaim(ctx, e.flush.deleted)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil && noSpace(err) {
		e.log.Warn("no space to reclaim that of deleted streams", "err", err)
		return nil
	}
	e.flush.deleted = nil
	return err
}

// maxReclaim is how many deleted streams are remembered for a full disk.
const maxReclaim = 1024

// reclaimLater notes a stream whose data the archive has been told to drop.
func (f *flusher) reclaimLater(id stream.ID) {
	if len(f.deleted) == maxReclaim {
		f.deleted = append(f.deleted[:0], f.deleted[maxReclaim/2:]...)
	}
	f.deleted = append(f.deleted, id)
}

// flushing is a stream on its way into the archive.
type flushing struct {
	l         *live
	meta      *stream.Meta
	row       []byte
	producers []byte
	lsn       uint64
	end       uint64 // tail that row tells
	size      int    // bytes of the tail, about
	indexed   int64
}

// flushSome moves the first streams of the list, about flushGroup bytes, and
// says how many.
func (e *Engine) flushSome(list []*live) (n int, err error) {
	var group []flushing
	var need uint64
	e.flush.rows = e.flush.rows[:0]
	for size := 0; n < len(list) && size < flushGroup; n++ {
		f := e.snapshotForFlush(list[n])
		need = max(need, f.lsn)
		size += len(f.row) + len(f.producers) + f.size
		group = append(group, f)
	}
	// The rows tell the decided states, so the journal must have them first: an
	// archive that knew more than the journal would be believed after a crash.
	e.flush.wait(func() bool {
		if e.flush.need != need {
			e.flush.need = need
			e.flush.moved.Broadcast() // the committer may be held back
		}
		return e.durable.Load() >= need || e.failed() != nil
	})
	if err := e.failed(); err != nil {
		return 0, err
	}
	w := e.archive.NewBatch()
	for i := range group {
		e.put(w, &group[i])
	}
	if err := w.Apply(); err != nil {
		return 0, err
	}
	for i := range group {
		e.settle(&group[i])
	}
	return n, nil
}

// snapshotForFlush takes a stream off the dirty state and encodes what the
// archive is to know of it.
func (e *Engine) snapshotForFlush(l *live) flushing {
	l.slot.mu.Lock()
	defer l.slot.mu.Unlock()
	l.dirty, l.flushing = false, true
	f := flushing{l: l, meta: l.state.Meta, lsn: l.lsn, end: l.state.Tail}
	if l.gone {
		f.end = l.tail.start
		return f
	}
	f.size = int(l.state.Tail - l.tail.start)
	n := len(e.flush.rows)
	e.flush.rows = archive.AppendRow(e.flush.rows, &l.state, l.lsn)
	f.row = e.flush.rows[n:]
	f.indexed = archive.IndexedDeadline(&l.state)
	if l.producersLSN > l.flushedLSN {
		f.producers = l.state.AppendProducers(nil)
	}
	return f
}

// put writes a stream into the batch. If it has come to its end meanwhile, that
// is what the archive learns.
func (e *Engine) put(w *archive.Batch, f *flushing) {
	l := f.l
	l.slot.mu.Lock()
	if l.gone {
		keepName := l.slot.archivedOther(l)
		l.slot.mu.Unlock()
		f.row = nil
		if l.damaged {
			e.putDrop(w, l, keepName)
			return
		}
		w.Delete(f.meta, l.indexed, keepName)
		e.flush.reclaimLater(f.meta.ID)
		return
	}
	start, named := l.tail.start, l.flushedLSN > 0
	pieces := l.tail.read(e.flush.pieces[:0], start, f.end, int(f.end-start))
	l.slot.mu.Unlock()
	if !named {
		w.PutName(f.meta)
	}
	w.PutRow(f.meta.ID, f.row, l.indexed)
	if f.producers != nil {
		w.PutProducers(f.meta.ID, f.producers)
	}
	e.flush.putChunks(w, f.meta.ID, start, pieces)
	clear(pieces)
	e.flush.pieces = pieces
}

// archivedOther reports whether the archive has another stream than l under the
// path.
func (s *slot) archivedOther(l *live) bool {
	return s.cur != nil && s.cur != l && s.cur.flushedLSN > 0 || s.pub != nil && s.pub != l && s.pub.flushedLSN > 0
}

// putChunks writes the pieces as chunks as large as they may be.
func (f *flusher) putChunks(w *archive.Batch, id stream.ID, pos uint64, pieces [][]byte) {
	chunk := f.chunk[:0]
	flush := func() {
		if len(chunk) > 0 {
			w.PutChunk(id, pos, chunk)
			pos += uint64(len(chunk))
			chunk = chunk[:0]
		}
	}
	for _, p := range pieces {
		for len(p) > 0 {
			n := min(len(p), archive.MaxChunk-len(chunk))
			chunk = append(chunk, p[:n]...)
			p = p[n:]
			if len(chunk) == archive.MaxChunk {
				flush()
			}
		}
	}
	flush()
	f.chunk = chunk
}

// settle lets go of what the archive has now.
func (e *Engine) settle(f *flushing) {
	l := f.l
	l.slot.mu.Lock()
	defer e.release(l.slot)
	l.flushing = false
	if f.row != nil {
		l.indexed = f.indexed
	}
	if l.gone {
		if f.row == nil && !l.dropped {
			l.dropped = true
			l.slot.ended--
		}
		return
	}
	e.flush.tails.Add(-int64(f.end - l.tail.start))
	l.tail.drop(f.end)
	l.flushedLSN = f.lsn
	e.fresh.remove(l)
}
