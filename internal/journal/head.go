package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The head file says what was durable: without it the loss of the last frames, or of
// the newest segment, would look like a batch that was torn and never acknowledged.
// It may lag behind. It never says more than what is on the disk.

// The layout of the head file; see format.go.
const (
	headName    = "HEAD"
	headMagic   = "ds.head\n"
	headVersion = 1
	headSlot    = 64       // bytes of a note
	headSpace   = pageSize // from one note to the other: never in one sector, however large those are
	headSize    = 2 * headSpace
)

// headNote is what the file says.
type headNote struct {
	count   uint64 // of notes so far; this one stands in slot count mod 2
	segment uint64 // number of the newest segment
	lsn     uint64 // last durable record
}

func (n headNote) encode() []byte {
	b := make([]byte, headSlot)
	copy(b, headMagic)
	binary.LittleEndian.PutUint32(b[8:], headVersion)
	binary.LittleEndian.PutUint64(b[16:], n.count)
	binary.LittleEndian.PutUint64(b[24:], n.segment)
	binary.LittleEndian.PutUint64(b[32:], n.lsn)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crcTable))
	return b
}

// decodeNote reads a slot; ok is false if there is no valid note in it. Magic number,
// version and checksum stay where they are in every version, so that a flipped version
// is not taken for a later one. The error is a *format.VersionError.
func decodeNote(b []byte) (n headNote, ok bool, err error) {
	if len(b) < headSlot || string(b[:8]) != headMagic || binary.LittleEndian.Uint32(b[60:]) != crc32.Checksum(b[:60], crcTable) {
		return headNote{}, false, nil
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v > headVersion {
		return headNote{}, false, newer(headName, v, headVersion)
	}
	return headNote{
		count:   binary.LittleEndian.Uint64(b[16:]),
		segment: binary.LittleEndian.Uint64(b[24:]),
		lsn:     binary.LittleEndian.Uint64(b[32:]),
	}, true, nil
}

// readHead gives the later one of the two notes; a zero one if there is none.
func readHead(dir directory) (best headNote, err error) {
	f, err := dir.fs.Open(dir.file(headName))
	if errors.Is(err, os.ErrNotExist) {
		return headNote{}, nil
	}
	if err != nil {
		return headNote{}, fmt.Errorf("open head: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return headNote{}, fmt.Errorf("stat head: %w", err)
	}
	b := make([]byte, min(info.Size(), headSize))
	if err := readFull(f, b, 0); err != nil {
		return headNote{}, fmt.Errorf("read head: %w", err)
	}
	for off := 0; off+headSlot <= len(b) && off <= headSpace; off += headSpace {
		n, ok, err := decodeNote(b[off:])
		if err != nil {
			return headNote{}, err
		}
		if ok && n.count >= best.count {
			best = n
		}
	}
	return best, nil
}

// check says what the note knows that the chain does not; nil if they agree.
func (n headNote) check(l listing, end chainEnd) *CorruptionError {
	var last segment
	if len(l.segs) > 0 {
		last = l.segs[len(l.segs)-1]
	}
	reason := ""
	switch {
	case last.number < n.segment:
		reason = fmt.Sprintf("the journal ends, but segment %s was begun", segmentName(n.segment))
	case end.lsn <= n.lsn:
		reason = fmt.Sprintf("the journal ends, but record %d was durable", n.lsn)
	default:
		return nil
	}
	return &CorruptionError{Segment: last.number, Offset: end.off, LSN: end.lsn, Reason: reason, head: true}
}

// headFile is the open head file. Its mutex is held over its I/O; nobody waits for it.
type headFile struct {
	mu   sync.Mutex
	file vfs.File
	note headNote
}

// openHead opens or makes the head file. Where there is no space for it the journal
// does without.
func (j *Journal) openHead() error {
	note, err := readHead(j.dir)
	if err != nil {
		return err
	}
	f, err := j.dir.fs.OpenReadWrite(j.dir.file(headName), vfs.WriteCategoryUnspecified)
	if err == nil {
		if err = makeHead(f); err == nil {
			err = j.dir.sync()
		}
		if err != nil {
			err = errors.Join(err, f.Close())
		} else {
			j.head.file, j.head.note = f, note
		}
	}
	if isNoSpace(err) {
		return nil
	}
	return err
}

// makeHead gives the file its size, so that a note takes no space.
func makeHead(f vfs.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat head: %w", err)
	}
	if info.Size() >= headSize {
		return nil
	}
	if _, err := f.WriteAt(make([]byte, headSize-info.Size()), info.Size()); err != nil {
		return fmt.Errorf("make head: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync head: %w", err)
	}
	return nil
}

// Note makes durable what the journal knows to be durable, if it has not yet: from
// then on the loss of it is noticed. It takes a small write and a data sync; it may
// be called at any time, and should be now and then. Of two calls at once, one of
// which may come from Append, only one may write.
func (j *Journal) Note() error {
	if err := j.usable(); err != nil {
		return err
	}
	j.mu.Lock()
	number, carrying := uint64(0), j.carryLen > 0
	if n := len(j.segs); n > 0 {
		number = j.segs[n-1].number
	}
	j.mu.Unlock()
	if carrying {
		return nil // whether the last frame is durable is not sure: see Open
	}
	if err := j.head.write(headNote{segment: number, lsn: j.last.Load()}); err != nil {
		return j.fail(err)
	}
	return nil
}

// write writes a note if it says more than the last one. While another note is being
// written it leaves that to the next call: the committer must not wait for two syncs.
func (h *headFile) write(n headNote) error {
	if !h.mu.TryLock() {
		return nil
	}
	defer h.mu.Unlock()
	if h.file == nil || n.segment <= h.note.segment && n.lsn <= h.note.lsn {
		return nil
	}
	n.segment, n.lsn = max(n.segment, h.note.segment), max(n.lsn, h.note.lsn)
	n.count = h.note.count + 1
	_, err := h.file.WriteAt(n.encode(), int64(n.count%2)*headSpace)
	if isNoSpace(err) {
		return nil // on file systems that never write in place
	}
	if err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	if err := h.file.SyncData(); err != nil {
		return fmt.Errorf("sync head: %w", err)
	}
	h.note = n
	return nil
}

func (h *headFile) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == nil {
		return nil
	}
	f := h.file
	h.file = nil
	return f.Close()
}
