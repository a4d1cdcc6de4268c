package protocol

import (
	"errors"
	"time"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// sseEvent is about how many stored bytes go into one data event: what a slow
// reader costs in memory. A larger message makes a larger event.
const sseEvent = 64 << 10

// sseHead is the head of an SSE answer that starts at from. At the end of a
// closed stream it says so, as other reads do (§8).
func (f *Feed) sseHead(from uint64) *Response {
	r := f.op.core.answer(f.op.req, 200)
	r.Length = -1
	r.add("Content-Type", "text/event-stream")
	r.add("Cache-Control", f.op.cache(cacheSSE, cacheSSEPrivate))
	r.add("X-Accel-Buffering", "no")
	if f.code == binary {
		r.add(wire.HeaderStreamSSEDataEncoding, wire.SSEDataEncodingBase64)
	}
	if f.snap.Closed && from == f.snap.Tail {
		r.add(wire.HeaderStreamNextOffset, f.snap.TailOffset().String())
		r.add(wire.HeaderStreamUpToDate, wire.True)
		r.add(wire.HeaderStreamClosed, wire.True)
	}
	return r
}

// lookSSE gives the next frame. A stream that is gone ends the answer cleanly:
// the client learns why when it comes back.
func (f *Feed) lookSSE(snap stream.Snapshot, err error, now time.Time) (Action, error) {
	last := f.spoken && f.timeUp(now)
	var frame []byte
	if err == nil {
		if f.snap = snap; f.pos < snap.Tail && !last {
			frame, err = f.dataFrame(now)
		}
	}
	if err == errNoRoom && f.spoken {
		return f.waitForRoom(now), nil
	}
	f.since = time.Time{}
	if f.spoken && (errors.Is(err, stream.NotFound) || errors.Is(err, stream.Gone)) {
		return Action{Done: true}, nil
	}
	if err != nil {
		return Action{}, err
	}
	atEnd := snap.Closed && f.pos == snap.Tail
	if frame == nil && (!f.spoken || atEnd || last) {
		frame = f.appendControl(nil, now)
	}
	if frame != nil {
		f.spoken = true
		f.quiet = now.Add(f.op.core.opt.KeepAlive)
		return Action{Frame: frame, Done: atEnd || last}, nil
	}
	if !now.Before(f.quiet) {
		f.quiet = now.Add(f.op.core.opt.KeepAlive)
		return Action{Frame: wire.AppendComment(nil)}, nil
	}
	wait := f.quiet
	if f.deadline.Before(wait) {
		wait = f.deadline
	}
	return Action{Wait: wait}, nil
}

// dataFrame gives a data event with what follows the feed's position, and its
// control event; nil if nothing may be sent yet. Readers at the same place share
// the bytes.
func (f *Feed) dataFrame(now time.Time) ([]byte, error) {
	c := f.op.core
	key := frameKey{id: f.snap.ID, from: f.pos, tail: f.snap.Tail, closed: f.snap.Closed, cursor: f.nextCursor(now)}
	if frame, end, ok := c.frames.get(&key); ok {
		if !f.hold(int64(len(frame))) {
			return nil, errNoRoom
		}
		f.pos = end
		return frame, nil
	}
	end, err := c.pageEnd(f.snap, f.pos, sseEvent, f.code)
	if err != nil {
		return nil, err
	}
	if !f.hold(frameCost(end - f.pos)) {
		return nil, errNoRoom
	}
	buf := c.frames.scratch(int(end - f.pos))
	defer c.frames.done(buf)
	if *buf, err = c.load((*buf)[:0], f.snap, f.pos, end); err != nil {
		return nil, err
	}
	data := *buf
	if f.code == text && (!f.snap.Closed || end < f.snap.Tail) {
		// The rest of a character may still come; the stream's end settles it.
		if data = data[:wire.HoldBackUTF8(data)]; len(data) == 0 {
			f.letGo()
			return nil, nil
		}
	}
	pos := f.pos + uint64(len(data))
	split, err := f.splitsCRLF(data)
	if err != nil {
		return nil, err
	}
	if split {
		data = data[1:]
	}
	frame := make([]byte, 0, len(data)+len(data)/2+eventRoom)
	if len(data) > 0 {
		frame = appendEvent(frame, f.code, data)
	}
	f.pos = pos
	frame = f.appendControl(frame, now)
	c.frames.put(&key, frame, f.pos)
	f.holdExactly(int64(cap(frame)))
	return frame, nil
}

// splitsCRLF reports whether the feed's position is between a CR and the LF that
// data begin with. The client has had its line break with the CR.
func (f *Feed) splitsCRLF(data []byte) (bool, error) {
	if f.code != text || f.pos == 0 || data[0] != '\n' {
		return false, nil
	}
	var one [1]byte
	before, err := f.op.core.load(one[:0], f.snap, f.pos-1, f.pos)
	return err == nil && before[0] == '\r', err
}

// eventRoom is about what an event and its control event take besides the data.
const eventRoom = 192

func appendEvent(dst []byte, code coding, data []byte) []byte {
	switch code {
	case jsonMessages:
		return wire.AppendJSONEvent(dst, data)
	case text:
		return wire.AppendTextEvent(dst, data)
	}
	return wire.AppendBase64Event(dst, data)
}

func (f *Feed) appendControl(dst []byte, now time.Time) []byte {
	c := wire.Control{NextOffset: f.snap.OffsetAt(f.pos).String(), UpToDate: f.pos == f.snap.Tail}
	if c.Closed = f.snap.Closed && f.pos == f.snap.Tail; !c.Closed {
		c.Cursor = f.nextCursor(now)
	}
	return wire.AppendControlEvent(dst, c)
}

// frameCost is about what making a frame of n stored bytes takes: the bytes and
// the frame.
func frameCost(n uint64) int64 { return int64(n)*5/2 + eventRoom }

// waitForRoom lets a feed wait until others have been sent theirs, and after some
// time ends the answer, at a place that the client knows.
func (f *Feed) waitForRoom(now time.Time) Action {
	if f.since.IsZero() {
		f.since = now
	}
	if now.Sub(f.since) >= roomPatience {
		return Action{Done: true}
	}
	return Action{Wait: nextTry(now)}
}
