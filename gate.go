package durablestreams

import (
	"net/http"
	"sync"
	"sync/atomic"

	"durablestreams/httpapi"
	"durablestreams/stream"
)

// gate counts the requests that are inside and lets no more in once it is shut.
type gate struct {
	state atomic.Int64 // requests inside, plus shutBit
	empty chan struct{}
	once  sync.Once
}

const shutBit = 1 << 62

func (g *gate) init() { g.empty = make(chan struct{}) }

// enter reports whether the caller may go in; it must then leave.
func (g *gate) enter() bool {
	if g.state.Add(1) < shutBit {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.state.Add(-1) == shutBit {
		g.once.Do(func() { close(g.empty) })
	}
}

// shut lets nobody in any more. The channel is closed when everybody has left.
func (g *gate) shut() (empty <-chan struct{}) {
	if g.state.Or(shutBit)&^shutBit == 0 {
		g.once.Do(func() { close(g.empty) })
	}
	return g.empty
}

// errStopped is the answer to requests that come after the end.
var errStopped = &stream.Error{Kind: stream.ShuttingDown, Message: "the server has been shut down"}

// errManyStreams is the answer to requests beyond the bound of those over HTTP/2.
var errManyStreams = &stream.Error{Kind: stream.Busy, Message: "the server has no room for more requests over HTTP/2"}

// gated keeps requests away from an engine that is closed, and lets Shutdown
// wait for those inside, whoever's server they came through. Requests over HTTP/2 are
// bounded as connections are: there one connection has many.
func (s *Server) gated(next http.Handler) http.Handler {
	stopped := httpapi.Refusal(s.core, s.opts.http(), errStopped)
	busy := httpapi.Refusal(s.core, s.opts.http(), errManyStreams)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.requests.enter() {
			stopped.ServeHTTP(w, r)
			return
		}
		defer s.requests.leave()
		if r.ProtoMajor == 2 {
			defer s.streams.Add(-1)
			if s.streams.Add(1) > int64(s.opts.MaxConnections) {
				busy.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
