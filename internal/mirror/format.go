package mirror

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"durablestreams/internal/format"
)

// The layout of the file. DO NOT CHANGE any of these numbers without a new
// formatVersion: they are on disks. docs/format/mirror.md has the picture.
const (
	magic         = "ds.mirr\n"
	formatVersion = 1

	slotSize    = 128      // a mark, its checksum included
	slotSpace   = 512      // from one mark to the other: a sector each
	framesStart = 1024     // the first frame
	frameHead   = 12       // length, flags, checksum
	maxFrame    = 1 << 30  // bytes of a frame's payload
	maxLabel    = 64       // bytes of a commit's label
	frameTarget = 64 << 10 // about how many bytes are written as one frame
)

// flagCommit marks the last frame of a commit; the length of its label is in
// the bits from labelShift on.
const (
	flagCommit = 1
	labelShift = 8
)

// Kinds of changes in a frame.
const (
	opSet    = 1
	opDelete = 2
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// mark is a place in the file up to which everything is committed.
type mark struct {
	commits uint64 // number of commits before it
	end     int64  // where the next frame begins
	base    int64  // where the first commit ends, which the file was made with
	chain   uint32 // checksum of the frame before
	label   []byte // of the last commit
}

// start is the mark before the first frame.
func start() mark { return mark{end: framesStart} }

// encode returns the bytes of a slot.
func (m mark) encode() []byte {
	b := make([]byte, slotSize)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint32(b[12:], m.chain)
	binary.LittleEndian.PutUint64(b[16:], m.commits)
	binary.LittleEndian.PutUint64(b[24:], uint64(m.end))
	binary.LittleEndian.PutUint64(b[32:], uint64(m.base))
	b[40] = byte(len(m.label))
	copy(b[41:41+maxLabel], m.label)
	binary.LittleEndian.PutUint32(b[slotSize-4:], crc32.Checksum(b[:slotSize-4], crcTable))
	return b
}

var errNoMark = errors.New("no mark")

// decodeMark reads a slot. Magic number, version and checksum stay where they are in
// every version. The error is errNoMark or a *format.VersionError.
func decodeMark(b []byte) (mark, error) {
	if len(b) < slotSize || string(b[:8]) != magic {
		return mark{}, errNoMark
	}
	if binary.LittleEndian.Uint32(b[slotSize-4:]) != crc32.Checksum(b[:slotSize-4], crcTable) {
		return mark{}, errNoMark
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v > formatVersion {
		return mark{}, &format.VersionError{What: "the second copy of the rows (mirror)", Found: uint64(v), Known: formatVersion}
	}
	m := mark{
		commits: binary.LittleEndian.Uint64(b[16:]),
		end:     int64(binary.LittleEndian.Uint64(b[24:])),
		base:    int64(binary.LittleEndian.Uint64(b[32:])),
		chain:   binary.LittleEndian.Uint32(b[12:]),
	}
	if m.end < framesStart || b[40] > maxLabel {
		return mark{}, errNoMark
	}
	m.label = append([]byte(nil), b[41:41+int(b[40])]...)
	return m, nil
}

// sealFrame completes the frame in b, whose first frameHead bytes are free and
// whose payload begins with the label, and returns its checksum. The checksum
// includes the one of the frame before: what was behind a frame in an earlier
// life does not follow it now.
func sealFrame(b []byte, chain uint32, commit bool, label int) uint32 {
	flags := uint32(0)
	if commit {
		flags = flagCommit | uint32(label)<<labelShift
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-frameHead))
	binary.LittleEndian.PutUint32(b[4:], flags)
	sum := frameSum(b, chain)
	binary.LittleEndian.PutUint32(b[8:], sum)
	return sum
}

func frameSum(b []byte, chain uint32) uint32 {
	var before [4]byte
	binary.LittleEndian.PutUint32(before[:], chain)
	return crc32.Update(crc32.Update(crc32.Checksum(before[:], crcTable), crcTable, b[:8]), crcTable, b[frameHead:])
}

// Ops is a list of changes in the form in which they are written. The zero value
// is an empty one.
type Ops []byte

// Set adds that key has a value now.
func (o *Ops) Set(key, value []byte) {
	b := append(*o, opSet)
	b = append(binary.AppendUvarint(b, uint64(len(key))), key...)
	*o = append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// Delete adds that there is no such key now.
func (o *Ops) Delete(key []byte) {
	b := append(*o, opDelete)
	*o = append(binary.AppendUvarint(b, uint64(len(key))), key...)
}

// Op is one change.
type Op struct {
	Key, Value []byte
	Deleted    bool
}

// each visits the changes. They are slices of o.
func (o Ops) each(visit func(Op) error) error {
	for len(o) > 0 {
		op := Op{Deleted: o[0] == opDelete}
		if o[0] != opSet && !op.Deleted {
			return fmt.Errorf("change of unknown kind %d", o[0])
		}
		var ok bool
		if op.Key, o, ok = cutBytes(o[1:]); !ok {
			return errors.New("change is cut off")
		}
		if !op.Deleted {
			if op.Value, o, ok = cutBytes(o); !ok {
				return errors.New("change is cut off")
			}
		}
		if err := visit(op); err != nil {
			return err
		}
	}
	return nil
}

// cutBytes takes a length and so many bytes off the front of b.
func cutBytes(b []byte) (head, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	b = b[size:]
	return b[:n:n], b[n:], true
}
