package stream

// Meta is what never changes in a stream's life. It is shared by everybody who
// looks at the stream and must not be written to.
type Meta struct {
	ID          ID
	Incarnation Incarnation
	Path        Path
	ContentType string // as sent
	Lifetime    Lifetime
	Fork        *Fork // nil unless the stream is a fork
	CreatedAt   int64 // Unix nanoseconds
}

// OffsetAt mints the offset of a position: inherited positions keep the offsets
// of the stream that owns them, up to and including the fork point (§8).
func (m *Meta) OffsetAt(pos uint64) Offset {
	if m.Fork != nil {
		for _, a := range m.Fork.Lineage {
			if pos <= a.End {
				return Offset{Pos: pos, Inc: a.Incarnation}
			}
		}
	}
	return Offset{Pos: pos, Inc: m.Incarnation}
}

// Locate checks an offset that a client sent against a stream with the given
// tail. An offset of a former incarnation or of another stream is [OffsetGone];
// one beyond the tail is [InvalidOffset].
func (m *Meta) Locate(o Offset, tail uint64) (pos uint64, err error) {
	switch {
	case o.IsStart():
		return 0, nil
	case m.OffsetAt(o.Pos).Inc != o.Inc:
		return 0, refuse(OffsetGone, "this offset belongs to another stream or to a former one at this path")
	case o.Pos > tail:
		return 0, refuse(InvalidOffset, "this offset is beyond the end of the stream")
	}
	return o.Pos, nil
}

// State is a stream at one moment. Only Fold changes it, apart from Touch.
type State struct {
	*Meta
	Tail      uint64 // position after the last byte
	Closed    bool
	Deleted   bool   // soft-deleted: gone for everybody but its forks
	Forks     uint32 // living forks that name this stream as their source
	WrittenAt int64  // Unix nanoseconds of the last append, close or create
	TouchedAt int64  // Unix nanoseconds of the last read or write

	seq       string // last Stream-Seq; scope: the stream
	hasSeq    bool
	closer    *Producer // the triple that closed the stream, if one did
	producers []producerState
}

// TailOffset is the offset after the last byte.
func (s *State) TailOffset() Offset { return s.OffsetAt(s.Tail) }

// Touch renews a sliding window. It is the one change that needs no record: the
// engine journals renewals lazily.
func (s *State) Touch(now int64) { s.TouchedAt = max(s.TouchedAt, now) }

// Deadline is the instant, in Unix nanoseconds, from which on the stream is gone.
func (s *State) Deadline() int64 { return s.Lifetime.Deadline(s.TouchedAt) }

// Expired reports whether the stream's lifetime is over at now.
func (s *State) Expired(now int64) bool { return !s.Deleted && now >= s.Deadline() }

// access gives the refusal that every direct operation on the stream meets
// first, or nil. s may be nil: no stream at the path.
func access(s *State, now int64) *Error {
	switch {
	case s == nil || s.Expired(now) && s.Forks == 0:
		return refuse(NotFound, "there is no stream at this path")
	case s.Deleted || s.Expired(now):
		return refuse(Gone, "this stream was deleted; only its forks still read it")
	}
	return nil
}

// Access checks whether the stream may be read at now: [NotFound], [Gone] or nil.
// s may be nil.
func Access(s *State, now int64) error {
	if err := access(s, now); err != nil {
		return err
	}
	return nil
}

// ProducerCount is the number of producers the stream remembers.
func (s *State) ProducerCount() int { return len(s.producers) }
