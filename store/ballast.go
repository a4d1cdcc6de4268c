package store

import (
	"errors"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A start writes a little before it serves: the archive begins a manifest and notes
// its settings. So that it succeeds on a disk of which others have taken the last
// byte, a file that says nothing holds some space, which is given back just then.

const (
	ballastFile  = "ballast"
	leastBallast = 64 << 10
)

// ballastSize is how much to hold of a disk.
func ballastSize(total uint64) uint64 { return min(max(total/64, 256<<10), 4<<20) }

// dropBallast gives the space back if there is no other.
func dropBallast(fs vfs.FS, dir string) error {
	usage, err := fs.GetDiskUsage(dir)
	if err != nil || usage.AvailBytes >= ballastSize(usage.TotalBytes) {
		return nil // a file system that cannot tell has space
	}
	if err := fs.Remove(fs.PathJoin(dir, ballastFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// makeBallast takes the space again, or most of what there is. The next look at the
// disk tries again where that is not enough.
func makeBallast(fs vfs.FS, dir string) error {
	path := fs.PathJoin(dir, ballastFile)
	if _, err := fs.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	usage, err := fs.GetDiskUsage(dir)
	if err != nil {
		return nil
	}
	size := min(ballastSize(usage.TotalBytes), usage.AvailBytes/8*7)
	if size < leastBallast {
		return nil
	}
	if err := writeZeros(fs, path, size); err != nil {
		err = errors.Join(err, fs.Remove(path))
		if noSpace(err) {
			return nil
		}
		return err
	}
	return nil
}

func writeZeros(fs vfs.FS, path string, size uint64) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	zeros := make([]byte, leastBallast)
	for n := uint64(0); n < size && err == nil; n += leastBallast {
		_, err = f.Write(zeros[:min(size-n, leastBallast)])
	}
	return errors.Join(err, f.Sync(), f.Close())
}
