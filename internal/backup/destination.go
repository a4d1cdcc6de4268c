package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names in a destination.
const (
	filesDir     = "files"     // by SHA-256 of their content
	manifestsDir = "manifests" // NNNNNN-<time>.json
	lockName     = "LOCK"
	incoming     = "incoming-" // what is being written
)

// Destination is a directory that keeps backups.
type Destination struct {
	fs   vfs.FS
	dir  string
	lock io.Closer // nil: it is only read
	next int       // number of the next incoming file
}

// Entry is one backup.
type Entry struct {
	Number   int
	Name     string    // of its manifest file
	Manifest *Manifest // nil if Err is set
	Err      error     // why it cannot be used
}

// Look opens a destination for reading.
func Look(fs vfs.FS, dir string) (*Destination, error) {
	if _, err := fs.Stat(fs.PathJoin(dir, manifestsDir)); err != nil {
		return nil, fmt.Errorf("%s has no backups: %w", dir, err)
	}
	return &Destination{fs: fs, dir: dir}, nil
}

// ErrInUse says that another process is changing the destination.
var ErrInUse = errors.New("another process is writing there")

// Open opens a destination to change it, making it if there is none. Nobody else can
// until it is closed.
func Open(fs vfs.FS, dir string) (*Destination, error) {
	d := &Destination{fs: fs, dir: dir}
	if err := d.make(); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	var err error
	if d.lock, err = fs.Lock(fs.PathJoin(dir, lockName)); err != nil {
		if _, unopened := errors.AsType[*os.PathError](err); unopened {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		return nil, fmt.Errorf("lock %s: %w (%w)", dir, ErrInUse, err)
	}
	if err := d.clean(); err != nil {
		return nil, errors.Join(fmt.Errorf("clean %s: %w", dir, err), d.Close())
	}
	return d, nil
}

// make makes the directories, for the owner alone: there are keys in backups.
func (d *Destination) make() error {
	for _, dir := range []string{d.dir, d.path(filesDir), d.path(manifestsDir)} {
		if err := d.fs.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := syncDir(d.fs, d.fs.PathDir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// clean removes what a process that was killed has left half written.
func (d *Destination) clean() error {
	for _, dir := range []string{filesDir, manifestsDir} {
		names, err := d.fs.List(d.path(dir))
		if err != nil {
			return err
		}
		for _, name := range names {
			if strings.HasPrefix(name, incoming) {
				if err := d.fs.Remove(d.path(dir, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Close lets others in.
func (d *Destination) Close() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

func (d *Destination) path(parts ...string) string {
	return d.fs.PathJoin(append([]string{d.dir}, parts...)...)
}

// List gives the backups in the order in which they were made.
func (d *Destination) List() ([]Entry, error) {
	names, err := d.fs.List(d.path(manifestsDir))
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	var list []Entry
	for _, name := range names {
		number, rest, ok := strings.Cut(name, "-")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n <= 0 || !strings.HasSuffix(rest, ".json") {
			continue
		}
		e := Entry{Number: n, Name: name}
		b, err := readSmall(d.fs, d.path(manifestsDir, name), maxManifest)
		if err == nil {
			e.Manifest, err = ParseManifest(b)
		}
		if err != nil {
			e.Err = fmt.Errorf("%s: %w", d.path(manifestsDir, name), err)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int { return a.Number - b.Number })
	return list, nil
}

// Find gives a backup by its number, or the newest one for 0.
func (d *Destination) Find(number int) (Entry, error) {
	list, err := d.List()
	if err != nil {
		return Entry{}, err
	}
	if number == 0 && len(list) > 0 {
		number = list[len(list)-1].Number
	}
	for _, e := range list {
		if e.Number == number {
			return e, e.Err
		}
	}
	if number == 0 {
		return Entry{}, fmt.Errorf("%s has no backups", d.dir)
	}
	return Entry{}, fmt.Errorf("%s has no backup %d", d.dir, number)
}

// Have gives the lasting files of all backups, as far as they are there.
func (d *Destination) Have() ([]File, error) {
	list, err := d.List()
	if err != nil {
		return nil, err
	}
	seen := map[File]bool{}
	var have []File
	for _, e := range list {
		if e.Err != nil {
			continue
		}
		for _, f := range e.Manifest.Files {
			if f.Lasting && !seen[f] && d.has(f) == nil {
				seen[f] = true
				have = append(have, f)
			}
		}
	}
	return have, nil
}

// has says whether the content of a file is there, without reading it.
func (d *Destination) has(f File) error {
	info, err := d.fs.Stat(d.path(filesDir, f.SHA256))
	if err != nil {
		return err
	}
	if info.Size() != f.Size {
		return fmt.Errorf("%s has %d bytes, not %d", d.path(filesDir, f.SHA256), info.Size(), f.Size)
	}
	return nil
}

// Taken is what a new backup has cost.
type Taken struct {
	Entry
	Files int   // that were sent
	Bytes int64 // of them
}

// Take receives a backup. It is there durably when Take returns without an error, and else
// it is not there; files that came are kept until [Destination.Prune].
func (d *Destination) Take(r io.Reader) (*Taken, error) {
	t := &Taken{}
	m, err := receive(r, func(_ string, size int64, r io.Reader) (string, error) {
		t.Files++
		t.Bytes += size
		return d.takeFile(r)
	}, d.has)
	if err != nil {
		return nil, err
	}
	if err := syncDir(d.fs, d.path(filesDir)); err != nil {
		return nil, fmt.Errorf("keep files: %w", err)
	}
	list, err := d.List()
	if err != nil {
		return nil, err
	}
	t.Number, t.Manifest = 1, m
	if n := len(list); n > 0 {
		t.Number = list[n-1].Number + 1
	}
	t.Name = fmt.Sprintf("%06d-%s.json", t.Number, m.Time.UTC().Format("20060102T150405Z"))
	b, err := m.encode()
	if err != nil {
		return nil, err
	}
	if err := d.putManifest(t.Name, b); err != nil {
		return nil, fmt.Errorf("keep manifest: %w", err)
	}
	return t, nil
}

// takeFile keeps a file under the name of its content.
func (d *Destination) takeFile(r io.Reader) (sum string, err error) {
	d.next++
	tmp := d.path(filesDir, incoming+strconv.Itoa(d.next))
	sum, _, err = writeFile(d.fs, tmp, r, true)
	if err != nil {
		return "", errors.Join(err, removeIfExists(d.fs, tmp))
	}
	return sum, d.fs.Rename(tmp, d.path(filesDir, sum))
}

func (d *Destination) putManifest(name string, b []byte) error {
	tmp := d.path(manifestsDir, incoming+name)
	if _, _, err := writeFile(d.fs, tmp, strings.NewReader(string(b)), true); err != nil {
		return errors.Join(err, removeIfExists(d.fs, tmp))
	}
	if err := d.fs.Rename(tmp, d.path(manifestsDir, name)); err != nil {
		return err
	}
	return syncDir(d.fs, d.path(manifestsDir))
}

// Damage is a file of a destination that is not what it should be.
type Damage struct {
	Path    string `json:"path"`
	What    string `json:"what"`
	Backups []int  `json:"backups"` // numbers of those that need it
}

// Verify reads every file of every backup and gives those that are missing or damaged.
func (d *Destination) Verify() (damage []Damage, files int, err error) {
	list, err := d.List()
	if err != nil {
		return nil, 0, err
	}
	type content struct {
		sum  string
		size int64
	}
	users := map[content][]int{}
	var order []content
	for _, e := range list {
		if e.Err != nil {
			damage = append(damage, Damage{Path: d.path(manifestsDir, e.Name), What: e.Err.Error(), Backups: []int{e.Number}})
			continue
		}
		for _, f := range e.Manifest.Files {
			c := content{f.SHA256, f.Size}
			if len(users[c]) == 0 {
				order = append(order, c)
			}
			if !slices.Contains(users[c], e.Number) {
				users[c] = append(users[c], e.Number)
			}
		}
	}
	for _, c := range order {
		what, err := d.verifyFile(c.sum, c.size)
		if err != nil {
			return damage, files, err
		}
		if files++; what != "" {
			damage = append(damage, Damage{Path: d.path(filesDir, c.sum), What: what, Backups: users[c]})
		}
	}
	return damage, files, nil
}

// verifyFile reads one file and says what is wrong with it.
func (d *Destination) verifyFile(sum string, size int64) (what string, err error) {
	f, err := d.fs.Open(d.path(filesDir, sum), vfs.SequentialReadsOption)
	if errors.Is(err, os.ErrNotExist) {
		return "it is missing", nil
	}
	if err != nil {
		return "", fmt.Errorf("verify: %w", err)
	}
	h := sha256.New()
	n, err := io.CopyBuffer(h, f, make([]byte, copySize))
	closed := f.Close()
	switch {
	case err != nil:
		return "it cannot be read: " + err.Error(), closed
	case n != size:
		return fmt.Sprintf("it has %d bytes, not %d", n, size), closed
	case hex.EncodeToString(h.Sum(nil)) != sum:
		return "its content does not have the checksum that is its name", closed
	}
	return "", closed
}

// Pruned is what Prune has removed.
type Pruned struct {
	Backups []Entry
	Files   int
	Bytes   int64
}

// Prune removes all backups but the newest keep ones, and then the files that none of
// those that are left needs. If one of those lacks a file, or a manifest cannot be read,
// nothing is removed: older backups may be all that can be restored.
func (d *Destination) Prune(keep int) (*Pruned, error) {
	list, err := d.List()
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.Err != nil {
			return nil, fmt.Errorf("prune: which files are needed is unknown: %w", e.Err)
		}
	}
	p := &Pruned{}
	p.Backups = list[:max(0, len(list)-keep)]
	for _, e := range list[len(p.Backups):] {
		for _, f := range e.Manifest.Files {
			if err := d.has(f); err != nil {
				return nil, fmt.Errorf("prune: backup %d, which is to stay, is not whole: %w", e.Number, err)
			}
		}
	}
	for _, e := range p.Backups {
		if err := d.fs.Remove(d.path(manifestsDir, e.Name)); err != nil {
			return nil, fmt.Errorf("prune: %w", err)
		}
	}
	if err := syncDir(d.fs, d.path(manifestsDir)); err != nil {
		return nil, fmt.Errorf("prune: %w", err)
	}
	needed := map[string]bool{}
	for _, e := range list[len(p.Backups):] {
		for _, f := range e.Manifest.Files {
			needed[f.SHA256] = true
		}
	}
	names, err := d.fs.List(d.path(filesDir))
	if err != nil {
		return nil, fmt.Errorf("prune: %w", err)
	}
	for _, name := range names {
		if needed[name] || !isSum(name) {
			continue
		}
		if info, err := d.fs.Stat(d.path(filesDir, name)); err == nil {
			p.Files++
			p.Bytes += info.Size()
		}
		if err := d.fs.Remove(d.path(filesDir, name)); err != nil {
			return nil, fmt.Errorf("prune: %w", err)
		}
	}
	return p, nil
}
