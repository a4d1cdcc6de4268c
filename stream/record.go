package stream

import "strings"

// RecordKind says what a record does. The values are part of the journal
// format; do not change them.
type RecordKind byte

// The kinds of records.
const (
	RecordCreate RecordKind = 1 // a stream begins, with first data and fork edge
	RecordAppend RecordKind = 2 // data, producer state, Stream-Seq and close of one POST
	RecordDelete RecordKind = 3 // a stream ends, by DELETE or by its lifetime
	RecordTouch  RecordKind = 4 // a sliding window was renewed
	RecordRows   RecordKind = 5 // small rows of the engine; of no stream, so not a Record
	RecordDrop   RecordKind = 6 // a stream ends whose state cannot be read
)

// String names the kind for people.
func (k RecordKind) String() string {
	switch k {
	case RecordCreate:
		return "create"
	case RecordAppend:
		return "append"
	case RecordDelete:
		return "delete"
	case RecordTouch:
		return "touch"
	case RecordRows:
		return "rows"
	case RecordDrop:
		return "drop"
	}
	return "unknown"
}

// Record is one decided change: everything that one request does, in one piece,
// so that a crash keeps all of it or nothing.
type Record struct {
	Kind RecordKind
	ID   ID
	Time int64 // Unix nanoseconds at which it was decided

	// Create and append.
	Pos   uint64 // tail before the record; checked when a journal is replayed
	Data  []byte // stored form
	Close bool

	// Create.
	Meta *Meta

	// Append.
	Producer    Producer
	HasProducer bool
	Seq         string
	HasSeq      bool

	// Delete. Soft keeps the data for the forks. Collected lists soft-deleted
	// ancestors that lose their last fork by this and end too; Unref is the
	// first ancestor that stays and has one fork less (0: none).
	Soft      bool
	Expired   bool
	Collected []ID
	Unref     ID

	// Drop: where its name is; the number is 0 if the name could not be read.
	Path Path
}

// Fold applies a record of this stream to its state. s is the zero State for a
// create. Data itself is not kept: the engine has it. Strings of r are copied, so
// r may live in a buffer that is used again.
func (s *State) Fold(r *Record) {
	if r.Kind != RecordDelete && r.Kind != RecordDrop { // the end is no read: it must not bring an expired stream back
		s.Touch(r.Time)
	}
	switch r.Kind {
	case RecordCreate:
		s.Meta = r.Meta
		s.Tail = r.Meta.Base() + uint64(len(r.Data))
		s.WrittenAt = r.Time
		s.Closed = r.Close
	case RecordAppend:
		s.Tail += uint64(len(r.Data))
		s.WrittenAt = r.Time
		if r.HasProducer {
			s.producers = remember(s.producers, r.Producer, r.Time)
		}
		if r.HasSeq {
			s.seq, s.hasSeq = strings.Clone(r.Seq), true
		}
		if r.Close {
			s.Closed = true
			if r.HasProducer {
				closer := r.Producer
				closer.ID = strings.Clone(closer.ID)
				s.closer = &closer
			}
		}
	case RecordDelete:
		s.Deleted = true
	case RecordTouch:
	}
}

// AddFork and DropFork fold the edge of a fork's create and delete records into
// the state of its source.
func (s *State) AddFork() { s.Forks++ }

// DropFork is the counterpart of AddFork.
func (s *State) DropFork() { s.Forks-- }
