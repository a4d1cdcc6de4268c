package fastpath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"durablestreams/internal/protocol"
)

// Server serves connections from event loops.
type Server struct {
	core  *protocol.Core
	opts  Options
	loops []*loop
	next  atomic.Uint64

	ending   atomic.Bool
	handOver atomic.Pointer[func(net.Conn)]

	running  sync.WaitGroup // loops
	jobs     sync.WaitGroup // goroutines that work for connections
	done     chan struct{}  // all of them have ended
	shutdown sync.Once
	endErr   error
}

// settleTime is how long after the end of Shutdown's context jobs have to notice
// that their connections were cut.
const settleTime = 2 * time.Second

// New starts the event loops. Supported says whether there are any on this system.
func New(core *protocol.Core, o *Options) (*Server, error) {
	s := &Server{core: core, opts: o.withDefaults(), done: make(chan struct{})}
	s.opts.Logger = protocol.LimitLog(s.opts.Logger)
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
		s.jobs.Wait()
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

// Take serves a connection and calls ended when it has left the fast path. A
// connection that has no descriptor of its own is not taken, nor is any once
// the server ends.
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
	proxied := s.core.Proxied(func() string { return nc.RemoteAddr().String() })
	l := s.loops[s.next.Add(1)%uint64(len(s.loops))]
	if s.ending.Load() || !l.post(message{&conn{fd: fd, loop: l, ended: ended, proxied: proxied}, accepted}) {
		_ = unix.Close(fd)
		return false
	}
	_ = nc.Close()
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
// drained. When ctx ends first, the rest is cut. It is idempotent.
// A nil Server has none.
func (s *Server) Shutdown(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.shutdown.Do(func() { s.endErr = s.end(ctx) })
	return s.endErr
}

func (s *Server) end(ctx context.Context) error {
	s.drain()
	select {
	case <-s.done:
		return s.closeLoops()
	case <-ctx.Done():
	}
	for _, l := range s.loops {
		l.post(message{what: cut})
	}
	select {
	case <-s.done:
		return errors.Join(ctx.Err(), s.closeLoops())
	case <-time.After(settleTime):
		return fmt.Errorf("end event loops: some work is stuck: %w", ctx.Err())
	}
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
