package backup

import (
	"context"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
)

// Offline gives the backup of a data directory that no server is using as a server sends
// it, without the files that the caller has. The directory is locked
// until the reader is closed, and nothing is written to it.
func Offline(ctx context.Context, fs vfs.FS, dir string, have []File, server string) (io.ReadCloser, error) {
	p, err := store.PictureOf(fs, dir)
	if err != nil {
		return nil, err
	}
	set, err := NewSet(fs, dir, p)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		var sums Sums
		_, err := sums.Send(ctx, w, set, have, server)
		w.CloseWithError(err)
		sent <- set.Close()
	}()
	return &offline{PipeReader: r, sent: sent}, nil
}

// offline is the reading end of a
type offline struct {
	*io.PipeReader
	sent   chan error
	closed bool
}

// Close ends the backup and lets the directory go.
func (o *offline) Close() error {
	if o.closed {
		return nil
	}
	o.closed = true
	return errors.Join(o.PipeReader.Close(), <-o.sent)
}
