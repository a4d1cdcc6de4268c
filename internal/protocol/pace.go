package protocol

import (
	"sync"
	"sync/atomic"
	"time"
)

// pacer makes large reads give way to changes. As long as few changes come in,
// reads go as fast as they can; otherwise all of them together are held to a rate
// that leaves the processors to the writers.
type pacer struct {
	rate    int // bytes a second that paced reads may send
	changes atomic.Uint64

	mu    sync.Mutex
	since time.Time // beginning of the period in which changes are counted
	seen  uint64    // changes before it
	busy  bool
	next  time.Time // when the next piece may go
}

const (
	changePeriod = 10 * time.Millisecond
	// busyChanges is how many changes a second count as a load.
	busyChanges = 1000
	// pacedRate is what a processor's share of all paced reads is, in bytes a second.
	pacedRate = 32 << 20
	// maxPause keeps a piece from waiting longer than a peer's patience.
	maxPause = time.Second
)

// pause says how long to wait before n bytes of a large read are sent.
func (p *pacer) pause(n int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := now.Sub(p.since); d >= changePeriod {
		changes := p.changes.Load()
		p.busy = float64(changes-p.seen) > busyChanges*d.Seconds()
		p.since, p.seen = now, changes
	}
	if !p.busy {
		return 0
	}
	if p.next.Before(now) {
		p.next = now
	}
	wait := min(p.next.Sub(now), maxPause)
	p.next = p.next.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	return wait
}

// Pause says how long an adapter is to wait before it sends n more bytes of a
// large answer: nothing, unless writers need the processors.
func (c *Core) Pause(n int) time.Duration { return c.pacer.pause(n, time.Now()) }
