package journal

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// The layout of the files. DO NOT CHANGE any of these numbers without a new
// formatVersion: they are on disks. docs/format/journal.md has the pictures.
const (
	magic         = "ds.jrnl\n"
	formatVersion = 1

	headerSize       = 64         // segment header; the first frame follows
	frameHeaderSize  = 40         // frame header; the payload follows
	recordHeaderSize = 5          // record length (4) and kind (1); the body follows
	frameAlign       = 8          // frames start at multiples of this
	frameMarker      = 0x4d465344 // "DSFM" on disk
	maxFrame         = 1 << 30    // largest frame in bytes, header and padding included
)

// File name endings. A .seg file has a durable header from the moment it has
// this name; .free and .tmp files hold nothing anybody needs.
const (
	segExt     = ".seg"
	freeExt    = ".free"
	tmpExt     = ".tmp"
	damagedExt = ".damaged"
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// header is the content of a segment header.
type header struct {
	number   uint64 // segment number, the same as in the file's name
	salt     uint64 // random, mixed into every frame's checksum
	firstSeq uint64 // number of the segment's first frame
	firstLSN uint64 // LSN of that frame's first record
}

// encode returns the 64 bytes of the header.
func (h header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint64(b[16:], h.number)
	binary.LittleEndian.PutUint64(b[24:], h.salt)
	binary.LittleEndian.PutUint64(b[32:], h.firstSeq)
	binary.LittleEndian.PutUint64(b[40:], h.firstLSN)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crcTable))
	return b
}

// decodeHeader reads the header of the segment whose file name says number.
// The error is a *CorruptionError or a *format.VersionError.
func decodeHeader(b []byte, number uint64) (header, error) {
	damaged := func(format string, args ...any) (header, error) {
		return header{}, &CorruptionError{Segment: number, Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) < headerSize {
		return damaged("segment header has %d of %d bytes", len(b), headerSize)
	}
	if string(b[:8]) != magic {
		return damaged("segment header has no magic number")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		if v < formatVersion || flippedVersion(b) {
			return damaged("segment header has a damaged version")
		}
		return header{}, newer(segmentName(number), v, formatVersion)
	}
	if binary.LittleEndian.Uint32(b[60:]) != crc32.Checksum(b[:60], crcTable) {
		return damaged("segment header has a wrong checksum")
	}
	h := header{
		number:   binary.LittleEndian.Uint64(b[16:]),
		salt:     binary.LittleEndian.Uint64(b[24:]),
		firstSeq: binary.LittleEndian.Uint64(b[32:]),
		firstLSN: binary.LittleEndian.Uint64(b[40:]),
	}
	if h.number != number {
		return damaged("segment header belongs to segment %s", segmentName(h.number))
	}
	if h.firstSeq == 0 || h.firstLSN == 0 {
		return damaged("segment header starts at frame %d, record %d", h.firstSeq, h.firstLSN)
	}
	return h, nil
}

// flippedVersion reports whether a header is sound but for its version. What a later
// version looks like is not known here, so nothing else tells the two apart.
func flippedVersion(b []byte) bool {
	own := append([]byte(nil), b[:headerSize]...)
	binary.LittleEndian.PutUint32(own[8:], formatVersion)
	return binary.LittleEndian.Uint32(own[60:]) == crc32.Checksum(own[:60], crcTable)
}

// newSalt draws the salt of a new segment.
func newSalt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return binary.LittleEndian.Uint64(b[:])
}

func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segExt) }
func freeName(number uint64) string    { return fmt.Sprintf("%016x%s", number, freeExt) }
func tmpName(number uint64) string     { return fmt.Sprintf("%016x%s", number, tmpExt) }

// parseName is the inverse of segmentName, freeName and tmpName for ext.
func parseName(name, ext string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, ext)
	if !ok || len(digits) != 16 || strings.ToLower(digits) != digits {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, err == nil
}
