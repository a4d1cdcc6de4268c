package stream

// Create asks for a stream (§5.1, §4.2).
type Create struct {
	Path        Path
	ContentType string // as sent, or the source's for a fork that names none
	Lifetime    Lifetime
	Closed      bool
	Data        []byte // first data in stored form; ignored if the stream exists
	BodyErr     *Error // why the body cannot be stored, if it cannot
	Fork        *ForkRequest

	// Chosen by the engine, so that deciding stays pure.
	ID          ID
	Incarnation Incarnation
}

// ForkRequest is the fork part of a Create. The transport finds the point in
// the source beforehand, since that may need a read; Decide checks it again.
type ForkRequest struct {
	SourcePath  Path
	AskedOffset string // Stream-Fork-Offset as sent, "" if absent
	AskedSub    uint64
	Source      ID     // the stream in which Point was found
	AtTail      bool   // Point is the source's tail at the moment of deciding
	Point       uint64 // else
	Err         *Error // why there is no point; counts only if the fork does not exist yet
}

// Append asks for data, a close, or both (§5.2, §5.3).
type Append struct {
	Path        Path
	ContentType string // counts only with HasBody
	HasBody     bool   // the request's body was not empty
	Data        []byte // stored form
	BodyErr     *Error
	Close       bool
	Producer    *Producer
	Seq         *string
}

// Outcome says how a command succeeded.
type Outcome uint8

// The outcomes.
const (
	Created   Outcome = iota + 1
	Exists            // the same stream was there already
	Appended          // data, a close, or both were taken
	Duplicate         // the producer's triple was accepted before
	Deleted
)

// Result is the answer to a command that was not refused.
type Result struct {
	Outcome Outcome
	Meta    *Meta
	Tail    Offset
	Closed  bool
	Highest uint64 // highest accepted seq of the producer's epoch
}

// SameType compares two content types; the transport's rule, injected so that
// this package needs no header parsing.
type SameType func(a, b string) bool

// DecideCreate decides a Create. cur is the stream at the path, src the source
// of a fork; either may be nil. A zero record means that nothing changes. The
// engine must have deleted an expired cur without forks before it asks.
func DecideCreate(cur, src *State, c *Create, same SameType, now int64) (Record, Result, *Error) {
	if cur != nil && (cur.Deleted || cur.Expired(now)) {
		return Record{}, Result{}, refuse(PathInUse, "a deleted stream at this path is still read by its forks")
	}
	if cur != nil {
		if !sameConfig(cur, src, c, same, now) {
			return Record{}, Result{}, refuse(ConfigMismatch, "a stream with another configuration exists at this path")
		}
		return Record{}, Result{Outcome: Exists, Meta: cur.Meta, Tail: cur.TailOffset(), Closed: cur.Closed}, nil
	}
	meta := &Meta{ID: c.ID, Incarnation: c.Incarnation, Path: c.Path, ContentType: c.ContentType,
		Lifetime: c.Lifetime, CreatedAt: now}
	if c.Fork != nil {
		if err := fork(meta, src, c, same, now); err != nil {
			return Record{}, Result{}, err
		}
	}
	if c.BodyErr != nil {
		return Record{}, Result{}, c.BodyErr
	}
	base := meta.Base()
	if base+uint64(len(c.Data)) > MaxPosition {
		return Record{}, Result{}, refuse(StreamFull, "the stream cannot grow any further")
	}
	r := Record{Kind: RecordCreate, ID: c.ID, Time: now, Meta: meta, Pos: base, Data: c.Data, Close: c.Closed}
	return r, Result{Outcome: Created, Meta: meta, Tail: meta.OffsetAt(base + uint64(len(c.Data))), Closed: c.Closed}, nil
}

// fork completes the metadata of a new fork.
func fork(meta *Meta, src *State, c *Create, same SameType, now int64) *Error {
	f := c.Fork
	switch {
	case src == nil || src.Expired(now) && src.Forks == 0:
		return refuse(ForkSourceNotFound, "there is no stream at the path in Stream-Forked-From")
	case src.Deleted || src.Expired(now):
		return refuse(ForkSourceGone, "the stream in Stream-Forked-From was deleted")
	case c.ContentType != "" && !same(c.ContentType, src.ContentType):
		return refuse(ContentTypeMismatch, "a fork has the content type of its source")
	case f.Err != nil:
		return f.Err
	case f.Source != src.ID:
		return refuse(ForkSourceNotFound, "the stream in Stream-Forked-From was replaced meanwhile")
	}
	point := f.Point
	if f.AtTail {
		point = src.Tail
	}
	if point > src.Tail {
		return refuse(InvalidOffset, "the fork point is beyond the end of the source")
	}
	if c.ContentType == "" {
		meta.ContentType = src.ContentType
	}
	if meta.Lifetime.IsForever() {
		meta.Lifetime = src.Lifetime
	}
	lineage := lineageOf(src.Meta, point)
	if len(lineage) > MaxForkDepth || forkDepth(src) >= MaxForkDepth {
		return refuse(ForkTooDeep, "the chain of forks is too long")
	}
	meta.Fork = &Fork{Source: src.ID, SourcePath: f.SourcePath, Point: point,
		AskedOffset: f.AskedOffset, AskedSub: f.AskedSub, Depth: forkDepth(src) + 1, Lineage: lineage}
	return nil
}

func forkDepth(s *State) uint32 {
	if s.Fork == nil {
		return 0
	}
	return s.Fork.Depth
}

