package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/archive"
	"durablestreams/internal/journal"
)

// picturesDir is where a running engine keeps its pictures, in the data directory.
const picturesDir = "pictures"

// Picture is a data directory as of one moment, with everything in it that was
// acknowledged before it was asked for: whole commit batches, up to one of them. Copied
// into an empty directory its files are what [Open] opens. It may be used by one
// goroutine at a time, and must be closed: until then it keeps the space of files that
// the engine has let go of.
type Picture struct {
	Files      []PictureFile // in the order of their names
	LastRecord uint64        // the journal's last record in it

	fs     vfs.FS
	dir    string
	closed bool
	leave  func(*Picture) error
}

// PictureFile is one file of a picture.
type PictureFile struct {
	Name    string // in the data directory, with slashes
	Size    int64  // in bytes
	Lasting bool   // while the engine is open no other content has this name
}

// pictures are those that are open.
type pictures struct {
	mu     sync.Mutex
	closed bool
	next   int
	open   map[*Picture]bool
	making sync.WaitGroup
}

// Picture takes a picture. Reads, changes and flushes go on meanwhile; journal segments
// are kept until it has been taken. It fails with a [*stream.Error]: stream.DiskFull on a
// full disk, stream.ShuttingDown once the engine has closed, stream.Internal if it has failed; or
// with an error of the file system.
func (e *Engine) Picture(ctx context.Context) (*Picture, error) {
	switch {
	case e.failed() != nil:
		return nil, e.failed()
	case e.closing.Load():
		return nil, errClosing
	case e.space.full():
		return nil, diskFull()
	}
	p := &Picture{fs: e.fs, leave: e.pictures.remove}
	if err := e.pictures.begin(p, e.fs.PathJoin(e.dir, picturesDir)); err != nil {
		return nil, err
	}
	if err := e.take(ctx, p); err != nil {
		return nil, errors.Join(fmt.Errorf("take a picture: %w", err), p.Close())
	}
	return p, nil
}

// begin gives a picture its directory.
func (s *pictures) begin(p *Picture, dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosing
	}
	s.next++
	p.dir = p.fs.PathJoin(dir, strconv.Itoa(s.next))
	if s.open == nil {
		s.open = map[*Picture]bool{}
	}
	s.open[p] = true
	s.making.Add(1)
	return nil
}

