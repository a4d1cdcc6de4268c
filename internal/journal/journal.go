// Package journal is a write-ahead journal: a directory of preallocated
// segment files that takes batches of records and says "durable" after one
// write and one data sync. It knows bytes, not streams: a record is a kind and
// a body, numbered by an LSN (log sequence number, the first record is 1).
//
// # What holds
//
//   - A batch whose [Journal.Append] returned nil is on disk and comes back, in
//     order, from every later [Open], until [Journal.Release] gives it up.
//   - A batch whose Append did not return is whole or absent after a crash.
//   - After a failed write or sync the journal refuses everything: what a disk
//     holds after a failed sync is unknown and a second try proves nothing.
//   - Recovery writes only into files that were given up by a durable rename;
//     a segment that may hold acknowledged records is never written again.
//   - Damage is a [CorruptionError] with its place. Only the end of the last segment
//     is ever cut silently, behind the records that [Journal.Note] has noted.
//
// The files, the checksums and the reasoning about every crash point are
// written down in docs/format/journal.md.
//
// # Who may call what, and when
//
// [Journal.Append] belongs to one goroutine, the committer. [Journal.Prepare],
// [Journal.Note], [Journal.Release], [Journal.Hold], [Journal.Picture], [Journal.Room],
// [Journal.LastLSN] and [Journal.Stats] may be called at any time from any goroutine.
// [Journal.Close] must not overlap Append, Prepare, Note, Release or Picture. The package starts no goroutine and holds its
// lock only over memory, never over I/O (but for the head file's own).
//
// The caller keeps other processes out of the directory.
package journal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Journal is an open journal. See the package comment for which goroutine may
// call which method.
type Journal struct {
	dir  directory
	opts Options

	// Owned by the committer (by Open before that).
	cur     *segmentWriter // nil until there was room for a segment
	nextSeq uint64         // number of the next frame
	number  uint64         // highest segment number in use
	carry   []byte         // last recovered frame, to be written first into the next segment

	head headFile
	room atomic.Int64
	last atomic.Uint64 // LSN of the last durable record

	mu       sync.Mutex // guards what follows; never held over I/O
	state    state
	err      error     // why state is failed
	segs     []segment // live segments, oldest first; the last one is never given up
	pool     sparePool
	left     int64 // bytes left in cur
	carryLen int64 // bytes of carry
	stats    Stats

	holds    int    // see Hold
	heldBack uint64 // what Release was told meanwhile
}

// state is the life of a Journal: ready → failed → closed, or ready → closed.
type state int

const (
	ready  state = iota
	failed       // a write or sync failed; only Close is left
	closed
)

// Stats is a snapshot of a journal's size and work. The counters start at zero
// with Open.
type Stats struct {
	Segments     int    // live segments, the current one included
	SegmentBytes int64  // their size on disk, in bytes
	Spares       int    // prepared or recycled files waiting for use
	SpareBytes   int64  // their size on disk, in bytes
	FirstLSN     uint64 // LSN of the oldest record still held; LastLSN+1 if there is none
	LastLSN      uint64 // LSN of the last durable record; 0 if there was never one
	Frames       uint64 // batches appended
	Records      uint64 // records appended
	Bytes        int64  // bytes appended, framing and padding included
	Rolls        uint64 // segments started
	Recycled     uint64 // segments kept for reuse
}

// Append writes b as one frame, syncs it, and returns the LSN of its first
// record; the others follow without gaps. When it returns nil the records are
// durable. It is called by one goroutine only.
//
// If there is no room for b and no space for a new segment, the error matches
// syscall.ENOSPC, nothing has happened, and b may be appended later. Errors
// that match [ErrBatch] say that b cannot be written at all. Every other error
// is final: this and all later calls fail, and whether b is on disk is unknown
// until the next Open.
func (j *Journal) Append(b *Batch) (firstLSN uint64, err error) {
	if err := j.usable(); err != nil {
		return 0, err
	}
	if err := b.check(); err != nil {
		return 0, err
	}
	if j.cur == nil || j.cur.left() < b.Len() {
		if err := j.roll(b.Len()); err != nil {
			return 0, err
		}
	}
	firstLSN = j.last.Load() + 1
	frame := b.seal(j.nextSeq, firstLSN, j.cur.salt)
	if err := j.cur.write(frame); err != nil {
		return 0, j.fail(err)
	}
	j.advance(b)
	return firstLSN, nil
}

// advance accounts for the frame of b, which has become durable.
func (j *Journal) advance(b *Batch) {
	j.nextSeq++
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last.Add(uint64(b.Records())) // with left: a picture needs both as of one moment
	j.left = j.cur.left()
	j.stats.Frames++
	j.stats.Records += uint64(b.Records())
	j.stats.Bytes += b.Len()
	j.updateRoom()
}

