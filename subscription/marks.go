package subscription

import "durablestreams/stream"

// mark is the cursor of a linked stream that has pending work. A linked stream
// without a mark is acked up to its tail.
type mark struct {
	path  stream.Path
	acked stream.Offset

	// tail is the decided tail. It is not stored: after a start it is unknown
	// until the stream changes or is asked for it.
	tail  stream.Offset
	known bool

	// told is the tail that the call of a wake names, if generation is that wake's.
	told       stream.Offset
	generation uint64

	before, after *mark
}

// marks holds the pending streams of one subscription, the one that waits the
// longest first. The zero value is empty.
type marks struct {
	byPath      map[stream.Path]*mark
	first, last *mark
}

func (l *marks) len() int { return len(l.byPath) }

func (l *marks) get(path stream.Path) *mark { return l.byPath[path] }

// add puts a mark behind the others. There is none of its path.
func (l *marks) add(m *mark) {
	if l.byPath == nil {
		l.byPath = map[stream.Path]*mark{}
	}
	l.byPath[m.path] = m
	l.push(m)
}

func (l *marks) remove(m *mark) {
	delete(l.byPath, m.path)
	if len(l.byPath) == 0 {
		l.byPath = nil // a map never gives its memory back
	}
	l.unlink(m)
}

// postpone puts a mark behind the others again.
func (l *marks) postpone(m *mark) {
	l.unlink(m)
	l.push(m)
}

func (l *marks) push(m *mark) {
	m.before = l.last
	if l.last == nil {
		l.first = m
	} else {
		l.last.after = m
	}
	l.last = m
}

func (l *marks) unlink(m *mark) {
	if m.before == nil {
		l.first = m.after
	} else {
		m.before.after = m.after
	}
	if m.after == nil {
		l.last = m.before
	} else {
		m.after.before = m.before
	}
	m.before, m.after = nil, nil
}
