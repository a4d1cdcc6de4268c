package archive

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"durablestreams/stream"
)

// Chunks walks the chunks of a stream in order.
type Chunks struct {
	a     *Archive
	it    *pebble.Iterator
	id    stream.ID
	pos   uint64
	first bool
}

// Chunks starts at position from, which may lie inside a chunk.
func (a *Archive) Chunks(id stream.ID, from uint64) (*Chunks, error) {
	if err := a.enter(); err != nil {
		return nil, err
	}
	it, err := a.db.NewIter(&pebble.IterOptions{LowerBound: chunkKey(id, 0), UpperBound: chunkKey(id+1, 0)})
	if err != nil {
		a.leave()
		return nil, fmt.Errorf("read stream %d: %w", id, err)
	}
	return &Chunks{a: a, it: it, id: id, pos: from, first: true}, nil
}

// Next gives the bytes from the current position to the end of their chunk; nil
// at the end. They are valid until the next call. A hole between chunks is an
// error.
func (c *Chunks) Next() ([]byte, error) {
	if c.a.isClosed() {
		return nil, ErrClosed
	}
	var ok bool
	if c.first {
		ok, c.first = c.it.SeekGE(chunkKey(c.id, c.pos+1)), false
	} else {
		ok = c.it.Next()
	}
	if !ok {
		if err := c.it.Error(); err != nil {
			return nil, fmt.Errorf("read stream %d at %d: %w", c.id, c.pos, err)
		}
		return nil, nil
	}
	data, err := c.it.ValueAndErr()
	if err != nil {
		return nil, fmt.Errorf("read stream %d at %d: %w", c.id, c.pos, err)
	}
	end := number(c.it.Key(), 1)
	start := end - uint64(len(data))
	if c.pos < start || c.pos > end {
		return nil, fmt.Errorf("read stream %d at %d: next chunk covers %d to %d", c.id, c.pos, start, end)
	}
	data = data[c.pos-start:]
	c.pos += uint64(len(data))
	return data, nil
}

// Close ends the walk.
func (c *Chunks) Close() error {
	defer c.a.leave()
	return c.it.Close()
}
