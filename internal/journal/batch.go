package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Batch collects records into the bytes of one frame. Records are encoded
// straight into it and it is written as it is, so nothing is copied. It is
// used by one goroutine at a time and for one Append; its memory is never
// reused, so slices of it may be kept.
type Batch struct {
	buf     []byte // frame header, then records
	records int
	sealed  bool
}

// Span is the place of a record's body in its batch, in bytes.
type Span struct{ Start, End int }

// NewBatch returns an empty batch with memory for about sizeHint bytes of
// records.
func NewBatch(sizeHint int) *Batch {
	n := frameSize(int64(max(sizeHint, 0)))
	return &Batch{buf: make([]byte, frameHeaderSize, n)}
}

// Add adds a record. The function encode appends the body to dst and returns
// the longer slice, as append does; it must not change what dst holds. The
// span is the body's place for [Batch.Body]. Add panics after Append.
func (b *Batch) Add(kind byte, encode func(dst []byte) []byte) Span {
	b.mustBeOpen()
	at := len(b.buf)
	b.buf = append(b.buf, 0, 0, 0, 0, kind)
	start := len(b.buf)
	b.buf = encode(b.buf)
	return b.finish(at, start)
}

// AddBytes adds a record whose body is copied from body.
func (b *Batch) AddBytes(kind byte, body []byte) Span {
	b.mustBeOpen()
	at := len(b.buf)
	b.buf = append(b.buf, 0, 0, 0, 0, kind)
	start := len(b.buf)
	b.buf = append(b.buf, body...)
	return b.finish(at, start)
}

// finish writes the length of the record at offset at.
func (b *Batch) finish(at, start int) Span {
	// A body of 4 GiB does not fit in a frame; check refuses it.
	binary.LittleEndian.PutUint32(b.buf[at:], uint32(len(b.buf)-start))
	b.records++
	return Span{Start: start, End: len(b.buf)}
}

// Body is the body at s, with no spare capacity. Before Append the slice is
// good until the next Add, which may move the memory; after Append it is
// final, never changes and may be kept.
func (b *Batch) Body(s Span) []byte { return b.buf[s.Start:s.End:s.End] }

// Records is the number of records.
func (b *Batch) Records() int { return b.records }

// Len is the space in bytes that the batch takes in the journal, framing and
// padding included.
func (b *Batch) Len() int64 { return roundUp(int64(len(b.buf)), frameAlign) }

func (b *Batch) mustBeOpen() {
	if b.sealed {
		panic("journal: record added to an appended batch")
	}
}

// check says why the batch cannot be appended, if so.
func (b *Batch) check() error {
	switch {
	case b.sealed:
		return fmt.Errorf("%w: appended before", ErrBatch)
	case b.records == 0:
		return fmt.Errorf("%w: no records", ErrBatch)
	case b.Len() > maxFrame:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrBatch, b.Len(), int64(maxFrame))
	}
	return nil
}

// seal completes the frame and returns its bytes, which do not change any
// more. The padding is only appended to what is written: no body moves.
func (b *Batch) seal(seq, lsn, salt uint64) []byte {
	b.sealed = true
	payload := b.buf[frameHeaderSize:]
	h := frameHeader{
		length:     uint32(len(payload)),
		seq:        seq,
		lsn:        lsn,
		count:      uint32(b.records),
		payloadCRC: crc32.Checksum(payload, crcTable),
	}
	h.put(b.buf, salt)
	for int64(len(b.buf)) < h.size() {
		b.buf = append(b.buf, 0)
	}
	return b.buf
}
