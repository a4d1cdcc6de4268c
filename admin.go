package durablestreams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"durablestreams/httpapi"
	"durablestreams/internal/admin"
	"durablestreams/stream"
)

// Admin serves operators: health, metrics and profiles. It is no part of
// [Server.Handler]. Health and metrics are for whoever may call it, and without
// [Options.Access] everything is; with it, streams and what is known of them need a
// token, and profiles do where the request came by an address that other machines reach. It tells pages
// that a browser has open from an operator by the Host of a request, so it must see
// that as it was sent. [Options.AdminListener] serves it as well.
func (s *Server) Admin() http.Handler { return s.admin.handler }

// adminServer serves operators as long as there is something to see.
type adminServer struct {
	handler *admin.Handler
	http    *http.Server
	ln      net.Listener // nil: none
	log     *slog.Logger
}

const (
	maxAdminConnections = 128         // beyond it new ones are closed: this is not for crowds
	adminEndTime        = time.Second // for requests at the very end
)

func newAdmin(s *Server) *adminServer {
	h := admin.New(&admin.Options{Alive: s.Err, Ready: s.ready, Operator: s.operator})
	hs := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ConnState: bounded(maxAdminConnections), ErrorLog: slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug)}
	return &adminServer{handler: h, http: hs, ln: s.opts.AdminListener, log: s.opts.Logger}
}

// operator lets those through who may do everything.
func (s *Server) operator(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.opened.Load() { // nobody can be told from anybody yet
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		if err := s.Authorize(r.Header, stream.MayAdmin, ""); err != nil {
			httpapi.Refusal(s.core, s.opts.http(), err).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bounded closes connections that are too many as they come.
func bounded(limit int64) func(net.Conn, http.ConnState) {
	var open atomic.Int64
	return func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > limit {
				_ = c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
}

func (a *adminServer) start() {
	if a.ln == nil {
		return
	}
	go func() {
		if err := a.http.Serve(a.ln); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the admin address is not served any more", "err", err)
		}
	}()
}

// end gives requests a moment. The listener is closed here too, as Serve may not have
// begun with it.
func (a *adminServer) end() {
	if a.ln == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminEndTime)
	defer cancel()
	if a.http.Shutdown(ctx) != nil {
		_ = a.http.Close()
	}
	_ = a.ln.Close()
}

// ready says why clients should not come now; nil if they should.
func (s *Server) ready() error {
	if err := s.Err(); err != nil {
		return err
	}
	if !s.opened.Load() {
		return errors.New("starting: the data directory is being opened")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return fmt.Errorf("stopping: %w", ErrShutdown)
	}
	if e, ok := s.engine.(observed); ok && e.Full() {
		return errors.New("the disk is full: changes are refused")
	}
	return nil
}
