package protocol

import "time"

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
