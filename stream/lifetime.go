package stream

import (
	"math"
	"time"
)

// Lifetime says when a stream ends by itself (§5.1): never, after a sliding
// window without reads and writes, or at a fixed instant. The zero value is
// never. Two lifetimes are the same configuration if Equal says so; Text is
// only for showing it again as it was sent.
type Lifetime struct {
	kind   lifetimeKind
	window uint64 // seconds
	sec    int64  // Unix time of the fixed instant
	nsec   uint32
	text   string
}

type lifetimeKind uint8

const (
	forever lifetimeKind = iota
	sliding
	fixed
)

// Never is a time later than every other, in Unix nanoseconds.
const Never = math.MaxInt64

// MaxTTL is the longest sliding window in seconds.
const MaxTTL = math.MaxInt64

// Sliding gives the lifetime of a stream with Stream-TTL, in seconds.
func Sliding(seconds uint64) Lifetime { return Lifetime{kind: sliding, window: seconds} }

// Until gives the lifetime of a stream with Stream-Expires-At; text is the
// header as it was sent.
func Until(t time.Time, text string) Lifetime {
	return Lifetime{kind: fixed, sec: t.Unix(), nsec: uint32(t.Nanosecond()), text: text}
}

// IsForever reports whether the stream never ends by itself.
func (l Lifetime) IsForever() bool { return l.kind == forever }

// TTL gives the sliding window in seconds.
func (l Lifetime) TTL() (seconds uint64, ok bool) { return l.window, l.kind == sliding }

// ExpiresAt gives the fixed instant as it was sent.
func (l Lifetime) ExpiresAt() (text string, ok bool) { return l.text, l.kind == fixed }

// Equal compares as times, not as spellings.
func (l Lifetime) Equal(m Lifetime) bool {
	return l.kind == m.kind && l.window == m.window && l.sec == m.sec && l.nsec == m.nsec
}

// Deadline gives the instant, in Unix nanoseconds, from which on a stream that
// was last read or written at touched is gone. It saturates at [Never].
func (l Lifetime) Deadline(touched int64) int64 {
	switch l.kind {
	case sliding:
		if l.window > math.MaxInt64/uint64(time.Second) {
			return Never
		}
		return saturate(touched, int64(l.window)*int64(time.Second))
	case fixed:
		if l.sec > math.MaxInt64/int64(time.Second)-1 {
			return Never
		}
		if l.sec < math.MinInt64/int64(time.Second)+1 {
			return math.MinInt64
		}
		return l.sec*int64(time.Second) + int64(l.nsec)
	}
	return Never
}

// saturate adds two times of which b is not negative.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return Never
	}
	return a + b
}
