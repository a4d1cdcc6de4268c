package salvage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// Pebble opens an archive with all its tables or not at all, and has no call to
// leave one out. So its manifest is read here, as far as this program's archives
// use it, and one record can be put behind it: these tables are gone.

// Names that Pebble gives its files.
const (
	TableExt       = ".sst"
	ManifestPrefix = "MANIFEST-"
	ManifestMarker = "manifest"
)

// Tags of the manifest's records.
const (
	tagComparer       = 1
	tagLogNumber      = 2
	tagNextFile       = 3
	tagLastSequence   = 4
	tagDeletedTable   = 6
	tagNewTable2      = 100
	tagNewTable4      = 103
	tagCreatedBacking = 105
	tagRemovedBacking = 106

	fieldEnd     = 1
	fieldVirtual = 66
	fieldMustAsk = 64 // fields from here on may not be passed over
)

// tableID names a table in the manifest. Several virtual tables may share a file.
type tableID struct{ level, num uint64 }

// tableEntry is what the manifest says of a table.
type tableEntry struct {
	file     uint64
	size     uint64 // of the file; 0: not said here
	from, to []byte // first and last key
}

// Manifest is what the archive consists of.
type Manifest struct {
	Name     string
	records  [][]byte
	Cut      error // why reading has ended, if not at the end
	tables   map[tableID]tableEntry
	backings map[uint64]uint64 // file of virtual tables -> size
	NextFile uint64            // numbers from here on are free
}

// ReadManifest reads the current manifest. A torn end is no error, as it is none
// for Pebble.
func ReadManifest(fs vfs.FS, dir string) (*Manifest, error) {
	name, err := atomicfs.ReadMarker(fs, dir, ManifestMarker)
	if err != nil {
		return nil, fmt.Errorf("find manifest: %w", err)
	}
	if name == "" {
		return nil, errors.New("no file tells which manifest is the current one")
	}
	content, err := readFile(fs, fs.PathJoin(dir, name))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m := &Manifest{Name: name, tables: map[tableID]tableEntry{}, backings: map[uint64]uint64{}}
	if err := m.read(content); err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", name, err)
	}
	return m, nil
}

func (m *Manifest) read(content []byte) error {
	for r := record.NewReader(bytes.NewReader(content), 0); ; {
		rec, err := r.Next()
		if err == nil {
			var b []byte
			if b, err = io.ReadAll(rec); err == nil {
				if err := m.apply(b); err != nil {
					return err
				}
				m.records = append(m.records, b)
				continue
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if record.IsInvalidRecord(err) {
			m.Cut = err
			return nil
		}
		return err
	}
}

// apply takes a record into account.
func (m *Manifest) apply(b []byte) error {
	c := &cursor{b: b}
	added := map[tableID]tableEntry{}
	for len(c.b) > 0 && c.err == nil {
		switch tag := c.number(); tag {
		case tagComparer:
			c.bytes()
		case tagLogNumber, tagLastSequence:
			c.number()
		case tagNextFile:
			m.NextFile = c.number()
		case tagDeletedTable:
			delete(m.tables, tableID{c.number(), c.number()})
		case tagCreatedBacking:
			file := c.number()
			m.backings[file] = c.number()
		case tagRemovedBacking:
			delete(m.backings, c.number())
		case tagNewTable2, tagNewTable4:
			id := tableID{c.number(), c.number()}
			added[id] = c.table(id, tag == tagNewTable4)
		default:
			return fmt.Errorf("a record says something unknown (%d)", tag)
		}
	}
	maps.Copy(m.tables, added) // a table that moves is deleted and added in one record
	return c.err
}

// cursor reads a record.
type cursor struct {
	b   []byte
	err error
}

var errShortRecord = errors.New("a record is too short")

func (c *cursor) number() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.err = nil, errShortRecord
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) bytes() []byte {
	n := c.number()
	if n > uint64(len(c.b)) {
		c.b, c.err = nil, errShortRecord
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// userKey reads a key that is followed by eight bytes of Pebble's own.
func (c *cursor) userKey() []byte {
	k := c.bytes()
	if len(k) < 8 {
		c.err = errShortRecord
		return nil
	}
	return k[:len(k)-8]
}

func (c *cursor) table(id tableID, fields bool) tableEntry {
	t := tableEntry{file: id.num, size: c.number(), from: c.userKey(), to: c.userKey()}
	c.number() // sequence numbers
	c.number()
	for fields && c.err == nil {
		switch field := c.number(); {
		case field == fieldEnd:
			return t
		case field == fieldVirtual:
			t.file, t.size = c.number(), 0
		case field >= fieldMustAsk:
			c.err = fmt.Errorf("a table has an unknown field (%d)", field)
		default:
			c.bytes()
		}
	}
	return t
}

// File is what the manifest says of a file of tables.
type File struct {
	Num, Size uint64
	Level     uint64
	From, To  []byte // first and last key
}

// TableName is the name of a file of tables.
func TableName(num uint64) string { return fmt.Sprintf("%06d%s", num, TableExt) }

// Files lists the files that the archive consists of, by number.
func (m *Manifest) Files() []File {
	byNum := map[uint64]File{}
	for id, t := range m.tables {
		f, seen := byNum[t.file]
		if !seen {
			f = File{Num: t.file, Size: t.size, Level: id.level, From: t.from, To: t.to}
			if size, virtual := m.backings[t.file]; virtual {
				f.Size = size
			}
		}
		if bytes.Compare(t.from, f.From) < 0 {
			f.From = t.from
		}
		if bytes.Compare(t.to, f.To) > 0 {
			f.To = t.to
		}
		byNum[t.file] = f
	}
	return slices.SortedFunc(maps.Values(byNum), func(a, b File) int { return cmp.Compare(a.Num, b.Num) })
}

// Without gives the content of a manifest that says the same, but for the tables in
// some files.
func (m *Manifest) Without(files []uint64) ([]byte, error) {
	var gone []byte
	for id, t := range m.tables {
		if slices.Contains(files, t.file) {
			gone = binary.AppendUvarint(gone, tagDeletedTable)
			gone = binary.AppendUvarint(gone, id.level)
			gone = binary.AppendUvarint(gone, id.num)
		}
	}
	for _, file := range files {
		if _, virtual := m.backings[file]; virtual {
			gone = binary.AppendUvarint(gone, tagRemovedBacking)
			gone = binary.AppendUvarint(gone, file)
		}
	}
	var out bytes.Buffer
	w := record.NewWriter(&out)
	for _, r := range append(slices.Clone(m.records), gone) {
		if _, err := w.WriteRecord(r); err != nil {
			return nil, fmt.Errorf("write manifest: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	return out.Bytes(), nil
}

// readFile reads a whole file.
func readFile(fs vfs.FS, path string) (content []byte, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(f)
}
