package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// What stored bytes mean for reads: where a page may end, and how its body
// looks. In JSON mode they are messages, each followed by a comma and a newline.

// mode of the stored bytes.
type coding uint8

const (
	binary coding = iota
	text
	jsonMessages
)

func codingOf(contentType string) coding {
	switch {
	case wire.IsJSON(contentType):
		return jsonMessages
	case wire.IsText(contentType):
		return text
	}
	return binary
}

// load appends the stored bytes [from, to) to dst.
func (c *Core) load(dst []byte, snap stream.Snapshot, from, to uint64) ([]byte, error) {
	p := c.open(snap, from, to)
	defer p.Close()
	for {
		b, err := p.Next()
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, b...)
	}
}

// First and last sizes of the windows in which a page's end is looked for.
const (
	firstWindow = 4 << 10
	lastWindow  = 1 << 20
)

// pageEnd gives the end of a page from a position: the tail, or about limit
// bytes on, at the end of a message or of a character and not between CR and
// LF. A message that is longer than limit makes a page of its own.
func (c *Core) pageEnd(snap stream.Snapshot, from uint64, limit int, code coding) (uint64, error) {
	if snap.Tail-from <= uint64(limit) {
		return snap.Tail, nil
	}
	end := from + uint64(limit)
	switch code {
	case jsonMessages:
		return c.messageEnd(snap, from, end)
	case text:
		const look = 8
		b, err := c.load(make([]byte, 0, look+1), snap, end-look, end+1)
		if err != nil {
			return 0, err
		}
		return end - look + uint64(wire.CutText(b, look)), nil
	}
	return end, nil
}

// messageEnd gives the last end of a message in (from, end], or else the first
// one behind end.
func (c *Core) messageEnd(snap stream.Snapshot, from, end uint64) (uint64, error) {
	var buf []byte
	for hi, size := end, uint64(firstWindow); hi > from; size = min(size*4, lastWindow) {
		lo := max(hi, from+size) - size
		b, err := c.load(buf[:0], snap, lo, hi)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return lo + uint64(i) + 1, nil
		}
		hi, buf = lo, b
	}
	return c.skipMessages(snap, end, 1)
}

// skipMessages gives the position behind the n-th end of a message from pos on.
// The error is io.EOF if there are fewer.
func (c *Core) skipMessages(snap stream.Snapshot, pos, n uint64) (uint64, error) {
	p := c.open(snap, pos, snap.Tail)
	defer p.Close()
	for {
		b, err := p.Next()
		if err != nil {
			return 0, err
		}
		end, seen := wire.NthMessageEnd(b, n)
		if n -= seen; n == 0 {
			return pos + uint64(end), nil
		}
		pos += uint64(len(b))
	}
}

// Sizes up to which a body is made in memory, and up to which it is not worth
// counting: so much for each connection is no matter.
const (
	inlineBody = SmallBody
	freeBody   = 4 << 10
)

// setPage gives r the stored bytes [from, to) as its body. The first block is
// read here, so that a page which cannot be read is refused and not cut. After an
// error r is to be closed.
func (c *Core) setPage(r *Response, snap stream.Snapshot, from, to uint64, code coding) error {
	n := to - from
	if n == 0 {
		if code == jsonMessages {
			r.setBody([]byte("[]"))
		}
		return nil
	}
	if n <= inlineBody {
		if n > freeBody {
			if err := r.holdBody(&c.limits, int64(n)); err != nil {
				return err
			}
		}
		b := make([]byte, 0, n+1)
		if code == jsonMessages {
			b = append(b, '[')
		}
		b, err := c.load(b, snap, from, to)
		if err != nil {
			return err
		}
		if code == jsonMessages {
			b = append(b[:len(b)-2], ']')
		}
		r.setBody(b)
		return nil
	}
	if err := r.holdSend(&c.limits); err != nil {
		return err
	}
	p := c.open(snap, from, to)
	if code == jsonMessages {
		p.left -= 2 // the last separator
		p.closing = []byte{']'}
		r.Body = []byte{'['}
	}
	r.Length, r.Rest = int64(n), p
	if err := p.fetch(); err != nil {
		return err
	}
	p.alone = true
	return nil
}

// open starts a read of the stored bytes [from, to).
func (c *Core) open(snap stream.Snapshot, from, to uint64) *pages {
	return &pages{core: c, snap: snap, blocks: c.store.Read(snap, from, to), pos: from, left: to - from}
}

// pages passes exactly left bytes of blocks on, then closing.
type pages struct {
	core    *Core
	snap    stream.Snapshot
	blocks  stream.Blocks
	next    []byte // fetched but not passed on
	pos     uint64 // of next
	left    uint64
	alone   bool // nobody has a place for it
	closing []byte
}

// fetch gets a block if none is waiting.
func (p *pages) fetch() error {
	if p.alone && len(p.next) == 0 && p.left > 0 && !p.core.store.InMemory(p.snap.Path, p.pos) {
		// Without patience: the answer has begun, and nothing better can be said.
		p.core.limits.reads <- struct{}{}
		defer p.core.limits.reads.leave()
	}
	for len(p.next) == 0 && p.left > 0 {
		b, err := p.blocks.Next()
		if err == io.EOF {
			err = fmt.Errorf("read blocks: %d bytes are missing: %w", p.left, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return p.core.explain(p.snap, err)
		}
		p.next = b[:min(uint64(len(b)), p.left)]
	}
	return nil
}

// explain gives the reason of a failed read: a stream that was deleted since
// the snapshot is gone, not broken.
func (c *Core) explain(snap stream.Snapshot, err error) error {
	now, gone := c.store.Stat(snap.Path, false)
	switch {
	case errors.Is(gone, stream.NotFound), errors.Is(gone, stream.Gone):
		return gone
	case gone == nil && now.ID != snap.ID:
		return refuse(stream.NotFound, "the stream was deleted")
	}
	return err
}

func (p *pages) Next() ([]byte, error) {
	if err := p.fetch(); err != nil {
		return nil, err
	}
	b := p.next
	p.next = nil
	p.pos += uint64(len(b))
	p.left -= uint64(len(b))
	if len(b) == 0 {
		if b, p.closing = p.closing, nil; len(b) == 0 {
			return nil, io.EOF
		}
	}
	return b, nil
}

func (p *pages) Close() error { return p.blocks.Close() }
