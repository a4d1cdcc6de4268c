package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"durablestreams/client"
)

// stateFile keeps how far ds tail has come.
type stateFile struct {
	name string

	Stream string        `json:"stream"` // its URL
	Offset client.Offset `json:"offset"`
	Closed bool          `json:"closed"` // there will be no more
}

// openState reads a state file, or begins one for the stream at url.
func openState(name, url string) (*stateFile, error) {
	s := &stateFile{name: name, Stream: url}
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("state file %s: %w", name, err)
	case s.Stream != url:
		return nil, fmt.Errorf("state file %s: it belongs to another stream, %s", name, s.Stream)
	case s.Offset == "":
		return nil, fmt.Errorf("state file %s: it has no offset", name)
	}
	return s, nil
}

// save replaces the file, whole or not at all.
func (s *stateFile) save(b client.Batch) error {
	if b.Offset == s.Offset && b.Closed == s.Closed {
		return nil
	}
	s.Offset, s.Closed = b.Offset, b.Closed
	text, err := json.Marshal(s)
	if err == nil {
		err = replaceFile(s.name, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	return nil
}

// replaceFile writes a file beside its place and moves it there.
func replaceFile(name string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
