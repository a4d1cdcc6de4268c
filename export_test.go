package durablestreams

import (
	"log/slog"
	"net"
	"net/http"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// OpenFS is Open on any file system.
func OpenFS(fs vfs.FS, dir string, opts *Options) (*Server, error) { return open(fs, dir, opts) }

// Engine is what a server can be put on.
type Engine = engine

// OnEngine puts a server on an engine. Fail is what the engine calls when its disk
// fails.
func OnEngine(e Engine, opts *Options) (s *Server, fail func(error), err error) {
	s = newServer(opts)
	return s, s.fail, s.mount(e)
}

// CloseTime is how long a sound engine may take to close after that.
const CloseTime = closeTime

// SettleTime is how long Shutdown waits beyond its context.
const SettleTime = settleTime

// Gate is the count of requests.
type Gate struct{ gate }

// NewGate makes a gate that is open.
func NewGate() *Gate {
	g := &Gate{}
	g.init()
	return g
}

func (g *Gate) Enter() bool           { return g.enter() }
func (g *Gate) Leave()                { g.leave() }
func (g *Gate) Shut() <-chan struct{} { return g.shut() }

// LimitConnections bounds the connections of a server that is not ours, as s would.
func LimitConnections(s *Server, hs *http.Server, ln net.Listener) net.Listener {
	l := s.limit(ln)
	hs.ConnState = l.track
	return l
}

// SetLogger gives a server another logger for what it says itself.
func SetLogger(s *Server, log *slog.Logger) { s.opts.Logger = log }

// LiveReaders is how many live reads wait.
func LiveReaders(s *Server) int64 { return s.core.Use().Live }

// StreamsUnderWay is how many requests are under way over HTTP/2.
func StreamsUnderWay(s *Server) int64 { return s.streams.Load() }

// CheckCertificate lets the next handshake look at the files of the certificate.
func CheckCertificate(s *Server) { s.cert.next.Store(0) }
