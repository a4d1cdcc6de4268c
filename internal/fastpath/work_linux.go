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
)

// job is what a goroutine does for a connection that must not hold up its loop.
type job struct {
	body []byte // of a write
	step bool   // step the feed

	resp *protocol.Response // prepared, or sent if the answer was lent
	act  protocol.Action
	err  error
	sent bool
	file *os.File // of an answer that was lent
}

// discard drops the result of a job whose connection has closed.
func (j *job) discard() {
	if j.resp != nil && j.resp.Rest != nil {
		_ = j.resp.Rest.Close()
	}
}

// work runs a job that may need the disk. So many run at once as there are
// workers; the others wait.
func (c *conn) work(j *job) {
	c.state, c.job = busy, j
	op, feed, srv := c.op, c.feed, c.loop.srv
	srv.jobs.Go(func() {
		srv.workers <- struct{}{}
		defer func() { <-srv.workers }()
		defer c.workerPanic(j)
		switch {
		case j.step:
			j.act, j.err = feed.Step(time.Now())
		case op.Mode() == protocol.Read:
			j.resp = op.Read()
		default:
			op.Submit(j.body, c.answered)
			return
		}
		c.loop.post(message{c, prepared})
	})
}

// workerPanic turns a panic in a job into a cut connection.
func (c *conn) workerPanic(j *job) {
	if v := recover(); v != nil {
		c.loop.srv.opts.Logger.Error("panic in a worker", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		j.err = errors.New("panic")
		j.resp = nil
		c.loop.post(message{c, prepared})
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
		if c.act(j.act, nil) {
			c.step()
		}
	default:
		c.state = reading
		c.answer(j.resp)
	}
}

// lend lets a goroutine send a large answer, block by block.
func (c *conn) lend(r *protocol.Response) {
	c.state = lent
	c.deadline = 0
	j := &job{resp: r, sent: true}
	c.job = j
	head := appendHead(nil, r, c.req.Method, c.loop.dateField(), c.closes)
	srv := c.loop.srv
	fd, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		j.discard()
		c.state = reading
		c.close()
		return
	}
	j.file = os.NewFile(uintptr(fd), "connection")
	srv.jobs.Go(func() {
		srv.workers <- struct{}{}
		defer func() { <-srv.workers }()
		defer c.workerPanic(j)
		j.err = errors.Join(sendAll(j.file, head, r, srv.opts.StallTimeout), j.file.Close())
		c.loop.post(message{c, prepared})
	})
}

// cut ends the connection at once, also for a worker that is sending its answer.
func (c *conn) cut() {
	if c.state == lent {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	}
	c.close()
}

// sendAll writes an answer. If the rest of its body cannot be read the error
// says so, and the connection must be cut.
func sendAll(f *os.File, head []byte, r *protocol.Response, stall time.Duration) error {
	defer r.Rest.Close()
	write := func(b []byte) error {
		if err := f.SetWriteDeadline(time.Now().Add(stall)); err != nil {
			return err
		}
		_, err := f.Write(b)
		return err
	}
	if err := write(append(head, r.Body...)); err != nil {
		return err
	}
	for {
		block, err := r.Rest.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for len(block) > 0 {
			n := min(len(block), sendSize)
			if err := write(block[:n]); err != nil {
				return err
			}
			block = block[n:]
		}
	}
}

// sendSize is how much is written under one deadline.
const sendSize = 128 << 10

// handOver gives the connection to net/http, with the bytes that were read.
func (c *conn) handOver(b []byte) {
	read := append([]byte(nil), b...)
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
