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

// keptBuffer is the largest buffer that a waiting feed keeps.
const keptBuffer = 4 << 10

// sseHead is the head of an SSE answer that starts at from. At the end of a
// closed stream it says so, as other reads do (§8).
func (f *Feed) sseHead(from uint64) *Response {
	r := f.op.core.answer(f.op.req, 200)
	r.Length = -1
	r.add("Content-Type", "text/event-stream")
	r.add("Cache-Control", cacheSSE)
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
	f.frame = f.frame[:0]
	last := f.spoken && (f.op.core.isDraining() || !now.Before(f.deadline))
	if err == nil {
		f.snap = snap
		if !last {
			err = f.appendData()
		}
	}
	if f.spoken && (errors.Is(err, stream.NotFound) || errors.Is(err, stream.Gone)) {
		return Action{Done: true}, nil
	}
	if err != nil {
		return Action{}, err
	}
	atEnd := snap.Closed && f.pos == snap.Tail
	if len(f.frame) > 0 || !f.spoken || atEnd || last {
		f.appendControl(now, atEnd)
		return Action{Frame: f.frame, Done: atEnd || last}, nil
	}
	if !now.Before(f.quiet) {
		f.frame = wire.AppendComment(f.frame)
		f.quiet = now.Add(f.op.core.opt.KeepAlive)
		return Action{Frame: f.frame}, nil
	}
	f.rest()
	wait := f.quiet
	if f.deadline.Before(wait) {
		wait = f.deadline
	}
	return Action{Wait: wait}, nil
}

// appendData appends a data event with what follows the feed's position, if
// anything that may be sent does.
func (f *Feed) appendData() error {
	c := f.op.core
	end, err := c.pageEnd(f.snap, f.pos, sseEvent, f.code)
	if err != nil || end == f.pos {
		return err
	}
	f.data, err = c.load(f.data[:0], f.snap, f.pos, end)
	if err != nil {
		return err
	}
	data := f.data
	switch f.code {
	case jsonMessages:
		f.frame = wire.AppendJSONEvent(f.frame, data)
	case text:
		// The rest of a character may still come; the stream's end settles it.
		if !f.snap.Closed || end < f.snap.Tail {
			data = data[:wire.HoldBackUTF8(data)]
		}
		if len(data) == 0 {
			return nil
		}
		f.frame = wire.AppendTextEvent(f.frame, data)
	default:
		f.frame = wire.AppendBase64Event(f.frame, data)
	}
	f.pos += uint64(len(data))
	return nil
}

func (f *Feed) appendControl(now time.Time, atEnd bool) {
	c := wire.Control{NextOffset: f.snap.OffsetAt(f.pos).String(), UpToDate: f.pos == f.snap.Tail, Closed: atEnd}
	if !atEnd {
		c.Cursor = f.nextCursor(now)
	}
	f.frame = wire.AppendControlEvent(f.frame, c)
	f.spoken = true
	f.quiet = now.Add(f.op.core.opt.KeepAlive)
}

// rest drops what a feed that waits does not need.
func (f *Feed) rest() {
	if cap(f.data) > keptBuffer {
		f.data = nil
	}
	if cap(f.frame) > keptBuffer {
		f.frame = nil
	}
}
