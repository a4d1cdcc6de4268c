package archive

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/salvage"
)

// Picture puts the archive as it is durable now into the directory to, which must not be
// there, and be on the same file system: what a crash at this moment would leave of it. Files that never change are
// linked where the file system can, so all of them are only to be read. It may run beside
// everything else. A journal that is to be folded over the picture must hold what the
// archive's header, as of the last Sync before the call, does not have.
func (a *Archive) Picture(to string) (err error) {
	if err := a.enter(); err != nil {
		return err
	}
	defer a.leave()
	defer func() {
		// Pebble panics where a marker in a directory cannot be synced, for a store's own
		// directory is lost then. This one is only thrown away.
		if why := recover(); why != nil {
			cause, ok := why.(error)
			if _, bug := why.(runtime.Error); bug || !ok {
				panic(why)
			}
			err = fmt.Errorf("picture of archive: %w", cause)
		}
	}()
	if err := a.db.Checkpoint(to); err != nil {
		return fmt.Errorf("picture of archive: %w", err)
	}
	return nil
}

// Lasting reports whether a file of an archive has the same content for as long as the
// archive is open under this name.
func Lasting(name string) bool {
	return strings.HasSuffix(name, salvage.TableExt) || strings.HasSuffix(name, ".blob")
}

// PictureOf lists the files that make up the picture of an archive that nobody has open.
func PictureOf(fs vfs.FS, dir string) ([]string, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("picture of archive: %w", err)
	}
	var files []string
	for _, name := range names {
		if name != "LOCK" && !strings.HasSuffix(name, ".dbtmp") {
			files = append(files, name)
		}
	}
	return files, nil
}
