package salvage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Checked gives a table's file that checks blocks itself while on says so. Pebble
// tries for seconds to find out which bit of a damaged block has flipped, every
// time it reads the block; it does not see one that is refused here.
func Checked(f vfs.File, name string, on *atomic.Bool) (vfs.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &checked{File: f, name: name, size: info.Size(), on: on}, nil
}

type checked struct {
	vfs.File
	name string
	size int64
	on   *atomic.Bool
}

// ReadAt implements io.ReaderAt. Pebble reads whole blocks with their trailers, and
// the footer, which ends the file.
func (f *checked) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if err != nil || !f.on.Load() || off+int64(len(p)) == f.size || len(p) <= block.TrailerLen {
		return n, err
	}
	if !soundBlock(p) {
		return 0, fmt.Errorf("file %s: block at %d has a wrong checksum", f.name, off)
	}
	return n, nil
}

// soundBlock checks a block that is followed by its trailer.
func soundBlock(b []byte) bool {
	n := len(b) - 4
	return maskSum(crc32.Checksum(b[:n], crcTable)) == binary.LittleEndian.Uint32(b[n:])
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// maskSum is the form in which Pebble stores a CRC-32C.
func maskSum(c uint32) uint32 { return (c>>15 | c<<17) + 0xa282ead8 }
