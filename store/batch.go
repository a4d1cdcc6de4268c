package store

import (
	"sync"
	"sync/atomic"

	"durablestreams/internal/journal"
	"durablestreams/stream"
)

// op is one command's part of a commit batch.
type op struct {
	done     stream.Completion
	res      stream.Result
	err      error
	reserved int64 // its part of openBatch.queued

	// With a record.
	rec       *stream.Record // nil: the answer only waits for the batches before
	live      *live
	source    *live   // create of a fork: its source; delete: the ancestor that lost a fork
	collected []*live // delete: ancestors that end with it
	dataLen   int
	told      *decision // what the observer has heard of it, if anything

	// With a record or rows.
	lsn  uint64
	body journal.Span
}

// isRows reports whether an op to be published is about rows, not a stream.
func (o *op) isRows() bool { return o.rec == nil && o.lsn != 0 }

// encode writes the op's record into a batch.
func (o *op) encode(b *batch) {
	o.body = b.records.Add(byte(o.rec.Kind), o.rec.AppendTo)
	o.dataLen = len(o.rec.Data)
}

func (o *op) encodeRows(b *batch, rows []Row) {
	o.body = b.records.Add(byte(stream.RecordRows), func(dst []byte) []byte { return appendRows(dst, rows) })
}

// batch is a group of commands that become durable with one sync.
type batch struct {
	records *journal.Batch
	ops     []op
	queued  int64 // its part of openBatch.queued
	pins    int   // decisions that may still add to it
	told    bool  // the observer has heard of some of it
}

func newBatch(size int) *batch { return &batch{records: journal.NewBatch(size)} }

// Sizes of batches in bytes. A record of largeRecord or more is a batch of its
// own, encoded before anybody is kept waiting for it.
const (
	maxBatch    = 8 << 20
	largeRecord = 256 << 10
)

// openBatch is the batch being filled.
type openBatch struct {
	mu      sync.Mutex
	cur     *batch
	full    []*batch      // before cur, in order
	sealed  bool          // the committer has gone
	nextLSN uint64        // of the next record; set by recovery
	hint    int           // expected size of a batch, from the last ones
	ready   chan struct{} // capacity 1: there is something to commit
	queued  atomic.Int64  // bytes admitted but not durable
	corks   atomic.Int32  // callers that will say when to commit

	deciding int       // decisions begun and not ended
	overdue  bool      // cur should go, but is pinned
	unpinned sync.Cond // with mu: cur is not overdue any more
}

func (b *openBatch) init() {
	b.ready = make(chan struct{}, 1)
	b.unpinned.L = &b.mu
}

// put adds an op to the open batch, or own, which holds its record already, behind
// it. It gives false if the committer has gone.
func (b *openBatch) put(o *op, own *batch) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return false
	}
	b.putRecord(o, own)
	return true
}

func (b *openBatch) putRecord(o *op, own *batch) {
	if taken := b.room(own); o.rec != nil && !taken {
		o.encode(b.cur)
	}
	b.add(o, o.rec != nil)
}

// putRows is put for rows.
func (b *openBatch) putRows(o *op, rows []Row, own *batch) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return false
	}
	if taken := b.room(own); len(rows) > 0 && !taken {
		o.encodeRows(b.cur, rows)
	}
	b.add(o, len(rows) > 0)
	return true
}

// room makes cur a batch that one more record may go into. That is own, if it is
// there and nobody has to add to the one before.
func (b *openBatch) room(own *batch) (taken bool) {
	if b.cur != nil && (own != nil || b.cur.records.Len() >= maxBatch) {
		if b.cur.pins > 0 {
			b.overdue = true
			return false
		}
		b.roll()
	}
	switch {
	case own != nil:
		b.cur = own
	case b.cur == nil:
		b.cur = newBatch(b.hint)
	}
	return own != nil
}

// roll lets cur go to the committer as it is.
func (b *openBatch) roll() {
	b.full = append(b.full, b.cur)
	b.cur = nil
}

// add takes an op into cur, which holds its record already, if it has one.
func (b *openBatch) add(o *op, record bool) {
	if record {
		o.lsn = b.nextLSN
		b.nextLSN++
	}
	b.cur.queued += o.reserved
	b.cur.ops = append(b.cur.ops, *o)
}

// begin says that a decision will place a record; until it ends, the committer
// stays. It gives false if the committer has gone. When a batch has been kept from
// it for long enough, newcomers wait, with nothing held that a decision needs.
func (b *openBatch) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.overdue {
		b.unpinned.Wait()
	}
	if b.sealed {
		return false
	}
	b.deciding++
	return true
}

// place puts a decision's op into the open batch, unless it is there already, and
// rows of a bounded size behind it. From its first rows on the batch stays open
// until the decision ends.
func (b *openBatch) place(d *decision, rows []Row, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !d.placed {
		d.placed = true
		b.putRecord(&d.op, d.own)
		b.cur.told = true
	}
	if len(rows) == 0 {
		return
	}
	b.queued.Add(size)
	o := op{done: ignore{}, reserved: size}
	o.encodeRows(b.cur, rows)
	b.add(&o, true)
	if !d.pinned {
		d.pinned = true
		b.cur.pins++
	}
}

// end ends a decision. The committer has to be told afterwards.
func (b *openBatch) end(d *decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deciding--
	if !d.pinned {
		return
	}
	if b.cur.pins--; b.cur.pins == 0 && b.overdue {
		b.overdue = false
		b.roll()
		b.unpinned.Broadcast()
	}
}

// kick tells the committer that there is something.
func (b *openBatch) kick() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take removes the first batch that waits, and says whether another one waits
// behind it. If none does it gives nil.
func (b *openBatch) take() (first *batch, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.full) > 0 {
		first, b.full[0] = b.full[0], nil
		b.full = b.full[1:]
		return first, true
	}
	if b.cur == nil {
		return nil, false
	}
	if b.cur.pins > 0 {
		b.overdue = true // who ends its last decision lets it go
		return nil, false
	}
	first, b.cur = b.cur, nil
	if n := int(first.records.Len()); n < maxBatch {
		b.hint = (b.hint + n) / 2
	}
	return first, false
}

// seal closes the batch for good if nothing waits. If somebody is deciding, more is
// to come.
func (b *openBatch) seal() (sealed, deciding bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = b.cur == nil && len(b.full) == 0 && b.deciding == 0
	return b.sealed, b.deciding > 0
}
