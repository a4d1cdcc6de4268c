package store

import (
	"errors"
	"io"

	"durablestreams/internal/archive"
	"durablestreams/stream"
)

// Stat gives the published state of the stream at a path: [stream.NotFound],
// [stream.Gone] or [stream.Damaged] if it cannot be read. With touch it counts
// as a read and renews a sliding window.
func (e *Engine) Stat(p stream.Path, touch bool) (stream.Snapshot, error) {
	if err := e.failed(); err != nil {
		return stream.Snapshot{}, err
	}
	s, err := e.acquire(p)
	if err != nil {
		return stream.Snapshot{}, err
	}
	defer e.release(s)
	l, at := s.pub, now()
	if err := l.readable(at); err != nil {
		return stream.Snapshot{}, err
	}
	if l.damaged {
		return stream.Snapshot{}, unreadable(nil)
	}
	l.usedAt = at
	if touch {
		e.touch(l, at)
	}
	return l.snapshot(), nil
}

// readable says why the published stream may not be read at a time, if so. l may
// be nil.
func (l *live) readable(at int64) error {
	if l == nil {
		return stream.Access(nil, at)
	}
	seen := l.state // decided, but for what is not durable yet
	seen.Deleted = l.deleted
	if len(l.watchers) > 0 {
		seen.Touch(at)
	}
	return stream.Access(&seen, at)
}

// InMemory reports whether a change of the stream at a path, and a read from a
// position on, can do without the disk. It does not wait for a stream that is
// being loaded. The answer is a hint.
func (e *Engine) InMemory(p stream.Path, from uint64) bool {
	s := e.table.peek(p)
	if s == nil || !s.loaded.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.dead && s.pub != nil && s.pub.tail.start <= from
}

// Read gives the stored bytes of positions [from, to) of a snapshot, to being
// at most its tail. Data that the stream inherits is stitched in. The blocks
// fail if the stream ends meanwhile.
func (e *Engine) Read(snap stream.Snapshot, from, to uint64) stream.Blocks {
	return &blocks{e: e, spans: snap.Spans(nil, from, to)}
}

// blockSize is about how many bytes a read gives at once.
const blockSize = 256 << 10

// blocks reads spans one after another: first what the archive has, then what
// is in memory.
type blocks struct {
	e      *Engine
	spans  []stream.Span
	chunks *archive.Chunks
	pieces [][]byte
	buf    []byte
}

// Next implements stream.Blocks.
func (b *blocks) Next() ([]byte, error) {
	for len(b.spans) > 0 && b.spans[0].From == b.spans[0].To {
		b.spans = b.spans[1:]
		if err := b.closeChunks(); err != nil {
			return nil, damaged(err)
		}
	}
	if len(b.spans) == 0 {
		return nil, io.EOF
	}
	data, err := b.next(&b.spans[0])
	if err != nil {
		return nil, err
	}
	b.spans[0].From += uint64(len(data))
	return data, nil
}

func (b *blocks) next(sp *stream.Span) ([]byte, error) {
	l := b.e.table.byID(sp.ID)
	limit := sp.To
	if l != nil {
		l.slot.mu.Lock()
		if sp.From >= l.tail.start && !l.gone {
			b.pieces = l.tail.read(b.pieces[:0], sp.From, sp.To, blockSize)
			l.slot.mu.Unlock()
			// A walk through the archive would go on from where it was left.
			if err := b.closeChunks(); err != nil {
				return nil, damaged(err)
			}
			return b.join()
		}
		limit = min(limit, l.tail.start)
		l.slot.mu.Unlock()
	}
	return b.archived(sp, limit)
}

// join gives the pieces as one block.
func (b *blocks) join() ([]byte, error) {
	if len(b.pieces) == 1 {
		return b.pieces[0], nil
	}
	b.buf = b.buf[:0]
	for _, p := range b.pieces {
		b.buf = append(b.buf, p...)
	}
	if len(b.buf) == 0 {
		return nil, damaged(io.ErrUnexpectedEOF)
	}
	return b.buf, nil
}

func (b *blocks) archived(sp *stream.Span, limit uint64) ([]byte, error) {
	if b.chunks == nil {
		var err error
		if b.chunks, err = b.e.archive.Chunks(sp.ID, sp.From); err != nil {
			return nil, damaged(err)
		}
	}
	data, err := b.chunks.Next()
	if err == nil && len(data) == 0 {
		// The walk began before the flusher moved these bytes here, or the
		// stream is over: look again once.
		if err = b.closeChunks(); err == nil {
			if b.chunks, err = b.e.archive.Chunks(sp.ID, sp.From); err == nil {
				data, err = b.chunks.Next()
			}
		}
	}
	if err == nil && len(data) == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, damaged(err)
	}
	return data[:min(uint64(len(data)), limit-sp.From)], nil
}

func (b *blocks) closeChunks() error {
	if b.chunks == nil {
		return nil
	}
	c := b.chunks
	b.chunks = nil
	return c.Close()
}

// Close implements stream.Blocks.
func (b *blocks) Close() error {
	b.spans = nil
	return b.closeChunks()
}

func damaged(err error) error {
	if errors.Is(err, archive.ErrClosed) {
		return errClosing
	}
	return &stream.Error{Kind: stream.Damaged, Message: "the stream's data cannot be read", Err: err}
}
