package fastpath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"durablestreams/internal/protocol"
)

// Server serves connections from event loops.
type Server struct {
	core  *protocol.Core
	opts  Options
	loops []*loop
	next  atomic.Uint64

	workers   chan struct{}
	open      atomic.Int64 // connections
	accepting atomic.Int64 // of them on their way to their loop
	ending    atomic.Bool
	handOver  atomic.Pointer[func(net.Conn)]

	running sync.WaitGroup
	jobs    sync.WaitGroup // workers
	done    chan struct{}  // all loops have ended
}

// New starts the event loops. Supported says whether there are any on this system.
func New(core *protocol.Core, o *Options) (*Server, error) {
	s := &Server{core: core, opts: o.withDefaults(), done: make(chan struct{})}
	s.workers = make(chan struct{}, s.opts.Workers)
	for range s.opts.Loops {
		l, err := newLoop(s)
		if err != nil {
			return nil, errors.Join(err, s.closeLoops())
		}
		s.loops = append(s.loops, l)
	}
	for _, l := range s.loops {
		s.running.Go(l.run)
	}
	go func() {
		s.running.Wait()
		close(s.done)
	}()
	go func() {
		select {
		case <-core.Draining():
			s.drain()
		case <-s.done:
		}
	}()
	return s, nil
}

// Supported reports whether this system has event loops.
const Supported = true

// Take serves a connection. A connection that has no descriptor of its own is
// not taken.
func (s *Server) Take(nc net.Conn, ended func()) (taken bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	fd := -1
	if err := raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil || fd < 0 {
		return false
	}
	_ = nc.Close()
	s.open.Add(1)
	s.accepting.Add(1)
	l := s.loops[s.next.Add(1)%uint64(len(s.loops))]
	l.post(message{&conn{fd: fd, loop: l, ended: ended}, accepted})
	return true
}

// handTo says who gets the connections that net/http is to serve.
func (s *Server) handTo(give func(net.Conn)) { s.handOver.Store(&give) }

// drain ends live reads and idle connections, and lets the others end with the
// request in hand.
func (s *Server) drain() {
	s.ending.Store(true)
	for _, l := range s.loops {
		l.post(message{what: drain})
	}
}

// Shutdown waits until every connection has ended, after the core has been
// drained. When ctx ends first, the rest is cut. A nil Server has none.
func (s *Server) Shutdown(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.drain()
	select {
	case <-s.done:
		s.jobs.Wait()
		return s.closeLoops()
	case <-ctx.Done():
	}
	for _, l := range s.loops {
		l.post(message{what: cut})
	}
	<-s.done
	s.jobs.Wait()
	return errors.Join(ctx.Err(), s.closeLoops())
}

func (s *Server) closeLoops() error {
	var errs []error
	for _, l := range s.loops {
		errs = append(errs, l.closeFiles())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close event loops: %w", err)
	}
	return nil
}
