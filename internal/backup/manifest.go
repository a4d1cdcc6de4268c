package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// manifestFormat is the version of a manifest; it is read before anything else.
const manifestFormat = 1

// manifestName is the name of the manifest in a tar.
const manifestName = "manifest.json"

// maxManifest is the largest manifest that is read, in bytes.
const maxManifest = 256 << 20

// Manifest says what one backup is made of.
type Manifest struct {
	Format     int       `json:"format"`      // 1
	Time       time.Time `json:"time"`        // when the picture was taken, by the server's clock
	Server     string    `json:"server"`      // the program's version; informative
	LastRecord uint64    `json:"last_record"` // of the journal; all up to it is in the backup
	Files      []File    `json:"files"`       // in the order of their names
	Sum        string    `json:"sum"`         // SHA-256 of the manifest with this empty, in hex
}

// File is one file of a data directory.
type File struct {
	Name    string `json:"name"` // in the data directory, with slashes
	Size    int64  `json:"size"` // in bytes
	SHA256  string `json:"sha256"`
	Lasting bool   `json:"lasting,omitempty"` // never written again: worth asking for in the next backup
}

// secretDir is the folder of keys, which are the owner's alone.
const secretDir = "keys"

// secret reports whether nobody else may read the file.
func (f *File) secret() bool { return strings.HasPrefix(f.Name, secretDir+"/") }

// Bytes is the size of all files together.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// encode gives the manifest's bytes, its sum filled in.
func (m *Manifest) encode() ([]byte, error) {
	sum, err := m.sum()
	if err != nil {
		return nil, err
	}
	m.Sum = sum
	return json.MarshalIndent(m, "", " ")
}

func (m *Manifest) sum() (string, error) {
	plain := *m
	plain.Sum = ""
	b, err := json.Marshal(&plain)
	if err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// errManifest says that a manifest is none.
var errManifest = errors.New("the manifest is damaged")

// ParseManifest reads a manifest and checks it.
func ParseManifest(b []byte) (*Manifest, error) {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return nil, fmt.Errorf("%w: %w", errManifest, err)
	}
	if version.Format != manifestFormat {
		return nil, fmt.Errorf("the manifest has format %d, this program knows format %d", version.Format, manifestFormat)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	m := &Manifest{}
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", errManifest, err)
	}
	sum, err := m.sum()
	if err != nil {
		return nil, err
	}
	if sum != m.Sum {
		return nil, fmt.Errorf("%w: its checksum is wrong", errManifest)
	}
	last := ""
	for i := range m.Files {
		f := &m.Files[i]
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("%w: %w", errManifest, err)
		}
		if f.Name <= last {
			return nil, fmt.Errorf("%w: %q comes after %q", errManifest, f.Name, last)
		}
		last = f.Name
	}
	return m, nil
}

// dirs are the folders of a data directory that a backup has files of.
func dirs() []string { return []string{"archive", "journal", secretDir} }

// checkName refuses what is not a file of a data directory.
func checkName(name string) error {
	folder, rest, _ := strings.Cut(name, "/")
	for _, d := range dirs() {
		if folder == d && rest != "" && rest != "." && rest != ".." && !strings.ContainsAny(rest, "/\\\x00") && path.Clean(name) == name {
			return nil
		}
	}
	return fmt.Errorf("%q is no file of a data directory", name)
}

func (f *File) check() error {
	if err := checkName(f.Name); err != nil {
		return err
	}
	if f.Size < 0 {
		return fmt.Errorf("%s has %d bytes", f.Name, f.Size)
	}
	if !isSum(f.SHA256) {
		return fmt.Errorf("%s has no checksum", f.Name)
	}
	return nil
}

// isSum reports whether a text is a checksum as it is written here. It is a file name then.
func isSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}
