package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// Offset is a position in a stream: a token that the server minted. Offsets of one
// stream compare as strings; nothing else about them means anything.
type Offset string

// Offsets that every stream has.
const (
	Start Offset = "-1"  // before its first byte
	Now   Offset = "now" // behind its last one
)

// Info is what a server says about a stream.
type Info struct {
	ContentType string
	Tail        Offset        // behind the last byte
	Closed      bool          // nothing will be appended any more
	TTL         time.Duration // idle time after which it ends; 0: none
	ExpiresAt   time.Time     // when it ends; zero: never
}

// CreateOptions describe a stream.
type CreateOptions struct {
	ContentType string        // default: the server's, application/octet-stream
	TTL         time.Duration // whole seconds without reads and writes after which it ends; 0: none
	ExpiresAt   time.Time     // when it ends; not together with TTL
	Data        []byte        // its first content
	Closed      bool          // Data are all there will ever be
}

func (o *CreateOptions) header() (http.Header, error) {
	h := http.Header{}
	set(h, "Content-Type", o.ContentType)
	switch {
	case o.TTL < 0 || o.TTL%time.Second != 0:
		return nil, fmt.Errorf("TTL %v: want whole seconds", o.TTL)
	case o.TTL > 0:
		h.Set(wire.HeaderStreamTTL, strconv.FormatInt(int64(o.TTL/time.Second), 10))
	}
	if !o.ExpiresAt.IsZero() {
		h.Set(wire.HeaderStreamExpiresAt, o.ExpiresAt.Format(time.RFC3339Nano))
	}
	if o.Closed {
		h.Set(wire.HeaderStreamClosed, wire.True)
	}
	return h, nil
}

func set(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}

// Create creates the stream. If it is there with the same configuration, created
// is false and nothing is changed; with another one that is
// stream.ConfigMismatch. opts may be nil.
func (s *Stream) Create(ctx context.Context, opts *CreateOptions) (info Info, created bool, err error) {
	var o CreateOptions
	if opts != nil {
		o = *opts
	}
	h, err := o.header()
	if err != nil {
		return Info{}, false, fmt.Errorf("create %s: %w", s.URL(), err)
	}
	return s.put(ctx, "create", h, o.Data)
}

func (s *Stream) put(ctx context.Context, op string, h http.Header, data []byte) (Info, bool, error) {
	a, err := s.do(ctx, &call{op: op, method: http.MethodPut, header: h, body: data})
	if err != nil {
		return Info{}, false, err
	}
	info, err := s.info(op, a)
	return info, a.status == http.StatusCreated, err
}

// ForkOptions say where a fork leaves its source, and what is new about it.
type ForkOptions struct {
	Offset    Offset        // default: the source's tail
	SubOffset uint64        // that many JSON messages, or bytes, further
	TTL       time.Duration // default: the source's
	ExpiresAt time.Time
	Data      []byte // appended to what is inherited
	Closed    bool
}

// Fork creates the stream as a fork of source: it begins with the source's data up
// to a point and goes on by itself. created is as for Create. opts may be nil.
func (s *Stream) Fork(ctx context.Context, source *Stream, opts *ForkOptions) (info Info, created bool, err error) {
	var o ForkOptions
	if opts != nil {
		o = *opts
	}
	if source.err != nil {
		return Info{}, false, source.err
	}
	h, err := (&CreateOptions{TTL: o.TTL, ExpiresAt: o.ExpiresAt, Closed: o.Closed}).header()
	if err != nil {
		return Info{}, false, fmt.Errorf("fork %s: %w", s.URL(), err)
	}
	h.Set(wire.HeaderStreamForkedFrom, source.url.EscapedPath())
	set(h, wire.HeaderStreamForkOffset, string(o.Offset))
	if o.SubOffset > 0 {
		h.Set(wire.HeaderStreamForkSubOffset, strconv.FormatUint(o.SubOffset, 10))
	}
	if len(o.Data) > 0 {
		contentType, err := source.typ(ctx)
		if err != nil {
			return Info{}, false, err
		}
		set(h, "Content-Type", contentType)
	}
	return s.put(ctx, "fork", h, o.Data)
}

// Head asks what the stream is and where it ends.
func (s *Stream) Head(ctx context.Context) (Info, error) {
	a, err := s.do(ctx, &call{op: "head", method: http.MethodHead})
	if err != nil {
		return Info{}, err
	}
	return s.info("head", a)
}

// Delete deletes the stream with all its data. Forks keep what they inherited.
func (s *Stream) Delete(ctx context.Context) error {
	doubtful := false
	_, err := s.doWhile(ctx, &call{op: "delete", method: http.MethodDelete}, func(err error) bool {
		doubtful = doubtful || !undone(err)
		return true
	})
	if doubtful && (errors.Is(err, stream.NotFound) || errors.Is(err, stream.Gone)) {
		return nil // an attempt whose answer was lost has done it
	}
	return err
}

// ProducerSeq numbers one append of an idempotent producer. The server takes each
// number of an epoch once, in order.
type ProducerSeq struct {
	ID    string
	Epoch uint64
	Seq   uint64
}

func (p *ProducerSeq) header(h http.Header) {
	h.Set(wire.HeaderProducerID, p.ID)
	h.Set(wire.HeaderProducerEpoch, strconv.FormatUint(p.Epoch, 10))
	h.Set(wire.HeaderProducerSeq, strconv.FormatUint(p.Seq, 10))
}