// sameConfig reports whether a Create asks for what is there (§5.1, §4.2). For
// a fork that names no content type or lifetime those of the source count,
// which the existing fork inherited.
func sameConfig(cur, src *State, c *Create, same SameType, now int64) bool {
	if cur.Closed != c.Closed || (cur.Fork != nil) != (c.Fork != nil) {
		return false
	}
	if c.Fork == nil {
		return same(cur.ContentType, c.ContentType) && cur.Lifetime.Equal(c.Lifetime)
	}
	f := cur.Fork
	if c.ContentType != "" && !same(cur.ContentType, c.ContentType) || f.SourcePath != c.Fork.SourcePath {
		return false
	}
	living := src != nil && src.ID == f.Source
	if c.Lifetime.IsForever() {
		if living && !cur.Lifetime.Equal(src.Lifetime) {
			return false
		}
	} else if !cur.Lifetime.Equal(c.Lifetime) {
		return false
	}
	if f.AskedOffset == c.Fork.AskedOffset && f.AskedSub == c.Fork.AskedSub {
		return true
	}
	if c.Fork.Err != nil || !living || c.Fork.Source != f.Source {
		return false
	}
	if c.Fork.AtTail {
		return src.Tail == f.Point
	}
	return c.Fork.Point == f.Point
}

// DecideAppend decides an Append on the stream s, which may be nil. A zero
// record means that nothing changes. The refusals come in the order of §5.2:
// closed, content type, producer, Stream-Seq.
func DecideAppend(s *State, a *Append, same SameType, now int64) (Record, Result, *Error) {
	if err := access(s, now); err != nil {
		return Record{}, Result{}, err
	}
	res := Result{Outcome: Appended, Meta: s.Meta, Closed: s.Closed}
	if s.Closed {
		return appendToClosed(s, a, res)
	}
	if a.HasBody && !same(a.ContentType, s.ContentType) {
		return Record{}, Result{}, refuse(ContentTypeMismatch, "the body's content type is not the stream's")
	}
	if a.BodyErr != nil {
		return Record{}, Result{}, a.BodyErr
	}
	r := Record{Kind: RecordAppend, ID: s.ID, Time: now, Pos: s.Tail, Data: a.Data, Close: a.Close}
	if a.Producer != nil {
		v, highest, err := judge(s.producers, *a.Producer)
		if err != nil {
			return Record{}, Result{}, err
		}
		res.Highest = highest
		if v == duplicate {
			res.Outcome, res.Tail = Duplicate, s.TailOffset()
			return Record{}, res, nil
		}
		r.Producer, r.HasProducer = *a.Producer, true
	}
	if a.Seq != nil {
		if s.hasSeq && *a.Seq <= s.seq {
			return Record{}, Result{}, refuse(SeqRegression, "Stream-Seq is not greater than the last one of this stream")
		}
		r.Seq, r.HasSeq = *a.Seq, true
	}
	if s.Tail+uint64(len(a.Data)) > MaxPosition {
		return Record{}, Result{}, refuse(StreamFull, "the stream cannot grow any further")
	}
	res.Tail, res.Closed = s.OffsetAt(s.Tail+uint64(len(a.Data))), a.Close
	return r, res, nil
}

// appendToClosed answers what is still right on a closed stream: the triple
// that closed it, and a close without data and without a producer (§5.2, §5.2.1).
func appendToClosed(s *State, a *Append, res Result) (Record, Result, *Error) {
	res.Tail = s.TailOffset()
	if a.Producer == nil && a.Close && !a.HasBody {
		return Record{}, res, nil
	}
	if a.Producer != nil && s.closer != nil && *a.Producer == *s.closer {
		res.Outcome, res.Highest = Duplicate, s.closer.Seq
		return Record{}, res, nil
	}
	err := refuse(Closed, "the stream is closed")
	err.Tail = res.Tail
	if p := a.Producer; p != nil {
		// A client that pipelines waits for the numbers below its own; telling
		// it that its own is the expected one lets it fail instead.
		err.Producer, err.Expected, err.Received = &ProducerSeen{Epoch: p.Epoch, Seq: p.Seq}, p.Seq, p.Seq
	}
	return Record{}, Result{}, err
}

// DecideDelete decides a DELETE of s, which may be nil, or with expire the end
// of its lifetime. ancestors lists the sources of s, nearest first, as far as
// they might be collected: up to and including the first that stays.
func DecideDelete(s *State, ancestors []*State, expire bool, now int64) (Record, Result, *Error) {
	if expire {
		if s == nil || !s.Expired(now) {
			return Record{}, Result{}, refuse(NotFound, "the stream has not expired")
		}
	} else if err := access(s, now); err != nil {
		return Record{}, Result{}, err
	}
	r := Record{Kind: RecordDelete, ID: s.ID, Time: now, Soft: s.Forks > 0, Expired: expire}
	if !r.Soft {
		for _, a := range ancestors {
			if !a.Deleted || a.Forks > 1 {
				r.Unref = a.ID
				break
			}
			r.Collected = append(r.Collected, a.ID)
		}
	}
	return r, Result{Outcome: Deleted, Meta: s.Meta, Tail: s.TailOffset()}, nil
}

// DecideDrop gives the record that ends a stream whose state cannot be read, which
// is at a path and has a number, 0 if that cannot be read either.
func DecideDrop(id ID, p Path, now int64) Record {
	return Record{Kind: RecordDrop, ID: id, Path: p, Time: now}
}

// DecideTouch gives the record that makes a renewed sliding window durable.
func DecideTouch(s *State, now int64) Record {
	return Record{Kind: RecordTouch, ID: s.ID, Time: now}
}
