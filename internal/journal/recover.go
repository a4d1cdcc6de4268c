package journal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"durablestreams/internal/format"
)

// listing is what the directory holds.
type listing struct {
	segs  []segment // by number
	free  []spare   // by name
	tmp   []string  // half-made files
	names uint64    // highest number in a .free or .tmp name
}

// list reads the directory and the header of every segment. It writes nothing.
// A missing directory is an empty one.
func list(dir directory) (listing, error) {
	var l listing
	names, err := dir.fs.List(dir.path)
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("list directory: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := l.add(dir, name); err != nil {
			return l, err
		}
	}
	slices.SortFunc(l.segs, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	return l, nil
}

// add sorts one directory entry. Names that are not the journal's are left
// alone.
func (l *listing) add(dir directory, name string) error {
	if n, ok := parseName(name, segExt); ok {
		seg, err := readHeader(dir, n)
		l.segs = append(l.segs, seg)
		return err
	}
	if n, ok := parseName(name, tmpExt); ok {
		l.tmp, l.names = append(l.tmp, name), max(l.names, n)
		return nil
	}
	n, ok := parseName(name, freeExt)
	if !ok {
		return nil
	}
	info, err := dir.fs.Stat(dir.file(name))
	if err != nil {
		return fmt.Errorf("stat spare: %w", err)
	}
	l.free, l.names = append(l.free, spare{name: name, size: info.Size()}), max(l.names, n)
	return nil
}

// version is the first *format.VersionError among the segments.
func (l *listing) version() error {
	for _, seg := range l.segs {
		if errors.Is(seg.bad, format.ErrNewer) {
			return seg.bad
		}
	}
	return nil
}

// start is the index of the segment to read from: the one that holds record
// from+1. A crash during Release may leave any of the segments before it.
func (l *listing) start(from uint64) (int, error) {
	if i := holderOf(l.segs, from); i >= 0 {
		return i, nil
	}
	if len(l.segs) == 0 {
		return 0, &CorruptionError{LSN: from + 1, Reason: "the journal has no segments"}
	}
	first := l.segs[0]
	if first.bad != nil {
		return 0, first.bad
	}
	return 0, &CorruptionError{Segment: first.number, LSN: from + 1,
		Reason: fmt.Sprintf("gap: the journal begins with record %d", first.head.firstLSN)}
}

// walker goes through the frames of a chain of segments.
type walker struct {
	dir directory
	// frame is called for every valid frame that belongs to the journal.
	frame func(seg segment, f *frame) error
	// damage is called for every damage; an error from it ends the walk, nil
	// goes on behind the damage.
	damage func(*CorruptionError) error
}

// chainEnd is where a walk ended.
type chainEnd struct {
	seq, lsn uint64 // number and first record of the next frame
	off      int64  // where it would be in the last segment
	last     *frame // last frame of the last segment, nil if that has none
	torn     string // why nothing valid is there
}

// walk visits the frames of segs, oldest first.
func (w *walker) walk(segs []segment) (chainEnd, error) {
	var end chainEnd
	for i, seg := range segs {
		if seg.bad != nil {
			if err := w.report(seg.bad, end.lsn); err != nil {
				return end, err
			}
			end = chainEnd{} // where the next segment should begin is unknown
			continue
		}
		if err := w.checkLink(seg, end); err != nil {
			return end, err
		}
		var next *header
		if i+1 < len(segs) && segs[i+1].bad == nil {
			next = &segs[i+1].head
		}
		var err error
		if end, err = w.segment(seg, next); err != nil {
			return end, err
		}
	}
	return end, nil
}

// report passes the damage of a header on, with the record it hides.
func (w *walker) report(bad error, lsn uint64) error {
	c, ok := errors.AsType[*CorruptionError](bad)
	if !ok {
		return bad
	}
	return w.damage(&CorruptionError{Segment: c.Segment, Offset: c.Offset, LSN: lsn, Reason: c.Reason})
}

// checkLink checks that seg goes on where the segments before it ended. Frames
// that the two share count once: see chainEnd in segment.
func (w *walker) checkLink(seg segment, end chainEnd) error {
	if end.seq == 0 || (seg.head.firstSeq == end.seq && seg.head.firstLSN == end.lsn) {
		return nil
	}
	return w.damage(&CorruptionError{Segment: seg.number, LSN: end.lsn, Reason: fmt.Sprintf(
		"gap: segment begins with frame %d, record %d where frame %d, record %d was expected",
		seg.head.firstSeq, seg.head.firstLSN, end.seq, end.lsn)})
}

// segment visits the frames of one segment, up to the first frame of the next
// one, which may repeat the last frame of this one.
func (w *walker) segment(seg segment, next *header) (chainEnd, error) {
	r, file, err := openFrames(w.dir, seg)
	if err != nil {
		return chainEnd{}, err
	}
	defer file.Close()
	var last *frame
	for next == nil || r.seq < next.firstSeq {
		f, bad, err := r.next()
		if err != nil {
			return chainEnd{}, err
		}
		if bad == "" {
			last = &f
			if err := w.frame(seg, &f); err != nil {
				return chainEnd{}, err
			}
			continue
		}
		more, err := w.invalid(seg, r, bad, next)
		if err != nil {
			return chainEnd{}, err
		}
		if !more {
			return r.end(last, bad), nil
		}
	}
	return r.end(last, ""), nil
}

func (r *frameReader) end(last *frame, torn string) chainEnd {
	return chainEnd{seq: r.seq, lsn: r.lsn, off: r.off, last: last, torn: torn}
}

// invalid decides what an invalid frame at the reader's place means: the end,
// or damage if anything later is there. After damage that the walk survives,
// more says that the reader has found a later frame to go on with.
func (w *walker) invalid(seg segment, r *frameReader, bad string, next *header) (more bool, err error) {
	h, off, found, err := r.later()
	if err != nil {
		return false, err
	}
	reason := ""
	switch {
	case found:
		reason = fmt.Sprintf("%s, but frame %d follows at offset %d", bad, h.seq, off)
	case next != nil:
		reason = fmt.Sprintf("%s, but the next segment begins with frame %d", bad, next.firstSeq)
		if next.number != seg.number+1 {
			reason = "gap: " + reason
		}
	default:
		return false, nil
	}
	err = w.damage(&CorruptionError{Segment: seg.number, Offset: r.off, LSN: r.lsn, Reason: reason})
	if err != nil {
		return false, err
	}
	if found {
		r.skipTo(off, h.seq, h.lsn)
	}
	return found, nil
}
