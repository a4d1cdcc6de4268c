package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readChunk is how many bytes are read at once, in memory that is not reused:
// a record body that is kept keeps about this much memory alive.
const readChunk = 256 << 10

// frame is a frame as it was read.
type frame struct {
	frameHeader
	off int64  // in the file
	raw []byte // header and payload, without padding
}

func (f *frame) payload() []byte { return f.raw[frameHeaderSize:] }

// copyPadded returns a copy of the frame with its padding.
func (f *frame) copyPadded() []byte {
	b := make([]byte, f.size())
	copy(b, f.raw)
	return b
}

// frameReader reads the frames of one segment in order.
type frameReader struct {
	file io.ReaderAt
	size int64 // of the file, in bytes
	salt uint64

	off int64  // where the next frame is
	seq uint64 // its number
	lsn uint64 // its first record

	buf    []byte // what was read last,
	bufOff int64  // and from where
}

// openFrames opens a segment for reading. The closer is the file.
func openFrames(dir directory, seg segment) (*frameReader, vfs.File, error) {
	f, err := dir.fs.Open(dir.file(segmentName(seg.number)), vfs.SequentialReadsOption)
	if err != nil {
		return nil, nil, fmt.Errorf("open segment: %w", err)
	}
	return newFrameReader(f, seg.size, seg.head), f, nil
}

func newFrameReader(file io.ReaderAt, size int64, h header) *frameReader {
	return &frameReader{file: file, size: size, salt: h.salt, off: headerSize, seq: h.firstSeq, lsn: h.firstLSN}
}

// next reads the next frame. If there is no valid one, bad says why; err is
// only set if reading failed, which says nothing about the frame.
func (r *frameReader) next() (f frame, bad string, err error) {
	if r.off+frameHeaderSize > r.size {
		return frame{}, "no space for a frame", nil
	}
	b, err := r.at(r.off, frameHeaderSize)
	if err != nil {
		return frame{}, "", err
	}
	h, ok := decodeFrameHeader(b, r.salt)
	switch {
	case !ok:
		return frame{}, "no frame header", nil
	case h.seq != r.seq:
		return frame{}, fmt.Sprintf("frame %d where %d was expected", h.seq, r.seq), nil
	case h.lsn != r.lsn:
		return frame{}, fmt.Sprintf("frame starts with record %d where %d was expected", h.lsn, r.lsn), nil
	case r.off+frameHeaderSize+int64(h.length) > r.size:
		return frame{}, "frame reaches beyond the end of the file", nil
	}
	raw, err := r.at(r.off, frameHeaderSize+int64(h.length))
	if err != nil {
		return frame{}, "", err
	}
	f = frame{frameHeader: h, off: r.off, raw: raw}
	if crc32.Checksum(f.payload(), crcTable) != h.payloadCRC {
		return frame{}, "frame payload has a wrong checksum", nil
	}
	if ok, _ := eachRecord(f.payload(), h.count, skipRecord); !ok || h.count == 0 {
		return frame{}, "frame payload is not made of its records", nil
	}
	r.skipTo(f.off+h.size(), h.seq+1, h.lsn+uint64(h.count))
	return f, "", nil
}

func skipRecord(byte, []byte) error { return nil }

// skipTo moves the reader to an offset and says what is expected there.
func (r *frameReader) skipTo(off int64, seq, lsn uint64) { r.off, r.seq, r.lsn = off, seq, lsn }

// at returns n bytes from off, which lie inside the file.
func (r *frameReader) at(off, n int64) ([]byte, error) {
	if i := off - r.bufOff; i >= 0 && i+n <= int64(len(r.buf)) {
		return r.buf[i : i+n : i+n], nil
	}
	buf := make([]byte, max(n, min(readChunk, r.size-off)))
	if err := readFull(r.file, buf, off); err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	r.buf, r.bufOff = buf, off
	return buf[:n:n], nil
}

// later looks behind the reader's place, where no valid frame is, for the
// header of a later frame of the same segment. A frame is only written after
// the ones before it are synced, so such a header, even with a torn payload,
// proves that what is missing here was once durable.
func (r *frameReader) later() (h frameHeader, off int64, found bool, err error) {
	buf := make([]byte, max(frameHeaderSize, min(readChunk, r.size)))
	off = r.off + frameAlign
	for off+frameHeaderSize <= r.size {
		b := buf[:min(int64(len(buf)), r.size-off)]
		if err := readFull(r.file, b, off); err != nil {
			return frameHeader{}, 0, false, fmt.Errorf("read segment: %w", err)
		}
		i := 0
		for ; i+frameHeaderSize <= len(b); i += frameAlign {
			if binary.LittleEndian.Uint32(b[i:]) != frameMarker {
				continue
			}
			if h, ok := decodeFrameHeader(b[i:], r.salt); ok && r.plausible(h) {
				return h, off + int64(i), true, nil
			}
		}
		off += int64(i)
	}
	return frameHeader{}, 0, false, nil
}

// plausible reports whether a frame with this header can follow in this file:
// every frame between takes space, and every frame has a record.
func (r *frameReader) plausible(h frameHeader) bool {
	most := uint64(r.size / frameHeaderSize)
	return h.seq > r.seq && h.seq-r.seq <= most && h.lsn > r.lsn && h.lsn-r.lsn >= h.seq-r.seq
}
