package bench

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// never is a moment that does not come.
const never = int64(math.MaxInt64)

// move is what a task wants its connection to do next.
type move struct {
	kind     moveKind
	due      int64 // wait: until when
	headOnly bool  // send: the answer has no body
	patience time.Duration
}

type moveKind uint8

const (
	stop moveKind = iota // nothing more to do in this phase
	send                 // the request in the buffer
	wait                 // ask again at due
)

// task is what one connection is for. Its methods are called one at a time, and never
// at the same time as those of another task of the same group. Times are those of the
// pool's clock.
type task interface {
	// next is asked when no request is under way. To send, it appends one to buf.
	next(now int64, buf []byte) ([]byte, move)
	// body takes a piece of the answer, valid during the call only. The first one is
	// empty and tells that the head is complete and a body follows.
	body(now int64, r *response, piece []byte)
	// done is told that the answer is complete.
	done(now int64, r *response)
	// failed is told that the request under way will have no answer: whether the
	// server carried it out is unknown.
	failed(now int64, err error)
}

var (
	errTimeout     = errors.New("no answer in time")
	errUnsolicited = errors.New("bytes from the server that nobody asked for")
)

// conn is what both drivers keep about a connection.
type conn struct {
	task     task
	resp     response
	busy     bool  // a request is under way
	stopped  bool  // the task wants no more in this phase
	limit    int64 // when the answer must be complete
	failures int   // connection attempts in a row that failed
}

// begin asks the task for its next move and prepares for the answer.
func (c *conn) begin(now int64, buf []byte, patience time.Duration) ([]byte, move) {
	out, m := c.task.next(now, buf)
	switch m.kind {
	case send:
		c.busy = true
		c.resp.reset(m.headOnly)
		if m.patience > 0 {
			patience = m.patience
		}
		c.limit = now + int64(patience)
	case stop:
		c.stopped = true
	}
	return out, m
}

// take hands received bytes to the parser and the task. After an error the connection
// is of no more use.
func (c *conn) take(now int64, p []byte) error {
	for len(p) > 0 {
		if !c.busy {
			return errUnsolicited
		}
		state := c.resp.state
		n, piece, err := c.resp.feed(p)
		if err != nil {
			return err
		}
		p = p[n:]
		if len(piece) > 0 || state == inHead && c.resp.state != inHead && c.resp.state != complete {
			c.task.body(now, &c.resp, piece)
		}
		if c.resp.state == complete {
			if len(p) > 0 {
				return errUnsolicited
			}
			c.busy = false
			c.task.done(now, &c.resp)
		}
	}
	return nil
}

// ended tells the parser that the server closed the connection.
func (c *conn) ended(now int64) error {
	if !c.busy {
		return nil
	}
	if err := c.resp.eof(); err != nil {
		return err
	}
	c.busy = false
	c.task.done(now, &c.resp)
	return nil
}

// broken tells the task that its request is lost.
func (c *conn) broken(now int64, err error) {
	if c.busy {
		c.busy = false
		c.task.failed(now, err)
	}
}

// maxDials is how often in a row a connection may fail to come about.
const maxDials = 20

// refused counts an attempt to connect that failed. It gives the time of the next, or
// an error when it is time to give up.
func (c *conn) refused(now int64, err error) (again int64, fatal error) {
	c.failures++
	if c.failures >= maxDials {
		return 0, fmt.Errorf("connect: %w (%d times in a row)", err, c.failures)
	}
	return now + int64(50*time.Millisecond), nil
}

// pool is a set of connections to one server, driven together. It can be run several
// times; connections stay open in between.
type pool struct {
	addr     string // IP address and port
	patience time.Duration
	clock    time.Time
	drivers  []driver

	quit        atomic.Bool  // end the run at once
	reconnects  atomic.Int64 // connections opened again during runs
	unsolicited atomic.Int64 // connections on which bytes came unasked
}

// driver runs the connections of one group.
type driver interface {
	// connect opens all connections.
	connect() error
	// run works until every task has stopped or the pool quits. It gives the CPU
	// time that it used itself.
	run() (usage, error)
	close()
}

// usage is CPU time.
type usage struct {
	user, system time.Duration
}

func (u usage) plus(o usage) usage { return usage{u.user + o.user, u.system + o.system} }
func (u usage) less(o usage) usage { return usage{u.user - o.user, u.system - o.system} }

func (p *pool) now() int64 { return int64(time.Since(p.clock)) }
