package history

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// entry is the stream at a path. It is not changed; what changes is a copy.
type entry struct {
	inc     int       // index in world.incs
	lineage []stretch // whose offsets the inherited positions have
	typ     string
	text    *text
	closed  bool
	closer  *Producer  // the triple that closed it
	last    []Producer // last accepted triple of each producer
	seq     string     // last Stream-Seq
	deleted bool       // and kept for its forks
	forks   int
	fork    *edge

	ttl   *int64
	until int64
	ending
}

// edge is a fork's way to its source.
type edge struct {
	source string
	inc    int // of the source
	point  int
	asked  string
	sub    int
}

// stretch says whose offsets positions up to end are.
type stretch struct{ end, inc int }

// incAt is the incarnation that mints the offset of a position.
func (e *entry) incAt(pos int) int {
	for _, s := range e.lineage {
		if pos <= s.end {
			return s.inc
		}
	}
	return e.inc
}

// lineageTo is the lineage of a fork at a point.
func (e *entry) lineageTo(point int) (line []stretch) {
	for _, s := range e.lineage {
		if s.end >= point {
			return append(line, stretch{point, s.inc})
		}
		line = append(line, s)
	}
	return append(line, stretch{point, e.inc})
}

// world is a family of streams at one moment. It is not changed.
type world struct {
	at map[string]*entry

	// incs are the incarnations that there were, by what offsets call them; "" is
	// one of which no client has had an offset yet.
	incs []string

	seen map[*Op]look // by the fork that has not been decided yet
}

// with gives the world with another stream at a path, or none.
func (w *world) with(path string, e *entry) *world {
	at := maps.Clone(w.at)
	if at == nil {
		at = map[string]*entry{}
	}
	if at[path] = e; e == nil {
		delete(at, path)
	}
	v := *w
	v.at = at
	return &v
}

// named learns what offsets call an incarnation, or compares. A name stands for
// one incarnation only.
func (w *world) named(inc int, name string) (*world, bool) {
	if w.incs[inc] != "" {
		return w, w.incs[inc] == name
	}
	if slices.Contains(w.incs, name) {
		return nil, false
	}
	v := *w
	v.incs = slices.Clone(w.incs)
	v.incs[inc] = name
	return &v, true
}

// result is what a request leads to.
type result struct {
	world  *world
	answer Answer // less Next, Data and Part
	of     *entry // the stream whose offset of pos is Next; nil: there is none
	pos    int
}

func (w *world) refuse(status int, code string) result {
	return result{world: w, answer: Answer{Status: status, Code: code}}
}

// do gives what a server does in this world that is asked for op.
func (w *world) do(op *Op) result {
	e := w.at[op.Path]
	switch {
	case op.Kind == lookAt:
		return w.see(op)
	case op.Kind == Create:
		return w.create(op)
	case e == nil:
		return w.refuse(404, "not_found")
	case e.deleted:
		return w.refuse(410, "gone")
	}
	switch op.Kind {
	case Append:
		return w.append(e, op)
	case Read:
		return w.read(e, op)
	case Head:
		a := Answer{Status: 200, Type: e.typ, Closed: e.closed, TTL: number(e.ttl), Until: e.until}
		return result{world: w, answer: a, of: e, pos: e.text.len()}
	}
	return result{world: w.end(op.Path), answer: Answer{Status: 204}}
}

// append decides an append, a close, or both: first closed, then content type,
// then producer, then Stream-Seq.
func (w *world) append(e *entry, op *Op) result {
	a := &op.Ask
	p := a.Producer
	if e.closed {
		return w.appendToClosed(e, op)
	}
	if a.Body != "" && a.Type != e.typ {
		return w.refuse(409, "content_type_mismatch")
	}
	answer := Answer{Status: 204}
	next := *e
	next.touch(op)
	if p != nil {
		last, known := e.lastOf(p.ID)
		answer.ProducerEpoch, answer.ProducerSeq = digits(p.Epoch), digits(p.Seq)
		switch {
		case !known && p.Seq != 0:
			return w.gap(p, 0)
		case !known:
		case p.Epoch < last.Epoch:
			r := w.refuse(403, "producer_epoch_stale")
			r.answer.ProducerEpoch = digits(last.Epoch)
			return r
		case p.Epoch > last.Epoch && p.Seq != 0:
			return w.refuse(400, "producer_epoch_start")
		case p.Epoch > last.Epoch:
		case p.Seq > last.Seq+1:
			return w.gap(p, last.Seq+1)
		case p.Seq <= last.Seq:
			answer.ProducerSeq = digits(last.Seq)
			return result{world: w.with(op.Path, &next), answer: answer, of: e, pos: e.text.len()}
		}
		if a.Body != "" {
			answer.Status = 200
		}
		next.last = accept(e.last, *p)
	}
	if a.Seq != "" {
		if a.Seq <= e.seq {
			return w.refuse(409, "sequence_regression")
		}
		next.seq = a.Seq
	}
	next.text = e.text.add(string(a.Body))
	if next.closed = a.Close; a.Close {
		next.closer = p
	}
	answer.Closed = a.Close
	return result{world: w.with(op.Path, &next), answer: answer, of: &next, pos: next.text.len()}
}

