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

// Due is an entry of the deadline index.
type Due struct {
	ID       stream.ID
	Deadline int64 // Unix nanoseconds
}

// FirstDue visits the index in the order of deadlines up to and including now
// until visit returns false, and gives the first deadline after now: now itself
// if the visit ended early, stream.Never if there is none.
func (a *Archive) FirstDue(now int64, visit func(Due) bool) (next int64, err error) {
	next = stream.Never
	err = a.walk(prefixDeadline, func(key, _ []byte) (bool, error) {
		d := Due{Deadline: int64(number(key, 0)), ID: stream.ID(number(key, 1))}
		if d.Deadline > now {
			next = d.Deadline
			return false, nil
		}
		if !visit(d) {
			next = now
			return false, nil
		}
		return true, nil
	})
	return next, err
}

// Rows visits every state row in the order of stream numbers. A row that cannot
// be read is reported through bad, and the walk goes on; a row of a newer program ends
// it with a *format.VersionError.
func (a *Archive) Rows(visit func(*Row) error, bad func(stream.ID, error)) error {
	return a.walk(prefixState, func(key, _ []byte) (bool, error) {
		id := stream.ID(number(key, 0))
		row, err := a.Load(id)
		if errors.Is(err, format.ErrNewer) {
			return false, err
		}
		if err != nil || row == nil {
			bad(id, err)
			return true, nil
		}
		return true, visit(row)
	})
}

// States is Rows without the streams' producers, in a fifth of the time. It fails as
// a whole where a part of the archive cannot be read.
func (a *Archive) States(visit func(*Row) error, bad func(stream.ID, error)) error {
	return a.walk(prefixState, func(key, value []byte) (bool, error) {
		id := stream.ID(number(key, 0))
		row, err := decodeState(id, value)
		if errors.Is(err, format.ErrNewer) {
			return false, err
		}
		if err != nil {
			bad(id, err)
			return true, nil
		}
		return true, visit(row)
	})
}

// Name is a path and the stream that it leads to.
type Name struct {
	Path stream.Path
	ID   stream.ID
}

// Names visits every name.
func (a *Archive) Names(visit func(Name) error) error {
	return a.walk(prefixName, func(key, value []byte) (bool, error) {
		n, err := decodeName(key, value)
		if err != nil {
			return false, err
		}
		return true, visit(n)
	})
}

// NamesAfter appends up to max names to dst: the first ones in order whose path
// begins with prefix and comes after a path.
func (a *Archive) NamesAfter(dst []Name, prefix string, after stream.Path, max int) ([]Name, error) {
	first := nameKey(stream.Path(prefix))
	if after >= stream.Path(prefix) {
		first = append(nameKey(after), 0)
	}
	end := behind(nameKey(stream.Path(prefix)))
	if bytes.Compare(first, end) >= 0 {
		return dst, nil
	}
	err := a.walkRange(first, end, func(key, value []byte) (bool, error) {
		n, err := decodeName(key, value)
		if err != nil {
			return false, err
		}
		dst = append(dst, n)
		max--
		return max > 0, nil
	})
	return dst, err
}

func decodeName(key, value []byte) (Name, error) {
	if len(value) != 8 {
		return Name{}, fmt.Errorf("malformed name row of %q", key[1:])
	}
	return Name{Path: stream.Path(key[1:]), ID: stream.ID(binary.BigEndian.Uint64(value))}, nil
}

// Deadlines visits the whole deadline index.
func (a *Archive) Deadlines(visit func(Due) error) error {
	return a.walk(prefixDeadline, func(key, _ []byte) (bool, error) {
		return true, visit(Due{Deadline: int64(number(key, 0)), ID: stream.ID(number(key, 1))})
	})
}

// Asides visits every record that was set aside; body is valid during the visit.
func (a *Archive) Asides(visit func(id stream.ID, lsn uint64, kind byte, body []byte) error) error {
	return a.walk(prefixAside, func(key, value []byte) (bool, error) {
		if len(value) == 0 {
			return false, fmt.Errorf("malformed record %d set aside", number(key, 1))
		}
		return true, visit(stream.ID(number(key, 0)), number(key, 1), value[0], value[1:])
	})
}

// Chunk says where a chunk lies.
type Chunk struct {
	ID  stream.ID
	Pos uint64
	Len int
}

// AllChunks visits every chunk in the order of stream numbers and positions;
// data is valid during the visit.
func (a *Archive) AllChunks(visit func(c Chunk, data []byte) error) error {
	return a.walk(prefixChunk, func(key, value []byte) (bool, error) {
		c := Chunk{ID: stream.ID(number(key, 0)), Pos: number(key, 1) - uint64(len(value)), Len: len(value)}
		return true, visit(c, value)
	})
}

func (a *Archive) walk(prefix byte, visit func(key, value []byte) (more bool, err error)) error {
	return a.walkRange([]byte{prefix}, []byte{prefix + 1}, visit)
}

// walkRange visits the keys from a first one on and before another.
func (a *Archive) walkRange(from, to []byte, visit func(key, value []byte) (more bool, err error)) (err error) {
	if err := a.enter(); err != nil {
		return err
	}
	defer a.leave()
	it, err := a.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("walk archive: %w", err)
	}
	defer func() {
		if cerr := it.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("walk archive: %w", cerr)
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("walk archive: %w", err)
		}
		if more, err := visit(it.Key(), value); err != nil || !more {
			return err
		}
	}
	return nil
}
