package journal

import (
	"cmp"
	"fmt"
	"slices"
)

// Release says that the records up to and including lsn are durable elsewhere.
// Segments with nothing else in them are kept for reuse, up to Options.MaxFree,
// or removed; the current one stays. It may be called from any goroutine; it
// renames or removes files and syncs the directory if there is any to give up.
// If a file cannot be renamed or removed the journal goes on and a later call
// tries again; a failed sync is final. Within a [Journal.Hold] it is put off.
func (j *Journal) Release(lsn uint64) error {
	if err := j.usable(); err != nil {
		return err
	}
	if j.held(lsn) {
		return nil
	}
	given := j.giveUp(lsn)
	if len(given) == 0 {
		return nil
	}
	kept, failure := j.recycle(given)
	// Only after this may a kept file be written to: before it, the old name
	// could come back with the new content.
	if err := j.dir.sync(); err != nil {
		return j.fail(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pool.files = append(j.pool.files, kept...)
	j.stats.Recycled += uint64(len(kept))
	j.updateRoom()
	if failure != nil {
		return fmt.Errorf("release segments: %w", failure)
	}
	return nil
}

// giveUp takes the segments that are not needed any more off the list: those
// before the one that holds record lsn+1, and those all of whose frames are
// repeated in their successor.
func (j *Journal) giveUp(lsn uint64) []segment {
	j.mu.Lock()
	defer j.mu.Unlock()
	keep := max(0, holderOf(j.segs, lsn))
	var given, live []segment
	for i, seg := range j.segs {
		if i < keep || (i+1 < len(j.segs) && repeated(seg, j.segs[i+1])) {
			given = append(given, seg)
		} else {
			live = append(live, seg)
		}
	}
	j.segs = live
	return given
}

// repeated reports whether next begins with the first frame of seg or before.
func repeated(seg, next segment) bool {
	return seg.bad == nil && next.bad == nil && seg.head.firstSeq >= next.head.firstSeq
}

// holderOf is the index of the segment that holds record lsn+1, or will hold
// it; -1 if there is none. All records in the segments before it are at most
// lsn, whatever state those are in.
func holderOf(segs []segment, lsn uint64) int {
	for i := len(segs) - 1; i >= 0; i-- {
		if segs[i].bad == nil && segs[i].head.firstLSN-1 <= lsn {
			return i
		}
	}
	return -1
}

// recycle renames segments to spares or removes them. What failed goes back on
// the list. The directory is not synced yet.
func (j *Journal) recycle(given []segment) (kept []spare, err error) {
	limit, least := j.keepLimits()
	for i, seg := range given {
		j.mu.Lock()
		wanted := len(j.pool.files)+len(kept) < limit
		sp := spare{name: freeName(j.pool.number()), size: seg.size}
		j.mu.Unlock()
		path := j.dir.file(segmentName(seg.number))
		if wanted && !seg.shared && seg.size >= least && seg.size <= j.opts.SegmentSize {
			if err = j.dir.fs.Rename(path, j.dir.file(sp.name)); err == nil {
				kept = append(kept, sp)
			}
		} else {
			err = j.dir.removeIfExists(path)
		}
		if err != nil {
			j.putBack(given[i:])
			return kept, err
		}
	}
	return kept, nil
}

// keepLimits says how many spares to keep and the least size of one to keep.
// When the disk is nearly full one is enough: others need the space as well.
func (j *Journal) keepLimits() (count int, least int64) {
	count = j.opts.MaxFree
	if avail, ok := j.dir.available(); ok && avail < 2*j.opts.SegmentSize {
		count = min(count, 1)
	}
	return count, j.segmentSize()
}

// putBack returns segments to the list.
func (j *Journal) putBack(segs []segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.segs = append(segs, j.segs...)
	slices.SortFunc(j.segs, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
}
