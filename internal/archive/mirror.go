package archive

import (
	"bytes"
	"errors"
	"hash/maphash"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/mirror"
)

// The mirror has every row but the chunks once more. It is told of each batch
// before Pebble is, and of what has become durable after Pebble has made it so, and
// both before the journal lets go of it.

// mirrorPause is how long it takes until the mirror is tried to be written anew
// where that has failed.
const mirrorPause = time.Minute

// openMirror opens the second copy and gives the header as of its last commit, nil
// if there is none. A damaged one counts as missing: the archive is there to make
// another.
func (a *Archive) openMirror(o *Options) (copied []byte, err error) {
	switch {
	case o.Mirror == "":
		return nil, nil
	case o.ReadOnly:
		var s mirror.State
		s, err = mirror.Stat(a.space.FS, o.Mirror)
		copied = s.Label
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
	default:
		a.mirror, err = mirror.Open(a.space.FS, o.Mirror)
	}
	if _, damaged := errors.AsType[*mirror.DamageError](err); damaged {
		a.log.Error("the second copy of the rows is damaged and does not count", "err", err)
		return nil, nil
	}
	if err == nil && a.mirror != nil && a.mirror.Valid() {
		copied = a.mirror.Label()
	}
	return copied, err
}

// alignMirror makes the mirror, whose last commit is as of another header, what the
// archive is now. They can differ in the batches that were under way at a crash.
func (a *Archive) alignMirror(copied []byte) error {
	behind := !bytes.Equal(copied, a.header)
	ops, hasHeader, err := a.pendingRows()
	if err != nil {
		return err
	}
	if behind && !hasHeader {
		a.log.Error("the second copy of the rows is not what it should be, it is made anew")
		a.mirror.Distrust()
		return nil
	}
	if err := a.mirrorOps(ops); err != nil || !behind {
		return err
	}
	return a.commitMirror()
}

// pendingRows gives the archive's side of the rows in which the two can differ, and
// whether the header is one of them.
func (a *Archive) pendingRows() (ops mirror.Ops, hasHeader bool, err error) {
	rows, err := a.NewLoader()
	if err != nil {
		return nil, false, err
	}
	unreadable := map[string]bool{}
	keys := a.mirror.Pending()
	slices.SortFunc(keys, bytes.Compare) // there may be a million: neighbours share a block
	for _, key := range slices.CompactFunc(keys, bytes.Equal) {
		hasHeader = hasHeader || bytes.Equal(key, headerKey)
		found := false
		err := rows.get(key, func(value []byte) error {
			found = true
			ops.Set(key, value)
			return nil
		})
		switch {
		case err != nil:
			a.log.Error("a row cannot be read", "row", DescribeKey(key), "err", err)
			unreadable[string(key)] = true
		case !found:
			ops.Delete(key)
		}
	}
	if err := rows.Close(); err != nil || len(unreadable) == 0 {
		return ops, hasHeader, err
	}
	// Whether the change that was under way has happened nobody knows: without it
	// the row fits what the journal has.
	before, err := mirror.Find(a.space.FS, a.mirrorPath, true, func(key []byte) bool { return unreadable[string(key)] })
	for key := range unreadable {
		if v, found := before[key]; found {
			ops.Set([]byte(key), v)
		} else {
			ops.Delete([]byte(key))
		}
	}
	return ops, hasHeader, err
}

// mirrorOps tells the mirror of changes that are about to be made.
func (a *Archive) mirrorOps(ops mirror.Ops) error {
	if a.mirror == nil || len(ops) == 0 {
		return nil
	}
	if a.mirror.Valid() && !a.roomFor(uint64(len(ops))) {
		return a.dropMirror(syscall.ENOSPC)
	}
	err := a.mirror.Append(ops)
	if err != nil && outOfRoom(err) {
		return a.dropMirror(err)
	}
	return err
}

