package store

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"durablestreams/internal/archive"
	"durablestreams/internal/due"
	"durablestreams/internal/format"
	"durablestreams/stream"
)

// slot is a path that somebody uses, with the stream there, if any.
type slot struct {
	path stream.Path

	mu      sync.Mutex
	loaded  atomic.Bool // set once, with mu; then mu is not held over loading
	ended   int32       // streams that were here and that the archive still has
	asked   uint64      // version of the observer that was asked about the path
	dead    bool        // no longer in the table: look the path up again
	wanted  bool        // what the observer said
	cur     *live       // decided: the stream as the next change sees it
	pub     *live       // published: the stream as readers see it
	account Account     // of cur, once it was needed; nil: it was not
}

// live is a stream in memory. Its slot's mutex guards it.
type live struct {
	slot  *slot
	state stream.State // decided
	lsn   uint64       // last record folded into state

	// Published.
	tail      tail
	closed    bool
	deleted   bool // soft
	forks     uint32
	damaged   bool // nothing is known of it; it is on its way out
	gone      bool // the stream is over; nothing of it may be read any more
	dropped   bool // gone from the archive too
	watchers  []*watcher
	writtenAt int64 // Unix nanoseconds
	wakes     bool  // queued to be woken; guarded by the wake queue

	// Archived.
	dirty        bool   // in the flusher's list
	flushing     bool   // on its way into the archive
	flushedLSN   uint64 // its archive row includes the journal up to here; 0: no row
	indexed      int64  // deadline in the archive's index
	producersLSN uint64 // last record that changed the producers
	journaled    int64  // last renewal of the sliding window that is in the journal

	usedAt   int64 // Unix nanoseconds; for eviction
	deadline due.Entry[live]
}

// tableShards spreads the paths over so many mutexes.
const tableShards = 64

// table finds slots by path and streams by number.
type table struct {
	seed  maphash.Seed
	paths [tableShards]struct {
		sync.Mutex
		m map[stream.Path]*slot
	}
	ids [tableShards]struct {
		sync.RWMutex
		m map[stream.ID]*live
	}
}

func (t *table) init() {
	t.seed = maphash.MakeSeed()
	for i := range tableShards {
		t.paths[i].m = map[stream.Path]*slot{}
		t.ids[i].m = map[stream.ID]*live{}
	}
}

// slot gives the path's slot, locked, and makes one if there is none.
func (t *table) slot(p stream.Path) *slot {
	shard := &t.paths[maphash.String(t.seed, string(p))%tableShards]
	for {
		shard.Lock()
		s := shard.m[p]
		if s == nil {
			s = &slot{path: p}
			shard.m[p] = s
		}
		shard.Unlock()
		s.mu.Lock()
		if !s.dead {
			return s
		}
		s.mu.Unlock()
	}
}

// peek gives the path's slot if there is one. It is not locked.
func (t *table) peek(p stream.Path) *slot {
	shard := &t.paths[maphash.String(t.seed, string(p))%tableShards]
	shard.Lock()
	defer shard.Unlock()
	return shard.m[p]
}

// remove takes a locked slot out of the table.
func (t *table) remove(s *slot) {
	shard := &t.paths[maphash.String(t.seed, string(s.path))%tableShards]
	shard.Lock()
	defer shard.Unlock()
	s.dead = true
	delete(shard.m, s.path)
}

func (t *table) byID(id stream.ID) *live {
	shard := &t.ids[id%tableShards]
	shard.RLock()
	defer shard.RUnlock()
	return shard.m[id]
}

func (t *table) addID(l *live) {
	shard := &t.ids[l.state.ID%tableShards]
	shard.Lock()
	defer shard.Unlock()
	shard.m[l.state.ID] = l
}

func (t *table) removeID(id stream.ID) {
	shard := &t.ids[id%tableShards]
	shard.Lock()
	defer shard.Unlock()
	delete(shard.m, id)
}

