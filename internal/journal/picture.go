package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// PictureFile is a file of a picture: the first Size bytes of what stands under Name.
// What follows them belongs to the journal that goes on.
type PictureFile struct {
	Name string
	Size int64
}

// Hold lets no segment go until the function that it gives is called: what records are
// there now, and come, stay. That function gives up what was released meanwhile, with the
// errors of [Journal.Release]; it must be called once. Holds may overlap. It may be called
// from any goroutine.
func (j *Journal) Hold() (release func() error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.holds++
	return func() error {
		j.mu.Lock()
		j.holds--
		lsn, again := j.heldBack, j.holds == 0 && j.heldBack > 0
		if again {
			j.heldBack = 0
		}
		j.mu.Unlock()
		if !again {
			return nil
		}
		return j.Release(lsn)
	}
}

// held reports whether segments must stay, and remembers to let them go later.
func (j *Journal) held(lsn uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.holds == 0 {
		return false
	}
	j.heldBack = max(j.heldBack, lsn)
	return true
}

// Picture puts the journal as it is now into the directory to, which must be there, empty
// and on the same file system: every record up to last, in whole frames. Segments are linked
// where the file system can, so the files are only to be read, and no more of them than
// their size says. A segment that was linked is never written anew: when the journal
// lets go of it, its file is removed. It may be called from any goroutine, within a [Journal.Hold].
// Nothing is synced.
func (j *Journal) Picture(to string) (files []PictureFile, last uint64, err error) {
	if err := j.usable(); err != nil {
		return nil, 0, err
	}
	segs, last := j.share()
	fs := j.dir.fs
	for _, seg := range segs {
		name := segmentName(seg.number)
		if err := vfs.LinkOrCopy(fs, j.dir.file(name), fs.PathJoin(to, name)); err != nil {
			return nil, 0, fmt.Errorf("picture of segment: %w", err)
		}
		files = append(files, PictureFile{Name: name, Size: seg.size})
	}
	if len(segs) == 0 {
		return nil, last, nil
	}
	note := headNote{count: 1, segment: segs[len(segs)-1].number, lsn: last}
	if err := writeHead(fs, fs.PathJoin(to, headName), note); err != nil {
		return nil, 0, err
	}
	return append(files, PictureFile{Name: headName, Size: headSize}), last, nil
}

// share gives the segments that there are, the newest one only as far as it is written,
// and the last record in them. From now on they are not used again.
func (j *Journal) share() (segs []segment, last uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.segs {
		j.segs[i].shared = true
		segs = append(segs, j.segs[i])
	}
	if n := len(segs); n > 0 {
		segs[n-1].size -= j.left // 0 if nothing is appended to it any more
	}
	return segs, j.last.Load()
}

// writeHead makes a head file with one note.
func writeHead(fs vfs.FS, path string, n headNote) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make head: %w", err)
	}
	b := make([]byte, headSize)
	copy(b[n.count%2*headSpace:], n.encode())
	if _, err := f.Write(b); err != nil {
		return errors.Join(fmt.Errorf("make head: %w", err), f.Close())
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("make head: %w", err)
	}
	return nil
}

// PictureOf says which files of a journal that nobody has open make up its picture: every
// record above from, up to last. It writes nothing. Damage is a [*CorruptionError].
func PictureOf(fs vfs.FS, path string, from uint64) (files []PictureFile, last uint64, err error) {
	dir := directory{fs: fs, path: path}
	l, err := list(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("picture of journal: %w", err)
	}
	end, err := recoverChain(dir, l, from, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("picture of journal: %w", err)
	}
	if len(l.segs) == 0 {
		return nil, 0, nil
	}
	start, err := l.start(from)
	if err != nil {
		return nil, 0, fmt.Errorf("picture of journal: %w", err)
	}
	for _, seg := range l.segs[start:] {
		files = append(files, PictureFile{Name: segmentName(seg.number), Size: seg.size})
	}
	files[len(files)-1].Size = end.off
	if info, err := fs.Stat(dir.file(headName)); err == nil {
		files = append(files, PictureFile{Name: headName, Size: info.Size()})
	}
	return files, end.lsn - 1, nil
}
