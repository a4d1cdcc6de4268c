package durablestreams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/auth"
	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// urlKeyFile is the place of the key for signed URLs in a data directory.
func urlKeyFile(fs vfs.FS, dir string) string { return fs.PathJoin(dir, "keys", "urls") }

// access joins package auth to the protocol.
type access struct {
	*auth.Authorizer
	fs      vfs.FS
	keyFile string

	stop    context.CancelFunc // of watch; nil: it has not begun
	stopped chan struct{}
}

// caller is one as package protocol sees it.
type caller struct{ *auth.Caller }

// Renew implements [protocol.Caller].
func (c caller) Renew() (protocol.Caller, error) {
	now, err := c.Caller.Renew()
	if err != nil {
		return nil, err
	}
	return caller{now}, nil
}

// watch takes changes of the files from now on, and tells changed.
func (a *access) watch(changed func()) {
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	a.stopped = make(chan struct{})
	go func() {
		defer close(a.stopped)
		a.Watch(ctx, changed)
	}()
}

// close ends watch.
func (a *access) close() {
	if a != nil && a.stop != nil {
		a.stop()
		<-a.stopped
	}
}

// openAccess gives nil if there is to be no access control.
func openAccess(fs vfs.FS, dir string, o *Options) (*access, error) {
	if o.Access == nil {
		return nil, nil
	}
	a := &access{fs: fs, keyFile: urlKeyFile(fs, dir)}
	key, err := makeURLKey(fs, a.keyFile)
	if err != nil {
		return nil, err
	}
	opts := *o.Access
	if opts.Logger == nil {
		opts.Logger = o.Logger
	}
	if a.Authorizer, err = auth.New(&opts, key); err != nil {
		return nil, err
	}
	return a, nil
}

// Identify implements [protocol.Access].
func (a *access) Identify(authorization []string, wait bool) (protocol.Caller, bool, error) {
	c, known, err := a.Authorizer.Identify(authorization, wait)
	if c == nil {
		return nil, known, err
	}
	return caller{c}, known, err
}

// Signed implements [protocol.Access].
func (a *access) Signed(query string, path stream.Path, alone bool) (protocol.Caller, error) {
	c, err := a.Authorizer.Signed(query, path, alone)
	if c == nil {
		return nil, err
	}
	return caller{c}, err
}

// reload takes what has changed since the last time.
func (a *access) reload() error {
	key, err := makeURLKey(a.fs, a.keyFile)
	if err != nil {
		return err
	}
	return a.Reload(key)
}

// errNoAccess says that a server lets everybody do everything.
var errNoAccess = errors.New("the server has no access control")

// ReloadAccess reads the access file, an issuer's key file and the key for signed URLs
// again, and has an issuer's keys fetched again. If it fails, everything stays as it
// was. Live reads of keys that are not there any more, or may not read any more, end.
// Changes of the files are taken without it, within about a second. Without access
// control there is nothing to do.
func (s *Server) ReloadAccess() error {
	if s.access == nil {
		return nil
	}
	if err := s.access.reload(); err != nil {
		return err
	}
	s.core.RecheckAccess()
	return nil
}

// Authorize says whether whoever sends a request with this header may do that to the
// streams at a path, or, if it is empty, to all streams. It is for endpoints besides
// the protocol's; without access control it lets everybody. A refusal is a
// [*stream.Error] of the kinds [stream.Unauthenticated] and [stream.InvalidToken] (401),
// [stream.Forbidden] (403), [stream.InvalidHeader] (400), [stream.Busy] (503) or, if
// existence is hidden, [stream.NotFound] (404). It may wait for an issuer's keys.
func (s *Server) Authorize(header http.Header, right stream.Right, path stream.Path) error {
	if s.access == nil {
		return nil
	}
	return s.access.Authorize(header.Values("Authorization"), right, path)
}

// SignURL gives the query parameter that makes the URL of a stream readable for so
// long by whoever has it.
func (s *Server) SignURL(path stream.Path, life time.Duration) (param string, err error) {
	if s.access == nil {
		return "", errNoAccess
	}
	return s.access.Sign(path, time.Now().Add(life))
}

// SignURL gives the query parameter that makes the URL of a stream readable for so
// long by whoever has it, on the server of the data directory dir, which may be
// running. It is an error if no server with access control has used it yet.
func SignURL(dir string, path stream.Path, life time.Duration) (param string, err error) {
	key, err := readURLKey(vfs.Default, urlKeyFile(vfs.Default, dir))
	if err != nil {
		return "", fmt.Errorf("the key for signed URLs: %w", err)
	}
	now := time.Now()
	return key.Sign(path, now, now.Add(life))
}

// maxURLKeyFile is more than a key takes, in bytes.
const maxURLKeyFile = 1 << 10

// makeURLKey reads the key for signed URLs, and makes it if there is none.
func makeURLKey(fs vfs.FS, path string) (auth.URLKey, error) {
	key, err := readURLKey(fs, path)
	if errors.Is(err, os.ErrNotExist) {
		if err = writeURLKey(fs, path, auth.NewURLKey()); err == nil || errors.Is(err, os.ErrExist) {
			key, err = readURLKey(fs, path) // possibly another process's
		}
	}
	if err != nil {
		return key, fmt.Errorf("the key for signed URLs: %w", err)
	}
	return key, nil
}

func readURLKey(fs vfs.FS, path string) (key auth.URLKey, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return key, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxURLKeyFile))
	if err = errors.Join(err, f.Close()); err != nil {
		return key, err
	}
	return auth.ParseURLKey(text)
}

// writeURLKey makes the file for the owner alone. It appears with its whole content,
// or not at all, and never takes another one's place.
func writeURLKey(fs vfs.FS, path string, key auth.URLKey) error {
	folder := fs.PathDir(path)
	if err := fs.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	next := fmt.Sprintf("%s.new-%d-%d", path, os.Getpid(), time.Now().UnixNano())
	f, err := fs.Create(next, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if f.Fd() != vfs.InvalidFd { // a real file: it has rights
		err = os.Chmod(next, 0o600)
	}
	if err == nil {
		_, err = f.Write(key.Text())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fs.Link(next, path)
	}
	err = errors.Join(err, fs.Remove(next))
	if err != nil {
		return err
	}
	dir, err := fs.OpenDir(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
