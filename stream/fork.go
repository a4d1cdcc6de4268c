package stream

// ID is the number of a stream within one data directory. It is never used
// again after the stream is gone.
type ID uint64

// MaxForkDepth is the longest chain of forks of forks.
const MaxForkDepth = 256

// Fork is the edge from a forked stream to its source (§4.2).
type Fork struct {
	Source     ID
	SourcePath Path
	Point      uint64 // position at which the fork diverges

	// The fork point as it was asked for, to recognise a repeated PUT after the
	// source has grown or gone: the offset as sent ("" is the tail) and the
	// sub-offset.
	AskedOffset string
	AskedSub    uint64

	Depth uint32 // 1 for a fork of a stream that is no fork

	// Lineage lists whose bytes lie below Point, oldest first: positions up to
	// End (and from the End before it on) are those of stream ID. It is
	// complete, so a read needs no other stream's state.
	Lineage []Ancestor
}

// Ancestor is one stretch of inherited data.
type Ancestor struct {
	ID          ID
	Incarnation Incarnation
	End         uint64
}

// lineageOf gives the lineage of a fork of src at point. It is never empty: a
// fork at the start inherits no data, but the offset there.
func lineageOf(src *Meta, point uint64) []Ancestor {
	if point == 0 {
		first := Ancestor{ID: src.ID, Incarnation: src.Incarnation}
		if src.Fork != nil && len(src.Fork.Lineage) > 0 {
			first = src.Fork.Lineage[0]
			first.End = 0
		}
		return []Ancestor{first}
	}
	var line []Ancestor
	from := uint64(0)
	if src.Fork != nil {
		for _, a := range src.Fork.Lineage {
			if from >= point {
				return line
			}
			a.End = min(a.End, point)
			line = append(line, a)
			from = a.End
		}
	}
	if from < point {
		line = append(line, Ancestor{ID: src.ID, Incarnation: src.Incarnation, End: point})
	}
	return line
}

// Span is a stretch of positions whose bytes belong to one stream.
type Span struct {
	ID       ID
	From, To uint64
}

// Spans splits positions [from, to) of the stream by owner, in order.
func (m *Meta) Spans(dst []Span, from, to uint64) []Span {
	if m.Fork != nil {
		for _, a := range m.Fork.Lineage {
			if from >= to {
				return dst
			}
			if from < a.End {
				end := min(a.End, to)
				dst = append(dst, Span{ID: a.ID, From: from, To: end})
				from = end
			}
		}
	}
	if from < to {
		dst = append(dst, Span{ID: m.ID, From: from, To: to})
	}
	return dst
}

// Base is the first position whose bytes are the stream's own.
func (m *Meta) Base() uint64 {
	if m.Fork == nil {
		return 0
	}
	return m.Fork.Point
}
