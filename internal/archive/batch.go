package archive

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"durablestreams/stream"
)

// MaxChunk is the most bytes that one chunk holds.
const MaxChunk = 256 << 10

// Batch gathers changes that become visible together.
type Batch struct {
	b       *pebble.Batch
	scratch []byte
	err     error
}

// NewBatch starts a batch.
func (a *Archive) NewBatch() *Batch { return &Batch{b: a.db.NewBatch()} }

// Len is the size of the batch in bytes.
func (w *Batch) Len() int { return w.b.Len() }

func (w *Batch) keep(err error) {
	if w.err == nil && err != nil {
		w.err = err
	}
}

// PutName writes a stream's name, which goes with its first row.
func (w *Batch) PutName(m *stream.Meta) {
	w.scratch = binary.BigEndian.AppendUint64(w.scratch[:0], uint64(m.ID))
	w.keep(w.b.Set(nameKey(m.Path), w.scratch, nil))
}

// PutRow writes a state row that AppendRow has encoded and its place in the
// deadline index; previous is the deadline under which it stood there so far
// (stream.Never if it did not).
func (w *Batch) PutRow(id stream.ID, row []byte, previous int64) {
	w.keep(w.b.Set(stateKey(id), row, nil))
	indexed := int64(binary.BigEndian.Uint64(row[8:]))
	if previous == indexed {
		return
	}
	if previous != stream.Never {
		w.keep(w.b.Delete(deadlineKey(previous, id), nil))
	}
	if indexed != stream.Never {
		w.keep(w.b.Set(deadlineKey(indexed, id), nil, nil))
	}
}

// AppendRow encodes the state row of s as of lsn, to be indexed by its deadline.
func AppendRow(dst []byte, s *stream.State, lsn uint64) []byte {
	indexed := IndexedDeadline(s)
	dst = binary.BigEndian.AppendUint64(dst, lsn)
	dst = binary.BigEndian.AppendUint64(dst, uint64(indexed))
	return s.AppendTo(dst)
}

// IndexedDeadline is the deadline under which a stream stands in the index;
// stream.Never if it does not.
func IndexedDeadline(s *stream.State) int64 {
	if s.Deleted {
		return stream.Never
	}
	return s.Deadline()
}

// PutProducers writes the row of a stream's producers.
func (w *Batch) PutProducers(id stream.ID, row []byte) {
	w.keep(w.b.Set(producersKey(id), row, nil))
}

// PutChunk writes bytes of a stream from a position on.
func (w *Batch) PutChunk(id stream.ID, pos uint64, data []byte) {
	w.keep(w.b.Set(chunkKey(id, pos+uint64(len(data))), data, nil))
}

// PutAside keeps a record of a stream whose row cannot be read, for a repair.
func (w *Batch) PutAside(id stream.ID, lsn uint64, kind byte, body []byte) {
	w.scratch = append(append(w.scratch[:0], kind), body...)
	w.keep(w.b.Set(asideKey(id, lsn), w.scratch, nil))
}

// Delete removes everything of a stream. Its name goes too, unless keepName says
// that another stream has been put under it already; one that takes the name
// later must be put after this.
func (w *Batch) Delete(m *stream.Meta, indexed int64, keepName bool) {
	w.keep(w.b.Delete(stateKey(m.ID), nil))
	w.keep(w.b.Delete(producersKey(m.ID), nil))
	w.keep(w.b.DeleteRange(chunkKey(m.ID, 0), chunkKey(m.ID+1, 0), nil))
	if !keepName {
		w.keep(w.b.Delete(nameKey(m.Path), nil))
	}
	if indexed != stream.Never {
		w.keep(w.b.Delete(deadlineKey(indexed, m.ID), nil))
	}
}

// SetApplied records that the archive includes the journal up to lsn, and a
// stream number above every one used so far.
func (w *Batch) SetApplied(lsn uint64, nextID stream.ID) {
	w.scratch = append(w.scratch[:0], FormatVersion)
	w.scratch = binary.BigEndian.AppendUint64(w.scratch, lsn)
	w.scratch = binary.BigEndian.AppendUint64(w.scratch, uint64(nextID))
	w.keep(w.b.Set(headerKey, w.scratch, nil))
}

// Apply makes the batch visible to readers; Archive.Sync makes it durable. The
// batch is used up.
func (w *Batch) Apply() error {
	if w.err != nil {
		return fmt.Errorf("fill archive batch: %w", w.err)
	}
	if err := w.b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("apply archive batch: %w", err)
	}
	return nil
}

// Discard drops a batch that was not applied.
func (w *Batch) Discard() { _ = w.b.Close() }