// take fills a picture. The order is what makes it whole: the journal is held before the
// archive is looked at, so it has all that the archive's header does not tell, and it is
// looked at after the archive, so it has all that the archive's rows tell.
func (e *Engine) take(ctx context.Context, p *Picture) (err error) {
	defer e.pictures.making.Done()
	release := e.journal.Hold()
	defer func() { err = errors.Join(err, release()) }()
	to := p.fs.PathJoin(p.dir, journalDir)
	if err := p.fs.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := e.archive.Picture(p.fs.PathJoin(p.dir, archiveDir)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	files, last, err := e.journal.Picture(to)
	if errors.Is(err, journal.ErrFailed) {
		e.fail(err)
	}
	if err != nil {
		return err
	}
	names, err := archive.PictureOf(p.fs, p.fs.PathJoin(p.dir, archiveDir))
	if err != nil {
		return err
	}
	return p.list(names, files, last)
}

// list fills in the files.
func (p *Picture) list(archived []string, journaled []journal.PictureFile, last uint64) error {
	p.LastRecord = last
	for _, name := range archived {
		info, err := p.fs.Stat(p.fs.PathJoin(p.dir, archiveDir, name))
		if err != nil {
			return err
		}
		p.Files = append(p.Files, PictureFile{Name: archiveDir + "/" + name, Size: info.Size(), Lasting: archive.Lasting(name)})
	}
	for _, f := range journaled {
		p.Files = append(p.Files, PictureFile{Name: journalDir + "/" + f.Name, Size: f.Size})
	}
	slices.SortFunc(p.Files, func(a, b PictureFile) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Open opens a file for reading, as far as it belongs to the picture.
func (p *Picture) Open(f PictureFile) (io.ReadCloser, error) {
	file, err := p.fs.Open(p.fs.PathJoin(p.dir, f.Name), vfs.SequentialReadsOption)
	if err != nil {
		return nil, fmt.Errorf("read a picture: %w", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(file, f.Size), file}, nil
}

// Close lets the picture's files go. It is idempotent.
func (p *Picture) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	return p.leave(p)
}

// remove takes a picture off the disk, unless the engine has done so.
func (s *pictures) remove(p *Picture) error {
	s.mu.Lock()
	_, open := s.open[p]
	delete(s.open, p)
	s.mu.Unlock()
	if !open {
		return nil
	}
	return p.fs.RemoveAll(p.dir)
}

// close takes all pictures off the disk: who reads one of them fails at its next file.
func (s *pictures) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.making.Wait()
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	var errs []error
	for p := range open {
		errs = append(errs, p.fs.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}

// dropPictures removes what an engine has left that did not come to its end.
func dropPictures(fs vfs.FS, dir string) error {
	if err := fs.RemoveAll(fs.PathJoin(dir, picturesDir)); err != nil {
		return fmt.Errorf("remove old pictures: %w", err)
	}
	return nil
}

// PictureOf gives the picture of a data directory that no server is using, which is
// locked until the picture is closed. It writes nothing. Damage is refused with
// [ErrDamaged].
func PictureOf(fs vfs.FS, dir string) (p *Picture, err error) {
	lock, err := lockToLook(fs, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p, err = nil, errors.Join(asDamage(err), lock.Close())
		}
	}()
	if _, begun, err := readPlan(fs, dir); err != nil || begun {
		return nil, errors.Join(ErrRepairing, err)
	}
	e, done, err := openToLook(fs, dir)
	if err != nil {
		return nil, err
	}
	applied := e.archive.Applied()
	if err := done(); err != nil {
		return nil, err
	}
	p = &Picture{fs: fs, dir: dir, leave: func(*Picture) error { return lock.Close() }}
	files, last, err := journal.PictureOf(fs, fs.PathJoin(dir, journalDir), applied)
	if err != nil {
		return nil, err
	}
	names, err := archive.PictureOf(fs, fs.PathJoin(dir, archiveDir))
	if err != nil {
		return nil, err
	}
	return p, p.list(names, files, last)
}

// restoreFile stands in a data directory for as long as it is being restored.
const restoreFile = "RESTORE"

// ErrRestoring says that a data directory was being restored and not all of it is there.
var ErrRestoring = errors.New("a restore of this data directory has not ended: remove the directory and restore again")

// BeginRestore makes a data directory that nothing but [Picture]'s files are to be put
// into, and marks it: until [EndRestore] nobody opens it. The directory must be empty or
// not be there.
func BeginRestore(fs vfs.FS, dir string) error {
	if err := makeDir(fs, dir); err != nil {
		return fmt.Errorf("begin restore: %w", err)
	}
	if err := Restoring(fs, dir); err != nil {
		return err
	}
	names, err := fs.List(dir)
	if err != nil {
		return fmt.Errorf("begin restore: %w", err)
	}
	if len(names) > 0 {
		return fmt.Errorf("begin restore: %s is not empty", dir)
	}
	f, err := fs.Create(fs.PathJoin(dir, restoreFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("begin restore: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close(), syncDir(fs, dir)); err != nil {
		return fmt.Errorf("begin restore: %w", err)
	}
	return nil
}

// EndRestore says that everything has been put into a data directory, durably.
func EndRestore(fs vfs.FS, dir string) error {
	if err := removeSynced(fs, dir, restoreFile); err != nil {
		return fmt.Errorf("end restore: %w", err)
	}
	return nil
}

// Restoring fails with [ErrRestoring] if a restore of a directory has not ended.
func Restoring(fs vfs.FS, dir string) error {
	_, err := fs.Stat(fs.PathJoin(dir, restoreFile))
	switch {
	case err == nil:
		return ErrRestoring
	case errors.Is(err, os.ErrNotExist):
		return nil
	}
	return fmt.Errorf("look for a restore: %w", err)
}
