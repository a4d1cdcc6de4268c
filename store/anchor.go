package store

import (
	"errors"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A data directory can be moved away, and another take its place, while a server uses it.
// Open files stay the old ones, but names lead into the new directory: the next segment
// would be made there, and the old directory would miss it. So no name is changed before
// the lock file has turned out to be the one that was locked.

// anchor knows the lock file. The zero value takes everything for it.
type anchor struct {
	fs   vfs.FS
	path string
	lock fileID
}

// fileID tells a file from every other one that is there at the same time.
type fileID struct{ device, number uint64 }

// identity is zero where the file system does not tell.
func identity(info os.FileInfo) fileID {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fileID{uint64(s.Dev), s.Ino}
	}
	return fileID{}
}

// drop takes the file at path for the lock from now on.
func (a *anchor) drop(fs vfs.FS, path string) error {
	info, err := fs.Stat(path)
	if err == nil {
		*a = anchor{fs, path, identity(info)}
	}
	return err
}

// holds fails if the data directory is not where it was any more.
func (a *anchor) holds() error {
	if a.fs == nil {
		return nil
	}
	info, err := a.fs.Stat(a.path)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return errors.New("the data directory has been removed")
	case err == nil && identity(info) != a.lock:
		return errors.New("the data directory has been replaced by another one")
	}
	return nil
}

// anchoredFS changes names as long as the anchor holds. What can be told by looking at
// open files costs nothing more.
type anchoredFS struct {
	vfs.FS
	anchor *anchor
}

// Create implements vfs.FS.
func (f anchoredFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.anchor.holds(); err != nil {
		return nil, err
	}
	return f.FS.Create(name, category)
}

// OpenReadWrite implements vfs.FS. It makes files too.
func (f anchoredFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.anchor.holds(); err != nil {
		return nil, err
	}
	return f.FS.OpenReadWrite(name, category, opts...)
}

// ReuseForWrite implements vfs.FS.
func (f anchoredFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.anchor.holds(); err != nil {
		return nil, err
	}
	return f.FS.ReuseForWrite(oldname, newname, category)
}

// Rename implements vfs.FS.
func (f anchoredFS) Rename(oldname, newname string) error {
	if err := f.anchor.holds(); err != nil {
		return err
	}
	return f.FS.Rename(oldname, newname)
}

// Link implements vfs.FS.
func (f anchoredFS) Link(oldname, newname string) error {
	if err := f.anchor.holds(); err != nil {
		return err
	}
	return f.FS.Link(oldname, newname)
}

// Remove implements vfs.FS.
func (f anchoredFS) Remove(name string) error {
	if err := f.anchor.holds(); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// RemoveAll implements vfs.FS.
func (f anchoredFS) RemoveAll(name string) error {
	if err := f.anchor.holds(); err != nil {
		return err
	}
	return f.FS.RemoveAll(name)
}
