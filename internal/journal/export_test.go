package journal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// DecodeHeader decodes and encodes a segment header.
func DecodeHeader(b []byte, number uint64) ([]byte, error) {
	h, err := decodeHeader(b, number)
	if err != nil {
		return nil, err
	}
	return h.encode(), nil
}

// Frames is a segment of these payloads, each one record of kind 1, after
// an empty header.
func Frames(salt uint64, bodies ...[]byte) []byte {
	file := make([]byte, headerSize)
	for i, body := range bodies {
		b := NewBatch(0)
		b.AddBytes(1, body)
		file = append(file, b.seal(uint64(i+1), uint64(i+1), salt)...)
	}
	return file
}

// ReadFrames reads the frames of a segment: their raw bytes, and whether a
// later frame was found behind the first invalid one.
func ReadFrames(file []byte, salt uint64) (raw [][]byte, later bool) {
	r := newFrameReader(bytes.NewReader(file), int64(len(file)), header{salt: salt, firstSeq: 1, firstLSN: 1})
	for {
		f, bad, err := r.next()
		if err != nil {
			panic(err)
		}
		if bad != "" {
			break
		}
		raw = append(raw, f.raw)
	}
	_, _, later, err := r.later()
	if err != nil {
		panic(err)
	}
	return raw, later
}

// DecodeNote decodes a note of the head file and encodes it again; nil if it is none.
func DecodeNote(b []byte) []byte {
	n, ok, err := decodeNote(b)
	if !ok || err != nil {
		return nil
	}
	return n.encode()
}

// SampleNote is a note.
func SampleNote() []byte { return headNote{count: 3, segment: 4, lsn: 5}.encode() }

// NoteOfVersion is a note as a later program may write it.
func NoteOfVersion(v uint32) []byte {
	b := SampleNote()
	binary.LittleEndian.PutUint32(b[8:], v)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crcTable))
	return b
}
