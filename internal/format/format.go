// Package format says that something on the disk was written by a program that is
// newer than this one. Every file and every kind of row has a version, which is read
// before anything else; what is newer is neither used nor changed nor repaired.
package format

import (
	"errors"
	"fmt"
)

// ErrNewer is matched by every [*VersionError].
var ErrNewer = errors.New("it was written by a newer ds")

// VersionError says that something has a format that this program does not know yet.
type VersionError struct {
	What  string // for people, the subject of the sentence
	Found uint64 // the version that it has
	Known uint64 // the newest that this program reads
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s was written by a newer ds (format %d; this ds reads up to %d)", e.What, e.Found, e.Known)
}

// Is makes it match [ErrNewer].
func (e *VersionError) Is(target error) bool { return target == ErrNewer }
