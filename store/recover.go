package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"durablestreams/internal/archive"
	"durablestreams/internal/format"
	"durablestreams/internal/journal"
	"durablestreams/stream"
)

// recovery folds the journal over the archive. Every archive row says up to
// which record it includes the journal, so a record that a stream has already
// is passed over.
type recovery struct {
	e       *Engine
	rows    *archive.Loader
	records int

	// orphans are streams of which the journal has records but neither it nor
	// the archive has a beginning. That is right only if their deletion follows:
	// then the archive has dropped them already.
	orphans map[stream.ID]uint64

	// Streams whose row in the archive cannot be read. Their records are set
	// aside there, so that they outlive the journal and a repair can use them.
	broken map[stream.ID]error
	copied map[stream.ID]*archive.Row // see copies
	newer  error                      // a row is of a newer program, so the recovery ends
	keep   bool                       // set records aside; else only look
	lsn    uint64                     // of the record being replayed
	kind   byte
	body   []byte
	aside  *archive.Batch
}

// newRecovery begins a recovery. Its rows have to be closed.
func newRecovery(e *Engine) (*recovery, error) {
	rows, err := e.archive.NewLoader()
	if err != nil {
		return nil, err
	}
	return &recovery{e: e, rows: rows, orphans: map[stream.ID]uint64{}}, nil
}

// recover opens the journal and replays what the archive does not have.
func (e *Engine) recover() error {
	began := time.Now()
	applied := e.archive.Applied()
	e.flush.applied = applied
	e.nextID.Store(uint64(e.archive.NextID()))
	r, err := newRecovery(e)
	if err != nil {
		return err
	}
	defer r.rows.Close()
	r.keep = true
	e.journal, err = journal.Open(e.fs, e.fs.PathJoin(e.dir, journalDir),
		&journal.Options{SegmentSize: e.opts.SegmentSize}, applied, r.replay)
	if err != nil {
		return err
	}
	if r.aside != nil {
		if err := r.aside.Apply(); err != nil {
			return err
		}
	}
	for id, err := range r.broken {
		e.log.Error("stream is damaged and set aside", "stream", id, "err", err)
	}
	if last := e.journal.LastLSN(); last < applied {
		return fmt.Errorf("the journal ends at record %d, but the archive has record %d: the journal directory is not the archive's", last, applied)
	}
	for id, lsn := range r.orphans {
		e.log.Error("the journal has records of a stream that is nowhere", "stream", id, "record", lsn)
	}
	e.open.nextLSN = e.journal.LastLSN() + 1
	e.durable.Store(e.journal.LastLSN())
	if err := e.countAll(); err != nil {
		return err
	}
	e.stats.recovery = Recovery{Records: r.records, Took: time.Since(began), Damaged: len(r.broken)}
	e.log.Info("store is open", "records", r.records, "took", e.stats.recovery.Took.Round(time.Millisecond))
	return nil
}

func (r *recovery) replay(lsn uint64, kind byte, body []byte) error {
	if stream.RecordKind(kind) == stream.RecordRows {
		// The last one of a key wins, so it does not matter how many of them the
		// archive has already.
		r.records++
		if err := r.e.publishRows(body); err != nil {
			return fmt.Errorf("replay record %d: %w", lsn, err)
		}
		return nil
	}
	rec, err := stream.DecodeRecord(stream.RecordKind(kind), body)
	if err != nil {
		return fmt.Errorf("replay record %d: %w", lsn, err)
	}
	r.records++
	r.lsn, r.kind, r.body = lsn, kind, body
	r.e.nextID.Store(max(r.e.nextID.Load(), uint64(rec.ID)+1))
	switch rec.Kind {
	case stream.RecordCreate:
		r.create(lsn, &rec)
	case stream.RecordDrop:
		r.drop(lsn, &rec)
	default:
		r.change(lsn, &rec)
	}
	return r.newer
}

// find gives a stream by number, from memory or the archive; nil if it is in
// neither. ok is false if the archive cannot tell: then the record has been set
// aside for the stream.
func (r *recovery) find(id stream.ID) (l *live, ok bool) {
	if err := r.broken[id]; err != nil {
		r.setAside(id, err)
		return nil, false
	}
	if l := r.e.table.byID(id); l != nil {
		return l, true
	}
	row, err := r.rows.Load(id)
	if errors.Is(err, format.ErrNewer) {
		r.newer = err
		return nil, false
	}
	rescued := false
	if err != nil {
		if row, rescued = r.copies()[id], true; row == nil {
			r.setAside(id, err)
			return nil, false
		}
		r.e.log.Warn("a stream's rows are taken from their second copy", "path", row.State.Path, "err", err)
	}
	if row == nil {
		return nil, true
	}
	return r.place(row.State.Path, func(s *slot) *live {
		l := r.e.adopt(s, row)
		if rescued {
			r.e.putAgain(l)
		}
		return l
	}), true
}

// copies gives the second copies of the rows of all streams that the journal is
// about. It reads all of both, once, when the first row cannot be read.
func (r *recovery) copies() map[stream.ID]*archive.Row {
	if r.copied != nil || !r.keep {
		return r.copied
	}
	ids := map[stream.ID]bool{}
	dir := r.e.fs.PathJoin(r.e.dir, journalDir)
	_, err := journal.Scan(r.e.fs, dir, &journal.Visitor{Record: func(_ journal.FrameInfo, rec journal.Record) error {
		if stream.RecordKind(rec.Kind) == stream.RecordRows {
			return nil
		}
		change, err := stream.DecodeRecord(stream.RecordKind(rec.Kind), rec.Body)
		if err != nil {
			return err
		}
		for _, id := range append(change.Collected, change.ID, change.Unref) {
			ids[id] = true
		}
		if change.Meta != nil && change.Meta.Fork != nil {
			ids[change.Meta.Fork.Source] = true
		}
		return nil
	}})
	if err == nil {
		r.copied, err = r.e.archive.Rescue(ids)
	}
	if err != nil {
		r.e.log.Warn("the second copy of the rows is of no help", "err", err)
	}
	if r.copied == nil {
		r.copied = map[stream.ID]*archive.Row{}
	}
	return r.copied
}

