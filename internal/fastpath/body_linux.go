package fastpath

// keepSize is the step in which room for a body is reserved: as it comes, for
// announcing one must not take room from others.
const keepSize = 4 << 10

// awaitBody makes ready for the rest of a body, of which some has come. It reports
// whether the request is over with that: there is no room for the body, or it
// comes too slowly.
func (c *conn) awaitBody(come int64) bool {
	core := c.loop.srv.core
	if come > c.reserved {
		room := max(2*c.reserved, (come+keepSize-1)/keepSize*keepSize)
		if !core.Reserve(c.reserved, room) {
			c.in, c.closes = nil, true
			c.answer(core.Refuse(&c.req, core.Busy()))
			return true
		}
		c.reserved = room
	}
	if !c.pace.Keeps(c.loop.now, come) {
		c.stalled()
		return true
	}
	c.expect(c.loop.srv.opts.StallTimeout)
	return false
}

// reserveRest gives the room of a body back, but for what the client has sent
// behind it. If there is no room for that, the connection ends with this answer.
func (c *conn) reserveRest() {
	n := int64(cap(c.in))
	if n <= freeRest {
		n = 0
	}
	if n == c.reserved {
		return
	}
	if c.loop.srv.core.Reserve(c.reserved, n) {
		c.reserved = n
		return
	}
	c.in, c.closes = nil, true
	c.unreserve()
	if c.state == reading && len(c.out) == 0 {
		c.close()
	}
}

// freeRest is how many bytes a client may have sent ahead without their being
// counted.
const freeRest = 4 << 10

// unreserve gives all room back.
func (c *conn) unreserve() {
	if c.reserved > 0 {
		c.loop.srv.core.Release(c.reserved)
		c.reserved = 0
	}
}
