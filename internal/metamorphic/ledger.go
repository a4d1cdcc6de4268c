package metamorphic

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"durablestreams/stream"
)

// fate is what a client knows of something it asked for.
type fate uint8

const (
	unknown fate = iota // no answer that counts: it may have happened
	taken               // acknowledged
	refused             // refused: it has not happened
)

// life is one stream, from its creation to its end, as its clients know it.
type life struct {
	path     stream.Path
	inc      stream.Incarnation
	lifetime stream.Lifetime
	created  fate
	fork     *stream.Fork

	acked     map[string]uint64 // token of an acknowledged append -> tail it was told
	closed    bool              // a close was acknowledged, or seen
	end       uint64            // the tail then
	mayClose  bool              // a close was tried
	deleted   bool              // a deletion was acknowledged
	mayDelete bool              // a deletion was tried
	usedAt    int64             // last time of an acknowledged write
	seen      []byte            // the longest content that somebody has read
}

// ledger is what all clients together were promised and have seen. It may be
// used from many goroutines.
type ledger struct {
	mu     sync.Mutex
	lives  map[stream.Incarnation]*life
	tokens map[string]tokenFate
	faults []error
}

// tokenFate is what became of one piece of data.
type tokenFate struct {
	path stream.Path
	fate fate
}

func newLedger() *ledger {
	return &ledger{lives: map[stream.Incarnation]*life{}, tokens: map[string]tokenFate{}}
}

// fault notes that a promise was broken.
func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Errorf(format, args...))
}

// created notes a creation.
func (l *ledger) created(c *stream.Create, f fate, res stream.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f == refused || c.Incarnation == 0 {
		return
	}
	e := &life{path: c.Path, inc: c.Incarnation, lifetime: c.Lifetime, created: f, acked: map[string]uint64{}, usedAt: time.Now().UnixNano()}
	if c.Closed {
		e.mayClose = true
	}
	if f == taken {
		e.lifetime, e.fork = res.Meta.Lifetime, res.Meta.Fork
		e.closed, e.end = res.Closed, res.Tail.Pos
	}
	if len(c.Data) > 0 && f == taken {
		e.acked[string(c.Data)] = res.Tail.Pos
	}
	if l.lives[e.inc] == nil {
		l.lives[e.inc] = e
	}
}

// exists notes that a stream was said to be there.
func (l *ledger) exists(res stream.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.lives[res.Meta.Incarnation]
	if e == nil {
		e = &life{path: res.Meta.Path, inc: res.Meta.Incarnation, acked: map[string]uint64{}, usedAt: res.Meta.CreatedAt}
		l.lives[e.inc] = e
	}
	e.created, e.lifetime, e.fork = taken, res.Meta.Lifetime, res.Meta.Fork
}

// tried notes that data is on its way to a path, before it is sent.
func (l *ledger) tried(token []byte, p stream.Path) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(token) > 0 && l.tokens[string(token)].fate != taken {
		l.tokens[string(token)] = tokenFate{path: p}
	}
}

// appended notes the answer to an append.
func (l *ledger) appended(a *stream.Append, f fate, res stream.Result, wasDeleted map[stream.Incarnation]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(a.Data) > 0 && !(a.Producer != nil && f == refused) {
		l.tokens[string(a.Data)] = tokenFate{path: a.Path, fate: f}
	}
	if f != taken {
		if f == unknown && a.Close {
			l.mayClose(a.Path)
		}
		return
	}
	e := l.lives[res.Meta.Incarnation]
	if e == nil {
		// It was created by somebody whose answer is still under way.
		e = &life{path: a.Path, inc: res.Meta.Incarnation, lifetime: res.Meta.Lifetime, fork: res.Meta.Fork, created: taken, acked: map[string]uint64{}}
		l.lives[e.inc] = e
	}
	if wasDeleted[e.inc] {
		l.fault("append to %s was acknowledged after the stream's deletion", a.Path)
	}
	e.created = taken
	e.usedAt = time.Now().UnixNano()
	if len(a.Data) > 0 && res.Outcome == stream.Appended {
		e.acked[string(a.Data)] = res.Tail.Pos
	} else if len(a.Data) > 0 {
		e.acked[string(a.Data)] = 0
	}
	if a.Close && res.Closed {
		e.closed, e.end, e.mayClose = true, res.Tail.Pos, true
	}
}

