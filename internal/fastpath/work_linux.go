package fastpath

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// job is what a goroutine does for a connection that must not hold up its loop.
type job struct {
	begin    bool   // begin the request
	body     []byte // of a write
	reserved int64  // of the core's room for bodies
	step     bool   // step the feed

	op   *protocol.Op       // if begun here
	resp *protocol.Response // prepared, or sent if the answer was lent
	act  protocol.Action
	err  error
	sent bool
}

// take gives the body away.
func (j *job) take() []byte {
	b := j.body
	j.body = nil
	return b
}

// workBody runs a job with a body, of which it keeps a copy until the store has it:
// there may be many who wait for the disk.
func (c *conn) workBody(j *job, body []byte) {
	if n := int64(len(body)); n > 0 {
		if core := c.loop.srv.core; !core.Reserve(c.reserved, n) {
			c.answer(core.Refuse(&c.req, core.Busy()))
			return
		}
		c.reserved, j.reserved, j.body = 0, n, append([]byte(nil), body...)
	}
	c.work(j)
}

// work runs a job that may need the disk; the core lets only so many do that at
// once.
func (c *conn) work(j *job) {
	c.state, c.job = busy, j
	op, feed, srv := c.op, c.feed, c.loop.srv
	srv.jobs.Go(func() {
		defer func() { srv.core.Release(j.reserved) }()
		defer c.workerPanic(j)
		switch {
		case j.begin:
			if j.op, j.resp = srv.core.Begin(&c.req); j.op == nil {
				break
			}
			switch j.op.Mode() {
			case protocol.Live: // its feed is the loop's
			case protocol.Read:
				j.resp = j.op.Read()
			default:
				j.op.Submit(j.take(), c.answered)
				return
			}
		case j.step:
			j.act, j.err = feed.Step(time.Now())
		case op.Mode() == protocol.Read:
			j.resp = op.Read()
		default:
			op.Submit(j.take(), c.answered)
			return
		}
		c.finished(j)
	})
}

// finished gives the result of a job to the loop.
func (c *conn) finished(j *job) {
	if !c.loop.post(message{c, prepared}) {
		c.drop(j)
	}
}

// workerPanic turns a panic in a job into a cut connection.
func (c *conn) workerPanic(j *job) {
	if v := recover(); v != nil {
		c.loop.srv.opts.Logger.Error("panic in a worker", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		j.err = errors.New("panic")
		j.resp = nil
		c.finished(j)
	}
}

// prepared goes on with the result of a job.
func (c *conn) prepared() {
	j := c.job
	c.job = nil
	switch {
	case j.err != nil:
		c.state = reading
		c.close()
	case j.sent:
		c.state = reading
		c.op = nil
		c.answerDone()
	case j.step:
		again := c.act(j.act, nil) || c.again && c.state == live && len(c.out) == 0
		c.again = false
		if again {
			c.step()
		}
	case j.resp == nil:
		c.op = j.op
		c.openFeed()
	default:
		c.state = reading
		c.answer(j.resp)
	}
}

// lend lets a goroutine send a large answer, block by block. It takes a descriptor
// besides the connection's.
func (c *conn) lend(r *protocol.Response) {
	c.state = lent
	c.deadline = 0
	j := &job{resp: r, sent: true}
	c.job = j
	head := appendHead(nil, r, c.req.Method, c.loop.dateField(), c.closes)
	srv := c.loop.srv
	fd, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		r.Close()
		c.state = reading
		c.close()
		return
	}
	path := c.req.Path
	srv.jobs.Go(func() {
		defer c.workerPanic(j)
		j.err = srv.sendAll(os.NewFile(uintptr(fd), "connection"), head, r, path)
		c.finished(j)
	})
}

// sendAll writes an answer and closes f. If the rest of its body cannot be read the error
// says so, and the connection must be cut.
func (s *Server) sendAll(f *os.File, head []byte, r *protocol.Response, path string) error {
	defer f.Close() // before the loop hears of it, or closing there would end nothing
	defer r.Close()
	if err := s.write(f, append(head, r.Body...)); err != nil {
		return err
	}
	for {
		block, err := r.Rest.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			s.logCut(path, err)
			return err
		}
		for len(block) > 0 {
			n := min(len(block), sendSize)
			if d := s.core.Pause(n); d > 0 {
				<-time.After(d)
			}
			if err := s.write(f, block[:n]); err != nil {
				return err
			}
			block = block[n:]
		}
	}
}

// write sends b as long as the peer takes enough of it in time.
func (s *Server) write(f *os.File, b []byte) error {
	for {
		if err := f.SetWriteDeadline(time.Now().Add(s.opts.StallTimeout)); err != nil {
			return err
		}
		n, err := f.Write(b)
		if n < takeSize || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		b = b[n:]
	}
}

// logCut tells why an answer that had begun was cut, unless its stream was
// deleted.
func (s *Server) logCut(path string, err error) {
	if !errors.Is(err, stream.NotFound) && !errors.Is(err, stream.Gone) {
		s.opts.Logger.Error("answer cut: the rest cannot be read", "path", protocol.LogPath(path), "err", err)
	}
}

// How much is written at once, and what a peer has to take of it in time.
const (
	sendSize = 128 << 10
	takeSize = 32 << 10
)

// handOver gives the connection to net/http, with the bytes that were read.
func (c *conn) handOver(b []byte) {
	read := append([]byte(nil), c.skipBlank(b)...)
	fd, srv := c.fd, c.loop.srv
	_ = unix.EpollCtl(c.loop.epfd, unix.EPOLL_CTL_DEL, fd, nil)
	c.forget()
	f := os.NewFile(uintptr(fd), "connection")
	nc, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		srv.opts.Logger.Warn("connection cannot be handed over", "err", err)
		if nc != nil {
			_ = nc.Close()
		}
		return
	}
	give := srv.handOver.Load()
	go (*give)(&prefixed{Conn: nc, read: read})
}

// prefixed is a connection of which some bytes have been read before.
type prefixed struct {
	net.Conn
	read []byte
}

// Read gives the bytes read before, then what follows.
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.read) == 0 {
		p.read = nil
		return p.Conn.Read(b)
	}
	n := copy(b, p.read)
	p.read = p.read[n:]
	return n, nil
}

// CloseWrite is what net/http uses to end its side first.
func (p *prefixed) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
