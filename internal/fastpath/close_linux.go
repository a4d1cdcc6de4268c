package fastpath

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// timeout handles a deadline that may have moved on.
func (c *conn) timeout() {
	switch {
	case c.state == closed || c.deadline == 0:
		return
	case c.deadline > c.loop.nanos(c.loop.now):
		c.loop.timers.set(c, c.deadline)
		return
	case c.state == live && len(c.out) == 0:
		c.step()
	case c.state == reading && len(c.out) == 0 && len(c.in) > 0 && headEnd(c.in) > 0:
		c.stalled()
	case c.state == busy || c.state == lent:
		return
	default:
		c.close()
	}
	c.advance()
}

// Peer implements protocol.Peer. It asks the kernel: few want to know.
func (c *conn) Peer() string {
	peer, err := unix.Getpeername(c.fd)
	if err != nil {
		return "gone"
	}
	switch a := peer.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)).String()
	}
	return ""
}

// stalled answers a request whose body has stopped coming, and ends the
// connection.
func (c *conn) stalled() {
	c.in = nil
	c.closes = true
	core := c.loop.srv.core
	c.req.BodyRead = false
	if !core.BeginWaits(&c.req) {
		if op, res := core.Begin(&c.req); op == nil {
			c.answer(res) // it needs no body to be refused
			return
		}
	}
	c.answer(core.Refuse(&c.req, &stream.Error{Kind: protocol.BodyTimeout, Message: "the body made no progress for too long"}))
}

// drain ends the connection as soon as the request in hand is answered.
func (c *conn) drain() {
	switch {
	case c.state == live && len(c.out) == 0:
		c.closes = true
		c.step()
	case c.state == reading && len(c.out) == 0 && len(c.in) == 0:
		c.close()
	default:
		c.closes = true
		c.again = c.state == busy && c.feed != nil
	}
}

// close ends the connection. A worker or the committer that still has its
// request finds it closed.
func (c *conn) close() {
	if c.state == closed {
		return
	}
	feed := c.feed
	switch c.state {
	case busy:
		feed = nil // a worker may be stepping it, and drop closes it
	case lent:
		// The sender has a descriptor of its own: closing this one ends nothing.
		_ = unix.EpollCtl(c.loop.epfd, unix.EPOLL_CTL_DEL, c.fd, nil)
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	}
	_ = unix.Close(c.fd)
	c.forget()
	if feed != nil {
		feed.Close()
	}
}

// drop throws away what a job has prepared for a connection that is closed.
func (c *conn) drop(j *job) {
	for _, r := range []*protocol.Response{j.resp, j.act.Response} {
		if r != nil {
			r.Close()
		}
	}
	if c.feed != nil {
		c.feed.Close()
	}
}

// forget takes the connection out of its loop.
func (c *conn) forget() {
	c.state = closed
	c.unreserve()
	c.loop.timers.Remove(&c.timer)
	delete(c.loop.conns, int32(c.fd))
	c.in, c.out, c.head, c.op = nil, nil, nil, nil
	c.allSent()
	if c.ended != nil {
		c.ended()
	}
}
