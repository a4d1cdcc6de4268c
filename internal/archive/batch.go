package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"durablestreams/internal/mirror"
	"durablestreams/stream"
)

// MaxChunk is the most bytes that one chunk holds.
const MaxChunk = 256 << 10

// Batch gathers changes that become visible together.
type Batch struct {
	a       *Archive
	b       *pebble.Batch
	ops     mirror.Ops // the same for the mirror, but for chunks
	header  []byte     // as it is then, if it changes
	scratch []byte
	err     error
}

// NewBatch starts a batch.
func (a *Archive) NewBatch() *Batch { return &Batch{a: a, b: a.db.NewBatch()} }

// Len is the size of the batch in bytes.
func (w *Batch) Len() int { return w.b.Len() }

func (w *Batch) keep(err error) {
	if w.err == nil && err != nil {
		w.err = err
	}
}

// set and remove change a row. Everything but chunks goes through them.
func (w *Batch) set(key, value []byte) {
	w.keep(w.b.Set(key, value, nil))
	w.ops.Set(key, value)
}

func (w *Batch) remove(key []byte) {
	w.keep(w.b.Delete(key, nil))
	w.ops.Delete(key)
}

// PutName writes a stream's name, which goes with its first row.
func (w *Batch) PutName(m *stream.Meta) {
	w.scratch = binary.BigEndian.AppendUint64(w.scratch[:0], uint64(m.ID))
	w.set(nameKey(m.Path), w.scratch)
}

// PutRow writes a state row that AppendRow has encoded and its place in the
// deadline index; previous is the deadline under which it stood there so far
// (stream.Never if it did not).
func (w *Batch) PutRow(id stream.ID, row []byte, previous int64) {
	w.set(stateKey(id), row)
	indexed := int64(binary.BigEndian.Uint64(row[8:]))
	if previous == indexed {
		return
	}
	if previous != stream.Never {
		w.remove(deadlineKey(previous, id))
	}
	if indexed != stream.Never {
		w.set(deadlineKey(indexed, id), nil)
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
	w.set(producersKey(id), row)
}

// PutChunk writes bytes of a stream from a position on.
func (w *Batch) PutChunk(id stream.ID, pos uint64, data []byte) {
	w.keep(w.b.Set(chunkKey(id, pos+uint64(len(data))), data, nil))
}

// PutAside keeps a record of a stream whose row cannot be read, for a repair.
func (w *Batch) PutAside(id stream.ID, lsn uint64, kind byte, body []byte) {
	w.scratch = append(append(w.scratch[:0], kind), body...)
	w.set(asideKey(id, lsn), w.scratch)
}

// PutSmall writes a small row.
func (w *Batch) PutSmall(key, value []byte) { w.set(smallKey(key), value) }

// DeleteSmall removes a small row.
func (w *Batch) DeleteSmall(key []byte) { w.remove(smallKey(key)) }

// SetStateAside takes a stream's state away and keeps it beside the records that were
// set aside. Its name leads nowhere then: the stream is damaged.
func (w *Batch) SetStateAside(id stream.ID, row []byte, indexed int64) {
	w.PutAside(id, 0, 0, row)
	w.remove(stateKey(id))
	if indexed != stream.Never {
		w.remove(deadlineKey(indexed, id))
	}
}

// Drop removes everything of a stream of which only the number and the name are
// known; its data only if nobody inherits them.
func (w *Batch) Drop(id stream.ID, p stream.Path, keepName, keepData bool) {
	w.remove(stateKey(id))
	w.remove(producersKey(id))
	w.keep(w.a.walkRange(asideKey(id, 0), asideKey(id+1, 0), func(key, _ []byte) (bool, error) {
		w.remove(bytes.Clone(key))
		return true, nil
	}))
	if !keepData {
		w.keep(w.b.DeleteRange(chunkKey(id, 0), chunkKey(id+1, 0), nil))
	}
	if !keepName {
		w.remove(nameKey(p))
	}
}

// DropDeadline removes an entry of the index that no stream stands for.
func (w *Batch) DropDeadline(d Due) { w.remove(deadlineKey(d.Deadline, d.ID)) }

// Delete removes everything of a stream. Its name goes too, unless keepName says
// that another stream has been put under it already; one that takes the name
// later must be put after this.
func (w *Batch) Delete(m *stream.Meta, indexed int64, keepName bool) {
	w.remove(stateKey(m.ID))
	w.remove(producersKey(m.ID))
	w.keep(w.b.DeleteRange(chunkKey(m.ID, 0), chunkKey(m.ID+1, 0), nil))
	if !keepName {
		w.remove(nameKey(m.Path))
	}
	if indexed != stream.Never {
		w.remove(deadlineKey(indexed, m.ID))
	}
}

// SetApplied records that the archive includes the journal up to lsn, and a
// stream number above every one used so far.
func (w *Batch) SetApplied(lsn uint64, nextID stream.ID) {
	w.header = header{applied: lsn, nextID: nextID}.encode()
	w.set(headerKey, w.header)
}

// Apply makes the batch visible to readers; Archive.Sync makes it durable. The
// batch is used up.
func (w *Batch) Apply() error {
	if w.err != nil {
		return fmt.Errorf("fill archive batch: %w", w.err)
	}
	if err := w.a.mirrorOps(w.ops); err != nil {
		return err
	}
	w.a.noteCopy()
	if err := w.b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("apply archive batch: %w", err)
	}
	if w.header != nil {
		w.a.header = w.header
	}
	return nil
}

// Discard drops a batch that was not applied.
func (w *Batch) Discard() { _ = w.b.Close() }
