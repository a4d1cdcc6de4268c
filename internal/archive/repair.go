package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"durablestreams/internal/mirror"
	"durablestreams/internal/salvage"
	"durablestreams/stream"
)

// Plan says how an archive is to be repaired. The same plan may be carried out again
// after a crash, any number of times, until it has been once to the end. In between
// the archive must not be used.
type Plan struct {
	Aside string // directory for what is taken out of the archive
	Whole bool   // make the archive anew from all its tables
	Rows  bool   // restore the rows: from the mirror, or with Blind
	Blind bool   // from the tables, the newest that are there
	Least uint64 // journal position that the archive has at least
}

// Repaired is what a repair has come to.
type Repaired struct {
	Lost []Lost
}

// Lost is a range of a stream's own data that is not there any more.
type Lost struct {
	ID       stream.ID
	Path     stream.Path
	From, To uint64
}

// Plan makes a plan to repair what was found.
func (d *Diagnosis) Plan(aside string) Plan {
	p := Plan{Aside: aside, Whole: d.Lost != "", Rows: d.touchesRows(), Least: d.least}
	if p.Rows && d.Rows != "" {
		p.Whole, p.Blind = true, true
	}
	return p
}

// Room is about how many bytes the plan needs on the disk.
func (d *Diagnosis) Room(p Plan) (n uint64, err error) {
	paths, err := d.sources()
	if err == nil && p.Whole {
		paths, err = listTables(d.fs, d.dir)
	}
	if err != nil {
		return 0, err
	}
	for _, path := range append(paths, d.mirror) {
		if info, err := d.fs.Stat(path); err == nil {
			n += uint64(info.Size())
		}
	}
	return n + n/4 + 16<<20, nil
}

// Run carries the plan out. It looks itself for what is damaged if that is not known.
func (p Plan) Run(fs vfs.FS, dir, mirrorPath string, known *Diagnosis, log *slog.Logger) (*Repaired, error) {
	r := &repair{Plan: p, fs: fs, dir: dir, mirror: mirrorPath, known: known, live: map[stream.ID]*extent{}}
	if err := r.run(log); err != nil {
		return nil, fmt.Errorf("repair archive: %w", err)
	}
	return &Repaired{Lost: r.lost}, nil
}

// repair is a plan being carried out.
type repair struct {
	Plan
	fs     vfs.FS
	dir    string
	mirror string
	known  *Diagnosis
	a      *Archive
	batch  *pebble.Batch
	live   map[stream.ID]*extent
	lost   []Lost
}

// extent is what a stream's own data must be, and how far they were there.
type extent struct {
	path       stream.Path
	base, tail uint64
	pos        uint64
}

func (r *repair) run(log *slog.Logger) (err error) {
	if err := r.takeOut(); err != nil {
		return err
	}
	if err := r.open(log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.batch.Close(), r.a.Close()) }()
	sources, err := listTables(r.fs, r.Aside)
	if err != nil {
		return err
	}
	switch {
	case r.Blind:
		err = r.gatherRows(sources)
	case r.Rows:
		err = r.restoreRows()
	}
	if err != nil {
		return err
	}
	if err := r.extents(); err != nil {
		return err
	}
	for _, path := range sources {
		if err := r.addChunks(path); err != nil {
			return err
		}
	}
	if err := r.straighten(); err != nil {
		return err
	}
	return r.a.db.Flush()
}

// takeOut takes out of the archive what is damaged, with everything else kept as
// it is.
func (r *repair) takeOut() error {
	_, err := r.fs.Stat(r.Aside)
	there := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	switch {
	case r.Whole && there: // this is not the first time: what was begun is not needed
		return r.fs.RemoveAll(r.dir)
	case r.Whole:
		err = r.fs.Rename(r.dir, r.Aside)
		if errors.Is(err, os.ErrNotExist) {
			err = r.fs.MkdirAll(r.Aside, 0o755)
		}
	default:
		err = r.fs.MkdirAll(r.Aside, 0o755)
	}
	if err != nil {
		return err
	}
	if err := syncDir(r.fs, r.fs.PathDir(r.Aside)); err != nil || r.Whole {
		return err
	}
	return r.takeOutFiles()
}

