package backup

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
)

// ErrNoBackup says that a tar ended before its manifest: whoever sent it did not come to
// an end.
var ErrNoBackup = errors.New("it is not a whole backup: the manifest is missing")

// received is a file that came with a tar.
type received struct {
	sum  string
	size int64
}

// receive reads a tar that Send has written. take gets every file and gives its checksum.
// Files of the manifest that did not come are looked for with has.
func receive(r io.Reader, take func(name string, size int64, r io.Reader) (sum string, err error), has func(File) error) (*Manifest, error) {
	t := tar.NewReader(r)
	came := map[string]received{}
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("receive backup: %w", ErrNoBackup)
		}
		if err != nil {
			return nil, fmt.Errorf("receive backup: %w (%w)", ErrNoBackup, err)
		}
		if h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("receive backup: %q is no plain file", h.Name)
		}
		if h.Name == manifestName {
			return finish(t, came, has)
		}
		if err := checkName(h.Name); err != nil {
			return nil, fmt.Errorf("receive backup: %w", err)
		}
		if _, twice := came[h.Name]; twice {
			return nil, fmt.Errorf("receive backup: %s comes twice", h.Name)
		}
		sum, err := take(h.Name, h.Size, t)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("receive %s: %w", h.Name, ErrNoBackup)
		}
		if err != nil {
			return nil, fmt.Errorf("receive %s: %w", h.Name, err)
		}
		came[h.Name] = received{sum: sum, size: h.Size}
	}
}

// finish reads the manifest and compares it with what came.
func finish(t *tar.Reader, came map[string]received, has func(File) error) (*Manifest, error) {
	b, err := io.ReadAll(io.LimitReader(t, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("receive backup: %w (%w)", ErrNoBackup, err)
	}
	m, err := ParseManifest(b)
	if err != nil {
		return nil, fmt.Errorf("receive backup: %w", err)
	}
	for _, f := range m.Files {
		got, ok := came[f.Name]
		delete(came, f.Name)
		switch {
		case !ok:
			if err := has(f); err != nil {
				return nil, fmt.Errorf("receive backup: %s was not sent: %w", f.Name, err)
			}
		case got != received{f.SHA256, f.Size}:
			return nil, fmt.Errorf("receive %s: it came with another content than the manifest says", f.Name)
		}
	}
	for name := range came {
		return nil, fmt.Errorf("receive backup: %s came, but the manifest does not name it", name)
	}
	return m, nil
}
