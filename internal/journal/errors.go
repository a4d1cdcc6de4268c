package journal

import (
	"errors"
	"fmt"

	"durablestreams/internal/format"
)

var (
	// ErrClosed is returned by a closed journal.
	ErrClosed = errors.New("journal: closed")
	// ErrFailed is matched by the error of the operation that broke the
	// journal and by every later one; the cause is wrapped beside it.
	ErrFailed = errors.New("journal: failed")
	// ErrBatch is matched when a batch is empty, too large or used twice. The
	// journal is unharmed.
	ErrBatch = errors.New("journal: batch cannot be appended")
)

// CorruptionError says that the journal is damaged at a place where a crash
// cannot have damaged it, so acknowledged records may be lost. [Repair] cuts
// the journal there.
type CorruptionError struct {
	Segment uint64 // number of the segment; 0 if the journal has none
	Offset  int64  // byte offset in the segment's file; 0 if it is the segment as a whole
	LSN     uint64 // the first record that cannot be read, as far as known; else 0
	Reason  string // what is wrong

	ends bool // nothing is broken, but the journal ends too early
	head bool // so says the head file
}

// Error names the place and the reason.
func (e *CorruptionError) Error() string {
	if e.Segment == 0 {
		return fmt.Sprintf("journal: damaged at record %d: %s", e.LSN, e.Reason)
	}
	return fmt.Sprintf("journal: damaged in segment %s at offset %d, record %d: %s",
		segmentName(e.Segment), e.Offset, e.LSN, e.Reason)
}

// newer says that a file was written in a format that this program does not know.
func newer(name string, found, known uint32) error {
	return &format.VersionError{What: "the journal's file " + name, Found: uint64(found), Known: uint64(known)}
}
