package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// frameHeader is the content of a frame header.
type frameHeader struct {
	length     uint32 // bytes of payload
	seq        uint64 // frame number, contiguous over all segments
	lsn        uint64 // LSN of the first record
	count      uint32 // records in the payload, at least 1
	payloadCRC uint32 // CRC-32C of the payload
}

// size is the space the frame takes in the file, padding included.
func (h frameHeader) size() int64 { return frameSize(int64(h.length)) }

// frameSize is the space of a frame with a payload of n bytes.
func frameSize(n int64) int64 { return roundUp(frameHeaderSize+n, frameAlign) }

// put writes the header into the first 40 bytes of b, sealed with salt.
func (h frameHeader) put(b []byte, salt uint64) {
	binary.LittleEndian.PutUint32(b[0:], frameMarker)
	binary.LittleEndian.PutUint32(b[4:], h.length)
	binary.LittleEndian.PutUint64(b[8:], h.seq)
	binary.LittleEndian.PutUint64(b[16:], h.lsn)
	binary.LittleEndian.PutUint32(b[24:], h.count)
	binary.LittleEndian.PutUint32(b[28:], h.payloadCRC)
	binary.LittleEndian.PutUint32(b[32:], 0)
	binary.LittleEndian.PutUint32(b[36:], frameHeaderCRC(b, salt))
}

// readFrameHeader reads the fields without checking anything.
func readFrameHeader(b []byte) frameHeader {
	return frameHeader{
		length:     binary.LittleEndian.Uint32(b[4:]),
		seq:        binary.LittleEndian.Uint64(b[8:]),
		lsn:        binary.LittleEndian.Uint64(b[16:]),
		count:      binary.LittleEndian.Uint32(b[24:]),
		payloadCRC: binary.LittleEndian.Uint32(b[28:]),
	}
}

// decodeFrameHeader reads a header that was sealed with salt; ok is false for
// anything else.
func decodeFrameHeader(b []byte, salt uint64) (h frameHeader, ok bool) {
	if len(b) < frameHeaderSize || binary.LittleEndian.Uint32(b) != frameMarker {
		return frameHeader{}, false
	}
	if binary.LittleEndian.Uint32(b[36:]) != frameHeaderCRC(b, salt) {
		return frameHeader{}, false
	}
	return readFrameHeader(b), true
}

// frameHeaderCRC covers the salt and the header before the checksum itself,
// and through the payload's checksum the payload.
func frameHeaderCRC(b []byte, salt uint64) uint32 {
	var s [8]byte
	binary.LittleEndian.PutUint64(s[:], salt)
	return crc32.Update(crc32.Checksum(s[:], crcTable), crcTable, b[:36])
}

// restamp seals a copied frame with another segment's salt.
func restamp(frame []byte, salt uint64) frameHeader {
	h := readFrameHeader(frame)
	h.put(frame, salt)
	return h
}

// eachRecord calls visit for the records of a payload, which must be exactly
// count. A false result means that the payload is not made of records. The
// bodies are slices of payload with no spare capacity.
func eachRecord(payload []byte, count uint32, visit func(kind byte, body []byte) error) (ok bool, err error) {
	for range count {
		if len(payload) < recordHeaderSize {
			return false, nil
		}
		n := binary.LittleEndian.Uint32(payload)
		kind, rest := payload[4], payload[recordHeaderSize:]
		if uint64(n) > uint64(len(rest)) {
			return false, nil
		}
		if err := visit(kind, rest[:n:n]); err != nil {
			return true, err
		}
		payload = rest[n:]
	}
	return len(payload) == 0, nil
}
