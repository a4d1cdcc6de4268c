package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
)

// Restore makes a data directory of a backup. dir must be empty or not be there. Each file
// is compared with its checksum while it is written, and durable before the mark goes that
// keeps servers out: a restore that was interrupted can never be taken for a data directory.
func (d *Destination) Restore(e Entry, dir string) error {
	if e.Err != nil {
		return e.Err
	}
	return restore(d.fs, dir, func(put putter) error {
		for _, f := range e.Manifest.Files {
			from := d.path(filesDir, f.SHA256)
			r, err := d.fs.Open(from, vfs.SequentialReadsOption)
			if err != nil {
				return fmt.Errorf("restore %s: %w", f.Name, err)
			}
			sum, n, err := put(f, r)
			if err := errors.Join(err, r.Close()); err != nil {
				return fmt.Errorf("restore %s: %w", f.Name, err)
			}
			if sum != f.SHA256 || n != f.Size {
				return fmt.Errorf("restore %s: %s is damaged", f.Name, from)
			}
		}
		return nil
	})
}

// RestoreTar makes a data directory of a whole backup in one tar, as Restore does.
func RestoreTar(fs vfs.FS, r io.Reader, dir string) (m *Manifest, err error) {
	err = restore(fs, dir, func(put putter) error {
		m, err = receive(r, func(name string, _ int64, r io.Reader) (string, error) {
			sum, _, err := put(File{Name: name}, r)
			return sum, err
		}, func(File) error { return errors.New("this is only a part, for a destination that has the rest") })
		return err
	})
	return m, err
}

// putter writes a file into the data directory.
type putter func(f File, r io.Reader) (sum string, n int64, err error)

func restore(fs vfs.FS, dir string, fill func(putter) error) error {
	if err := store.BeginRestore(fs, dir); err != nil {
		return err
	}
	made := map[string]bool{}
	err := fill(func(f File, r io.Reader) (string, int64, error) {
		path := fs.PathJoin(dir, f.Name)
		folder := fs.PathDir(path)
		if !made[folder] {
			made[folder] = true
			perm := os.FileMode(0o755)
			if f.secret() {
				perm = 0o700
			}
			if err := fs.MkdirAll(folder, perm); err != nil {
				return "", 0, err
			}
		}
		return writeFile(fs, path, r, f.secret())
	})
	if err != nil {
		return err
	}
	for folder := range made {
		if err := syncDir(fs, folder); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	if err := syncDir(fs, dir); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return store.EndRestore(fs, dir)
}

// writeFile makes a file, synced, and gives the checksum of its content. A secret one is
// the owner's alone.
func writeFile(fs vfs.FS, path string, r io.Reader, secret bool) (sum string, n int64, err error) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", 0, err
	}
	if secret && f.Fd() != vfs.InvalidFd { // a real file: it has rights
		err = os.Chmod(path, 0o600)
	}
	h := sha256.New() // first: the write of a vfs.File may change what it was given
	if err == nil {
		n, err = io.CopyBuffer(io.MultiWriter(h, f), r, make([]byte, copySize))
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), n, nil
}

func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func removeIfExists(fs vfs.FS, path string) error {
	if err := fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