// commitMirror says that what the mirror was told of is durable in the archive.
func (a *Archive) commitMirror() error {
	if a.mirror == nil {
		return nil
	}
	if (a.mirror.Grown() || !a.mirror.Valid()) && !time.Now().Before(a.mirrorAgain) {
		err := a.writeMirror()
		if err == nil {
			return nil
		}
		a.log.Warn("the second copy of the rows cannot be written anew for now", "err", err)
		a.mirrorAgain = time.Now().Add(mirrorPause)
	}
	if !a.mirror.Valid() {
		return a.mirror.Drop() // the journal is about to go: it would be a lie
	}
	err := a.mirror.Commit(a.header)
	if err != nil && outOfRoom(err) {
		return a.dropMirror(err)
	}
	return err
}

// noteCopy tells readers whether they may use the mirror.
func (a *Archive) noteCopy() { a.hasCopy.Store(a.mirror != nil && a.mirror.Valid()) }

// dropMirror does without a mirror for some time, for want of room.
func (a *Archive) dropMirror(why error) error {
	a.log.Warn("there is no room for the second copy of the rows", "err", why)
	a.mirrorAgain = time.Now().Add(mirrorPause)
	return a.mirror.Drop()
}

// writeMirror writes the whole mirror anew.
func (a *Archive) writeMirror() error {
	size := uint64(0)
	for _, r := range rowRanges() {
		n, err := a.db.EstimateDiskUsage(r.Start, r.End)
		if err != nil {
			return err
		}
		size += n
	}
	if !a.roomFor(size + size/4) {
		return syscall.ENOSPC
	}
	return a.mirror.Rewrite(a.header, func(set func(key, value []byte) error) error {
		return a.EachRow(set)
	})
}

// EachRow visits every row of the archive but the chunks.
func (a *Archive) EachRow(visit func(key, value []byte) error) error {
	for _, r := range rowRanges() {
		err := a.walkRange(r.Start, r.End, func(key, value []byte) (bool, error) { return true, visit(key, value) })
		if err != nil {
			return err
		}
	}
	return nil
}

// rowRanges are the parts of the key space that hold no chunks.
func rowRanges() [2]pebble.KeyRange {
	return [2]pebble.KeyRange{{Start: []byte{0}, End: []byte{prefixChunk}}, {Start: []byte{prefixChunk + 1}, End: []byte{0xff}}}
}

// roomFor reports whether the disk has room for so many bytes beside what others
// need. A file system that cannot tell has it.
func (a *Archive) roomFor(n uint64) bool {
	usage, err := a.space.GetDiskUsage(a.space.dir)
	return err != nil || usage.AvailBytes >= n+keepForFlush
}

// CompareMirror says where the mirror at path differs from the archive, as far as
// it should not: in the rows that were under way at a crash it may.
func (a *Archive) CompareMirror(fs vfs.FS, path string, differs func(key []byte, what string)) error {
	state, err := mirror.Stat(fs, path)
	if err != nil || !bytes.Equal(state.Label, a.header) {
		return err // as of an older commit: the next start brings it up to date
	}
	sums, seed := map[string]uint64{}, maphash.MakeSeed()
	_, err = mirror.Read(fs, path, func(op mirror.Op) error {
		if op.Deleted {
			delete(sums, string(op.Key))
		} else {
			sums[string(op.Key)] = maphash.Bytes(seed, op.Value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	pending := map[string]bool{}
	for _, key := range state.Pending {
		pending[string(key)] = true
	}
	err = a.EachRow(func(key, value []byte) error {
		sum, found := sums[string(key)]
		delete(sums, string(key))
		switch {
		case pending[string(key)]:
		case !found:
			differs(key, "its second copy is missing")
		case sum != maphash.Bytes(seed, value):
			differs(key, "its second copy differs")
		}
		return nil
	})
	for key := range sums {
		if err == nil && !pending[key] {
			differs([]byte(key), "it is missing, but its second copy is there")
		}
	}
	return err
}

// outOfRoom reports whether an error says that space or descriptors are short.
func outOfRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
