// Package memfs is a file system in memory that has a size: beyond it a write finds no
// space, as on a full disk. It keeps nothing and syncs nothing. It may be used by many
// goroutines.
package memfs

import (
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system. Its files are those of a vfs.MemFS; what is here counts
// their bytes.
type FS struct {
	vfs.FS
	limit int64

	mu    sync.Mutex
	used  int64
	files map[string]*content
}

// content is the size of what stands in one file.
type content struct {
	size  int64
	names int // it counts as long as it has one
}

// New gives an empty file system for so many bytes.
func New(limit int64) *FS {
	return &FS{FS: vfs.NewMem(), limit: limit, files: map[string]*content{}}
}

// GetDiskUsage implements vfs.FS.
func (s *FS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return vfs.DiskUsage{AvailBytes: uint64(max(s.limit-s.used, 0)), TotalBytes: uint64(s.limit), UsedBytes: uint64(s.used)}, nil
}

// forget takes a name away, and all below it. The caller holds mu.
func (s *FS) forget(name string) {
	for path, c := range s.files {
		if path == name || strings.HasPrefix(path, name+"/") {
			if c.names--; c.names == 0 {
				s.used -= c.size
			}
			delete(s.files, path)
		}
	}
}

// Create implements vfs.FS.
func (s *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	s.forget(name)
	return s.file(name, f), nil
}

// OpenReadWrite implements vfs.FS.
func (s *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.FS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	return s.file(name, f), nil
}

// file gives a file that counts what is written. The caller holds mu.
func (s *FS) file(name string, f vfs.File) *file {
	c := s.files[name]
	if c == nil {
		c = &content{names: 1}
		s.files[name] = c
	}
	return &file{File: f, fs: s, content: c}
}

// Link implements vfs.FS.
func (s *FS) Link(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.FS.Link(from, to); err != nil {
		return err
	}
	if c := s.files[from]; c != nil {
		c.names++
		s.files[to] = c
	}
	return nil
}

// ReuseForWrite implements vfs.FS.
func (s *FS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.Rename(from, to); err != nil {
		return nil, err
	}
	return s.OpenReadWrite(to, category)
}

// Rename implements vfs.FS.
func (s *FS) Rename(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.FS.Rename(from, to); err != nil || from == to {
		return err
	}
	s.forget(to)
	for path, c := range s.files {
		if path == from || strings.HasPrefix(path, from+"/") {
			delete(s.files, path)
			s.files[to+path[len(from):]] = c
		}
	}
	return nil
}

// Remove implements vfs.FS.
func (s *FS) Remove(name string) error { return s.remove(name, s.FS.Remove) }

// RemoveAll implements vfs.FS.
func (s *FS) RemoveAll(name string) error { return s.remove(name, s.FS.RemoveAll) }

func (s *FS) remove(name string, do func(string) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := do(name)
	if err == nil {
		s.forget(name)
	}
	return err
}

// Unwrap implements vfs.FS.
func (s *FS) Unwrap() vfs.FS { return s.FS }

// file is a file that may be written.
type file struct {
	vfs.File
	fs      *FS
	content *content
	pos     int64 // of the next Read or Write
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.pos += int64(n)
	return n, err
}

func (f *file) Write(p []byte) (int, error) {
	if err := f.grow(f.pos + int64(len(p))); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	f.pos += int64(n)
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.grow(off + int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

// grow takes the space for a file of some size.
func (f *file) grow(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	more := size - f.content.size
	if more <= 0 {
		return nil
	}
	if f.content.names > 0 {
		if f.fs.used+more > f.fs.limit {
			return syscall.ENOSPC
		}
		f.fs.used += more
	}
	f.content.size = size
	return nil
}
