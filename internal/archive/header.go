package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"durablestreams/internal/format"
	"durablestreams/stream"
)

// FormatVersion is the version of the key space. It is read before anything else.
const FormatVersion = 1

// header is the first row of the key space. Encoded ones compare like the states
// of an archive that they come from: the later one is the greater.
type header struct {
	applied uint64    // the archive includes the journal up to here
	nextID  stream.ID // above every stream number used
}

func (h header) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{FormatVersion}, h.applied)
	return binary.BigEndian.AppendUint64(b, uint64(h.nextID))
}

func decodeHeader(b []byte) (header, error) {
	if len(b) > 0 && b[0] > FormatVersion {
		return header{}, &format.VersionError{What: "the archive", Found: uint64(b[0]), Known: FormatVersion}
	}
	if len(b) != 17 || b[0] != FormatVersion {
		return header{}, &DamageError{What: "its header is malformed"}
	}
	return header{applied: binary.BigEndian.Uint64(b[1:]), nextID: stream.ID(binary.BigEndian.Uint64(b[9:]))}, nil
}

// DamageError says that an archive cannot be trusted. [Diagnose] says more.
type DamageError struct {
	What string
	Err  error
}

// Error says what is wrong.
func (e *DamageError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the archive is damaged: %s: %v", e.What, e.Err)
	}
	return "the archive is damaged: " + e.What
}

// Unwrap gives the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// begin reads the header and compares it with the mirror's.
func (a *Archive) begin(o *Options) error {
	copied, err := a.openMirror(o)
	if err != nil {
		return err
	}
	row, err := a.get(headerKey)
	switch {
	case err != nil && copied != nil:
		a.log.Error("the archive's header cannot be read, its copy is used", "err", err)
		row = copied
	case err != nil:
		return &DamageError{What: "its header cannot be read", Err: err}
	case row == nil && copied != nil:
		return &DamageError{What: "it is empty, but its second copy is not"}
	case row == nil:
		return a.create(o.ReadOnly)
	}
	if a.opened, err = decodeHeader(row); err != nil {
		return err
	}
	a.header = row
	if bytes.Compare(row, copied) < 0 {
		h, err := decodeHeader(copied)
		if err != nil {
			return err
		}
		return &DamageError{What: fmt.Sprintf("it has the journal up to record %d, but once had it up to record %d", a.opened.applied, h.applied)}
	}
	if copied == nil || o.ReadOnly {
		return nil
	}
	return a.alignMirror(copied)
}

// create writes the header of a new archive.
func (a *Archive) create(readOnly bool) error {
	a.opened.nextID = 1
	if readOnly {
		return nil
	}
	w := a.NewBatch()
	w.SetApplied(0, 1)
	if err := w.Apply(); err != nil {
		return err
	}
	return a.Sync()
}

// get reads a row; nil if there is none.
func (a *Archive) get(key []byte) ([]byte, error) {
	b, closer, err := a.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row := bytes.Clone(b)
	return row, closer.Close()
}
