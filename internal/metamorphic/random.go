package metamorphic

import (
	"fmt"
	"time"

	"durablestreams/stream"
)

// names are few, so that streams follow one another at a path.
const names = "abcdefgh"

func (h *History) path() stream.Path { return stream.Path(names[h.rng.IntN(len(names)):][:1]) }

// data makes a body that says where it comes from.
func (h *History) data() []byte {
	n := 1 + h.rng.IntN(40)
	switch h.rng.IntN(60) {
	case 0:
		n = 1 + h.rng.IntN(400<<10)
	case 1, 2, 3, 4:
		n = 1 + h.rng.IntN(8<<10)
	}
	b := fmt.Appendf(nil, "<%d.", h.step)
	for len(b) < n {
		b = append(b, byte('A'+h.rng.IntN(26)))
	}
	return append(b, '>')
}

func (h *History) lifetime() stream.Lifetime {
	switch h.rng.IntN(10) {
	case 0, 1, 2:
		return stream.Sliding(uint64(h.rng.IntN(6)))
	case 3:
		return stream.Sliding(uint64(h.rng.IntN(100)))
	case 4:
		t := time.Unix(0, h.now()).Add(time.Duration(h.rng.IntN(8000)-500) * time.Millisecond).UTC()
		return stream.Until(t, t.Format(time.RFC3339Nano))
	}
	return stream.Lifetime{}
}

func (h *History) contentType() string {
	if h.rng.IntN(8) == 0 {
		return "application/json"
	}
	return "text/plain"
}

func (h *History) randomCreate() stream.Command {
	p := h.path()
	if c := h.recent[p]; c != nil && h.rng.IntN(3) == 0 {
		again := *c
		again.ID, again.Incarnation = 0, 0
		return &again
	}
	c := &stream.Create{Path: p, ContentType: h.contentType(), Lifetime: h.lifetime(), Closed: h.rng.IntN(12) == 0}
	if h.rng.IntN(2) == 0 {
		c.Data = h.data()
	}
	if h.rng.IntN(40) == 0 {
		c.BodyErr = &stream.Error{Kind: stream.InvalidJSON}
	}
	return c
}

func (h *History) randomFork() stream.Command {
	c := &stream.Create{Path: h.path(), Lifetime: h.lifetime(), Closed: h.rng.IntN(12) == 0}
	source := h.path()
	for range 5 {
		if h.model.at[source] != nil && h.model.at[c.Path] == nil && source != c.Path {
			break
		}
		source, c.Path = h.path(), h.path()
	}
	if h.rng.IntN(4) == 0 {
		c.ContentType = h.contentType()
	}
	if h.rng.IntN(3) == 0 {
		c.Data = h.data()
	}
	f := &stream.ForkRequest{SourcePath: source}
	c.Fork = f
	e := h.model.at[source]
	if e == nil {
		return c
	}
	f.Source = e.state.ID
	switch h.rng.IntN(10) {
	case 0, 1, 2:
		f.AtTail = true
	case 3:
		f.Point = e.state.Tail + 1
		f.AskedOffset = "beyond"
	case 4:
		f.Source++
		f.AskedOffset = "other"
	case 5:
		f.Point = e.state.Base()
		f.AskedOffset = e.state.OffsetAt(f.Point).String()
	default:
		f.Point = uint64(h.rng.Int64N(int64(e.state.Tail) + 1))
		f.AskedOffset = e.state.OffsetAt(f.Point).String()
	}
	return c
}

func (h *History) randomAppend() stream.Command {
	a := &stream.Append{Path: h.path(), ContentType: "text/plain", HasBody: true}
	for range 3 {
		if e := h.model.at[a.Path]; e != nil {
			a.ContentType = e.state.ContentType
			break
		}
		a.Path = h.path()
	}
	a.Close = h.rng.IntN(25) == 0
	if a.Close && h.rng.IntN(2) == 0 {
		a.HasBody = false
	} else {
		a.Data = h.data()
	}
	switch h.rng.IntN(30) {
	case 0:
		a.ContentType = h.contentType()
	case 1:
		a.BodyErr = &stream.Error{Kind: stream.InvalidJSON}
	}
	if h.rng.IntN(3) == 0 {
		a.Producer = h.producer(h.model.at[a.Path])
	}
	if h.rng.IntN(10) == 0 {
		seq := fmt.Sprintf("%06d", h.step-h.rng.IntN(100)+100)
		a.Seq = &seq
	}
	return a
}

// producer makes a triple that is right, repeated, early or stale.
func (h *History) producer(e *entry) *stream.Producer {
	p := stream.Producer{ID: fmt.Sprintf("p%d", h.rng.IntN(3))}
	if e != nil {
		if last, ok := e.last[p.ID]; ok {
			p.Epoch, p.Seq = last.Epoch, last.Seq+1
		}
	}
	switch h.rng.IntN(12) {
	case 0, 1:
		p.Seq -= min(p.Seq, uint64(1+h.rng.IntN(2)))
	case 2:
		p.Seq += 1 + uint64(h.rng.IntN(3))
	case 3:
		p.Epoch++
		p.Seq = 0
	case 4:
		p.Epoch++
	case 5:
		p.Epoch -= min(p.Epoch, 1)
	}
	return &p
}

func describe(cmd stream.Command) string {
	switch c := cmd.(type) {
	case *stream.Create:
		s := fmt.Sprintf("create %s type=%q life=%+v closed=%v data=%d bad=%v", c.Path, c.ContentType, c.Lifetime, c.Closed, len(c.Data), c.BodyErr != nil)
		if c.Fork != nil {
			s += fmt.Sprintf(" fork of %s at %d tail=%v", c.Fork.SourcePath, c.Fork.Point, c.Fork.AtTail)
		}
		return s
	case *stream.Append:
		s := fmt.Sprintf("append %s data=%d close=%v bad=%v", c.Path, len(c.Data), c.Close, c.BodyErr != nil)
		if c.Producer != nil {
			s += fmt.Sprintf(" producer=%+v", *c.Producer)
		}
		if c.Seq != nil {
			s += " seq=" + *c.Seq
		}
		return s
	case *stream.Delete:
		return fmt.Sprintf("delete %s", c.Path)
	}
	return "?"
}

func describeResult(res stream.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("outcome %d, tail %d, closed %v, highest %d", res.Outcome, res.Tail.Pos, res.Closed, res.Highest)
}
