package tenant

import (
	"fmt"
	"sync/atomic"
	"time"

	"durablestreams/stream"
)

// Account is what one tenant uses.
type Account struct {
	name   string
	clock  func() int64 // nanoseconds since the ledger was made
	limits atomic.Pointer[Limits]
	listed atomic.Bool

	streams, bytes, live atomic.Int64
	appends, appended    bucket
	purges               atomic.Int32

	refused [reasons]atomic.Uint64
}

// Reasons of refusals, for counting.
const (
	byStreams = iota
	byBytes
	byAppends
	byLive
	reasons
)

// take adds to a figure unless it gets beyond its limit. What adds nothing is let in.
func take(used *atomic.Int64, n, limit int64, dry bool) bool {
	for {
		was := used.Load()
		if n > 0 && limit != Unlimited && (was > limit || n > limit-was) {
			return false
		}
		if dry || used.CompareAndSwap(was, was+n) {
			return true
		}
	}
}

// refuse counts a refusal, unless it is of a question only.
func (a *Account) refuse(reason int, kind stream.Kind, dry bool, retry time.Duration, message string) *stream.Error {
	if !dry {
		a.refused[reason].Add(1)
	}
	return &stream.Error{Kind: kind, Message: message, Retry: retry}
}

// noRoom is how long a client is to wait that meets a quota which time alone does not
// change.
const noRoom = 10 * time.Second

// Create asks for one more stream that begins with so many bytes, and charges it; with
// dry it only asks.
func (a *Account) create(bytes int, dry bool) *stream.Error {
	if a.purges.Load() > 0 {
		return &stream.Error{Kind: stream.Busy, Message: "the streams of this tenant are being deleted"}
	}
	if limit := a.limits.Load().Streams; !take(&a.streams, 1, limit, dry) {
		return a.refuse(byStreams, stream.QuotaStreams, dry, noRoom, fmt.Sprintf("the tenant has its %d streams", limit))
	}
	err := a.Append(bytes, dry)
	if err != nil && !dry {
		a.streams.Add(-1)
	}
	return err
}

// Append asks for so many bytes more in one change, and charges them; with dry it only
// asks. It is for a stream that has been charged.
func (a *Account) Append(bytes int, dry bool) *stream.Error {
	limits := a.limits.Load()
	if !take(&a.bytes, int64(bytes), limits.Bytes, dry) {
		return a.refuse(byBytes, stream.QuotaBytes, dry, noRoom, fmt.Sprintf("this would be more than the %d bytes of the tenant", limits.Bytes))
	}
	if limits.Appends == Unlimited && limits.AppendBytes == Unlimited {
		return nil
	}
	if wait := a.pace(bytes, limits, dry); wait > 0 {
		if !dry {
			a.bytes.Add(-int64(bytes))
		}
		return a.refuse(byAppends, stream.QuotaAppends, dry, wait, "the tenant adds more in a second than it may")
	}
	return nil
}

// pace gives how long to wait with a change, 0 for not at all.
func (a *Account) pace(bytes int, limits *Limits, dry bool) (wait time.Duration) {
	now := a.clock()
	cost, wait := a.appends.take(1, limits.Appends, now, dry)
	if wait > 0 {
		return wait
	}
	if _, wait = a.appended.take(int64(bytes), limits.AppendBytes, now, dry); wait > 0 {
		a.appends.until.Add(-cost)
	}
	return wait
}

// GiveBack takes back the charge of streams and bytes that are not there any more, or
// have not come.
func (a *Account) GiveBack(streams int, bytes uint64) {
	a.streams.Add(-int64(streams))
	a.bytes.Add(-int64(bytes))
}

// idle reports whether nothing of the account needs to be remembered.
func (a *Account) idle(now int64) bool {
	return !a.listed.Load() && a.streams.Load() == 0 && a.bytes.Load() == 0 && a.live.Load() == 0 &&
		a.purges.Load() == 0 && a.appends.until.Load() <= now && a.appended.until.Load() <= now
}

// bucket paces what comes in to a rate. Up to a second's worth may come at once, and
// what is larger than that is let in when nothing is owed, and paid off.
type bucket struct {
	until atomic.Int64 // up to when the rate is used, in nanoseconds
}

const second = int64(time.Second)

// take uses n of a rate a second, and gives what that costs in nanoseconds; or how long
// to wait before, which is 0 if it was let in.
func (b *bucket) take(n, rate, now int64, dry bool) (cost int64, wait time.Duration) {
	switch rate {
	case Unlimited:
		return 0, 0
	case 0:
		return 0, noRoom
	}
	cost = n * (second / rate)
	if rem := second % rate; rem != 0 {
		cost += n * rem / rate
	}
	for {
		used := b.until.Load()
		until := max(used, now)
		if ahead := until - now; ahead > 0 && ahead+cost > second {
			return 0, time.Duration(min(ahead, ahead+cost-second))
		}
		if dry || b.until.CompareAndSwap(used, until+cost) {
			return cost, 0
		}
	}
}