// mayClose marks every stream at a path as perhaps closed.
func (l *ledger) mayClose(p stream.Path) {
	for _, e := range l.lives {
		if e.path == p {
			e.mayClose = true
		}
	}
}

// closing notes that a close is about to be tried.
func (l *ledger) closing(p stream.Path) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mayClose(p)
}

// deleting notes that a deletion is about to be tried.
func (l *ledger) deleting(p stream.Path) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.lives {
		if e.path == p {
			e.mayDelete = true
		}
	}
}

// deletedAt notes an acknowledged deletion.
func (l *ledger) deletedAt(m *stream.Meta) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.lives[m.Incarnation]
	if e == nil {
		e = &life{path: m.Path, inc: m.Incarnation, lifetime: m.Lifetime, fork: m.Fork, acked: map[string]uint64{}}
		l.lives[e.inc] = e
	}
	e.deleted, e.mayDelete = true, true
}

// deletedSoFar lists the streams of which nothing new may be heard.
func (l *ledger) deletedSoFar() map[stream.Incarnation]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[stream.Incarnation]bool{}
	for _, e := range l.lives {
		if e.deleted {
			out[e.inc] = true
		}
	}
	return out
}

// read notes what somebody has seen.
func (l *ledger) read(snap stream.Snapshot, data []byte, wasDeleted map[stream.Incarnation]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.lives[snap.Incarnation]
	if e == nil {
		e = &life{path: snap.Path, inc: snap.Incarnation, acked: map[string]uint64{}}
		l.lives[e.inc] = e
	}
	// What is seen is durable.
	e.created, e.lifetime, e.fork = taken, snap.Lifetime, snap.Fork
	if wasDeleted[e.inc] {
		l.fault("%s shows a stream that was deleted before", snap.Path)
	}
	l.content(e, data, snap.Closed, false)
}

// content checks what a stream holds. whole says that nothing is under way.
func (l *ledger) content(e *life, data []byte, closed, whole bool) {
	n := min(len(e.seen), len(data))
	if !bytes.Equal(e.seen[:n], data[:n]) {
		l.fault("%s: what was read before has changed: %v", e.path, compareData(data[:n], e.seen[:n], 0))
	}
	if whole && len(data) < len(e.seen) {
		l.fault("%s: %d bytes were seen, there are %d", e.path, len(e.seen), len(data))
	}
	if e.closed && (uint64(len(data)) > e.end || whole && uint64(len(data)) != e.end) {
		l.fault("%s was closed at %d, there are %d bytes", e.path, e.end, len(data))
	}
	if whole && e.closed && !closed {
		l.fault("%s was closed and is open", e.path)
	}
	if closed && whole && !e.mayClose {
		l.fault("%s is closed, nobody asked for that", e.path)
	}
	if closed {
		e.closed, e.end = true, uint64(len(data))
	}
	if len(data) > len(e.seen) {
		e.seen = data
	}
	l.ownData(e, data, whole)
}

// ownData checks the part that is not inherited, token by token.
func (l *ledger) ownData(e *life, data []byte, whole bool) {
	base := 0
	if e.fork != nil {
		base = int(e.fork.Point)
		if len(data) < base {
			l.fault("%s has %d bytes, fewer than it inherits", e.path, len(data))
			return
		}
		l.inherited(e, data[:base])
	}
	at := map[string]int{}
	last := map[string]int{}
	for pos := base; pos < len(data); {
		n := bytes.IndexByte(data[pos:], ']') + 1
		token := string(data[pos : pos+n])
		t, known := l.tokens[token]
		switch {
		case n == 0 || !known:
			l.fault("%s has bytes at %d that nobody sent: %q", e.path, pos, clip(data[pos:]))
			return
		case at[token] != 0:
			l.fault("%s has %s twice", e.path, token)
		case t.path != e.path:
			l.fault("%s has %s, which was sent to %s", e.path, token, t.path)
		case t.fate == refused:
			l.fault("%s has %s, which was refused", e.path, token)
		}
		client, number := parseToken(token)
		if number <= last[client] {
			l.fault("%s has %s after number %d of its client", e.path, token, last[client])
		}
		last[client] = number
		pos += n
		at[token] = pos
	}
	for token, tail := range e.acked {
		switch end := at[token]; {
		case end == 0 && whole:
			l.fault("%s: %s was acknowledged and is missing", e.path, token)
		case end != 0 && tail != 0 && uint64(end) != tail:
			l.fault("%s: %s ends at %d, its writer was told %d", e.path, token, end, tail)
		}
	}
}

