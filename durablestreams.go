// Package durablestreams is the Durable Streams server as a value: open a data
// directory, mount the handler or serve a listener, shut down. It joins the
// engine (package store), the protocol and its transport (package httpapi), and
// decides nothing itself.
//
// A Server may be used by any number of goroutines at once. Every 2xx answer to
// a change means that the change is on the disk; a Server that cannot keep this
// promise any more says so by [Server.Failed] and answers nothing but errors.
package durablestreams

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/httpapi"
	"durablestreams/internal/memfs"
	"durablestreams/internal/protocol"
	"durablestreams/internal/requestlog"
	"durablestreams/internal/tenant"
	"durablestreams/internal/trace"
	"durablestreams/internal/wire"
	"durablestreams/store"
)

// ErrLocked says that another process serves the data directory.
var ErrLocked = store.ErrLocked

// ErrNewer says that something of the data directory was written by a newer program, in
// a format that this one does not know. Nothing was changed.
var ErrNewer = store.ErrNewer

// ErrDamaged says that files of the data directory are damaged: [Check] says which,
// and [Repair] makes it openable again.
var ErrDamaged = store.ErrDamaged

// ErrShutdown says that a Server has been shut down.
var ErrShutdown = errors.New("the server has been shut down")

// Server serves the streams of one data directory.
type Server struct {
	opts    Options
	fs      vfs.FS // with the data directory dir
	dir     string
	engine  engine
	store   *store.Engine  // the same; nil if there is none
	subs    *subscriptions // nil: none
	access  *access        // nil: everybody may do everything
	tenants *tenant.Ledger // nil: nothing is counted
	core    *protocol.Core
	log     *requestlog.Log // nil: none
	traces  *trace.Traces   // nil: none
	handler http.Handler
	admin   *adminServer
	opened  atomic.Bool
	cert    *certificate // nil: no TLS

	requests gate
	streams  atomic.Int64 // requests under way over HTTP/2

	failed chan struct{} // closed once cause is set
	cause  error

	mu        sync.Mutex
	closing   bool
	endpoints []endpoint
	shutdown  sync.Once
	closeErr  error
}

// engine is what keeps the streams.
type engine interface {
	protocol.Store
	Close() error
}

// memoryDir is the data directory within an in-memory file system.
const memoryDir = "data"

// Open opens the data directory dir, making it if there is none. With
// Options.InMemory dir is ignored. opts may be nil. Somebody has to call
// [Server.Shutdown], or [Server.Serve] with a context that ends.
func Open(dir string, opts *Options) (*Server, error) {
	if opts != nil && opts.InMemory {
		return open(memfs.New(opts.withDefaults().MaxMemory), memoryDir, opts)
	}
	return open(vfs.Default, dir, opts)
}

func open(fs vfs.FS, dir string, opts *Options) (*Server, error) {
	s := newServer(opts)
	s.admin.start()
	err := s.openDir(fs, dir, opts)
	if err != nil {
		s.admin.end()
		return nil, err
	}
	return s, nil
}

func (s *Server) openDir(fs vfs.FS, dir string, opts *Options) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	if dir == "" {
		return errors.New("no data directory given")
	}
	if opts != nil && opts.MaxConnections > s.opts.MaxConnections {
		s.opts.Logger.Warn("fewer connections than asked for: the limit on open files leaves no more", "asked", opts.MaxConnections, "limit", s.opts.MaxConnections)
	}
	var err error
	if s.cert, err = s.opts.certificate(); err != nil {
		return err
	}
	e, err := s.openAll(fs, dir)
	if err != nil {
		return fmt.Errorf("open data directory %s: %w", dir, err)
	}
	if err := s.mount(e); err != nil {
		return err
	}
	if err := s.mountAdmin(); err != nil {
		return err
	}
	if s.access != nil {
		s.access.watch(s.core.RecheckAccess)
	}
	s.opened.Store(true)
	return nil
}

// openAll opens what is in a data directory: the engine, and the subscriptions, which
// watch it from its first change on.
func (s *Server) openAll(fs vfs.FS, dir string) (engine, error) {
	subs, err := openSubscriptions(fs, dir, &s.opts)
	if err != nil {
		return nil, err
	}
	if s.access, err = openAccess(fs, dir, &s.opts); err != nil {
		return nil, err
	}
	so := s.opts.store()
	so.SameType = wire.SameMediaType
	so.OnFatal = s.fail
	so.Observer = subs.manager
	if s.tenants, err = s.openTenants(so); err != nil {
		return nil, err
	}
	e, err := s.openEngine(fs, dir, so, subs)
	if err != nil {
		return nil, err
	}
	s.subs, s.store = subs, e
	s.fs, s.dir = fs, dir
	return e, nil
}

func newServer(opts *Options) *Server {
	s := &Server{opts: opts.withDefaults(), failed: make(chan struct{})}
	s.requests.init()
	s.admin = newAdmin(s)
	return s
}

// mount puts the protocol and its transport on an engine.
func (s *Server) mount(e engine) error {
	po := s.opts.protocol()
	if s.subs != nil {
		po.Control = s.subs.api()
	}
	if s.access != nil {
		po.Access = s.access
	}
	var err error
	if po.Watch, err = s.watch(); err != nil {
		return err
	}
	if s.tenants != nil {
		po.Tenants = s.tenants
	}
	core, err := protocol.New(e, po)
	if err != nil {
		s.endWatch()
		return err // of the options, which Open has checked
	}
	s.engine, s.core = e, core
	h, err := s.withPage(httpapi.Handler(core, s.opts.http()))
	if err != nil {
		return err
	}
	s.handler = s.gated(h)
	s.admin.handler.Handle("GET /metrics", s.metrics())
	return nil
}

// openEngine opens the engine and starts the subscriptions. It does not wait for an
// engine that fails at its start: its archive then stops where it is and never
// comes back.
func (s *Server) openEngine(fs vfs.FS, dir string, opts *store.Options, subs *subscriptions) (*store.Engine, error) {
	var engine *store.Engine
	opened := make(chan error, 1)
	go func() {
		var err error
		if engine, err = store.Open(fs, dir, opts); err == nil {
			if err = subs.start(engine); err != nil {
				err = errors.Join(err, engine.Close())
			}
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		return engine, err
	case <-s.failed:
		return nil, s.cause
	}
}

// Handler serves the protocol, for use in a server of one's own. It must see
// paths as they were sent: http.ServeMux redirects some of them, and
// http.StripPrefix has no effect; set Options.BasePath instead. Every path
// outside of [Server.Root] is answered with 404.
func (s *Server) Handler() http.Handler { return s.handler }

// Root is the URL path below which the streams are, with a slash at the end.
func (s *Server) Root() string { return s.core.Root() }

// Failed is closed when the disk has failed in a way that makes going on unsafe
// (an fsync that returned an error, for example). What was acknowledged is not
// affected; whether unanswered changes are on the disk is unknown. The process
// should end: a new start recovers from what the disk really has.
func (s *Server) Failed() <-chan struct{} { return s.failed }

// Err gives the reason once Failed is closed, nil before.
func (s *Server) Err() error {
	select {
	case <-s.failed:
		return s.cause
	default:
		return nil
	}
}

// fail is called by the engine, once.
func (s *Server) fail(err error) {
	s.cause = fmt.Errorf("the disk failed, so the server has to stop: %w", err)
	close(s.failed)
}
