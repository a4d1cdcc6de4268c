package durablestreams

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"durablestreams/httpapi"
	"durablestreams/internal/fastpath"
)

// The end is bounded, whatever hangs.
const (
	// settleTime is how long after the grace time handlers have to notice that
	// their connections were cut, and how long a failed engine may take to close.
	settleTime = 2 * time.Second

	// closeTime is how long after that a sound engine has to put everything away.
	closeTime = 10 * time.Second
)

// ErrStuck says that a Server came to its end without the data directory having
// been closed: the disk does not answer, or is far too slow. Nothing that was
// acknowledged is lost. The process should end.
var ErrStuck = errors.New("the data directory could not be closed in time; nothing acknowledged is lost")

// Serve answers the requests that come in by the listener, over HTTP/1.1 and HTTP/2,
// and over TLS if the options have a certificate, until ctx ends, then
// shuts the server down with the grace time of the options. If the disk fails it
// stops too and returns [Server.Err]. It closes the listener in any case. Several
// listeners may be served at once; the first one that ends ends all.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	limit := s.limit(ln)
	hs := httpapi.NewServer(s.handler, s.opts.http())
	hs.ConnState = limit.track
	accept, fast, err := s.split(limit)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if !s.add(endpoint{hs, fast, limit}) {
		return errors.Join(ErrShutdown, ln.Close(), fast.Shutdown(ctx))
	}
	ended := make(chan error, 1)
	go func() { ended <- s.listen(hs, accept) }()
	grace := s.opts.ShutdownGrace
	select {
	case <-ctx.Done():
	case <-s.failed:
		grace = min(grace, settleTime)
	case err = <-ended:
		if errors.Is(err, http.ErrServerClosed) {
			err = nil // Shutdown was called
		} else {
			err = fmt.Errorf("accept connections: %w", err)
		}
	}
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return errors.Join(err, s.Shutdown(end))
}

// listen serves with TLS, if there is a certificate.
func (s *Server) listen(hs *http.Server, ln net.Listener) error {
	if s.cert == nil {
		return hs.Serve(ln)
	}
	hs.TLSConfig = &tls.Config{GetCertificate: s.cert.get}
	return hs.ServeTLS(ln, "", "")
}

// endpoint is what serves one listener: the fast path, if there is one, and
// net/http for what that does not take.
type endpoint struct {
	http  *http.Server
	fast  *fastpath.Server // nil: none
	limit *connectionLimit
}

// split lets the fast path have the connections first, where there is one and
// requests come in the clear.
func (s *Server) split(limit *connectionLimit) (net.Listener, *fastpath.Server, error) {
	if s.opts.NoFastPath || !fastpath.Supported || s.cert != nil {
		return limit, nil, nil
	}
	fast, err := fastpath.New(s.core, s.opts.fastPath())
	if err != nil {
		return nil, nil, fmt.Errorf("start event loops: %w", err)
	}
	return fastpath.Split(limit, fast, func(delta int64) { limit.open.Add(delta) }), fast, nil
}

// add registers an endpoint for Shutdown, unless that has begun.
func (s *Server) add(e endpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.endpoints = append(s.endpoints, e)
	return true
}

// shutdown lets the requests in hand finish until ctx ends, then cuts them. It
// reports whether none was cut.
func (e endpoint) shutdown(ctx context.Context) (gently bool) {
	var fast error
	var wg sync.WaitGroup
	wg.Go(func() { fast = e.fast.Shutdown(ctx) })
	gently = e.http.Shutdown(ctx) == nil
	if !gently {
		_ = e.http.Close()
	}
	wg.Wait()
	return gently && fast == nil
}

// Shutdown ends the server: no more connections and requests are taken, live
// reads end as if their time was up, changes under way are answered, then webhook
// calls that are under way end, and then everything is moved into the archive and the data directory let go. When ctx
// ends first, the connections that are left are cut, which takes nothing from
// what was acknowledged; some seconds later Shutdown returns in any case. It is
// idempotent; every call waits for the end and returns the same error:
// [Server.Err], [ErrStuck], or that the data directory could not be closed
// cleanly.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shutdown.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *Server) close(ctx context.Context) error {
	defer s.admin.end()
	s.access.close()
	s.mu.Lock()
	s.closing = true
	endpoints := s.endpoints
	s.mu.Unlock()
	s.core.DrainWithin(spreadTime(ctx))
	ctx, cancel := s.untilFailed(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		s.endRequests(ctx, endpoints)
		close(ended)
	}()
	if !within(ctx, settleTime, ended) {
		s.opts.Logger.Warn("requests are still running; the data directory is closed below them")
		s.requests.shut()
	}
	s.closeSubscriptions(ctx)
	defer s.endWatch()
	return s.closeEngine(ctx)
}

// spreadTime is the part of the grace time in which live reads end one after the
// other, where they are many.
func spreadTime(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return settleTime
	}
	return time.Until(end) / 2
}

// closeSubscriptions lets webhook calls end within the grace time. What is not done
// then is done after the next start.
func (s *Server) closeSubscriptions(ctx context.Context) {
	if s.subs == nil {
		return
	}
	closed := make(chan struct{})
	go func() {
		s.subs.close(ctx)
		close(closed)
	}()
	if !within(ctx, settleTime, closed) {
		s.opts.Logger.Warn("webhook calls are still running; the data directory is closed below them")
	}
}

// untilFailed gives a context that ends with ctx, or a moment after the disk
// has failed: what waits for it waits in vain.
func (s *Server) untilFailed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-s.failed:
		}
		select {
		case <-ctx.Done():
		case <-time.After(settleTime):
			cancel()
		}
	}()
	return ctx, cancel
}

// within waits until done is closed, or some time after the end of ctx. It reports
// whether done was closed.
func within(ctx context.Context, more time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	late := time.NewTimer(more)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}

// endRequests ends all endpoints and waits for the requests of others.
func (s *Server) endRequests(ctx context.Context, endpoints []endpoint) {
	var wg sync.WaitGroup
	for _, e := range endpoints {
		wg.Go(func() {
			if !e.shutdown(ctx) {
				s.opts.Logger.Warn("requests did not end within the grace time and were cut")
			}
		})
	}
	wg.Wait()
	<-s.requests.shut()
}

// closeEngine closes the engine. It does not wait for one that is stuck, and not
// long for one that has failed: what that waits for itself may never come.
func (s *Server) closeEngine(ctx context.Context) error {
	var err error
	closed := make(chan struct{})
	go func() {
		err = s.engine.Close()
		close(closed)
	}()
	over, failed := ctx.Done(), s.failed
	var giveUp <-chan time.Time
	for {
		select {
		case <-closed:
			return s.closeError(err)
		case <-over:
			over, giveUp = nil, time.After(closeTime)
		case <-failed:
			failed, over, giveUp = nil, nil, time.After(settleTime)
		case <-giveUp:
			s.opts.Logger.Error("the data directory cannot be closed, giving up; nothing acknowledged is lost")
			return s.closeError(ErrStuck)
		}
	}
}

// closeError prefers the reason to its consequences.
func (s *Server) closeError(err error) error {
	if cause := s.Err(); cause != nil {
		return cause
	}
	if err != nil && !errors.Is(err, ErrStuck) {
		return fmt.Errorf("close the data directory: %w", err)
	}
	return err
}
