package fastpath

import (
	"net"
	"sync"
)

// splitter is a listener that lets a Server have the connections first and gives
// the rest.
type splitter struct {
	net.Listener
	srv    *Server
	count  func(delta int64)
	handed chan net.Conn
	failed chan error
	closed chan struct{}
	once   sync.Once
	pump   sync.Once
}

// Split gives a listener for net/http on the same port: its Accept returns the
// connections that srv does not take and those that it hands over. count is told
// of connections that come to the fast path and leave it. Closing the listener
// leaves srv alone.
func Split(ln net.Listener, srv *Server, count func(delta int64)) net.Listener {
	s := &splitter{Listener: ln, srv: srv, count: count, handed: make(chan net.Conn),
		failed: make(chan error), closed: make(chan struct{})}
	srv.handTo(s.give)
	return s
}

// give passes a connection to Accept.
func (s *splitter) give(c net.Conn) {
	select {
	case s.handed <- c:
	case <-s.closed:
		_ = c.Close()
	}
}

// Accept gives the next connection for net/http. Errors of the listener come out
// here, and accepting goes on when the caller comes back: so the caller's
// patience with a lack of descriptors is this listener's too.
func (s *splitter) Accept() (net.Conn, error) {
	s.pump.Do(func() { go s.accept() })
	select {
	case c := <-s.handed:
		return c, nil
	case err := <-s.failed:
		return nil, err
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *splitter) accept() {
	ended := func() { s.count(-1) }
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			select {
			case s.failed <- err:
				continue
			case <-s.closed:
				return
			}
		}
		s.count(1)
		if !s.srv.Take(c, ended) {
			s.count(-1)
			s.give(c)
		}
	}
}

// Close implements net.Listener.
func (s *splitter) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Listener.Close()
}
