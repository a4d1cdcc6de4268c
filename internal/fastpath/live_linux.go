package fastpath

import (
	"durablestreams/internal/protocol"
)

// openFeed starts a live read.
func (c *conn) openFeed() {
	l := c.loop
	c.feed = c.op.Open(func() { l.post(message{c, woken}) })
	c.state = live
	c.step()
}

// step asks the feed for the next thing to send. It is called when everything
// before has been sent, so a slow reader holds a position and no data.
func (c *conn) step() {
	for c.state == live && len(c.out) == 0 {
		if !c.feed.Immediate() {
			c.work(&job{step: true})
			return
		}
		act, err := c.feed.Step(c.loop.now)
		if !c.act(act, err) {
			return
		}
	}
}

// act sends what a step gave. It reports whether to step again.
func (c *conn) act(act protocol.Action, err error) (again bool) {
	c.state = live
	if err != nil {
		c.close()
		return false
	}
	l := c.loop
	l.wbuf = l.wbuf[:0]
	if r := act.Response; r != nil {
		if r.Length >= 0 {
			c.feed.Close()
			c.feed = nil
			c.state = reading
			c.answer(r)
			return false
		}
		c.count(r)
		l.wbuf = appendHead(l.wbuf, r, c.req.Method, l.dateField(), c.closes)
	}
	if len(act.Frame) > 0 {
		l.wbuf = appendChunk(l.wbuf, act.Frame)
	}
	if act.Done {
		l.wbuf = append(l.wbuf, lastChunk...)
	}
	if len(l.wbuf) > 0 {
		c.write(l.wbuf)
	}
	switch {
	case c.state == closed:
		return false
	case act.Done:
		c.holds = c.feed
		c.feed, c.op = nil, nil
		c.answerDone()
		return false
	case len(c.out) > 0:
		return false // flush steps
	case act.Wait.IsZero():
		return true
	}
	if c.head != nil {
		c.feed.Detach()
		c.head = nil
	}
	c.until(act.Wait)
	return false
}