// roll starts a new segment with room for a frame of need bytes. An error to
// find a file for it leaves the journal as it was; any error after that is
// final.
func (j *Journal) roll(need int64) error {
	sp, err := j.takeSpare(headerSize + int64(len(j.carry)) + need)
	if err != nil {
		return fmt.Errorf("start segment: %w", err)
	}
	h := header{number: j.number + 1, salt: newSalt(), firstSeq: j.nextSeq, firstLSN: j.last.Load() + 1}
	if j.carry != nil {
		carried := restamp(j.carry, h.salt)
		h.firstSeq, h.firstLSN = carried.seq, carried.lsn
	}
	next, err := activate(j.dir, sp, h, j.carry)
	if err != nil {
		return j.fail(err)
	}
	old := j.cur
	j.cur, j.carry, j.number = next, nil, h.number
	j.rolled(h, sp.size)
	if err := j.head.write(headNote{segment: h.number, lsn: j.last.Load()}); err != nil {
		return j.fail(err)
	}
	if old == nil {
		return nil
	}
	if err := old.close(); err != nil {
		return j.fail(err)
	}
	return nil
}

// rolled accounts for the new current segment.
func (j *Journal) rolled(h header, size int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.segs = append(j.segs, segment{number: h.number, size: size, head: h})
	j.left, j.carryLen = j.cur.left(), 0
	j.stats.Rolls++
	j.updateRoom()
}

// LastLSN is the LSN of the last durable record, 0 if there was never one. It
// may be called from any goroutine.
func (j *Journal) LastLSN() uint64 { return j.last.Load() }

// Room is a number of bytes that can be appended without any new disk space:
// batches whose [Batch.Len] add up to no more than Room fit, in any order. It
// is 0 when the journal has failed or is closed. It may be called from any
// goroutine; [Journal.Prepare] and [Journal.Release] make it grow.
func (j *Journal) Room() int64 { return j.room.Load() }

// updateRoom recomputes Room: everything fits into what is left of the current
// segment, or else into the largest spare. The two are not added up, since a
// frame is never split. The caller holds mu.
func (j *Journal) updateRoom() {
	if j.state != ready {
		j.room.Store(0)
		return
	}
	spare := j.pool.largest() - headerSize - j.carryLen
	j.room.Store(max(0, j.left, spare))
}

// Stats returns a snapshot. It may be called from any goroutine.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.stats
	s.LastLSN = j.last.Load()
	s.FirstLSN = s.LastLSN + 1
	if len(j.segs) > 0 {
		s.FirstLSN = j.segs[0].head.firstLSN
	}
	s.Segments = len(j.segs)
	for _, seg := range j.segs {
		s.SegmentBytes += seg.size
	}
	s.Spares = len(j.pool.files)
	for _, sp := range j.pool.files {
		s.SpareBytes += sp.size
	}
	return s
}

// Close closes the current segment's file. It writes nothing: what was
// appended is durable already. It is idempotent; every other method that can
// fail returns [ErrClosed] afterwards.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.state == closed {
		j.mu.Unlock()
		return nil
	}
	j.state = closed
	j.updateRoom()
	j.mu.Unlock()
	errs := []error{j.head.close(), j.dir.close()}
	if j.cur != nil {
		errs = append(errs, j.cur.close())
	}
	return errors.Join(errs...)
}

// usable says why the journal cannot be used, if so.
func (j *Journal) usable() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch j.state {
	case closed:
		return ErrClosed
	case failed:
		return fmt.Errorf("%w: %w", ErrFailed, j.err)
	}
	return nil
}

// fail makes err final and returns it.
func (j *Journal) fail(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.state == ready {
		j.state, j.err = failed, err
		j.updateRoom()
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// isNoSpace reports whether err means that the disk is full.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// directory is the journal's directory and the file system it is in.
type directory struct {
	fs   vfs.FS
	path string

	// handle, if there is one, is the open directory: a sync must not fail for
	// want of a descriptor.
	handle vfs.File
}

// file is the full name of the file called name.
func (d directory) file(name string) string { return d.fs.PathJoin(d.path, name) }

// sync makes creations, removals and renames in the directory durable.
func (d directory) sync() error {
	if d.handle == nil {
		return syncDir(d.fs, d.path)
	}
	if err := d.handle.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// close gives the handle back.
func (d directory) close() error {
	if d.handle == nil {
		return nil
	}
	return d.handle.Close()
}

// syncDir makes the entries of the directory at path durable.
func syncDir(fs vfs.FS, path string) error {
	f, err := fs.OpenDir(path)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close directory: %w", err)
	}
	return nil
}