// takeOutFiles moves the damaged files away and then tells the manifest.
func (r *repair) takeOutFiles() error {
	d := r.known
	if d == nil {
		d = &Diagnosis{fs: r.fs, dir: r.dir} // without a mirror: the rows need not agree now
		if err := d.look(); err != nil {
			return err
		}
	}
	if d.Lost != "" {
		return &DamageError{What: d.Lost}
	}
	var names []string
	for _, f := range d.Files {
		names = append(names, f.Name)
	}
	if d.Settings != "" {
		all, err := r.fs.List(r.dir)
		if err != nil {
			return err
		}
		for _, n := range all {
			if strings.HasPrefix(n, settingsPrefix) {
				names = append(names, n)
			}
		}
	}
	for _, n := range names {
		err := r.fs.Rename(r.fs.PathJoin(r.dir, n), r.fs.PathJoin(r.Aside, n))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(syncDir(r.fs, r.Aside), syncDir(r.fs, r.dir)); err != nil {
		return err
	}
	if len(d.Files) == 0 {
		return nil
	}
	return r.replaceManifest(d)
}

// replaceManifest puts a manifest in place that does not name the damaged files.
func (r *repair) replaceManifest(d *Diagnosis) error {
	content, err := d.manifest.Without(d.numbers())
	if err != nil {
		return err
	}
	name, err := r.newManifest(d.manifest.NextFile)
	if err != nil {
		return err
	}
	if err := writeSynced(r.fs, r.fs.PathJoin(r.dir, name), content); err != nil {
		return err
	}
	old := r.fs.PathJoin(r.dir, d.manifest.Name)
	if err := vfs.LinkOrCopy(r.fs, old, r.fs.PathJoin(r.Aside, d.manifest.Name)); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := errors.Join(syncDir(r.fs, r.Aside), syncDir(r.fs, r.dir)); err != nil {
		return err
	}
	marker, _, err := atomicfs.LocateMarker(r.fs, r.dir, salvage.ManifestMarker)
	if err != nil {
		return err
	}
	return errors.Join(marker.Move(name), marker.Close())
}

// newManifest is a name for a manifest with a number that no file has.
func (r *repair) newManifest(next uint64) (string, error) {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return "", err
	}
	for _, n := range names {
		var num uint64
		n = strings.TrimPrefix(strings.TrimPrefix(n, salvage.ManifestPrefix), settingsPrefix)
		if _, err := fmt.Sscanf(n, "%d", &num); err == nil {
			next = max(next, num+1)
		}
	}
	return fmt.Sprintf("%s%06d", salvage.ManifestPrefix, next), nil
}

// open opens the archive to write to it, whatever its header says.
func (r *repair) open(log *slog.Logger) error {
	o := Options{Logger: log, MustExist: !r.Whole}
	space := newSpaceFS(r.fs, r.dir)
	db, err := pebble.Open(r.dir, pebbleOptions(space, &o))
	if err != nil {
		return err
	}
	space.trust()
	r.a = &Archive{db: db, space: space, log: o.Logger, idle: make(chan struct{})}
	r.batch = db.NewBatch()
	return nil
}

// put applies the batch if it has become large, or if it must be.
func (r *repair) put(force bool) error {
	if !force && r.batch.Len() < 4<<20 {
		return nil
	}
	if err := r.batch.Commit(pebble.NoSync); err != nil {
		return err
	}
	r.batch = r.a.db.NewBatch()
	return nil
}

// restoreRows makes the rows what the mirror says.
func (r *repair) restoreRows() error {
	if err := r.clearRows(); err != nil {
		return err
	}
	_, err := mirror.Read(r.fs, r.mirror, func(op mirror.Op) (err error) {
		if op.Deleted {
			err = r.batch.Delete(op.Key, nil)
		} else {
			err = r.batch.Set(op.Key, op.Value, nil)
		}
		return errors.Join(err, r.put(false))
	})
	return errors.Join(err, r.put(true))
}