// inherited compares a fork's first part with its source.
func (l *ledger) inherited(e *life, data []byte) {
	if len(e.fork.Lineage) == 0 {
		return
	}
	src := l.lives[e.fork.Lineage[len(e.fork.Lineage)-1].Incarnation]
	if src == nil {
		return
	}
	n := min(len(src.seen), len(data))
	if !bytes.Equal(src.seen[:n], data[:n]) {
		l.fault("%s inherits other bytes than %s has: %v", e.path, src.path, compareData(data[:n], src.seen[:n], 0))
	}
}

// token makes data that is unlike any other and says who sent it.
func token(client string, number, size int) []byte {
	b := fmt.Appendf(nil, "[%s.%d", client, number)
	if len(b)+2 < size {
		b = append(b, ' ')
		b = append(b, bytes.Repeat([]byte{byte('a' + number%26)}, size-len(b)-1)...)
	}
	return append(b, ']')
}

func parseToken(s string) (client string, number int) {
	dot := bytes.IndexByte([]byte(s), '.')
	if dot < 1 {
		return "", 0
	}
	_, _ = fmt.Sscanf(s[dot+1:], "%d", &number)
	return s[1:dot], number
}

// expirable reports whether a stream may have ended by itself.
func (e *life) expirable(now int64) bool {
	return now >= e.lifetime.Deadline(e.usedAt)-slack(e.lifetime)
}

// audit compares everything with what is there while nothing moves.
func (l *ledger) audit(t Target, paths []stream.Path) {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := map[stream.Path]stream.Incarnation{}
	gone := map[stream.Path]bool{}
	for _, p := range paths {
		data, snap, err := readUntouched(t, p)
		switch kind := kindOf(err); {
		case err == nil:
			there[p] = snap.Incarnation
			l.auditStream(p, snap, data)
		case kind == stream.Gone:
			gone[p] = true
		case kind != stream.NotFound:
			l.fault("%s: %w", p, err)
		}
	}
	now := time.Now().UnixNano()
	incs := make([]stream.Incarnation, 0, len(l.lives))
	for inc := range l.lives {
		incs = append(incs, inc)
	}
	slices.Sort(incs)
	for _, inc := range incs {
		e := l.lives[inc]
		present := there[e.path] == inc
		if !present && e.created == taken && !e.mayDelete && !e.expirable(now) {
			l.fault("%s: a stream that was created is missing (gone: %v)", e.path, gone[e.path])
		}
		if !present && !gone[e.path] {
			e.deleted, e.mayDelete = true, true // whatever was unknown: it must stay away now
		}
		if present && e.fork != nil && !gone[e.fork.SourcePath] && there[e.fork.SourcePath] == 0 {
			l.fault("%s is there, its source %s is not", e.path, e.fork.SourcePath)
		}
	}
}

func (l *ledger) auditStream(p stream.Path, snap stream.Snapshot, data []byte) {
	e := l.lives[snap.Incarnation]
	if e == nil {
		l.fault("%s holds a stream that nobody created", p)
		return
	}
	if e.deleted {
		l.fault("%s holds a stream that was deleted", p)
	}
	e.created, e.lifetime, e.fork = taken, snap.Lifetime, snap.Fork
	e.mayDelete = false // it is there: a deletion of unknown fate has not happened
	l.content(e, data, snap.Closed, true)
	e.mayClose = e.closed
}