func (w *world) appendToClosed(e *entry, op *Op) result {
	a := &op.Ask
	p := a.Producer
	r := result{world: w, answer: Answer{Status: 204, Closed: true}, of: e, pos: e.text.len()}
	again := p == nil && a.Close && a.Body == "" || p != nil && e.closer != nil && *p == *e.closer
	if again {
		next := *e
		next.touch(op)
		r.world = w.with(op.Path, &next)
	} else {
		r.answer.Status, r.answer.Code = 409, "stream_closed"
	}
	switch {
	case p == nil:
	case again:
		r.answer.ProducerEpoch, r.answer.ProducerSeq = digits(p.Epoch), digits(p.Seq)
	default:
		r.answer.Expected, r.answer.Received = digits(p.Seq), digits(p.Seq)
	}
	return r
}

func (w *world) gap(p *Producer, expected int64) result {
	r := w.refuse(409, "producer_sequence_gap")
	r.answer.Expected, r.answer.Received = digits(expected), digits(p.Seq)
	return r
}

func digits(n int64) string { return strconv.FormatInt(n, 10) }

func (e *entry) lastOf(id string) (last Producer, known bool) {
	for _, p := range e.last {
		if p.ID == id {
			return p, true
		}
	}
	return last, false
}

// accept gives the list with a producer's last triple replaced.
func accept(list []Producer, p Producer) []Producer {
	out := append([]Producer{p}, list...)
	for i, q := range list {
		if q.ID == p.ID {
			out = slices.Delete(out, i+1, i+2)
			break
		}
	}
	slices.SortFunc(out, func(a, b Producer) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// read decides a read of any kind. How much it gives is up to the server, but it
// gives something if there is something, and says truly whether that was all.
func (w *world) read(e *entry, op *Op) result {
	pos, refusal := w.locate(e, op.Ask.From)
	if refusal != nil {
		next := *e
		next.mayTouch(op) // whether it was a read, is not said
		refusal.world = w.with(op.Path, &next)
		return *refusal
	}
	if op.Ask.From == "now" && op.Ask.Live != "" && op.Data != "" {
		// The end was somewhere when the read began; what came since is here.
		next, _, _ := splitOffset(op.Next)
		pos = next - len(op.Data)
	}
	end := pos + len(op.Data)
	next := *e
	next.touch(op)
	r := result{world: w.with(op.Path, &next), of: e, pos: end}
	if !e.text.has(pos, string(op.Data)) || op.Data == "" && pos < e.text.len() && op.Ask.Live != "sse" {
		r.answer.Code = "other data"
		return r
	}
	r.answer = Answer{Status: 200, Type: e.typ, UpToDate: end == e.text.len(), Closed: e.closed && end == e.text.len()}
	switch {
	case op.Ask.Live == "sse":
		r.answer.Type = ""
	case op.Ask.Live == "long-poll" && op.Data == "":
		r.answer.Status, r.answer.Type = 204, ""
	}
	return r
}

// locate finds an offset in a stream.
func (w *world) locate(e *entry, offset string) (pos int, refusal *result) {
	switch offset {
	case "", "-1", start:
		return 0, nil
	case "now":
		return e.text.len(), nil
	}
	pos, inc, ok := splitOffset(offset)
	var r result
	switch {
	case ok && w.incs[e.incAt(pos)] != inc:
		r = w.refuse(410, "offset_gone")
	case !ok || pos > e.text.len():
		r = w.refuse(400, "invalid_offset")
	default:
		return pos, nil
	}
	return 0, &r
}

// start is the offset of every stream's beginning.
const start = "0000000000000000_0000000000000000"

// splitOffset takes an offset apart: 16 digits of position, an underscore, 12 hex
// digits of the incarnation, 4 that check the others.
func splitOffset(s string) (pos int, inc string, ok bool) {
	if len(s) != len(start) || s[16] != '_' {
		return 0, "", false
	}
	pos, err := strconv.Atoi(s[:16])
	return pos, s[17:29], err == nil
}

// match compares a result with the answer that was given, and gives the world with
// what the answer tells of its incarnations.
func (r *result) match(op *Op) (*world, bool) {
	got := op.Answer
	if got.Part {
		return r.world, r.answer.Status == 200
	}
	got.Next, got.Data = "", ""
	if got != r.answer {
		return nil, false
	}
	if r.of == nil {
		return r.world, op.Next == ""
	}
	pos, inc, ok := splitOffset(op.Next)
	if !ok || pos != r.pos {
		return nil, false
	}
	return r.world.named(r.of.incAt(pos), inc)
}
