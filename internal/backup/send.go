package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
)

// Set is the files that make up one backup.
type Set struct {
	time  time.Time
	last  uint64
	files []source
	close func() error
}

// source is a file that can be read.
type source struct {
	File
	open func() (io.ReadCloser, error)
}

// NewSet puts a picture of the data directory dir and its keys together. The set closes
// the picture, also if there is an error.
func NewSet(fs vfs.FS, dir string, p *store.Picture) (*Set, error) {
	s := &Set{time: time.Now().UTC().Truncate(time.Second), last: p.LastRecord, close: p.Close}
	for _, f := range p.Files {
		s.files = append(s.files, source{
			File: File{Name: f.Name, Size: f.Size, Lasting: f.Lasting},
			open: func() (io.ReadCloser, error) { return p.Open(f) },
		})
	}
	if err := s.addKeys(fs, fs.PathJoin(dir, secretDir)); err != nil {
		return nil, errors.Join(fmt.Errorf("read keys: %w", err), p.Close())
	}
	slices.SortFunc(s.files, func(a, b source) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

// maxKey is the largest file of keys, in bytes.
const maxKey = 1 << 20

// addKeys reads the keys, which are only ever replaced as whole files. Locks and what is
// being written (name.new) are left out.
func (s *Set) addKeys(fs vfs.FS, folder string) error {
	names, err := fs.List(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".lock") || strings.Contains(name, ".new") {
			continue
		}
		b, err := readSmall(fs, fs.PathJoin(folder, name), maxKey)
		if err != nil {
			return err
		}
		s.files = append(s.files, source{
			File: File{Name: secretDir + "/" + name, Size: int64(len(b))},
			open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(b))), nil },
		})
	}
	return nil
}

// readSmall reads a whole file of up to so many bytes.
func readSmall(fs vfs.FS, path string, most int64) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return b, nil
}

// Close lets the files go.
func (s *Set) Close() error { return s.close() }

// Sums remembers the checksums of lasting files, so that each is read once in the life of
// an engine and not with every backup. The zero value is empty.
type Sums struct {
	mu    sync.Mutex
	known map[string]File // by name
}

func (s *Sums) get(f File) (sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.known[f.Name]; ok && k.Size == f.Size {
		return k.SHA256
	}
	return ""
}

// keep remembers the sums of the lasting ones of these files, and no others.
func (s *Sums) keep(files []File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = map[string]File{}
	for _, f := range files {
		if f.Lasting {
			s.known[f.Name] = f
		}
	}
}

// Send writes a set as a tar, without the lasting files among have. What others have is
// known by its content: a file of that name and another content is sent. It returns the
// manifest once all is written.
func (s *Sums) Send(ctx context.Context, w io.Writer, set *Set, have []File, server string) (*Manifest, error) {
	there := map[File]bool{}
	for _, f := range have {
		there[File{Name: f.Name, Size: f.Size, SHA256: f.SHA256}] = true
	}
	named := map[string]bool{}
	for f := range there {
		named[f.Name] = true
	}
	m := &Manifest{Format: manifestFormat, Time: set.time, Server: server, LastRecord: set.last}
	t := tar.NewWriter(w)
	for i := range set.files {
		f := &set.files[i]
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("send backup: %w", err)
		}
		if f.Lasting && named[f.Name] {
			if f.SHA256 = s.get(f.File); f.SHA256 == "" {
				sum, err := f.copyTo(io.Discard)
				if err != nil {
					return nil, err
				}
				f.SHA256 = sum
			}
		}
		if f.SHA256 == "" || !there[File{Name: f.Name, Size: f.Size, SHA256: f.SHA256}] {
			if err := f.send(t, set.time); err != nil {
				return nil, err
			}
		}
		m.Files = append(m.Files, f.File)
	}
	s.keep(m.Files)
	b, err := m.encode()
	if err != nil {
		return nil, err
	}
	if err := t.WriteHeader(header(manifestName, int64(len(b)), set.time)); err != nil {
		return nil, fmt.Errorf("send manifest: %w", err)
	}
	if _, err := t.Write(b); err != nil {
		return nil, fmt.Errorf("send manifest: %w", err)
	}
	if err := t.Close(); err != nil {
		return nil, fmt.Errorf("send backup: %w", err)
	}
	return m, nil
}

func header(name string, size int64, at time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: at, Format: tar.FormatPAX}
}

// send writes the file, and notes its sum.
func (f *source) send(t *tar.Writer, at time.Time) error {
	if err := t.WriteHeader(header(f.Name, f.Size, at)); err != nil {
		return fmt.Errorf("send %s: %w", f.Name, err)
	}
	sum, err := f.copyTo(t)
	if err != nil {
		return err
	}
	if f.SHA256 != "" && sum != f.SHA256 {
		return fmt.Errorf("send %s: it is not what it was a moment ago", f.Name)
	}
	f.SHA256 = sum
	return nil
}

// copyTo writes the file's bytes and gives their sum.
func (f *source) copyTo(w io.Writer) (sum string, err error) {
	r, err := f.open()
	if err != nil {
		return "", fmt.Errorf("read %s: %w", f.Name, err)
	}
	h := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(w, h), r, make([]byte, copySize))
	if err := errors.Join(err, r.Close()); err != nil {
		return "", fmt.Errorf("send %s: %w", f.Name, err)
	}
	if n != f.Size {
		return "", fmt.Errorf("read %s: it has %d bytes, not %d", f.Name, n, f.Size)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copySize is how many bytes are moved at once.
const copySize = 256 << 10
