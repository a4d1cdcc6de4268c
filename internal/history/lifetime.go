package history

import "math"

// A stream with a lifetime ends at a moment of which the model knows an interval:
// a request has been decided at some time between its sending and its answer.

const (
	second = int64(1e9)

	// clockSlack is by how much the server's clock may differ from the recorder's.
	clockSlack = 5e6
)

// ending is when a stream ends by itself.
type ending struct {
	first, latest int64 // not before, not after

	// A server may forget a tenth of the window of what a read has renewed. One that
	// was killed may have forgotten all of it, since nobody waits for a renewal to be
	// on the disk.
	life int   // for which first holds
	firm int64 // not before, in later lives
}

// born sets the end of a new stream.
func (e *entry) born(op *Op) {
	e.first, e.latest = math.MaxInt64, math.MaxInt64
	switch {
	case e.ttl != nil:
		e.first, e.latest = op.Begin+*e.ttl*second, op.End+*e.ttl*second
	case e.until != 0:
		e.first, e.latest = e.until, e.until
	}
	e.life, e.firm = op.Life, e.first
}

// touch renews a sliding window.
func (e *entry) touch(op *Op) {
	if e.ttl == nil {
		return
	}
	if e.life != op.Life {
		e.life, e.first = op.Life, e.firm
	}
	window := *e.ttl * second
	first := op.Begin + window
	e.first = max(e.first, first-max(window/10, second/10))
	if op.Kind == Append && op.Ask.Body != "" && (op.Status == 200 || op.Status == 204 && op.Ask.Producer == nil) {
		e.first, e.firm = max(e.first, first), max(e.firm, first) // it is in the append's own record
	}
	e.mayTouch(op)
}

// mayTouch is a renewal that need not be one.
func (e *entry) mayTouch(op *Op) {
	if e.ttl != nil {
		e.latest = max(e.latest, op.End+*e.ttl*second)
	}
}

// ages gives the worlds in which op may meet this one: with what must have ended
// by then gone, and what may have ended gone or not.
func (w *world) ages(op *Op) []*world {
	worlds := []*world{w}
	for _, path := range []string{op.Path, op.Ask.Source} {
		e := w.at[path]
		if e == nil || e.deleted {
			continue
		}
		first := e.first
		if e.life != op.Life {
			first = e.firm
		}
		if op.End+clockSlack < first {
			continue
		}
		var ended []*world
		for _, v := range worlds {
			if v.at[path] != nil {
				ended = append(ended, v.end(path))
			}
		}
		if op.Begin-clockSlack >= e.latest {
			worlds = nil
		}
		worlds = append(worlds, ended...)
	}
	return worlds
}
