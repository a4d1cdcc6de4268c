// Package mirror keeps a second copy of a set of keys and values in one plain
// file: a log of changes in commits, written anew when it has grown. It is there
// for the day on which the first copy is damaged. It knows bytes and nothing of
// what they say.
//
// A copy is read as of its last commit. Changes behind it do not count yet, but
// they are on the disk: whoever changes the first copy only after [Log.Append] has
// returned finds in [Log.Pending] after a crash whatever the two may differ in.
//
// A Log belongs to one goroutine. The package starts none.
package mirror

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Log is a copy that is being written.
type Log struct {
	fs   vfs.FS
	path string
	dir  vfs.File

	file    vfs.File // nil: there is no copy
	last    mark     // as of the last commit
	noted   uint64   // number of commits that the slots tell
	end     int64    // where the next frame goes
	chain   uint32   // checksum of the frame before
	buf     []byte   // the next frame: room for its head, then changes
	broken  bool     // a write has failed: what the file holds is unknown
	pending [][]byte
}

// DamageError says that a copy cannot be read.
type DamageError struct {
	Path   string
	Offset int64
	Reason string
}

// Error names the place.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", e.Path, e.Offset, e.Reason)
}

// Open opens the copy at path to go on with it. If there is none, or with a
// *DamageError, the log has no copy until the first Rewrite.
func Open(fs vfs.FS, path string) (l *Log, err error) {
	l = &Log{fs: fs, path: path}
	if l.dir, err = fs.OpenDir(fs.PathDir(path)); err != nil {
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	l.reset(start())
	if err := l.open(); err != nil {
		if _, damaged := errors.AsType[*DamageError](err); damaged {
			return l, err
		}
		return nil, errors.Join(fmt.Errorf("open mirror: %w", err), l.Close())
	}
	return l, nil
}

func (l *Log) open() error {
	last, end, pending, err := find(l.fs, l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := l.fs.OpenReadWrite(l.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	l.file, l.last, l.pending = f, last, pending
	l.end, l.chain = end.end, end.chain
	return nil
}

// reset goes on behind a mark.
func (l *Log) reset(m mark) {
	l.last, l.end, l.chain = m, m.end, m.chain
	l.noted, l.buf, l.broken, l.pending = 0, nil, false, nil
}

// Pending gives the keys that were changed behind the last commit, as of Open. The
// changes become part of the next commit; more changes may follow them before.
func (l *Log) Pending() [][]byte { return l.pending }

// Valid reports whether there is a copy.
func (l *Log) Valid() bool { return l.file != nil && !l.broken }

// Distrust says that the copy is not what it should be. It counts no more, but its
// file stays until it is replaced or dropped.
func (l *Log) Distrust() { l.broken = true }

// Label is what the last commit was given.
func (l *Log) Label() []byte { return l.last.label }

// Grown reports whether the file has become so much larger than what it was made
// with that it should be written anew.
func (l *Log) Grown() bool { return l.end > 3*l.last.base+4*frameTarget }

// Append adds changes to the next commit and makes them durable. Without a copy
// it does nothing.
func (l *Log) Append(ops Ops) error {
	if !l.Valid() || len(ops) == 0 {
		return nil
	}
	l.add(ops)
	if err := l.write(false, 0); err != nil {
		return err
	}
	return l.sync()
}

func (l *Log) sync() error {
	if err := l.file.SyncData(); err != nil {
		l.broken = true
		return fmt.Errorf("sync mirror: %w", err)
	}
	return nil
}

func (l *Log) add(b []byte) {
	if len(l.buf) == 0 {
		l.buf = append(l.buf, make([]byte, frameHead)...)
	}
	l.buf = append(l.buf, b...)
}

// write writes what has gathered as a frame.
func (l *Log) write(commit bool, label int) error {
	if len(l.buf)-frameHead > maxFrame {
		l.broken = true
		return fmt.Errorf("write mirror: a frame of %d bytes", len(l.buf))
	}
	sum := sealFrame(l.buf, l.chain, commit, label)
	if _, err := l.file.WriteAt(l.buf, l.end); err != nil {
		l.broken = true
		return fmt.Errorf("write mirror: %w", err)
	}
	l.end += int64(len(l.buf))
	l.chain = sum
	if l.buf = l.buf[:0]; cap(l.buf) > 4*frameTarget {
		l.buf = nil
	}
	return nil
}

// Commit makes everything appended since the last commit count, durably. The
// label is given back by [Log.Label] and [Read]. Without a copy it does nothing.
func (l *Log) Commit(label []byte) error {
	if !l.Valid() {
		return nil
	}
	// The slot tells the commit before this one, which is durable already.
	if l.noted < l.last.commits {
		if err := l.note(l.last); err != nil {
			return err
		}
	}
	if err := l.seal(label); err != nil {
		return err
	}
	return l.sync()
}

// note writes a mark into its slot.
func (l *Log) note(m mark) error {
	if _, err := l.file.WriteAt(m.encode(), int64(m.commits%2)*slotSpace); err != nil {
		l.broken = true
		return fmt.Errorf("write mirror: %w", err)
	}
	l.noted = m.commits
	return nil
}

// seal writes the last frame of a commit.
func (l *Log) seal(label []byte) error {
	if len(label) > maxLabel {
		return fmt.Errorf("write mirror: a label of %d bytes", len(label))
	}
	if len(l.buf) > 0 { // the label goes before the changes of its frame
		if err := l.write(false, 0); err != nil {
			return err
		}
	}
	l.add(label)
	if err := l.write(true, len(label)); err != nil {
		return err
	}
	l.pending = nil
	l.last = mark{commits: l.last.commits + 1, end: l.end, base: l.last.base, chain: l.chain, label: append([]byte(nil), label...)}
	return nil
}

// Rewrite replaces the copy by one that holds exactly what fill sets, committed
// and durable. If that fails the former copy is as it was, and counts no more
// than before.
func (l *Log) Rewrite(label []byte, fill func(set func(key, value []byte) error) error) error {
	tmp := l.path + tmpExt
	if err := removeIfExists(l.fs, tmp); err != nil {
		return fmt.Errorf("write mirror: %w", err)
	}
	f, err := l.fs.OpenReadWrite(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("write mirror: %w", err)
	}
	next := &Log{fs: l.fs, path: l.path, dir: l.dir, file: f}
	next.reset(start())
	if err := next.fill(label, fill); err != nil {
		return errors.Join(err, f.Close(), removeIfExists(l.fs, tmp))
	}
	if err := l.fs.Rename(tmp, l.path); err != nil {
		return errors.Join(fmt.Errorf("write mirror: %w", err), f.Close())
	}
	if err := l.dir.Sync(); err != nil {
		return errors.Join(fmt.Errorf("write mirror: %w", err), f.Close())
	}
	old := l.file
	*l = *next
	if old != nil {
		return old.Close()
	}
	return nil
}

const tmpExt = ".tmp"

// fill writes a whole new file.
func (l *Log) fill(label []byte, fill func(set func(key, value []byte) error) error) error {
	var ops Ops
	err := fill(func(key, value []byte) error {
		ops = ops[:0]
		ops.Set(key, value)
		if l.add(ops); len(l.buf) < frameTarget {
			return nil
		}
		return l.write(false, 0)
	})
	if err != nil {
		return err
	}
	if err := l.seal(label); err != nil {
		return err
	}
	l.last.base = l.end
	if err := l.note(l.last); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync mirror: %w", err)
	}
	return nil
}

// Drop removes the copy, durably.
func (l *Log) Drop() error {
	var errs []error
	if l.file != nil {
		errs = append(errs, l.file.Close())
		l.file = nil
	}
	l.reset(start())
	errs = append(errs, removeIfExists(l.fs, l.path+tmpExt), removeIfExists(l.fs, l.path), l.dir.Sync())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("drop mirror: %w", err)
	}
	return nil
}

// Close closes the files. What was not committed is lost.
func (l *Log) Close() error {
	var errs []error
	for _, f := range []io.Closer{l.file, l.dir} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	l.file, l.dir = nil, nil
	return errors.Join(errs...)
}

func removeIfExists(fs vfs.FS, path string) error {
	if err := fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
