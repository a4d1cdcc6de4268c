package archive

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/format"
	"durablestreams/internal/mirror"
	"durablestreams/internal/salvage"
	"durablestreams/stream"
)

// Diagnosis is what is wrong with an archive.
type Diagnosis struct {
	// Files are those that are missing or cannot be read as a whole.
	Files []DamagedFile
	// Lost says why the archive does not know any more which files belong to it;
	// empty if it does.
	Lost string
	// Rows says why the second copy of the rows cannot be used; empty if it can.
	Rows   string
	NoCopy bool // there simply is none
	// Settings says why Pebble's own settings cannot be read; empty if they can.
	Settings string

	fs       vfs.FS
	dir      string
	mirror   string
	least    uint64
	manifest *salvage.Manifest // nil if Lost is set
}

// DamagedFile is one file of an archive.
type DamagedFile struct {
	Name  string
	What  []string // what is wrong, each with its place
	Level uint64
	From  string // the first thing that is in it
	To    string

	info salvage.File
}

// Sound reports whether nothing is wrong but perhaps with the second copy, which
// can be made anew.
func (d *Diagnosis) Sound() bool { return len(d.Files) == 0 && d.Lost == "" && d.Settings == "" }

// Diagnose reads the whole archive in dir, which must not be open, and its mirror.
// It changes nothing. The journal begins behind the record least, so the archive
// should have had it. The error is about reading, or a *format.VersionError: what a
// newer program has written is not damage, and no repair may touch it. Small says so of
// small rows.
func Diagnose(fs vfs.FS, dir, mirrorPath string, least uint64, small func(key, value []byte) error) (*Diagnosis, error) {
	d := &Diagnosis{fs: fs, dir: dir, mirror: mirrorPath, least: least}
	label, err := mirror.Read(fs, mirrorPath, func(op mirror.Op) error { return checkRow(op.Key, op.Value, small) })
	if err == nil {
		err = checkRow(headerKey, label, nil)
	}
	if errors.Is(err, format.ErrNewer) {
		return nil, err
	}
	if err != nil {
		d.Rows, d.NoCopy = err.Error(), errors.Is(err, os.ErrNotExist)
	}
	if err := d.look(); err != nil {
		return nil, err
	}
	return d, d.versions(small)
}

func (d *Diagnosis) look() error {
	if err := checkPebble(d.fs, d.dir); err != nil {
		return err
	}
	m, err := salvage.ReadManifest(d.fs, d.dir)
	if err != nil {
		if !isDamage(err) {
			return err
		}
		d.Lost = err.Error()
		return nil
	}
	d.manifest = m
	for _, f := range m.Files() {
		if err := d.file(f); err != nil {
			return err
		}
	}
	return d.open()
}

// file looks at a file of tables.
func (d *Diagnosis) file(f salvage.File) error {
	path := d.fs.PathJoin(d.dir, salvage.TableName(f.Num))
	bad := DamagedFile{Name: salvage.TableName(f.Num), Level: f.Level, From: DescribeKey(f.From), To: DescribeKey(f.To), info: f}
	info, err := d.fs.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		bad.What = append(bad.What, "it is missing")
	case err != nil:
		return fmt.Errorf("look at %s: %w", path, err)
	default:
		if f.Size != 0 && uint64(info.Size()) != f.Size {
			bad.What = append(bad.What, fmt.Sprintf("it has %d bytes, and had %d", info.Size(), f.Size))
		}
		holes, err := salvage.ReadTable(d.fs, path, nil)
		if err != nil {
			return err
		}
		for _, h := range holes {
			if !isDamage(h.Why) {
				return fmt.Errorf("read %s: %w", path, h.Why)
			}
			bad.What = append(bad.What, fmt.Sprintf("bytes %d to %d: %v", h.From, h.To, h.Why))
		}
	}
	if len(bad.What) > 0 {
		d.Files = append(d.Files, bad)
	}
	return nil
}

// open finds out whether the archive is what it should be apart from its damaged
// files, and whether Pebble can open it.
func (d *Diagnosis) open() error {
	a, err := d.openWithout(d.fs)
	if errors.Is(err, format.ErrNewer) {
		return err
	}
	if err != nil && isDamage(err) {
		// Pebble's settings are written anew at each start: it can do without.
		cause := err
		if again, err := d.openWithout(hideFS{d.fs, settingsPrefix}); err == nil {
			a, d.Settings = again, cause.Error()
		}
	}
	switch {
	case a == nil && !isDamage(err):
		return err
	case a == nil:
		d.lost(err.Error())
		return nil
	}
	// A manifest may be cut by a crash. Whether that was all the copy of the header
	// would tell.
	blind := len(d.Files) > 0 || d.Rows != ""
	if d.manifest.Cut != nil && blind && a.Applied() < d.least {
		d.lost(fmt.Sprintf("the manifest is cut (%v)", d.manifest.Cut))
	}
	return a.Close()
}

func (d *Diagnosis) lost(why string) { d.Lost, d.manifest = why, nil }

