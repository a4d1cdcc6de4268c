package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrLocked says that another server, of this process or another one, uses the data
// directory.
var ErrLocked = errors.New("another server is using this data directory")

// LockedError is an [ErrLocked].
type LockedError struct {
	Dir     string
	Process int // that uses it, 0 if it cannot be told
}

// Error names the process.
func (e *LockedError) Error() string {
	if e.Process == 0 {
		return fmt.Sprintf("lock %s: %v", e.Dir, ErrLocked)
	}
	return fmt.Sprintf("lock %s: %v (process %d)", e.Dir, ErrLocked, e.Process)
}

// Is makes it match [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// Lock keeps others away from a data directory until it is closed. It fails with
// [ErrLocked] if somebody is using it, by whatever path.
//
// The directory itself is locked first: a lock on a file is the process's, which gets a
// second one by another path to it, and loses both when it closes the file again.
func Lock(fs vfs.FS, dir string) (io.Closer, error) {
	folder, err := fs.OpenDir(dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	// Where a file system cannot lock a directory there is the file.
	if fd := folder.Fd(); fd != vfs.InvalidFd && errors.Is(syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return nil, errors.Join(&LockedError{dir, holder(fs, dir)}, folder.Close())
	}
	lock, err := fs.Lock(fs.PathJoin(dir, lockFile))
	if err == nil {
		return closers{lock, folder}, nil
	}
	if _, unopened := errors.AsType[*os.PathError](err); unopened {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), folder.Close())
	}
	return nil, errors.Join(&LockedError{dir, holder(fs, dir)}, folder.Close())
}

// closers close in order.
type closers []io.Closer

// Close implements io.Closer.
func (c closers) Close() (err error) {
	for _, one := range c {
		err = errors.Join(err, one.Close())
	}
	return err
}

// holder finds out which process has the lock, where the system tells. It must not open
// the file, see Lock.
func holder(fs vfs.FS, dir string) (process int) {
	info, err := fs.Stat(fs.PathJoin(dir, lockFile))
	if err != nil {
		return 0
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	// 1: POSIX  ADVISORY  WRITE 2215 fe:00:131182 0 EOF
	for line := range strings.Lines(string(locks)) {
		f := strings.Fields(line)
		if len(f) != 8 || f[1] != "POSIX" {
			continue
		}
		var pid int
		var major, minor, number uint64
		if _, err := fmt.Sscanf(f[4]+" "+f[5], "%d %x:%x:%d", &pid, &major, &minor, &number); err != nil {
			continue
		}
		if id := identity(info); number == id.number && major == id.device>>8&0xfff && minor == id.device&0xff|id.device>>12&0xfff00 {
			return pid
		}
	}
	return 0
}