// count gives the number of streams.
func (t *table) count() (n int) {
	for i := range t.ids {
		shard := &t.ids[i]
		shard.RLock()
		n += len(shard.m)
		shard.RUnlock()
	}
	return n
}

// acquire gives the path's slot, locked, with its stream loaded. Every acquire
// needs a release.
func (e *Engine) acquire(p stream.Path) (*slot, error) {
	s := e.table.slot(p)
	if s.loaded.Load() {
		return s, nil
	}
	l, err := e.load(s)
	if err != nil {
		e.release(s)
		if errors.Is(err, archive.ErrClosed) {
			return nil, errClosing
		}
		return nil, unreadable(err)
	}
	s.loaded.Store(true)
	s.cur, s.pub = l, l
	return s, nil
}

var errLooseName = errors.New("the archive has a name without a stream")

func unreadable(err error) error {
	if errors.Is(err, format.ErrNewer) { // not damaged: nobody may delete it unread
		return &stream.Error{Kind: stream.Internal, Message: "the stream was written by a newer server", Err: err}
	}
	return &stream.Error{Kind: stream.Damaged, Message: "the stream cannot be read from the server's disk", Err: err}
}

// release unlocks a slot and forgets it if there is nothing in it. While the
// archive has a stream that is over, the slot must stay, or that stream would
// be loaded again.
func (e *Engine) release(s *slot) {
	if s.cur == nil && s.pub == nil && s.ended == 0 && !s.dead {
		e.table.remove(s)
	}
	s.mu.Unlock()
}

// load brings the stream at a path back from the archive; nil if there is none. One
// whose rows there cannot be read comes from their second copy, and the archive gets
// them again.
func (e *Engine) load(s *slot) (*live, error) {
	row, err := e.loadRow(s.path)
	if err == nil && row == nil || errors.Is(err, archive.ErrClosed) || errors.Is(err, format.ErrNewer) {
		return nil, err
	}
	rescued := err != nil
	if rescued {
		copied, cerr := e.archive.RescueAt(s.path)
		if cerr != nil {
			return nil, errors.Join(err, cerr)
		}
		e.log.Warn("a stream's rows are taken from their second copy", "path", s.path, "err", err)
		if copied == nil {
			return nil, nil
		}
		row = copied
	}
	l := e.adopt(s, row)
	if rescued {
		e.putAgain(l)
	}
	e.deadlines.add(l)
	return l, nil
}

func (e *Engine) loadRow(p stream.Path) (*archive.Row, error) {
	id, found, err := e.archive.Lookup(p)
	if err != nil || !found {
		return nil, err
	}
	row, err := e.archive.Load(id)
	if err == nil && (row == nil || row.State.Path != p) {
		err = errLooseName
	}
	return row, err
}

// putAgain has all rows of a stream written again, with its slot held.
func (e *Engine) putAgain(l *live) {
	l.flushedLSN, l.producersLSN = 0, l.lsn
	e.fresh.add(l)
	e.flush.mark(l)
}

// adopt makes a live stream of an archive row.
func (e *Engine) adopt(s *slot, row *archive.Row) *live {
	l := &live{slot: s, state: *row.State, lsn: row.LSN, flushedLSN: row.LSN, indexed: row.Indexed,
		journaled: row.State.TouchedAt, usedAt: now()}
	l.tail.start = row.State.Tail
	l.publishState()
	e.table.addID(l)
	return l
}

// publishState sets the published face to the decided one, which is durable.
func (l *live) publishState() {
	l.closed, l.deleted, l.forks, l.writtenAt = l.state.Closed, l.state.Deleted, l.state.Forks, l.state.WrittenAt
}

// snapshot is the published face.
func (l *live) snapshot() stream.Snapshot {
	return stream.Snapshot{Meta: l.state.Meta, Tail: l.tail.end(), Closed: l.closed}
}
