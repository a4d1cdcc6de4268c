package stream

import (
	"encoding/binary"
	"errors"

	"durablestreams/internal/format"
)

// The stored forms of records and states. docs/format/records.md describes
// them; the order and meaning of the fields must not change without a new
// version of the journal or of the state row.

// errCorrupt is the one decoding error: the checksums around a record and a row
// make any other case a bug or a deliberate change.
var errCorrupt = errors.New("malformed encoding")

// stateVersion is the first byte of a state row.
const stateVersion = 1

// Bits of the flags byte of a record, and of a state row.
const (
	flagClose     = 1 << 0
	flagProducer  = 1 << 1
	flagSeq       = 1 << 2
	flagFork      = 1 << 3
	flagSoft      = 1 << 4
	flagExpired   = 1 << 5
	flagDeleted   = 1 << 6
	flagHasCloser = 1 << 7
)

func bit(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// reader takes values off an encoding; after a failure it only gives zeros.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.failed = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) string() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.failed, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// count reads a number of items that take at least one byte each.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.failed, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) producer() Producer {
	return Producer{ID: r.string(), Epoch: r.uvarint(), Seq: r.uvarint()}
}

func appendProducer(dst []byte, p Producer) []byte {
	dst = appendString(dst, p.ID)
	dst = binary.AppendUvarint(dst, p.Epoch)
	return binary.AppendUvarint(dst, p.Seq)
}

// AppendTo writes the record's body to dst. The data, if any, are its last
// bytes, so that an engine can keep a slice of them.
func (r *Record) AppendTo(dst []byte) []byte {
	flags := bit(r.Close, flagClose) | bit(r.HasProducer, flagProducer) | bit(r.HasSeq, flagSeq) |
		bit(r.Soft, flagSoft) | bit(r.Expired, flagExpired)
	dst = binary.AppendUvarint(dst, uint64(r.ID))
	dst = binary.AppendVarint(dst, r.Time)
	dst = append(dst, flags)
	switch r.Kind {
	case RecordCreate:
		dst = r.Meta.appendTo(dst)
		return append(dst, r.Data...)
	case RecordAppend:
		dst = binary.AppendUvarint(dst, r.Pos)
		if r.HasProducer {
			dst = appendProducer(dst, r.Producer)
		}
		if r.HasSeq {
			dst = appendString(dst, r.Seq)
		}
		return append(dst, r.Data...)
	case RecordDelete:
		dst = binary.AppendUvarint(dst, uint64(r.Unref))
		dst = binary.AppendUvarint(dst, uint64(len(r.Collected)))
		for _, id := range r.Collected {
			dst = binary.AppendUvarint(dst, uint64(id))
		}
	case RecordDrop:
		dst = appendString(dst, string(r.Path))
	}
	return dst
}

// DecodeRecord reads a record's body. Data aliases b.
func DecodeRecord(kind RecordKind, b []byte) (Record, error) {
	in := &reader{b: b}
	r := Record{Kind: kind, ID: ID(in.uvarint()), Time: in.varint()}
	flags := in.byte()
	r.Close, r.HasProducer, r.HasSeq = flags&flagClose != 0, flags&flagProducer != 0, flags&flagSeq != 0
	r.Soft, r.Expired = flags&flagSoft != 0, flags&flagExpired != 0
	switch kind {
	case RecordCreate:
		r.Meta = decodeMeta(in)
		r.Meta.ID, r.Meta.CreatedAt = r.ID, r.Time
		r.Pos = r.Meta.Base()
		r.Data, in.b = in.b, nil
	case RecordAppend:
		r.Pos = in.uvarint()
		if r.HasProducer {
			r.Producer = in.producer()
		}
		if r.HasSeq {
			r.Seq = in.string()
		}
		r.Data, in.b = in.b, nil
	case RecordDelete:
		r.Unref = ID(in.uvarint())
		for range in.count() {
			r.Collected = append(r.Collected, ID(in.uvarint()))
		}
	case RecordDrop:
		r.Path = Path(in.string())
	case RecordTouch:
	default:
		return Record{}, errCorrupt
	}
	if in.failed || len(in.b) > 0 {
		return Record{}, errCorrupt
	}
	return r, nil
}

// appendTo writes all of m but ID and CreatedAt, which every record has.
func (m *Meta) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(m.Incarnation))
	dst = appendString(dst, string(m.Path))
	dst = appendString(dst, m.ContentType)
	dst = append(dst, byte(m.Lifetime.kind))
	switch m.Lifetime.kind {
	case sliding:
		dst = binary.AppendUvarint(dst, m.Lifetime.window)
	case fixed:
		dst = binary.AppendVarint(dst, m.Lifetime.sec)
		dst = binary.AppendUvarint(dst, uint64(m.Lifetime.nsec))
		dst = appendString(dst, m.Lifetime.text)
	}
	if m.Fork == nil {
		return append(dst, 0)
	}
	return m.Fork.appendTo(append(dst, flagFork))
}