// openWithout opens the archive for reading as if it had never had its damaged files.
func (d *Diagnosis) openWithout(fs vfs.FS) (*Archive, error) {
	o := Options{ReadOnly: true, MustExist: true}
	if len(d.Files) == 0 {
		o.Mirror = d.mirror
		return Open(fs, d.dir, o)
	}
	content, err := d.manifest.Without(d.numbers())
	if err != nil {
		return nil, err
	}
	return Open(replaceFS{fs, d.manifest.Name, content}, d.dir, o)
}

func (d *Diagnosis) numbers() (all []uint64) {
	for _, f := range d.Files {
		all = append(all, f.info.Num)
	}
	return all
}

// touchesRows reports whether the damage may have taken rows, and not only chunks.
func (d *Diagnosis) touchesRows() bool {
	if d.Lost != "" {
		return true
	}
	for _, f := range d.Files {
		if !onlyChunks(f.info.From) || !onlyChunks(f.info.To) {
			return true
		}
	}
	return false
}

func onlyChunks(key []byte) bool { return len(key) > 0 && key[0] == prefixChunk }

// sources are the files that a repair takes chunks from, as far as they can be read.
func (d *Diagnosis) sources() ([]string, error) {
	if d.Lost != "" {
		return listTables(d.fs, d.dir)
	}
	var paths []string
	for _, f := range d.Files {
		paths = append(paths, d.fs.PathJoin(d.dir, f.Name))
	}
	return paths, nil
}

// listTables gives the paths of all tables in a directory.
func listTables(fs vfs.FS, dir string) ([]string, error) {
	names, err := fs.List(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	slices.Sort(names)
	var paths []string
	for _, n := range names {
		if strings.HasSuffix(n, salvage.TableExt) {
			paths = append(paths, fs.PathJoin(dir, n))
		}
	}
	return paths, nil
}

// Chunks visits every chunk that is there, in no order, and some more than once.
func (d *Diagnosis) Chunks(visit func(Chunk)) error {
	if d.Lost == "" {
		fs := d.fs
		if d.Settings != "" {
			fs = hideFS{fs, settingsPrefix}
		}
		a, err := d.openWithout(fs)
		if err != nil {
			return err
		}
		err = a.AllChunks(func(c Chunk, _ []byte) error { visit(c); return nil })
		if err = errors.Join(err, a.Close()); err != nil {
			return err
		}
	}
	paths, err := d.sources()
	if err != nil {
		return err
	}
	for _, path := range paths {
		_, err := salvage.ReadTable(d.fs, path, func(p salvage.Point) error {
			if c, ok := chunkOf(p); ok {
				visit(c)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// chunkOf tells which chunk a point is.
func chunkOf(p salvage.Point) (c Chunk, ok bool) {
	if p.Deleted || len(p.Key) != len(chunkKey(0, 0)) || !onlyChunks(p.Key) || uint64(len(p.Value)) > number(p.Key, 1) {
		return Chunk{}, false
	}
	return Chunk{ID: stream.ID(number(p.Key, 0)), Pos: number(p.Key, 1) - uint64(len(p.Value)), Len: len(p.Value)}, true
}

// States visits the state of every stream as of the second copy's last commit, and
// gives that commit's journal position.
func (d *Diagnosis) States(visit func(*Row)) (applied uint64, err error) {
	rows := map[stream.ID]*Row{}
	label, err := mirror.Read(d.fs, d.mirror, func(op mirror.Op) error {
		if len(op.Key) != len(stateKey(0)) || op.Key[0] != prefixState {
			return nil
		}
		id := stream.ID(number(op.Key, 0))
		if op.Deleted {
			delete(rows, id)
			return nil
		}
		row, err := decodeRow(op.Value)
		if err != nil {
			return fmt.Errorf("state of stream %d: %w", id, err)
		}
		rows[id] = row
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		visit(row)
	}
	h, err := decodeHeader(label)
	return h.applied, err
}

// isDamage reports whether an error can be about what lies on the disk, and not
// about who may read it or what there is to read it with.
func isDamage(err error) bool {
	return !errors.Is(err, os.ErrPermission) && !outOfRoom(err) && !errors.Is(err, syscall.ENOMEM) && !errors.Is(err, syscall.EAGAIN)
}

// settingsPrefix begins the name of a file with Pebble's settings.
const settingsPrefix = "OPTIONS-"

// hideFS is a file system without some files.
type hideFS struct {
	vfs.FS
	prefix string
}

// List implements vfs.FS.
func (h hideFS) List(dir string) ([]string, error) {
	names, err := h.FS.List(dir)
	kept := names[:0]
	for _, n := range names {
		if !strings.HasPrefix(n, h.prefix) {
			kept = append(kept, n)
		}
	}
	return kept, err
}

// replaceFS is a file system in which one file has another content.
type replaceFS struct {
	vfs.FS
	name    string
	content []byte
}

// Open implements vfs.FS.
func (r replaceFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if r.PathBase(name) != r.name {
		return r.FS.Open(name, opts...)
	}
	mem := vfs.NewMem()
	f, err := mem.Create(r.name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(r.content); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return mem.Open(r.name)
}
