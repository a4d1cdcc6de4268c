package archive

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"durablestreams/internal/format"
	"durablestreams/internal/mirror"
	"durablestreams/internal/salvage"
	"durablestreams/stream"
)

// CheckVersion returns a *format.VersionError if Pebble's files in dir, the mirror, or
// the header that the mirror knows are of a newer program. It reads little and writes
// nothing; neither need be there, and damage is not looked for.
func CheckVersion(fs vfs.FS, dir, mirrorPath string) error {
	if err := checkPebble(fs, dir); err != nil {
		return err
	}
	s, err := mirror.Stat(fs, mirrorPath)
	if err == nil {
		_, err = decodeHeader(s.Label)
	}
	return onlyNewer(err)
}

// onlyNewer passes nothing on but that something is newer.
func onlyNewer(err error) error {
	if errors.Is(err, format.ErrNewer) {
		return err
	}
	return nil
}

// checkPebble looks at the marker of Pebble's own format.
func checkPebble(fs vfs.FS, dir string) error {
	text, err := atomicfs.ReadMarker(fs, dir, "format-version")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the archive's format: %w", err)
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err == nil && v > uint64(pebble.FormatNewest) {
		return &format.VersionError{What: "the archive's Pebble store", Found: v, Known: uint64(pebble.FormatNewest)}
	}
	return nil
}

// checkRow returns a *format.VersionError if a row is of a newer program. What a small
// row says only its owner knows.
func checkRow(key, value []byte, small func(key, value []byte) error) (err error) {
	if len(key) == 0 || len(value) == 0 {
		return nil
	}
	switch key[0] {
	case headerKey[0]:
		_, err = decodeHeader(value)
	case prefixState:
		_, err = decodeRow(value)
	case prefixProducers:
		err = new(stream.State).DecodeProducers(value)
	case prefixSmall:
		if small != nil {
			err = small(key[1:], value)
		}
	}
	if err = onlyNewer(err); err != nil {
		return fmt.Errorf("%s: %w", DescribeKey(key), err)
	}
	return nil
}

// versions looks at the rows from which a repair would take the archive's: all tables,
// where there is no second copy.
func (d *Diagnosis) versions(small func(key, value []byte) error) error {
	if d.Sound() || d.Rows == "" {
		return nil
	}
	paths, err := listTables(d.fs, d.dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		_, err := salvage.ReadTable(d.fs, path, func(p salvage.Point) error {
			if p.Deleted || onlyChunks(p.Key) {
				return nil
			}
			return checkRow(p.Key, p.Value, small)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