// AppendOptions refine an append.
type AppendOptions struct {
	// Close closes the stream with this append.
	Close bool

	// Seq must be greater, as a string, than that of the append before.
	Seq string

	// Producer makes the append idempotent. [Producer] does the numbering.
	Producer *ProducerSeq

	// ContentType must be the stream's. Default: the stream is asked once.
	ContentType string
}

// Appended is the outcome of an append.
type Appended struct {
	Tail      Offset // behind what was appended
	Closed    bool   // the stream ends there
	Duplicate bool   // with a producer: it had been appended before
	LastSeq   uint64 // with a producer: the highest number that was taken
}

// Append appends data, for a stream of JSON one JSON text: of an array each element is
// a message. opts may be nil.
//
// Without a producer it is tried again only if the server has certainly not taken
// it. A *NetworkError, and an *Error with a status from 500 on, leave that open.
func (s *Stream) Append(ctx context.Context, data []byte, opts *AppendOptions) (Appended, error) {
	var o AppendOptions
	if opts != nil {
		o = *opts
	}
	h := http.Header{}
	if len(data) > 0 {
		if o.ContentType == "" {
			var err error
			if o.ContentType, err = s.typ(ctx); err != nil {
				return Appended{}, err
			}
		}
		h.Set("Content-Type", o.ContentType)
	}
	set(h, wire.HeaderStreamSeq, o.Seq)
	if o.Close {
		h.Set(wire.HeaderStreamClosed, wire.True)
	}
	again := undone
	if o.Producer != nil {
		o.Producer.header(h)
		again = func(error) bool { return true }
	} else if o.Close && len(data) == 0 {
		again = func(error) bool { return true } // closing twice is closing once
	}
	a, err := s.doWhile(ctx, &call{op: "append", method: http.MethodPost, header: h, body: data}, again)
	if err != nil {
		if errors.Is(err, stream.ContentTypeMismatch) {
			s.contentType.Store(nil) // there may be another stream now
		}
		return Appended{}, err
	}
	return s.appended(a, o.Producer != nil && len(data) > 0)
}

// appended reads the outcome. Appends of a producer are answered 200, or 204 if
// they are duplicates; all others 204. What has none of the protocol's headers comes
// from somebody else, such as the login page of a network, and means nothing.
func (s *Stream) appended(a *answer, numbered bool) (Appended, error) {
	if a.header[wire.HeaderStreamNextOffset] == nil && a.header[wire.HeaderProducerEpoch] == nil {
		return Appended{}, fmt.Errorf("append %s: the answer has no %s: this is no stream", s.URL(), wire.HeaderStreamNextOffset)
	}
	last, _ := wire.ParsePaddedDigits(a.header.Get(wire.HeaderProducerSeq), wire.MaxSafeInteger)
	return Appended{
		Tail:      Offset(a.header.Get(wire.HeaderStreamNextOffset)),
		Closed:    isTrue(a.header.Get(wire.HeaderStreamClosed)),
		Duplicate: numbered && a.status == http.StatusNoContent,
		LastSeq:   last,
	}, nil
}

// AppendJSON appends values as messages of a JSON stream, all or none of them.
func AppendJSON[T any](ctx context.Context, s *Stream, values ...T) (Appended, error) {
	if len(values) == 0 {
		return Appended{}, errors.New("append: no values")
	}
	body, err := json.Marshal(values)
	if err != nil {
		return Appended{}, fmt.Errorf("append %s: %w", s.URL(), err)
	}
	return s.Append(ctx, body, &AppendOptions{ContentType: "application/json"})
}

// Close closes the stream: readers see its end, and nothing can be appended any
// more. Closing a closed stream is no error.
func (s *Stream) Close(ctx context.Context) (Appended, error) {
	return s.Append(ctx, nil, &AppendOptions{Close: true})
}

// do makes a call to the stream.
func (s *Stream) do(ctx context.Context, req *call) (*answer, error) {
	return s.doWhile(ctx, req, func(error) bool { return true })
}

func (s *Stream) doWhile(ctx context.Context, req *call, again func(error) bool) (*answer, error) {
	if s.err != nil {
		return nil, s.err
	}
	req.url = s.url
	return s.c.doWhile(ctx, req, again)
}

// typ is the content type of the stream.
func (s *Stream) typ(ctx context.Context) (string, error) {
	if t := s.contentType.Load(); t != nil {
		return *t, nil
	}
	info, err := s.Head(ctx)
	return info.ContentType, err
}

// info reads the headers that describe a stream.
func (s *Stream) info(op string, a *answer) (Info, error) {
	h := a.header
	i := Info{
		ContentType: h.Get("Content-Type"),
		Tail:        Offset(h.Get(wire.HeaderStreamNextOffset)),
		Closed:      isTrue(h.Get(wire.HeaderStreamClosed)),
	}
	if i.Tail == "" {
		return Info{}, fmt.Errorf("%s %s: the answer has no %s: this is no stream", op, s.URL(), wire.HeaderStreamNextOffset)
	}
	if seconds, ok := wire.ParseDigits(h.Get(wire.HeaderStreamTTL), math.MaxUint64); ok {
		i.TTL = time.Duration(min(seconds, math.MaxInt64/uint64(time.Second))) * time.Second
	}
	if at, err := time.Parse(time.RFC3339, h.Get(wire.HeaderStreamExpiresAt)); err == nil {
		i.ExpiresAt = at
	}
	if i.ContentType != "" {
		s.contentType.Store(&i.ContentType)
	}
	return i, nil
}
