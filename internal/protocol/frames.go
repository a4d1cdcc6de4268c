package protocol

import (
	"sync"

	"durablestreams/stream"
)

// frames remembers the last SSE frame of each of a bounded number of streams, so
// that the readers who wait at the end of one all send the same bytes, encoded
// once. A frame that is not there is made again; nothing depends on it.
type frames struct {
	slots   [frameSlots]frameSlot
	buffers sync.Pool // of *[]byte
}

// scratch lends a buffer for the data of a frame.
func (f *frames) scratch(n int) *[]byte {
	buf, ok := f.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	if cap(*buf) < n {
		*buf = make([]byte, 0, n)
	}
	return buf
}

// done takes it back, unless it is too large to keep.
func (f *frames) done(buf *[]byte) {
	if cap(*buf) <= 2*sharedFrame {
		f.buffers.Put(buf)
	}
}

const (
	frameSlots = 256
	// sharedFrame is the largest frame that is remembered, in bytes.
	sharedFrame = 64 << 10
)

// frameKey is everything that a frame's bytes follow from, besides the data
// before and behind the position, which never change.
type frameKey struct {
	id     stream.ID
	from   uint64
	tail   uint64
	closed bool
	cursor string
}

type frameSlot struct {
	mu    sync.Mutex
	key   frameKey
	end   uint64 // position after the data
	bytes []byte // must not be written to
}

func (f *frames) slot(id stream.ID) *frameSlot { return &f.slots[id%frameSlots] }

// get gives the frame and the position behind it.
func (f *frames) get(k *frameKey) (bytes []byte, end uint64, ok bool) {
	s := f.slot(k.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes == nil || s.key != *k {
		return nil, 0, false
	}
	return s.bytes, s.end, true
}

// put remembers a frame. Its bytes are not copied.
func (f *frames) put(k *frameKey, bytes []byte, end uint64) {
	if len(bytes) > sharedFrame {
		return
	}
	s := f.slot(k.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.bytes, s.end = *k, bytes, end
}
