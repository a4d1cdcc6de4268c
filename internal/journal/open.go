package journal

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Replay is called by [Open] for a record. The body may be kept: its memory is
// not reused (though keeping one body keeps some 256 KiB around it alive).
type Replay func(lsn uint64, kind byte, body []byte) error

// Open opens the journal in dir, making the directory if there is none (its
// parent must exist), and calls replay in order for every record above from.
// The caller says with from that all records up to it are durable elsewhere;
// their segments are given up, as by Release. A nil opts means the defaults, a
// nil replay ignores the records.
//
// When Open returns, everything replayed is durable, also what a killed process
// had written but not synced. Until then replay must not act on it outside of
// memory. An error of replay ends Open with that error.
//
// A journal that cannot be trusted is refused with a [*CorruptionError] (see
// [Repair]) or a [*format.VersionError]. A full disk is not an error: the journal opens
// with no Room and takes batches when there is space again.
func Open(fs vfs.FS, dir string, opts *Options, from uint64, replay Replay) (*Journal, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	j := &Journal{dir: directory{fs: fs, path: dir}, opts: opts.withDefaults()}
	if err := j.open(from, replay); err != nil {
		_ = j.Close()
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return j, nil
}

func (j *Journal) open(from uint64, replay Replay) error {
	if err := j.dir.fs.MkdirAll(j.dir.path, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	var err error
	if j.dir.handle, err = j.dir.fs.OpenDir(j.dir.path); err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	l, err := list(j.dir)
	if err != nil {
		return err
	}
	end, err := recoverChain(j.dir, l, from, replay)
	if err != nil {
		return err
	}
	if err := j.settle(l, end); err != nil {
		return err
	}
	if err := j.openHead(); err != nil {
		return err
	}
	// Given up segments first: a full disk may have no other file to go on with.
	if err := j.Release(from); err != nil {
		return err
	}
	if err := j.roll(0); err != nil && !isNoSpace(err) {
		return err
	}
	return j.Release(from)
}

// recoverChain finds the segments that hold records above from, checks them
// and replays them. It writes nothing. The end is also given with the error that
// the journal ends before from.
func recoverChain(dir directory, l listing, from uint64, replay Replay) (chainEnd, error) {
	if err := l.version(); err != nil {
		return chainEnd{}, err
	}
	head, err := readHead(dir)
	if err != nil {
		return chainEnd{}, err
	}
	if len(l.segs) == 0 && from == 0 && head == (headNote{}) {
		return chainEnd{seq: 1, lsn: 1}, nil
	}
	start, err := l.start(from)
	if err != nil {
		return chainEnd{}, err
	}
	w := walker{
		dir:    dir,
		frame:  func(_ segment, f *frame) error { return f.replay(from, replay) },
		damage: func(c *CorruptionError) error { return c },
	}
	end, err := w.walk(l.segs[start:])
	if err != nil {
		return chainEnd{}, err
	}
	if end.lsn <= from {
		last := l.segs[len(l.segs)-1]
		return end, &CorruptionError{Segment: last.number, Offset: end.off, LSN: end.lsn, ends: true,
			Reason: fmt.Sprintf("the journal ends, but once held record %d", from)}
	}
	if c := head.check(l, end); c != nil {
		return end, c
	}
	return end, nil
}

// replay passes the frame's records above from on.
func (f *frame) replay(from uint64, replay Replay) error {
	if replay == nil || f.lsn+uint64(f.count)-1 <= from {
		return nil
	}
	lsn := f.lsn - 1
	_, err := eachRecord(f.payload(), f.count, func(kind byte, body []byte) error {
		if lsn++; lsn <= from {
			return nil
		}
		return replay(lsn, kind, body)
	})
	return err
}

// settle makes durable what recovery has read and fills in the journal's state.
func (j *Journal) settle(l listing, end chainEnd) error {
	for _, name := range l.tmp {
		if err := j.dir.removeIfExists(j.dir.file(name)); err != nil {
			return err
		}
	}
	// The directory first: the rename that made a spare may not be durable, and
	// writing into the file would then change a segment that comes back.
	if err := j.dir.sync(); err != nil {
		return err
	}
	if len(l.segs) == 0 {
		if err := syncDir(j.dir.fs, j.dir.fs.PathDir(j.dir.path)); err != nil {
			return err
		}
	} else if err := j.syncSegment(l.segs[len(l.segs)-1]); err != nil {
		return err
	}
	if err := j.adoptSpares(l); err != nil {
		return err
	}
	j.adopt(l, end)
	return nil
}

// syncSegment makes what was read from the last segment durable. The last
// frame is also written again, into the next segment: if a sync failed before,
// the system may have it in memory only and yet call it clean.
func (j *Journal) syncSegment(seg segment) error {
	f, err := j.dir.fs.OpenReadWrite(j.dir.file(segmentName(seg.number)), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	if err := f.SyncData(); err != nil {
		_ = f.Close()
		return fmt.Errorf("sync segment: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close segment: %w", err)
	}
	return nil
}

// adoptSpares takes over the spares of an earlier life, as far as they are of
// use, and removes the others.
func (j *Journal) adoptSpares(l listing) error {
	j.pool.next = l.names
	limit := max(j.opts.MaxFree, 1)
	for _, sp := range l.free {
		if len(j.pool.files) < limit && sp.size >= minSegmentSize && sp.size <= j.opts.SegmentSize {
			j.pool.files = append(j.pool.files, sp)
			continue
		}
		if err := j.dir.removeIfExists(j.dir.file(sp.name)); err != nil {
			return err
		}
	}
	return nil
}

// adopt fills in where the journal goes on.
func (j *Journal) adopt(l listing, end chainEnd) {
	j.segs = l.segs
	j.nextSeq = end.seq
	j.last.Store(end.lsn - 1)
	if n := len(l.segs); n > 0 {
		j.number = l.segs[n-1].number
	}
	if end.last != nil {
		j.carry = end.last.copyPadded()
		j.carryLen = int64(len(j.carry))
	}
	j.updateRoom()
}
