package fastpath

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"durablestreams/internal/due"
	"durablestreams/internal/protocol"
)

// state is what a connection is doing.
type state uint8

const (
	reading state = iota // waiting for a request, or for the rest of one
	busy                 // the committer or a worker has the request
	live                 // a feed waits for its stream
	lent                 // a worker is sending the answer itself
	closed
)

// conn is a connection. It belongs to its loop but for what a worker has been
// given.
type conn struct {
	fd    int
	loop  *loop
	state state

	readable  bool // there may be something to read
	half      bool // the peer sends nothing more
	broken    bool // the connection is dead
	closes    bool // to be closed after the answer
	begun     bool // a head has begun to come, and its time runs
	again     bool // the feed was woken while a worker stepped it
	afterPost bool // the last request was a POST
	proxied   bool // the peer is a trusted proxy
	resuming  bool // a message is on its way for another turn

	in  []byte // read but not used
	out []byte // to be written as soon as the peer takes it

	holds interface{ Close() } // to be closed when all is written; nil: nothing

	head     *head // of the request being handled, and the last one while the connection is busy
	req      protocol.Request
	op       *protocol.Op
	feed     *protocol.Feed
	job      *job
	came     int64 // when the request was there, see loop.nanos; 0: it was not whole
	deadline int64 // see loop.nanos; 0: none
	timer    due.Entry[conn]
	reserved int64 // of the core's room for bodies
	pace     protocol.BodyPace
	ended    func() // the connection has left the fast path
}

// turn is how many requests or reads a connection may have in a row.
const turn = 64

// advance does whatever can be done now, as far as it is fair to the others.
func (c *conn) advance() {
	for n := 0; c.state == reading && len(c.out) == 0; n++ {
		if n == turn {
			c.resume()
			break
		}
		if len(c.in) > 0 && c.request(c.in, true) {
			continue
		}
		if c.state != reading || len(c.out) > 0 || !c.read() {
			break
		}
	}
	if c.state != closed && c.broken && c.state != lent && (c.state != busy || c.feed != nil) {
		c.close()
	}
	if c.state == live && c.half {
		c.close()
	}
}

// resume goes on when the others had their turn.
func (c *conn) resume() {
	if !c.resuming {
		c.resuming = true
		c.loop.post(message{c, resumed})
	}
}

// read takes what the peer has sent; false if there is nothing to go on with.
func (c *conn) read() bool {
	if !c.readable {
		return false
	}
	buf := c.loop.rbuf
	n, err := unix.Read(c.fd, buf)
	switch {
	case errors.Is(err, unix.EAGAIN):
		c.readable = false
		return false
	case errors.Is(err, unix.EINTR):
		return true
	case err != nil:
		c.close()
		return false
	case n == 0:
		c.endOfInput()
		return false
	}
	if n < len(buf) && !c.half && !c.broken {
		c.readable = false // an edge tells of more
	}
	if len(c.in) > 0 {
		c.in = append(c.in, buf[:n]...)
		return true // advance looks at it
	}
	if !c.request(buf[:n], false) && c.state == reading {
		c.keep(buf[:n])
		return c.readable
	}
	return true
}

// keep stores bytes of an incomplete request.
func (c *conn) keep(b []byte) {
	c.in = append(c.in, b...)
}

// endOfInput handles the peer's end of sending. What it left unfinished is odd.
func (c *conn) endOfInput() {
	if len(c.in) == 0 || c.tooFew(c.in) {
		c.close()
		return
	}
	c.handOver(c.in)
}

// request handles the request at the beginning of b, if it is complete, and
// keeps what follows. kept says that b is c.in.
func (c *conn) request(b []byte, kept bool) bool {
	n := headEnd(b)
	if n == 0 {
		if len(b) > maxHead || !c.tooFew(b) && !mayBePlain(b) {
			c.handOver(b)
			return c.state != closed
		}
		if !c.begun {
			c.begun = true
			c.expect(c.loop.srv.opts.HeaderTimeout)
		}
		return false
	}
	if n > maxHead || !c.parse(b[:n]) || c.head.contentLength > c.loop.srv.opts.MaxBody || c.loop.srv.core.Controls(c.req.Path) {
		c.handOver(b)
		return c.state != closed
	}
	end := n + int(c.head.contentLength)
	if len(b) < end {
		return c.awaitBody(int64(len(b)))
	}
	rest := b[end:]
	if !kept && len(rest) > 0 {
		c.keep(rest)
	}
	c.begin(b[n:end:end])
	if c.state == closed {
		return true
	}
	if kept {
		c.leave(rest)
	}
	c.reserveRest()
	return true
}

// leave keeps the end of what was kept, and not much memory around it.
func (c *conn) leave(rest []byte) {
	switch {
	case len(rest) == 0:
		c.in = nil
	case cap(c.in) > 2*len(rest)+keepSize:
		c.in = append([]byte(nil), rest...)
	default:
		c.in = append(c.in[:0], rest...)
	}
}

// tooFew says whether these bytes are none yet: net/http wants four before it
// looks for another request.
func (c *conn) tooFew(b []byte) bool { return c.req.Method != "" && len(b) < 4 }

