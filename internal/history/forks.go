package history

import (
	"maps"
	"strings"
)

// A fork is created in two steps, each at one moment: a look at the source for the
// point, and the decision. In between the source may be replaced, and the path may
// be taken or let go.

// look is what a server has seen of a fork's source. Before the decision it is kept
// in the world.
type look struct {
	inc     int // of the source; -1: there was none
	point   int
	refusal Answer // less the zero value: why there is no point
}

// looks gives the operations for a fork's two steps.
func (op *Op) looks() []*Op {
	first := &Op{Client: op.Client, Life: op.Life, Kind: lookAt, Path: op.Path, Ask: op.Ask, Call: op.Call, Return: op.Return,
		Begin: op.Begin, End: op.End, Answer: Answer{Status: 200}, of: op}
	return []*Op{first, op}
}

// see is the first step.
func (w *world) see(op *Op) result {
	l := look{inc: -1}
	switch src := w.at[op.Ask.Source]; {
	case src == nil:
		l.refusal = Answer{Status: 404, Code: "fork_source_not_found"}
	case src.deleted:
		l.refusal = Answer{Status: 409, Code: "fork_source_gone"}
	default:
		l.inc = src.inc
		point, refusal := w.point(src, &op.Ask)
		if l.point = point; refusal != nil {
			l.refusal = refusal.answer
		}
	}
	v := *w
	v.seen = maps.Clone(w.seen)
	if v.seen == nil {
		v.seen = map[*Op]look{}
	}
	v.seen[op.of] = l
	return result{world: &v, answer: op.Answer}
}

// taking gives what was seen for op, and the world without it.
func (w *world) taking(op *Op) (look, *world) {
	l := w.seen[op]
	v := *w
	v.seen = maps.Clone(w.seen)
	delete(v.seen, op)
	return l, &v
}

// create decides a creation, of a fork or not.
func (w *world) create(op *Op) result {
	a := &op.Ask
	var l look
	if a.Source != "" {
		l, w = w.taking(op)
	}
	cur := w.at[op.Path]
	if cur != nil && cur.deleted {
		return w.refuse(409, "path_in_use")
	}
	if cur != nil {
		if !w.same(cur, a, l) {
			return w.refuse(409, "config_mismatch")
		}
		next := *cur
		next.touch(op)
		return result{world: w.with(op.Path, &next), of: cur, pos: cur.text.len(),
			answer: Answer{Status: 200, Type: cur.typ, Closed: cur.closed}}
	}
	e := &entry{inc: len(w.incs), typ: a.Type, closed: a.Close, ttl: a.TTL, until: a.Until}
	v := *w
	v.incs = append(w.incs[:len(w.incs):len(w.incs)], "")
	next := &v
	if a.Source != "" {
		source, refusal := w.fork(e, a, l)
		if refusal != nil {
			return *refusal
		}
		next = next.with(a.Source, source)
	}
	e.text = e.text.add(string(a.Body))
	e.born(op)
	return result{world: next.with(op.Path, e), of: e, pos: e.text.len(), answer: Answer{Status: 201, Type: e.typ, Closed: e.closed}}
}

// fork makes a new stream one that inherits, and gives its source with one fork
// more.
func (w *world) fork(e *entry, a *Ask, l look) (source *entry, refusal *result) {
	src := w.at[a.Source]
	var r result
	switch {
	case src == nil:
		r = w.refuse(404, "fork_source_not_found")
	case src.deleted:
		r = w.refuse(409, "fork_source_gone")
	case a.Type != "" && a.Type != src.typ:
		r = w.refuse(409, "content_type_mismatch")
	case l.refusal != Answer{}:
		r = w.refuse(l.refusal.Status, l.refusal.Code)
	case l.inc != src.inc:
		r = w.refuse(404, "fork_source_not_found")
	default:
		point := l.point
		if a.atTail() {
			point = src.text.len()
		}
		e.typ = src.typ
		if a.TTL == nil && a.Until == 0 {
			e.ttl, e.until = src.ttl, src.until
		}
		e.fork = &edge{source: a.Source, inc: src.inc, point: point, asked: a.Point, sub: a.Sub}
		e.lineage, e.text = src.lineageTo(point), src.text.cut(point)
		more := *src
		more.forks++
		return &more, nil
	}
	return nil, &r
}

func (a *Ask) atTail() bool { return a.Point == "" || a.Point == "now" }

// point is where a fork leaves its source: an offset, and so many messages or
// bytes further.
func (w *world) point(src *entry, a *Ask) (int, *result) {
	offset := a.Point
	if offset == "" {
		offset = "now"
	}
	pos, refusal := w.locate(src, offset)
	if refusal != nil || a.Sub == 0 {
		return pos, refusal
	}
	beyond := w.refuse(400, "invalid_offset")
	if src.typ != jsonType {
		if pos+a.Sub > src.text.len() {
			return 0, &beyond
		}
		return pos + a.Sub, nil
	}
	rest := src.text.from(pos)
	for range a.Sub {
		i := strings.IndexByte(rest, '\n') + 1
		if i == 0 {
			return 0, &beyond
		}
		pos, rest = pos+i, rest[i:]
	}
	return pos, nil
}

const jsonType = "application/json"

// same reports whether a creation asks for what is there.
func (w *world) same(cur *entry, a *Ask, l look) bool {
	if cur.closed != a.Close || (cur.fork != nil) != (a.Source != "") {
		return false
	}
	if cur.fork == nil {
		return cur.typ == a.Type && number(cur.ttl) == number(a.TTL) && cur.until == a.Until
	}
	if a.Type != "" && a.Type != cur.typ || cur.fork.source != a.Source {
		return false
	}
	if cur.fork.asked == a.Point && cur.fork.sub == a.Sub {
		return true
	}
	// Another spelling of the same point, as long as it can be looked at.
	src := w.at[a.Source]
	if src == nil || src.inc != cur.fork.inc || l.inc != src.inc || l.refusal != (Answer{}) {
		return false
	}
	if a.atTail() {
		return src.text.len() == cur.fork.point
	}
	return l.point == cur.fork.point
}

// end ends the stream at a path: hides it while it has forks, else takes it away
// with the hidden sources that only it still read.
func (w *world) end(path string) *world {
	e := w.at[path]
	if e.forks > 0 {
		hidden := *e
		hidden.deleted = true
		return w.with(path, &hidden)
	}
	w = w.with(path, nil)
	if e.fork == nil {
		return w
	}
	src := *w.at[e.fork.source]
	src.forks--
	w = w.with(e.fork.source, &src)
	if src.deleted && src.forks == 0 {
		return w.end(e.fork.source)
	}
	return w
}
