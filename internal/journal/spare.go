package journal

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spare is a file that waits to become a segment. Its content means nothing,
// its name (.free) is durable before it is opened for writing.
type spare struct {
	name string
	size int64 // in bytes, all of it backed by disk space
}

// sparePool is the set of spares. The Journal's mu guards it.
type sparePool struct {
	files []spare
	next  uint64 // number for the next .free or .tmp name
}

// largest is the size of the largest spare in bytes, 0 if there is none.
func (p *sparePool) largest() int64 {
	n := int64(0)
	for _, sp := range p.files {
		n = max(n, sp.size)
	}
	return n
}

// take removes and returns the smallest spare of at least need bytes.
func (p *sparePool) take(need int64) (sp spare, ok bool) {
	best := -1
	for i, f := range p.files {
		if f.size >= need && (best < 0 || f.size < p.files[best].size) {
			best = i
		}
	}
	if best < 0 {
		return spare{}, false
	}
	sp = p.files[best]
	p.files = append(p.files[:best], p.files[best+1:]...)
	return sp, true
}

// number hands out a number for a new file name.
func (p *sparePool) number() uint64 {
	p.next++
	return p.next
}

// Prepare makes sure that a batch with a [Batch.Len] of n bytes can be
// appended without new disk space, and that a next segment is ready. It makes
// at most one file, filled with zeros and synced, and does nothing if a fitting
// one is there. A full disk is an error that matches syscall.ENOSPC; the
// half-made file is removed, the journal is unharmed, and a later call may
// succeed. It may be called from any goroutine; it takes as long as writing a
// segment, so it should not be the committer.
func (j *Journal) Prepare(n int64) error {
	if err := j.usable(); err != nil {
		return err
	}
	if n < 0 || n > maxFrame {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrBatch, n, int64(maxFrame))
	}
	j.mu.Lock()
	need := headerSize + j.carryLen + n
	have := j.pool.largest()
	j.mu.Unlock()
	if have >= need {
		return nil
	}
	sp, err := j.makeSpare(need)
	if err != nil {
		return fmt.Errorf("prepare segment: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pool.files = append(j.pool.files, sp)
	j.updateRoom()
	return nil
}

// takeSpare takes a spare of at least need bytes out of the pool, or makes one.
func (j *Journal) takeSpare(need int64) (spare, error) {
	j.mu.Lock()
	sp, ok := j.pool.take(need)
	j.updateRoom()
	j.mu.Unlock()
	if ok {
		return sp, nil
	}
	return j.makeSpare(need)
}

// makeSpare makes a new spare file of at least need bytes.
func (j *Journal) makeSpare(need int64) (spare, error) {
	j.mu.Lock()
	number := j.pool.number()
	j.mu.Unlock()
	size := roundUp(max(need, j.segmentSize()), pageSize)
	tmp, name := j.dir.file(tmpName(number)), freeName(number)
	if err := writeZeros(j.dir.fs, tmp, size); err != nil {
		return spare{}, errors.Join(err, j.dir.removeIfExists(tmp))
	}
	if err := j.dir.fs.Rename(tmp, j.dir.file(name)); err != nil {
		return spare{}, errors.Join(fmt.Errorf("rename spare: %w", err), j.dir.removeIfExists(tmp))
	}
	return spare{name: name, size: size}, nil
}

// segmentSize is the size for a new segment: what the options say, or less if
// the disk has little space left.
func (j *Journal) segmentSize() int64 {
	avail, ok := j.dir.available()
	if !ok {
		return j.opts.SegmentSize
	}
	size := max(avail/8, smallSegmentSize)
	return min(size&^(pageSize-1), j.opts.SegmentSize)
}

// available is the free space of the file system in bytes, if it tells.
func (d directory) available() (n int64, ok bool) {
	usage, err := d.fs.GetDiskUsage(d.path)
	if err != nil {
		return 0, false // not every file system knows; the options hold then
	}
	return int64(min(usage.AvailBytes, 1<<62)), true
}

// removeIfExists removes a file whose absence is no error.
func (d directory) removeIfExists(path string) error {
	if err := d.fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove file: %w", err)
	}
	return nil
}

// writeZeros makes a file of size bytes of real, synced disk space. Zeros are
// written even where the space can be preallocated: a data sync after writing
// over unwritten extents has to commit metadata, which doubles its cost, and
// not every file system can preallocate.
func writeZeros(fs vfs.FS, path string, size int64) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	if err := fillZeros(f, size); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close file: %w", err)
	}
	return nil
}

func fillZeros(f vfs.File, size int64) error {
	if err := preallocate(f, size); err != nil {
		return fmt.Errorf("preallocate file: %w", err)
	}
	const chunk, perSync = 256 << 10, 4 << 20
	zeros := make([]byte, min(size, chunk))
	for off := int64(0); off < size; {
		n := min(int64(len(zeros)), size-off)
		if _, err := f.WriteAt(zeros[:n], off); err != nil {
			return fmt.Errorf("fill file: %w", err)
		}
		off += n
		// Small portions keep the committer's own syncs short.
		if off%perSync == 0 && off < size {
			if err := f.SyncData(); err != nil {
				return fmt.Errorf("sync file: %w", err)
			}
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync file: %w", err)
	}
	return nil
}

// preallocate reserves space in one piece where the file system can.
func preallocate(f vfs.File, size int64) error {
	for range 100 { // an interrupted fallocate starts over
		err := f.Preallocate(0, size)
		switch {
		case err == nil, errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EINVAL):
			return nil
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
	return nil
}
