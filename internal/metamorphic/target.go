package metamorphic

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
	"durablestreams/stream"
)

// Target is what a run drives.
type Target interface {
	// Apply completes done when the outcome is durable.
	Apply(cmd stream.Command, done stream.Completion)
	Stat(p stream.Path, touch bool) (stream.Snapshot, error)
	Read(snap stream.Snapshot, from, to uint64) stream.Blocks
	Watch(snap stream.Snapshot, wake func()) (stop func())
	Close() error
}

// Opener opens the target on a disk.
type Opener func(fs vfs.FS) (Target, error)

// Checker looks at what a closed target has left on the disk.
type Checker func(fs vfs.FS) error

// Engine gives an Opener of engines.
func Engine(dir string, o store.Options) Opener {
	return func(fs vfs.FS) (Target, error) {
		e, err := store.Open(fs, dir, &o)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
}