func (f *Fork) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(f.Source))
	dst = appendString(dst, string(f.SourcePath))
	dst = binary.AppendUvarint(dst, f.Point)
	dst = appendString(dst, f.AskedOffset)
	dst = binary.AppendUvarint(dst, f.AskedSub)
	dst = binary.AppendUvarint(dst, uint64(f.Depth))
	dst = binary.AppendUvarint(dst, uint64(len(f.Lineage)))
	for _, a := range f.Lineage {
		dst = binary.AppendUvarint(dst, uint64(a.ID))
		dst = binary.AppendUvarint(dst, uint64(a.Incarnation))
		dst = binary.AppendUvarint(dst, a.End)
	}
	return dst
}

func decodeMeta(in *reader) *Meta {
	m := &Meta{Incarnation: Incarnation(in.uvarint()), Path: Path(in.string()), ContentType: in.string()}
	m.Lifetime.kind = lifetimeKind(in.byte())
	switch m.Lifetime.kind {
	case forever:
	case sliding:
		m.Lifetime.window = in.uvarint()
	case fixed:
		m.Lifetime.sec, m.Lifetime.nsec, m.Lifetime.text = in.varint(), uint32(in.uvarint()), in.string()
	default:
		in.failed = true
	}
	switch in.byte() {
	case 0:
		return m
	case flagFork:
	default:
		in.failed = true
		return m
	}
	f := &Fork{Source: ID(in.uvarint()), SourcePath: Path(in.string()), Point: in.uvarint(),
		AskedOffset: in.string(), AskedSub: in.uvarint(), Depth: uint32(in.uvarint())}
	for range in.count() {
		f.Lineage = append(f.Lineage, Ancestor{ID: ID(in.uvarint()), Incarnation: Incarnation(in.uvarint()), End: in.uvarint()})
	}
	m.Fork = f
	return m
}

// AppendTo writes the state, but for its producers, as a row for an archive.
func (s *State) AppendTo(dst []byte) []byte {
	dst = append(dst, stateVersion)
	dst = binary.AppendUvarint(dst, uint64(s.ID))
	dst = binary.AppendVarint(dst, s.CreatedAt)
	dst = s.Meta.appendTo(dst)
	dst = append(dst, bit(s.Closed, flagClose)|bit(s.Deleted, flagDeleted)|bit(s.hasSeq, flagSeq)|
		bit(s.closer != nil, flagHasCloser))
	dst = binary.AppendUvarint(dst, s.Tail)
	dst = binary.AppendUvarint(dst, uint64(s.Forks))
	dst = binary.AppendVarint(dst, s.WrittenAt)
	dst = binary.AppendVarint(dst, s.TouchedAt)
	if s.hasSeq {
		dst = appendString(dst, s.seq)
	}
	if s.closer != nil {
		dst = appendProducer(dst, *s.closer)
	}
	return dst
}

// checkVersion looks at the first byte of a row. A newer one is a *format.VersionError.
func checkVersion(v byte, what string) error {
	switch {
	case v > stateVersion:
		return &format.VersionError{What: what, Found: uint64(v), Known: stateVersion}
	case v < stateVersion:
		return errCorrupt
	}
	return nil
}

// DecodeState reads a row that AppendTo wrote.
func DecodeState(b []byte) (*State, error) {
	in := &reader{b: b}
	if err := checkVersion(in.byte(), "the state of a stream"); err != nil {
		return nil, err
	}
	id, created := ID(in.uvarint()), in.varint()
	s := &State{Meta: decodeMeta(in)}
	s.ID, s.CreatedAt = id, created
	flags := in.byte()
	s.Closed, s.Deleted, s.hasSeq = flags&flagClose != 0, flags&flagDeleted != 0, flags&flagSeq != 0
	s.Tail, s.Forks = in.uvarint(), uint32(in.uvarint())
	s.WrittenAt, s.TouchedAt = in.varint(), in.varint()
	if s.hasSeq {
		s.seq = in.string()
	}
	if flags&flagHasCloser != 0 {
		p := in.producer()
		s.closer = &p
	}
	if in.failed || len(in.b) > 0 {
		return nil, errCorrupt
	}
	return s, nil
}

// AppendProducers writes the producers the stream remembers as a row of its
// own: there may be thousands, and most changes of a state leave them alone.
func (s *State) AppendProducers(dst []byte) []byte {
	dst = append(dst, stateVersion)
	dst = binary.AppendUvarint(dst, uint64(len(s.producers)))
	for _, p := range s.producers {
		dst = appendProducer(dst, p.Producer)
		dst = binary.AppendVarint(dst, p.lastUse)
	}
	return dst
}

// DecodeProducers reads a row that AppendProducers wrote into s.
func (s *State) DecodeProducers(b []byte) error {
	in := &reader{b: b}
	if err := checkVersion(in.byte(), "the row of a stream's producers"); err != nil {
		return err
	}
	n := in.count()
	list := make([]producerState, 0, n)
	for range n {
		p := producerState{Producer: in.producer()}
		p.lastUse = in.varint()
		if len(list) > 0 && list[len(list)-1].ID >= p.ID {
			return errCorrupt
		}
		list = append(list, p)
	}
	if in.failed || len(in.b) > 0 {
		return errCorrupt
	}
	s.producers = list
	return nil
}
