package journal

import (
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// segment is a segment file as the directory shows it.
type segment struct {
	number uint64
	size   int64  // of the file, in bytes
	head   header // zero if bad is set
	bad    error  // a *CorruptionError or *format.VersionError of the header
	shared bool   // a picture has it: its file is not written again
}

// segmentWriter appends frames to the current segment.
type segmentWriter struct {
	file vfs.File
	salt uint64
	off  int64 // where the next frame goes
	size int64 // of the file, in bytes
}

// left is how many bytes of frames still fit.
func (w *segmentWriter) left() int64 { return w.size - w.off }

// write appends a frame and makes it durable with one write and one sync.
func (w *segmentWriter) write(frame []byte) error {
	if _, err := w.file.WriteAt(frame, w.off); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	if err := w.file.SyncData(); err != nil {
		return fmt.Errorf("sync frame: %w", err)
	}
	w.off += int64(len(frame))
	return nil
}

func (w *segmentWriter) close() error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("close segment: %w", err)
	}
	return nil
}

// activate turns a spare file into the segment of h that begins with the frame
// first, which may be empty. The order is what makes crashes harmless: the
// content is durable before the file gets its segment name, and the name is
// durable before activate returns.
func activate(dir directory, sp spare, h header, first []byte) (*segmentWriter, error) {
	from, to := dir.file(sp.name), dir.file(segmentName(h.number))
	f, err := dir.fs.OpenReadWrite(from, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("open spare: %w", err)
	}
	w := &segmentWriter{file: f, salt: h.salt, size: sp.size}
	if err := w.write(append(h.encode(), first...)); err != nil {
		_ = f.Close()
		return nil, err
	}
	if err := dir.fs.Rename(from, to); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("rename spare: %w", err)
	}
	if err := dir.sync(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return w, nil
}

// readHeader reads the header of segment number. The error is one of reading;
// what is wrong with the header itself is in the segment.
func readHeader(dir directory, number uint64) (segment, error) {
	seg := segment{number: number}
	f, err := dir.fs.Open(dir.file(segmentName(number)))
	if err != nil {
		return seg, fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return seg, fmt.Errorf("stat segment: %w", err)
	}
	seg.size = info.Size()
	b := make([]byte, min(seg.size, headerSize))
	if err := readFull(f, b, 0); err != nil {
		return seg, fmt.Errorf("read segment header: %w", err)
	}
	seg.head, seg.bad = decodeHeader(b, number)
	return seg, nil
}

// readFull fills b from offset off.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
