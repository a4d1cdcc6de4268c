package journal

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SegmentInfo describes a segment file.
type SegmentInfo struct {
	Number   uint64
	Name     string // file name
	Size     int64  // of the file, in bytes
	FirstSeq uint64 // number of its first frame; 0 if the header is damaged
	FirstLSN uint64 // LSN of its first record; 0 if the header is damaged
	Err      error  // what is wrong with the header: a *CorruptionError or *format.VersionError
}

// FrameInfo describes a frame.
type FrameInfo struct {
	Segment  uint64 // number of the segment it is in
	Offset   int64  // in the file, in bytes
	Size     int64  // framing and padding included, in bytes
	Seq      uint64 // frame number
	FirstLSN uint64 // LSN of its first record
	Records  int
}

// Record is a record and its place.
type Record struct {
	LSN  uint64
	Kind byte
	Body []byte // may be kept
}

// Visitor says what a [Scan] is to report. Functions that are nil are skipped;
// an error from one ends the scan with that error.
type Visitor struct {
	Segment func(SegmentInfo) error       // each segment, before its neighbours' frames
	Frame   func(FrameInfo) error         // each valid frame, in order
	Record  func(FrameInfo, Record) error // each record of a valid frame, in order
	Damage  func(*CorruptionError) error  // each damage, where it is met
}

// Summary is what a scan has seen.
type Summary struct {
	Segments int
	Spares   int // files kept for reuse
	Frames   uint64
	Records  uint64
	FirstLSN uint64 // of the first record seen, 0 if there was none
	LastLSN  uint64 // of the last record seen, 0 if there was none
	NotedLSN uint64 // up to it the head file says that records were durable, 0 if it does not
	Damages  int
	// End says why reading stopped at EndOffset of the last segment: there is
	// nothing, or the torn remains of a batch that was never acknowledged.
	End       string
	EndOffset int64
}

// Scan reads the journal in dir, damaged parts and given up segments included,
// and writes nothing. Whether a damage matters depends on what is durable
// elsewhere: see [Check]. The error is one of reading or of the visitor, or a
// *format.VersionError. The journal must not be open.
func Scan(fs vfs.FS, dir string, v *Visitor) (Summary, error) {
	if v == nil {
		v = &Visitor{}
	}
	s := scanner{visit: v}
	d := directory{fs: fs, path: dir}
	l, err := list(d)
	if err != nil {
		return s.sum, wrap("scan journal", err)
	}
	s.sum.Segments, s.sum.Spares = len(l.segs), len(l.free)
	for _, seg := range l.segs {
		if err := s.segment(seg); err != nil {
			return s.sum, wrap("scan journal", err)
		}
	}
	if err := l.version(); err != nil {
		return s.sum, wrap("scan journal", err)
	}
	w := walker{dir: d, frame: s.frame, damage: s.damage}
	end, err := w.walk(l.segs)
	s.sum.End, s.sum.EndOffset = end.torn, end.off
	if err != nil {
		return s.sum, wrap("scan journal", err)
	}
	return s.sum, wrap("scan journal", s.head(d, l, end))
}

// Check returns the *CorruptionError or *format.VersionError with which Open would
// refuse the journal, given that the records up to from are durable elsewhere;
// nil if Open would take it. It writes nothing. The journal must not be open.
func Check(fs vfs.FS, dir string, from uint64) error {
	d := directory{fs: fs, path: dir}
	l, err := list(d)
	if err != nil {
		return wrap("check journal", err)
	}
	_, err = recoverChain(d, l, from, nil)
	return wrap("check journal", err)
}

// CheckVersion returns a *format.VersionError if a newer program has written anything
// of the journal in dir; there need not be one. It writes nothing.
func CheckVersion(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	d := directory{fs: fs, path: dir}
	l, err := list(d)
	if err == nil {
		err = l.version()
	}
	if err == nil {
		_, err = readHead(d)
	}
	return wrap("look at the journal's versions", err)
}

// Used reports whether there are files of a journal in dir. An archive that goes
// with it must then be there too.
func Used(fs vfs.FS, dir string) (bool, error) {
	if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	d := directory{fs: fs, path: dir}
	l, err := list(d)
	if err != nil {
		return false, wrap("look for a journal", err)
	}
	note, err := readHead(d)
	return len(l.segs)+len(l.free) > 0 || note.lsn > 0, wrap("look for a journal", err)
}

// wrap adds what was being done to an error.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// scanner turns a walk into calls of a Visitor.
type scanner struct {
	visit *Visitor
	sum   Summary
}

// head compares the note with what was found.
func (s *scanner) head(d directory, l listing, end chainEnd) error {
	note, err := readHead(d)
	if err != nil {
		return err
	}
	s.sum.NotedLSN = note.lsn
	if c := note.check(l, end); c != nil {
		return s.damage(c)
	}
	return nil
}

func (s *scanner) segment(seg segment) error {
	if s.visit.Segment == nil {
		return nil
	}
	return s.visit.Segment(SegmentInfo{
		Number:   seg.number,
		Name:     segmentName(seg.number),
		Size:     seg.size,
		FirstSeq: seg.head.firstSeq,
		FirstLSN: seg.head.firstLSN,
		Err:      seg.bad,
	})
}

func (s *scanner) frame(seg segment, f *frame) error {
	info := FrameInfo{
		Segment:  seg.number,
		Offset:   f.off,
		Size:     f.size(),
		Seq:      f.seq,
		FirstLSN: f.lsn,
		Records:  int(f.count),
	}
	s.sum.Frames++
	s.sum.Records += uint64(f.count)
	if s.sum.FirstLSN == 0 {
		s.sum.FirstLSN = f.lsn
	}
	s.sum.LastLSN = f.lsn + uint64(f.count) - 1
	if s.visit.Frame != nil {
		if err := s.visit.Frame(info); err != nil {
			return err
		}
	}
	if s.visit.Record == nil {
		return nil
	}
	lsn := f.lsn - 1
	_, err := eachRecord(f.payload(), f.count, func(kind byte, body []byte) error {
		lsn++
		return s.visit.Record(info, Record{LSN: lsn, Kind: kind, Body: body})
	})
	return err
}

func (s *scanner) damage(c *CorruptionError) error {
	s.sum.Damages++
	if s.visit.Damage == nil {
		return nil
	}
	return s.visit.Damage(c)
}
