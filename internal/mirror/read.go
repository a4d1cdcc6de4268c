package mirror

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Read visits the changes of the copy at path up to its last commit, in the order
// in which they were made, and gives the commit's label. A nil visit only checks.
// A copy that is not whole gives a *DamageError, perhaps after some visits.
func Read(fs vfs.FS, path string, visit func(Op) error) (label []byte, err error) {
	last, _, _, err := find(fs, path)
	if err != nil {
		return nil, fmt.Errorf("read mirror: %w", err)
	}
	err = withFile(fs, path, func(r *reader) error {
		r.mark = start()
		for r.end < last.end {
			ops, ok, err := r.next()
			if err != nil {
				return err
			}
			if !ok {
				return r.damaged("frame of a commit has a wrong checksum")
			}
			if visit == nil {
				visit = func(Op) error { return nil }
			}
			if err := ops.each(visit); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read mirror: %w", err)
	}
	return last.label, nil
}

// State is where a copy stands.
type State struct {
	Label   []byte   // of the last commit
	Pending [][]byte // keys that were changed behind it
}

// Stat gives the state of the copy at path.
func Stat(fs vfs.FS, path string) (State, error) {
	m, _, pending, err := find(fs, path)
	if err != nil {
		return State{}, fmt.Errorf("read mirror: %w", err)
	}
	return State{Label: m.label, Pending: pending}, nil
}

// Find gives the values of wanted keys, as of the last commit or as they are behind
// it. The copy may be written meanwhile.
func Find(fs vfs.FS, path string, committed bool, wanted func(key []byte) bool) (map[string][]byte, error) {
	last, end, _, err := find(fs, path)
	if err != nil {
		return nil, fmt.Errorf("read mirror: %w", err)
	}
	if committed {
		end = last
	}
	found := map[string][]byte{}
	err = withFile(fs, path, func(r *reader) error {
		r.mark = start()
		for r.end < end.end {
			ops, ok, err := r.next()
			if err != nil {
				return err
			}
			if !ok {
				return r.damaged("frame has a wrong checksum")
			}
			err = ops.each(func(op Op) error {
				switch {
				case !wanted(op.Key):
				case op.Deleted:
					delete(found, string(op.Key))
				default:
					found[string(op.Key)] = append([]byte{}, op.Value...)
				}
				return nil
			})
			if err != nil {
				return r.damaged(err.Error())
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read mirror: %w", err)
	}
	return found, nil
}

// find gives the last commit, the end of the valid frames, and the keys that were
// changed between the two.
func find(fs vfs.FS, path string) (last, end mark, pending [][]byte, err error) {
	err = withFile(fs, path, func(r *reader) error {
		if err := r.slots(); err != nil {
			return err
		}
		last, end = r.mark, r.mark
		for {
			ops, ok, err := r.next()
			if err != nil || !ok {
				return err
			}
			end = r.mark
			if r.committed {
				last, pending = r.mark, nil
				continue
			}
			err = ops.each(func(op Op) error {
				pending = append(pending, append([]byte(nil), op.Key...))
				return nil
			})
			if err != nil {
				return r.damaged(err.Error())
			}
		}
	})
	return last, end, pending, err
}

// reader reads frames one after another.
type reader struct {
	mark
	path      string
	file      io.ReaderAt
	size      int64
	buf       []byte
	committed bool // the frame read last ends a commit
}

func withFile(fs vfs.FS, path string, do func(*reader) error) (err error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return do(&reader{path: path, file: f, size: info.Size()})
}

func (r *reader) damaged(reason string) error {
	return &DamageError{Path: r.path, Offset: r.end, Reason: reason}
}

// slots goes to the later one of the two marks.
func (r *reader) slots() error {
	found := false
	for i := range int64(2) {
		b, err := r.at(i*slotSpace, slotSize)
		if err != nil {
			return err
		}
		m, err := decodeMark(b)
		if errors.Is(err, errNoMark) {
			continue
		}
		if err != nil {
			return err
		}
		if !found || m.commits > r.commits {
			r.mark, found = m, true
		}
	}
	if !found {
		return &DamageError{Path: r.path, Reason: "it has no valid mark"}
	}
	if r.end > r.size {
		return r.damaged(fmt.Sprintf("it ends at %d", r.size))
	}
	return nil
}

// at reads n bytes, or less at the end of the file.
func (r *reader) at(off, n int64) ([]byte, error) {
	n = max(min(n, r.size-off), 0)
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	b := r.buf[:n]
	if got, err := r.file.ReadAt(b, off); int64(got) < n {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return b, nil
}

// next reads a frame. It is not ok if there is no valid one. The changes are
// good until the next call.
func (r *reader) next() (ops Ops, ok bool, err error) {
	head, err := r.at(r.end, frameHead)
	if err != nil || len(head) < frameHead {
		return nil, false, err
	}
	length := int64(binary.LittleEndian.Uint32(head))
	if length > maxFrame || r.end+frameHead+length > r.size {
		return nil, false, nil
	}
	b, err := r.at(r.end, frameHead+length)
	if err != nil {
		return nil, false, err
	}
	sum := binary.LittleEndian.Uint32(b[8:])
	if sum != frameSum(b, r.chain) {
		return nil, false, nil
	}
	flags := binary.LittleEndian.Uint32(b[4:])
	r.end += int64(len(b))
	r.chain = sum
	ops = Ops(b[frameHead:])
	if r.committed = flags&flagCommit != 0; r.committed {
		n := int(flags >> labelShift)
		if n > len(ops) {
			return nil, false, nil
		}
		r.commits++
		r.label = append([]byte(nil), ops[:n]...)
		ops = ops[n:]
	}
	return ops, true, nil
}
