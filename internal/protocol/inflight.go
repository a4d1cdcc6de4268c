package protocol

import (
	"sync/atomic"
	"time"

	"durablestreams/stream"
)

// inflight counts the memory of bodies that are being received.
type inflight struct {
	used atomic.Int64
	max  int64
}

// SmallBody is the size in bytes up to which a body is small: it may use the
// share of Options.MaxInflight that large ones leave alone, so that uploads,
// however slow, never keep short writes out.
const SmallBody = 64 << 10

// Reserve asks for memory for a body that grows from held to total bytes; false
// if there is no room, and then Busy is the refusal. What was reserved in all
// must be given back with Release.
func (c *Core) Reserve(held, total int64) bool {
	limit := c.inflight.max
	if total > SmallBody {
		limit -= limit / 4
	}
	if c.inflight.used.Add(total-held) <= limit {
		return true
	}
	c.inflight.used.Add(held - total)
	return false
}

// Release gives back what a body of that many bytes has reserved.
func (c *Core) Release(total int64) { c.inflight.used.Add(-total) }

// Inflight is the number of bytes that bodies have reserved.
func (c *Core) Inflight() int64 { return c.inflight.used.Load() }

// Busy is the refusal of a body for which there is no memory.
func (c *Core) Busy() error {
	return refuse(stream.Busy, "too many request bodies are being received")
}

// BodyPace judges whether a body comes fast enough to go on holding memory: besides
// never standing still for long, a large one has to come at a rate of its own
// accord, and a small one to be there some day. The zero value is ready.
type BodyPace struct {
	begun time.Time
	since time.Time // beginning of the period
	got   int64     // bytes at that moment
}

const (
	bodyPeriod    = 30 * time.Second
	bodyRate      = 30 << 10 // of a large body in a period: 1 KiB/s
	smallBodyTime = 10 * time.Minute
)

// Keeps reports whether a body of which got bytes are there is to be waited for.
// It is called at the beginning and whenever something has come.
func (p *BodyPace) Keeps(now time.Time, got int64) bool {
	if p.begun.IsZero() {
		p.begun, p.since, p.got = now, now, got
		return true
	}
	if got <= SmallBody {
		p.since, p.got = now, got
		return now.Sub(p.begun) < smallBodyTime
	}
	if now.Sub(p.since) < bodyPeriod {
		return true
	}
	kept := got-p.got >= bodyRate
	p.since, p.got = now, got
	return kept
}
