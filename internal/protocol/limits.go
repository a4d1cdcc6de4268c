package protocol

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"durablestreams/stream"
)

// budget bounds what all requests together use of something: bytes, or places.
type budget struct {
	used atomic.Int64
	max  int64
}

// take asks for a use that grows from held to total, within a part of the budget.
// What nobody shares is given however large it is, or it would never be.
func (b *budget) take(held, total, limit int64) bool {
	used := b.used.Add(total - held)
	if used <= limit || used == total {
		return true
	}
	b.used.Add(held - total)
	return false
}

// takeBytes leaves a quarter to what is small, so that the large, however slow,
// never keep the small out.
func (b *budget) takeBytes(held, total int64) bool {
	limit := b.max
	if total > SmallBody {
		limit -= limit / 4
	}
	return b.take(held, total, limit)
}

// place asks for one place.
func (b *budget) place() bool { return b.take(0, 1, b.max) }

func (b *budget) give(n int64) { b.used.Add(-n) }

// limits are the budgets of a Core.
type limits struct {
	bodies budget // bytes of bodies that are being received
	unsent budget // bytes of answers until they have been sent
	sends  budget // large answers on their way
	live   budget // live reads that wait

	reads, changes places // that may need the disk
}

func (l *limits) init(o *Options) {
	l.bodies.max, l.unsent.max = o.MaxInflight, o.MaxUnsent
	l.sends.max, l.live.max = int64(o.MaxSends), int64(o.MaxLive)
	l.reads, l.changes = make(places, o.MaxReads), make(places, o.MaxReads)
}

// Use is what requests use of what the options bound, at one moment.
type Use struct {
	Inflight  int64 // bytes, see Options.MaxInflight
	Unsent    int64 // bytes, see Options.MaxUnsent
	Sends     int64 // see Options.MaxSends
	Live      int64 // see Options.MaxLive
	DiskReads int64 // see Options.MaxReads
}

// Use tells how much is in use.
func (c *Core) Use() Use {
	l := &c.limits
	return Use{Inflight: l.bodies.used.Load(), Unsent: l.unsent.used.Load(), Sends: l.sends.used.Load(),
		Live: l.live.used.Load(), DiskReads: int64(len(l.reads))}
}

// MaxFields is how many header fields a request may have: one of a few bytes takes
// a hundred in memory, as long as a live read waits.
const MaxFields = 200

// TooManyFields is the refusal of a head with more.
func (c *Core) TooManyFields() error {
	return refuse(headTooLarge, "the request has too many header fields")
}

// SmallBody is the size in bytes up to which a body, or an answer, is small.
const SmallBody = 64 << 10

// Reserve asks for memory for a body that grows from held to total bytes; false
// if there is no room, and then Busy is the refusal. What was reserved in all
// must be given back with Release.
func (c *Core) Reserve(held, total int64) bool { return c.limits.bodies.takeBytes(held, total) }

// Release gives back what a body of that many bytes has reserved.
func (c *Core) Release(total int64) { c.limits.bodies.give(total) }

// Busy is the refusal of a body for which there is no memory.
func (c *Core) Busy() error { return busy("too many request bodies are being received") }

func busy(message string) *stream.Error { return refuse(stream.Busy, message) }

// places are for those who do what may wait for the disk, so many at once: on a
// slow disk more of them would be no faster, and each holds a thread.
type places chan struct{}

// diskPatience is how long a request waits for a place.
const diskPatience = 10 * time.Second

// enter waits for a place, which leave then gives back.
func (p places) enter() error {
	select {
	case p <- struct{}{}:
		return nil
	default:
	}
	late := time.NewTimer(diskPatience)
	defer late.Stop()
	select {
	case p <- struct{}{}:
		return nil
	case <-late.C:
		return busy("too many requests are waiting for the disk")
	}
}

func (p places) leave() { <-p }

// EnterDisk waits for a place among the answers that are read from the disk, for what
// is served besides the protocol; leave gives it back. Without an error it must be
// called.
func (c *Core) EnterDisk() (leave func(), err error) {
	if err := c.limits.reads.enter(); err != nil {
		return nil, err
	}
	return c.limits.reads.leave, nil
}

// A feed that finds no room for its next frame looks again now and then, and gives
// up when it has waited for so long: the client comes back, and is told to wait.
const (
	roomPause    = 100 * time.Millisecond
	roomPatience = 5 * time.Second
)

// nextTry spreads the looks of many.
func nextTry(now time.Time) time.Time {
	return now.Add(roomPause/2 + rand.N(roomPause))
}
