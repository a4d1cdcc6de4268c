// Package salvage reads the files of a Pebble store that Pebble itself does not
// open or read any more: the keys of a damaged table, as far as they are there, and
// the manifest, with tables left out. It knows bytes and nothing of what they say,
// and it never writes.
package salvage

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Point is a key as a table holds it: with its place in the order of all changes.
type Point struct {
	Key, Value []byte // good until the next one
	Seq        uint64
	Deleted    bool
}

// Hole is a part of a table that cannot be read.
type Hole struct {
	From, To int64 // bytes of the file
	Why      error
}

// ReadTable visits every key of a table that can be read, whatever has happened to
// the rest, and gives what cannot. Without a visit it only checks. The error is of
// visit.
func ReadTable(fs vfs.FS, path string, visit func(Point) error) (holes []Hole, err error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return []Hole{{Why: err}}, nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return []Hole{{Why: err}}, nil
	}
	t := &table{file: f, size: info.Size(), visit: visit}
	data, rest, err := layout(fs, path)
	if err != nil {
		return t.scan(err)
	}
	for i, b := range append(data, rest...) {
		content, bad := t.block(b)
		if bad == nil && visit != nil && i < len(data) {
			bad, err = t.keys(content)
		}
		if err != nil {
			return holes, err
		}
		if bad != nil {
			holes = append(holes, Hole{From: int64(b.Offset), To: int64(b.Offset+b.Length) + block.TrailerLen, Why: bad})
		}
	}
	return holes, nil
}

// table is a table being read block by block.
type table struct {
	file  vfs.File
	size  int64
	visit func(Point) error
	buf   []byte
	iter  colblk.DataBlockIter
	ready bool
}

// layout gives the blocks that the table's index names: those with keys, in order,
// and the others.
func layout(fs vfs.FS, path string) (data, rest []block.Handle, err error) {
	r, err := openTable(fs, path)
	if err != nil {
		return nil, nil, err
	}
	l, err := r.Layout()
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, nil, err
	}
	for _, b := range l.Data {
		data = append(data, b.Handle)
	}
	slices.SortFunc(data, func(a, b block.Handle) int { return cmp.Compare(a.Offset, b.Offset) })
	rest = append(l.Index, l.TopIndex, l.RangeDel, l.RangeKey, l.Properties, l.MetaIndex, l.ValueIndex, l.BlobReferenceIndex)
	rest = append(rest, l.ValueBlock...)
	for _, b := range l.Filter {
		rest = append(rest, b.Handle)
	}
	return data, slices.DeleteFunc(rest, func(b block.Handle) bool { return b.Length == 0 }), nil
}

// openTable opens a table with Pebble's reader, which closes the file.
func openTable(fs vfs.FS, path string) (*sstable.Reader, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	var on atomic.Bool
	on.Store(true)
	quick, err := Checked(f, fs.PathBase(path), &on)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	readable, err := sstable.NewSimpleReadable(quick)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	o := &pebble.Options{}
	o.EnsureDefaults()
	return sstable.NewReader(context.Background(), readable, o.MakeReaderOptions())
}

// read gives n bytes of the file.
func (t *table) read(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off+n > t.size {
		return nil, fmt.Errorf("the file ends at %d", t.size)
	}
	if int64(cap(t.buf)) < n {
		t.buf = make([]byte, n)
	}
	b := t.buf[:n]
	if got, err := t.file.ReadAt(b, off); int64(got) < n {
		return nil, err
	}
	return b, nil
}

// block reads a block and checks it.
func (t *table) block(h block.Handle) (content []byte, bad error) {
	if h.Length > uint64(t.size) || h.Offset > uint64(t.size) {
		return nil, fmt.Errorf("the file ends at %d", t.size)
	}
	b, err := t.read(int64(h.Offset), int64(h.Length)+block.TrailerLen)
	switch {
	case err != nil:
		return nil, err
	case !soundBlock(b):
		return nil, errors.New("the block has a wrong checksum")
	case b[h.Length] != 0 && t.visit != nil:
		return nil, errors.New("the block is compressed, which this program's never are")
	}
	return b[:h.Length], nil
}

// keys visits the keys of a block's content. Pebble's decoder panics on what is not
// a block of keys.
func (t *table) keys(content []byte) (bad, err error) {
	visiting := false
	defer func() {
		if r := recover(); r != nil {
			if visiting {
				panic(r)
			}
			bad = fmt.Errorf("the block has no keys: %v", r)
		}
	}()
	schema := colblk.DefaultKeySchema(pebble.DefaultComparer, 16)
	if !t.ready {
		t.iter.InitOnce(&schema, pebble.DefaultComparer, nil)
		t.ready = true
	}
	var d colblk.DataBlockDecoder
	d.Init(&schema, content)
	if err := t.iter.Init(&d, block.NoTransforms); err != nil {
		return err, nil
	}
	for kv := t.iter.First(); kv != nil; kv = t.iter.Next() {
		p := Point{Key: kv.K.UserKey, Seq: uint64(kv.K.Trailer.SeqNum())}
		switch kv.K.Trailer.Kind() {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete:
			if !kv.V.IsInPlaceValue() {
				continue // an older one of two values of a key
			}
			p.Value = kv.V.InPlaceValue()
		case pebble.InternalKeyKindDelete, pebble.InternalKeyKindSingleDelete, pebble.InternalKeyKindDeleteSized:
			p.Deleted = true
		default:
			continue
		}
		visiting = true
		if err := t.visit(p); err != nil {
			return nil, err
		}
		visiting = false
	}
	return nil, nil
}

// largestBlock is more than any data block has: a chunk and what goes with it.
const largestBlock = 4 << 20

// scan visits what a table without an index holds, from its beginning up to the
// first thing that is no sound data block. It does not look for one behind that:
// streams may hold anything, also something that looks like a block.
func (t *table) scan(why error) ([]Hole, error) {
	for off := int64(0); ; {
		n, bad := t.findBlock(off)
		if bad == nil && t.visit != nil {
			var err error
			if bad, err = t.keys(t.buf[:n]); err != nil {
				return nil, err
			}
		}
		if bad != nil {
			return []Hole{{From: off, To: t.size, Why: why}}, nil
		}
		off += n + block.TrailerLen
	}
}

// findBlock gives the length of the block at off: where the checksum of what lies
// before is right.
func (t *table) findBlock(off int64) (n int64, err error) {
	b, err := t.read(off, min(largestBlock, t.size-off))
	if err != nil {
		return 0, err
	}
	sum := ^uint32(0)
	for i := 0; i+block.TrailerLen <= len(b); i++ {
		next := crcTable[byte(sum)^b[i]] ^ sum>>8
		// Here b[i] would be the byte for the kind of compression: none.
		if b[i] == 0 && i > 0 && maskSum(^next) == binary.LittleEndian.Uint32(b[i+1:]) {
			return int64(i), nil
		}
		sum = next
	}
	return 0, errors.New("no sound block follows")
}
