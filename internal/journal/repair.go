package journal

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Cut is a piece that Repair has taken out of the journal.
type Cut struct {
	Segment uint64 // number of the segment
	Offset  int64  // the file's bytes from here on are out of the journal
	Size    int64  // size of the file before, in bytes
	SavedAs string // name of the file, in the same directory, with the whole old content
}

// Repair makes a damaged journal openable, given that the records up to from
// are durable elsewhere: it cuts the journal at the first damage above them and
// sets everything behind aside in files called *.damaged; it deletes nothing.
// Records behind the damage are lost to the journal, so it is for an operator
// to decide. It returns what was cut, nothing if the journal is sound.
//
// A crash during Repair leaves a journal that is either still refused or
// repaired. The journal must not be open.
func Repair(fs vfs.FS, dir string, from uint64) ([]Cut, error) {
	if err := CheckVersion(fs, dir); err != nil {
		return nil, fmt.Errorf("repair journal: %w", err)
	}
	r := repair{dir: directory{fs: fs, path: dir}, from: from}
	for {
		again, err := r.step()
		if err != nil {
			return r.cuts, fmt.Errorf("repair journal: %w", err)
		}
		if !again {
			return r.cuts, nil
		}
	}
}

// repair is a Repair in progress. Every step removes a segment from the
// journal, shortens the last one, or adds one that makes the journal sound.
type repair struct {
	dir  directory
	from uint64
	cuts []Cut
}

// step cuts at the first damage; again is false if there was none.
func (r *repair) step() (again bool, err error) {
	l, err := list(r.dir)
	if err != nil {
		return false, err
	}
	end, err := recoverChain(r.dir, l, r.from, nil)
	if err == nil {
		return false, nil
	}
	c, ok := errors.AsType[*CorruptionError](err)
	if !ok {
		return false, err
	}
	if c.head {
		return true, r.forgetHead(l, end)
	}
	if c.ends || len(l.segs) == 0 {
		return true, r.begin(l, end)
	}
	return true, r.cut(l, c)
}

// cut takes what is at and behind the damage c out of the journal. The newest
// segment goes first and the damaged one last, so that a crash in between
// leaves the damage in sight.
func (r *repair) cut(l listing, c *CorruptionError) error {
	for i := len(l.segs) - 1; l.segs[i].number > c.Segment; i-- {
		if err := r.setAside(l.segs[i]); err != nil {
			return err
		}
	}
	for _, seg := range l.segs {
		if seg.number != c.Segment {
			continue
		}
		if c.Offset == 0 {
			return r.setAside(seg)
		}
		return r.shorten(seg, c.Offset)
	}
	return fmt.Errorf("find segment %s: %w", segmentName(c.Segment), os.ErrNotExist)
}

// forgetHead takes the note of what is lost away, after the end of the journal, where
// there may be remains of it, was saved.
func (r *repair) forgetHead(l listing, end chainEnd) error {
	if n := len(l.segs); n > 0 && end.off < l.segs[n-1].size {
		if err := r.shorten(l.segs[n-1], end.off); err != nil {
			return err
		}
	}
	if err := r.dir.removeIfExists(r.dir.file(headName)); err != nil {
		return err
	}
	return r.dir.sync()
}

// setAside renames a whole segment.
func (r *repair) setAside(seg segment) error {
	saved, err := r.freshName(seg.number)
	if err != nil {
		return err
	}
	if err := r.dir.fs.Rename(r.dir.file(segmentName(seg.number)), r.dir.file(saved)); err != nil {
		return fmt.Errorf("rename segment: %w", err)
	}
	r.cuts = append(r.cuts, Cut{Segment: seg.number, Size: seg.size, SavedAs: saved})
	return r.dir.sync()
}

// shorten replaces a segment by its first size bytes, and keeps the old file.
func (r *repair) shorten(seg segment, size int64) error {
	saved, err := r.freshName(seg.number)
	if err != nil {
		return err
	}
	name, tmp := r.dir.file(segmentName(seg.number)), r.dir.file(tmpName(seg.number))
	if err := r.copyPrefix(name, tmp, size); err != nil {
		return err
	}
	if err := vfs.LinkOrCopy(r.dir.fs, name, r.dir.file(saved)); err != nil {
		return fmt.Errorf("save segment: %w", err)
	}
	if err := r.dir.sync(); err != nil {
		return err
	}
	if err := r.dir.fs.Rename(tmp, name); err != nil {
		return fmt.Errorf("rename segment: %w", err)
	}
	r.cuts = append(r.cuts, Cut{Segment: seg.number, Offset: size, Size: seg.size, SavedAs: saved})
	return r.dir.sync()
}

// copyPrefix makes a synced copy of the first size bytes of a file.
func (r *repair) copyPrefix(from, to string, size int64) error {
	src, err := r.dir.fs.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer src.Close()
	content := make([]byte, size)
	if err := readFull(src, content, 0); err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	return r.writeFile(to, content)
}

// writeFile makes a synced file.
func (r *repair) writeFile(path string, content []byte) error {
	f, err := r.dir.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return errors.Join(fmt.Errorf("write file: %w", err), f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync file: %w", err), f.Close())
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close file: %w", err)
	}
	return nil
}

// begin adds an empty segment that begins with record from+1, for a journal
// that ends before it.
func (r *repair) begin(l listing, end chainEnd) error {
	h := header{number: 1, salt: newSalt(), firstSeq: 1, firstLSN: r.from + 1}
	if n := len(l.segs); n > 0 {
		h.number, h.firstSeq = l.segs[n-1].number+1, end.seq+1
	}
	if err := r.dir.fs.MkdirAll(r.dir.path, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	tmp := r.dir.file(tmpName(h.number))
	if err := r.writeFile(tmp, h.encode()); err != nil {
		return err
	}
	if err := r.dir.fs.Rename(tmp, r.dir.file(segmentName(h.number))); err != nil {
		return fmt.Errorf("rename segment: %w", err)
	}
	return r.dir.sync()
}

// freshName is a name ending in .damaged that is not in use.
func (r *repair) freshName(number uint64) (string, error) {
	for i := 0; ; i++ {
		name := segmentName(number) + damagedExt
		if i > 0 {
			name = fmt.Sprintf("%s.%d%s", segmentName(number), i, damagedExt)
		}
		_, err := r.dir.fs.Stat(r.dir.file(name))
		if errors.Is(err, os.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", fmt.Errorf("stat file: %w", err)
		}
	}
}
