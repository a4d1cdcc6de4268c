package bench

import "fmt"

// place is one request of one connection.
type place struct {
	conn int
	seq  int64
}

// check compares one stream's records with what the ledgers say must be in it. Create
// one, begin each stream, feed it records in order, end the stream.
type check struct {
	layout  layout
	ledgers []ledger
	total   *Verification // of all streams that are done

	found   Verification // of the present stream
	stream  int
	writers []int
	first   int64
	step    int64
	next    []int64            // for each writer, the next request that is expected
	skipped map[place]struct{} // passed over so far
	records int64
}

// begin makes ready for a stream's first byte.
func (c *check) begin(stream int) {
	c.stream, c.records, c.found = stream, 0, Verification{}
	c.writers, c.first, c.step = c.layout.writers(stream)
	c.next = c.next[:0]
	for range c.writers {
		c.next = append(c.next, c.first)
	}
	clear(c.skipped)
}

// record takes the stream's next record.
func (c *check) record(conn int, seq int64) {
	c.records++
	if conn >= len(c.ledgers) || seq >= c.ledgers[conn].sent || c.layout.streamOf(conn, seq) != c.stream {
		c.alien(fmt.Sprintf("request %d of connection %d, which was not sent there", seq, conn))
		return
	}
	w := 0
	if len(c.writers) > 1 {
		w = conn / c.layout.streams
	}
	if seq < c.next[w] {
		c.late(place{conn, seq})
		return
	}
	for ; c.next[w] < seq; c.next[w] += c.step {
		if c.skipped == nil {
			c.skipped = map[place]struct{}{}
		}
		c.skipped[place{conn, c.next[w]}] = struct{}{}
	}
	c.next[w] = seq + c.step
	c.seen(conn, seq)
}

// seen looks whether a record may be there at all.
func (c *check) seen(conn int, seq int64) {
	switch c.ledgers[conn].outcome(seq) {
	case doubtful:
		c.found.Doubtful++
	case refused:
		c.found.Refused++
		c.tell("request %d of connection %d is there, but was refused", seq, conn)
	}
}

// late takes a record that comes after a later one of its connection. One in doubt
// may have been carried out at any time.
func (c *check) late(p place) {
	_, missed := c.skipped[p]
	delete(c.skipped, p)
	switch {
	case !missed:
		c.found.Doubled++
		c.tell("request %d of connection %d is there twice", p.seq, p.conn)
	case c.ledgers[p.conn].outcome(p.seq) == acknowledged:
		c.found.Reordered++
		c.tell("request %d of connection %d comes after a later one", p.seq, p.conn)
	default:
		c.seen(p.conn, p.seq)
	}
}

// alien takes note of bytes that are not this run's.
func (c *check) alien(what string) {
	c.found.Alien++
	c.tell("after record %d: %s", c.records, what)
}

// end tells that the stream is read to its end.
func (c *check) end() {
	c.found.Streams++
	c.found.Records += c.records
	for i, conn := range c.writers {
		for seq := c.next[i]; seq < c.ledgers[conn].sent; seq += c.step {
			if c.ledgers[conn].outcome(seq) == acknowledged {
				c.lost(place{conn, seq})
			}
		}
	}
	for p := range c.skipped {
		if c.ledgers[p.conn].outcome(p.seq) == acknowledged {
			c.lost(p)
		}
	}
	c.total.add(&c.found)
}

// absent tells that the stream does not exist.
func (c *check) absent() {
	c.found.Streams--
	c.end()
}

func (c *check) lost(p place) {
	c.found.Lost++
	c.tell("request %d of connection %d was acknowledged and is not there", p.seq, p.conn)
}

// unreadable ends a stream that could not be read.
func (c *check) unreadable(why string) {
	c.found.Unreadable++
	c.tell("not readable: %s", why)
	c.total.add(&c.found)
}

func (c *check) tell(format string, args ...any) {
	if len(c.found.First) < maxFindings {
		c.found.tell(fmt.Sprintf("stream %06x: ", c.stream) + fmt.Sprintf(format, args...))
	}
}