func (r *recovery) setAside(id stream.ID, err error) {
	if r.broken == nil {
		r.broken = map[stream.ID]error{}
	}
	r.broken[id] = err
	if !r.keep {
		return
	}
	if r.aside == nil {
		r.aside = r.e.archive.NewBatch()
	}
	r.aside.PutAside(id, r.lsn, r.kind, r.body)
}

// misfit sets a stream aside whose row is older than the journal goes back: it has
// lost changes that lay in between. Only its name stays, so that it is damaged for
// whoever asks for it.
func (r *recovery) misfit(l *live, err error) {
	r.setAside(l.state.ID, err)
	if r.keep && l.flushedLSN > 0 {
		r.aside.SetStateAside(l.state.ID, archive.AppendRow(nil, &l.state, l.lsn), l.indexed)
	} else if r.keep {
		r.aside.PutName(l.state.Meta)
	}
	r.e.forget(l)
}

// forget takes a stream out of memory, with what is not in the archive.
func (e *Engine) forget(l *live) {
	s := l.slot
	s.mu.Lock()
	defer e.release(s)
	e.flush.dirty = slices.DeleteFunc(e.flush.dirty, func(d *live) bool { return d == l })
	e.flush.tails.Add(-l.tail.size())
	e.fresh.remove(l)
	e.table.removeID(l.state.ID)
	e.deadlines.remove(l)
	s.loaded.Store(false)
	s.cur, s.pub = nil, nil
}

// place puts a stream into the slot of its path.
func (r *recovery) place(p stream.Path, make func(*slot) *live) *live {
	s := r.e.table.slot(p)
	defer s.mu.Unlock()
	l := make(s)
	s.loaded.Store(true)
	s.cur, s.pub = l, l
	r.e.deadlines.add(l)
	return l
}

func (r *recovery) create(lsn uint64, rec *stream.Record) {
	l, ok := r.find(rec.ID)
	if ok && l == nil {
		l = r.place(rec.Meta.Path, func(s *slot) *live {
			l := &live{slot: s, indexed: stream.Never, usedAt: now()}
			l.tail.start = rec.Meta.Base()
			l.fold(rec, lsn)
			r.e.table.addID(l)
			r.e.fresh.add(l)
			return l
		})
		r.settle(l, rec.Data)
	}
	if rec.Meta.Fork != nil {
		r.edge(lsn, rec.Meta.Fork.Source, (*stream.State).AddFork)
	}
}

// edge folds a fork edge into the state of the source, which may be gone.
func (r *recovery) edge(lsn uint64, source stream.ID, change func(*stream.State)) {
	src, ok := r.find(source)
	switch {
	case !ok:
	case src == nil:
		r.orphans[source] = lsn
	case lsn > src.lsn:
		change(&src.state)
		src.lsn = lsn
		r.settle(src, nil)
	}
}

// change replays an append, a renewal or a deletion.
func (r *recovery) change(lsn uint64, rec *stream.Record) {
	l, ok := r.find(rec.ID)
	switch {
	case !ok:
	case l == nil:
		r.orphans[rec.ID] = lsn
	case lsn > l.lsn:
		if rec.Kind == stream.RecordAppend && rec.Pos != l.state.Tail {
			r.misfit(l, fmt.Errorf("it ends at %d, but record %d appends at %d", l.state.Tail, lsn, rec.Pos))
			return
		}
		l.fold(rec, lsn)
		r.settle(l, rec.Data)
	}
	if rec.Kind == stream.RecordDelete && !rec.Soft {
		r.deletion(lsn, rec)
	}
}

// deletion ends a stream and the sources that go with it.
func (r *recovery) deletion(lsn uint64, rec *stream.Record) {
	for _, id := range append([]stream.ID{rec.ID}, rec.Collected...) {
		delete(r.orphans, id)
		l, ok := r.find(id)
		if ok && l != nil && l.lsn <= lsn {
			r.over(l, lsn)
		}
	}
	if rec.Unref != 0 {
		r.edge(lsn, rec.Unref, (*stream.State).DropFork)
	}
}

// over ends one stream.
func (r *recovery) over(l *live, lsn uint64) {
	l.lsn = lsn
	s := l.slot
	s.mu.Lock()
	r.e.end(l)
	r.e.flush.mark(l)
	if s.cur == l {
		s.cur = nil
	}
	r.e.release(s)
}

// drop ends a stream that could not be read, whatever can be read of it now.
func (r *recovery) drop(lsn uint64, rec *stream.Record) {
	delete(r.orphans, rec.ID)
	delete(r.broken, rec.ID)
	if l := r.e.table.byID(rec.ID); l != nil {
		r.over(l, lsn)
		return
	}
	s := r.e.table.slot(rec.Path)
	defer r.e.release(s)
	s.loaded.Store(true)
	l := damagedAt(s, rec.ID)
	l.lsn = lsn
	r.e.end(l)
	r.e.flush.mark(l)
}

// settle publishes what was folded: all of the journal is durable.
func (r *recovery) settle(l *live, data []byte) {
	l.slot.mu.Lock()
	defer l.slot.mu.Unlock()
	l.tail.add(data)
	r.e.flush.tails.Add(int64(len(data)))
	l.publishState()
	r.e.flush.mark(l)
}