func (r *repair) clearRows() error {
	for _, kr := range rowRanges() {
		if err := r.batch.DeleteRange(kr.Start, kr.End, nil); err != nil {
			return err
		}
	}
	return r.put(true)
}

// extents finds out what data there must be.
func (r *repair) extents() error {
	return r.a.walk(prefixState, func(key, value []byte) (bool, error) {
		row, err := decodeRow(value)
		if err != nil {
			return true, nil // its name leads nowhere: it is damaged
		}
		s := row.State
		r.live[s.ID] = &extent{path: s.Path, base: s.Base(), tail: s.Tail, pos: s.Base()}
		return true, nil
	})
}

// addChunks puts the chunks of a table that was taken out into the archive, as far
// as they can be read and somebody's data are in them.
func (r *repair) addChunks(path string) error {
	_, err := salvage.ReadTable(r.fs, path, func(p salvage.Point) error {
		c, ok := chunkOf(p)
		if !ok || r.live[c.ID] == nil {
			return nil
		}
		if err := r.batch.Set(p.Key, p.Value, nil); err != nil {
			return err
		}
		return r.put(false)
	})
	return errors.Join(err, r.put(true))
}

// straighten makes the chunks of every stream what they must be, without overlaps
// and nothing beyond the stream's ends, drops those of streams that are not there,
// and notes what is missing.
func (r *repair) straighten() error {
	var chunks []Chunk // of one stream, by their ends
	settle := func() error {
		if len(chunks) == 0 {
			return nil
		}
		defer func() { chunks = chunks[:0] }()
		e := r.live[chunks[0].ID]
		if e == nil {
			id := chunks[0].ID
			return r.batch.DeleteRange(chunkKey(id, 0), chunkKey(id+1, 0), nil)
		}
		return r.cover(chunks, e)
	}
	err := r.a.AllChunks(func(c Chunk, _ []byte) error {
		var err error
		if len(chunks) > 0 && chunks[0].ID != c.ID {
			err = errors.Join(settle(), r.put(false))
		}
		chunks = append(chunks, c)
		return err
	})
	if err = errors.Join(err, settle()); err != nil {
		return err
	}
	for id, e := range r.live {
		r.missing(id, e, e.tail)
	}
	return r.put(true)
}

// cover takes of a stream's chunks what it needs and removes the others. Where
// several hold the same bytes those are the same.
func (r *repair) cover(chunks []Chunk, e *extent) error {
	id := chunks[0].ID
	type piece struct{ key, data []byte }
	var trimmed []piece // to be put where another one may have been
	slices.SortFunc(chunks, func(a, b Chunk) int { return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(b.Len, a.Len)) })
	for _, c := range chunks {
		end := c.Pos + uint64(c.Len)
		from, to := max(c.Pos, e.pos), min(end, e.tail)
		if from < to {
			r.missing(id, e, from)
			e.pos = to
		}
		if from == c.Pos && to == end {
			continue
		}
		key := chunkKey(id, end)
		data, err := r.a.get(key)
		if err != nil || uint64(len(data)) != end-c.Pos {
			return errors.Join(err, errors.New("a chunk has changed"))
		}
		if err := r.batch.Delete(key, nil); err != nil {
			return err
		}
		if from < to {
			trimmed = append(trimmed, piece{chunkKey(id, to), data[from-c.Pos : to-c.Pos]})
		}
	}
	for _, p := range trimmed {
		if err := r.batch.Set(p.key, p.data, nil); err != nil {
			return err
		}
	}
	return nil
}

// missing notes what there is not up to a position.
func (r *repair) missing(id stream.ID, e *extent, to uint64) {
	if e.pos < to {
		r.lost = append(r.lost, Lost{ID: id, Path: e.path, From: e.pos, To: to})
	}
}

// syncDir makes the names in a directory durable.
func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// writeSynced makes a file. Its name is not durable yet.
func writeSynced(fs vfs.FS, path string, content []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, strings.NewReader(string(content)))
	return errors.Join(err, f.Sync(), f.Close())
}
