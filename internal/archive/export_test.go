package archive

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SpaceFS is what the archive's files are written through.
type SpaceFS struct{ *spaceFS }

// NewSpaceFS puts one over another file system.
func NewSpaceFS(fs vfs.FS, dir string) SpaceFS { return SpaceFS{newSpaceFS(fs, dir)} }

// Trust says that the archive has been opened.
func (s SpaceFS) Trust() { s.trust() }

// Close lets everybody go who waits for space.
func (s SpaceFS) Close() { close(s.closed) }

// OnFatal is called when the disk has failed.
func (s SpaceFS) OnFatal(f func(error)) { s.fatal = f }

// SetClockBack makes what has failed so far lie in the future.
func (s SpaceFS) SetClockBack(d time.Duration) {
	for _, b := range []*budget{&s.compaction, &s.flush} {
		b.refused.Add(int64(d))
	}
}

// FileSize is the largest file to write.
func (s SpaceFS) FileSize() int64 { return s.fileSize() }

// What the tests know of the guard.
const (
	CompactionCategory            = compactionCategory
	FlushCategory                 = flushCategory
	ManifestCategory              = manifestCategory
	KeepForFlush, KeepForManifest = keepForFlush, keepForManifest
	CheckEvery                    = checkEvery
	CompactAgain, FlushAgain      = compactAgain, flushAgain
)
