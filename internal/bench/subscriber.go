package bench

import (
	"sync/atomic"
	"time"
)

// subscriber reads one stream live, over SSE or by long-polling, and compares what
// comes with what was written.
type subscriber struct {
	live     *live
	longPoll bool
	check    check
	scan     scan
	events   events
	got      []delivery
	progress atomic.Int64 // the next append it waits for; never after nonsense

	offset []byte
	cursor []byte
	ready  bool
	mended bool // the connection broke: what came before may come again
	again  int  // subscriptions after the first
	pause  int64
	now    int64 // of the piece being read
}

// delivery is one record's arrival.
type delivery struct {
	seq int64
	at  int64
}

// Servers end a long-poll after half a minute or so and an SSE answer after a minute,
// or never.
const (
	pollPatience = 2 * time.Minute
	livePatience = 24 * time.Hour
)

func (s *subscriber) next(now int64, buf []byte) ([]byte, move) {
	if now < s.pause {
		return buf, move{kind: wait, due: s.pause}
	}
	s.scan.reset()
	s.events.reset()
	buf = append(buf, "GET "...)
	buf = s.live.bed.appendPath(buf, s.live.kind, 0)
	buf = append(buf, "?offset="...)
	buf = append(buf, s.offset...)
	if s.longPoll {
		buf = append(buf, "&live=long-poll"...)
		if len(s.cursor) > 0 {
			buf = append(append(buf, "&cursor="...), s.cursor...)
		}
		s.arrived() // a long-poll that waits has no answer yet: sent has to do
		buf = append(buf, s.live.bed.fixed("\r\n")...)
		return buf, move{kind: send, patience: pollPatience}
	}
	buf = append(buf, "&live=sse"...)
	buf = append(buf, s.live.bed.fixed("Accept: text/event-stream\r\n\r\n")...)
	return buf, move{kind: send, patience: livePatience}
}

// arrived counts the subscriber as being there.
func (s *subscriber) arrived() {
	if !s.ready {
		s.ready = true
		s.live.ready.Add(1)
	}
}

func (s *subscriber) body(now int64, r *response, piece []byte) {
	if r.status != 200 {
		return
	}
	s.arrived()
	s.now = now
	s.live.tally.bytes += int64(len(piece))
	if s.longPoll {
		s.scan.write(piece, s)
		return
	}
	if len(piece) > 0 && !s.events.write(piece, s.event) {
		s.alien("an event without end")
	}
}

// event takes one SSE event.
func (s *subscriber) event(name, data []byte) {
	switch string(name) {
	case "data":
		s.scan.write(data, s)
		s.scan.endPage(s)
	case "control":
		if offset := member(data, "streamNextOffset"); len(offset) > 0 {
			s.offset = append(s.offset[:0], offset...)
		} else {
			s.alien("a control event without an offset")
		}
	}
}

// record takes one record that arrived.
func (s *subscriber) record(conn int, seq int64) {
	if s.mended && seq < s.check.next[0] {
		return
	}
	s.mended = false
	s.got = append(s.got, delivery{seq, s.now})
	s.check.record(conn, seq)
	s.progress.Store(s.check.next[0])
}

func (s *subscriber) alien(what string) {
	s.check.alien(what)
	s.progress.Store(never)
}

// end compares what came with what the writer knows now.
func (s *subscriber) end(writer *ledger) *Verification {
	for i, d := range s.got {
		if d.seq >= writer.sent {
			s.check.alien("a request that was never sent")
			s.got = s.got[:i]
			break
		}
	}
	s.check.ledgers = []ledger{*writer}
	s.check.end()
	return s.check.total
}

func (s *subscriber) done(now int64, r *response) {
	switch {
	case r.status == 200 && s.longPoll:
		s.scan.endPage(s)
		s.follow(r)
	case r.status == 204 && s.longPoll:
		s.follow(r)
	case r.status == 200: // a server may end an SSE answer; the last control event tells where to go on
		s.again++
		s.mended = true
	default:
		s.bad(now, statusName(r.status))
	}
}

// follow takes over where the next long-poll begins.
func (s *subscriber) follow(r *response) {
	if len(r.offset) == 0 {
		s.alien("an answer without Stream-Next-Offset")
		return
	}
	s.offset = append(s.offset[:0], r.offset...)
	s.cursor = append(s.cursor[:0], r.cursor...)
}

func (s *subscriber) failed(now int64, err error) {
	s.mended = true
	s.bad(now, errorName(err))
}

func (s *subscriber) bad(now int64, what string) {
	s.live.tally.fail("subscriber: " + what)
	s.pause = now + int64(errorPause)
}