// skipBlank does what net/http would have done with a connection of its own: it
// leaves out blank lines after a POST, up to four bytes, because old clients send
// one behind the body.
func (c *conn) skipBlank(b []byte) []byte {
	if !c.afterPost {
		return b
	}
	i := 0
	for i < min(len(b), 4) && (b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return b[i:]
}

// parse reads a head. One that is the same as the last one, which is the usual
// case for a writer, is not read again.
func (c *conn) parse(b []byte) bool {
	if c.head != nil && string(b) == c.head.text {
		return true
	}
	h := c.head
	if h == nil {
		h = &head{}
	}
	c.head = nil
	if h.parse(string(b)) != plain {
		return false
	}
	c.head = h
	c.req = protocol.Request{Method: h.method, Path: h.path, Query: h.query, Host: h.host, Header: h,
		ContentLength: h.contentLength, BodyRead: true, Proxied: c.proxied}
	return true
}

// begin starts the request. The body is only good during the call.
func (c *conn) begin(body []byte) {
	c.deadline, c.begun, c.afterPost = 0, false, c.req.Method == "POST"
	c.came = c.loop.nanos(c.loop.now)
	c.pace = protocol.BodyPace{}
	c.req.BodyRead = true
	if c.loop.srv.core.BeginWaits(&c.req) {
		c.workBody(&job{begin: true}, body)
		return
	}
	op, res := c.loop.srv.core.Begin(&c.req)
	if op == nil {
		c.answer(res)
		return
	}
	c.op = op
	switch {
	case op.Mode() == protocol.Live:
		c.openFeed()
	case !op.Immediate():
		c.workBody(&job{}, body)
	case op.Mode() == protocol.Read:
		c.answer(op.Read())
	default:
		c.submit(body)
	}
}

// submit hands a write to the store.
func (c *conn) submit(body []byte) {
	c.state = busy
	c.op.Submit(body, c.answered)
}

// answered is called by the committer, or at once.
func (c *conn) answered() { c.loop.post(message{c, answered}) }

// message handles what another goroutine has to say.
func (c *conn) message(w what) {
	if w == accepted {
		c.accepted()
		return
	}
	if c.state == closed {
		if w == prepared {
			c.drop(c.job)
		}
		return
	}
	switch w {
	case answered:
		c.answerWrite()
	case prepared:
		c.prepared()
	case woken:
		c.again = c.state == busy && c.feed != nil
		if c.state == live && len(c.out) == 0 {
			c.step()
		}
	case resumed:
		c.resuming = false
	}
	c.advance()
}

func (c *conn) accepted() {
	l := c.loop
	l.conns[int32(c.fd)] = c
	if l.srv.ending.Load() {
		c.close()
		return
	}
	ev := unix.EpollEvent{Fd: int32(c.fd),
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET}
	if err := unix.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, c.fd, &ev); err != nil {
		c.close()
		return
	}
	c.begun = true
	c.expect(l.srv.opts.HeaderTimeout)
}

// answerWrite sends the answer of the committer.
func (c *conn) answerWrite() {
	op := c.op
	if op == nil {
		op = c.job.op // a worker began it
	}
	c.job = nil
	c.state = reading
	c.answer(op.Response())
}

// answer sends an answer and makes ready for the next request.
func (c *conn) answer(r *protocol.Response) {
	c.count(r)
	if r.Rest != nil {
		c.lend(r)
		return
	}
	l := c.loop
	if l.srv.ending.Load() || r.Last {
		c.closes = true
	}
	l.wbuf = appendHead(l.wbuf[:0], r, c.req.Method, l.dateField(), c.closes)
	if r.HasBody(c.req.Method) {
		l.wbuf = append(l.wbuf, r.Body...)
	}
	c.op = nil
	c.holds = r
	c.write(l.wbuf)
	c.answerDone()
}

// count takes note of an answer that is on its way.
func (c *conn) count(r *protocol.Response) {
	var took time.Duration
	if c.came > 0 {
		took = time.Duration(c.loop.nanos(c.loop.now) - c.came)
	}
	c.came = 0
	c.loop.meter.Answered(&c.req, r, took, c)
}

// answerDone makes ready for the next request once the answer is on its way.
func (c *conn) answerDone() {
	if c.state == closed {
		return
	}
	c.state = reading
	if len(c.out) > 0 {
		return // flush comes here again
	}
	c.allSent()
	if c.closes {
		c.close()
		return
	}
	c.expect(c.loop.srv.opts.IdleTimeout)
}

// allSent lets go of what was held for an answer.
func (c *conn) allSent() {
	if c.holds != nil {
		c.holds.Close()
		c.holds = nil
	}
}

// write sends b as far as the peer takes it and keeps the rest.
func (c *conn) write(b []byte) {
	if len(c.out) > 0 {
		c.out = append(c.out, b...)
		return
	}
	for len(b) > 0 {
		n, err := unix.Write(c.fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			c.out = append([]byte(nil), b...)
			c.expect(c.loop.srv.opts.StallTimeout)
			return
		case err != nil:
			c.close()
			return
		}
		b = b[n:]
	}
}

// flush sends what is waiting.
func (c *conn) flush() {
	if len(c.out) == 0 || c.state == closed || c.state == lent {
		return
	}
	n, err := unix.Write(c.fd, c.out)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return
	case err != nil:
		c.close()
		return
	}
	c.expect(c.loop.srv.opts.StallTimeout)
	if c.out = c.out[n:]; len(c.out) > 0 {
		return
	}
	c.out = nil
	if c.state == live {
		c.step()
		return
	}
	if c.state == reading {
		c.answerDone()
	}
}

// expect bounds the time until the next progress.
func (c *conn) expect(d time.Duration) { c.until(c.loop.now.Add(d)) }

func (c *conn) until(t time.Time) {
	c.deadline = c.loop.nanos(t)
	c.loop.timers.set(c, c.deadline)
}
