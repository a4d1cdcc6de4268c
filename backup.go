package durablestreams

import (
	"context"
	"errors"
	"net/http"

	"durablestreams/httpapi"
	"durablestreams/internal/backup"
	"durablestreams/internal/version"
	"durablestreams/stream"
)

// backups are the server as what makes backups sees it.
type backups struct{ *Server }

// Backup implements [backup.Server].
func (b backups) Backup(ctx context.Context) (*backup.Set, error) {
	p, err := b.store.Picture(ctx)
	if err != nil {
		return nil, err
	}
	return backup.NewSet(b.fs, b.dir, p)
}

// Enough implements [backup.Server]: a picture holds space that others need now.
func (b backups) Enough() error {
	if err := b.Err(); err != nil {
		return err
	}
	if b.store.Full() {
		return errors.New("the disk is full, and a backup keeps space")
	}
	return nil
}

// Version implements [backup.Server].
func (backups) Version() string { return version.Read().Version }

// backupAPI sends backups to whoever may do everything: there are keys in them. It does
// not hold up the end of the server: what is not sent by then is cut off.
func (s *Server) backupAPI() http.Handler {
	fail := func(w http.ResponseWriter, r *http.Request, err error) {
		httpapi.Refusal(s.core, s.opts.http(), err).ServeHTTP(w, r)
	}
	send := backup.Handler(backups{s}, s.opts.Logger, fail)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Authorize(r.Header, stream.MayAdmin, ""); err != nil {
			fail(w, r, err)
			return
		}
		send.ServeHTTP(w, r)
	})
}
