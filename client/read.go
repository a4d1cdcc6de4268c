package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"time"

	"durablestreams/internal/wire"
)

// Live says how a reader waits for data that are not there yet.
type Live int

// Ways to read.
const (
	// CatchUp does not wait: the reader ends where the stream ends now.
	CatchUp Live = iota

	// Follow waits in the way that suits the content type: long-poll for text,
	// whose line breaks SSE does not keep apart, SSE for everything else.
	Follow

	// LongPoll waits with one request after the other.
	LongPoll

	// SSE keeps a request open. In text, CR and CRLF become LF.
	SSE
)

// ReadOptions say what to read.
type ReadOptions struct {
	Offset Offset // default: Start
	Live   Live
}

// Batch is a part of a stream.
type Batch struct {
	// Data are bytes of the stream; of JSON streams an array of whole messages. They
	// may be none when there is only something to tell.
	Data []byte

	// Offset is the position behind Data: who has dealt with them goes on there.
	Offset Offset

	UpToDate bool // that was all there is at the moment
	Closed   bool // that was all there will ever be

	ContentType string // of the stream
}

// Read reads the stream in order, each byte once. Each range over it begins at
// opts.Offset, with plain reads; when those have caught up it goes on in the way that
// opts.Live says. It ends behind a batch that is UpToDate (CatchUp) or Closed, or
// with an error, which comes last and alone. opts may be nil.
func (s *Stream) Read(ctx context.Context, opts *ReadOptions) iter.Seq2[Batch, error] {
	o := ReadOptions{Offset: Start}
	if opts != nil {
		o.Live = opts.Live
		if opts.Offset != "" {
			o.Offset = opts.Offset
		}
	}
	return func(yield func(Batch, error) bool) {
		if s.err != nil {
			yield(Batch{}, s.err)
			return
		}
		r := &reader{s: s, live: o.Live, at: Batch{Offset: o.Offset}, retrier: s.c.retrier(),
			yield: func(b Batch) bool { return yield(b, nil) }}
		for !r.done {
			err := r.request(ctx)
			if err == nil || r.done {
				continue
			}
			if err = r.retrier.wait(ctx, err); err != nil {
				yield(Batch{}, err)
				return
			}
		}
	}
}

// reader is one run through a stream.
type reader struct {
	s       *Stream
	live    Live
	at      Batch // where it is, and what has been told last
	cursor  string
	waiting bool // it has caught up and reads live
	done    bool
	retrier retrier
	yield   func(Batch) bool
}

// request makes one request and passes on what it gives.
func (r *reader) request(ctx context.Context) error {
	req := &call{op: "read", method: http.MethodGet, url: r.s.url, query: r.query(), header: http.Header{}}
	sse := r.waiting && r.live == SSE
	if sse {
		req.header.Set("Accept", "text/event-stream")
	}
	began := time.Now()
	res, err := r.s.c.open(ctx, req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	before := r.place()
	if sse && res.StatusCode == http.StatusOK {
		err = r.events(ctx, req, res)
	} else {
		err = r.page(ctx, req, res)
	}
	switch {
	case r.place() != before:
		r.retrier.succeeded()
	case err == nil && !r.done && time.Since(began) < r.retrier.opts.MinDelay:
		// Asking again at once would be a loop that never rests.
		return &NetworkError{Op: req.op, URL: req.target(), Err: errIdle}
	case err == nil:
		r.retrier.succeeded()
	}
	return err
}

// place is what a request can bring on.
type place struct {
	offset            Offset
	upToDate, waiting bool
}

func (r *reader) place() place { return place{r.at.Offset, r.at.UpToDate, r.waiting} }

// query has its parameters in the order that caches like, that of their names.
func (r *reader) query() string {
	offset := wire.ParamOffset + "=" + url.QueryEscape(string(r.at.Offset))
	if !r.waiting {
		return offset
	}
	live := wire.LiveLongPoll
	if r.live == SSE {
		live = wire.LiveSSE
	}
	query := wire.ParamLive + "=" + live + "&" + offset
	if r.cursor != "" {
		query = wire.ParamCursor + "=" + url.QueryEscape(r.cursor) + "&" + query
	}
	return query
}

// page takes the answer of a catch-up read or a long-poll. It counts only when it
// is whole.
func (r *reader) page(ctx context.Context, req *call, res *http.Response) error {
	a, err := r.s.c.finish(ctx, req, res)
	if err != nil {
		return err
	}
	h := a.header
	b := Batch{Data: a.body, Offset: Offset(h.Get(wire.HeaderStreamNextOffset)), ContentType: r.at.ContentType,
		UpToDate: isTrue(h.Get(wire.HeaderStreamUpToDate)), Closed: isTrue(h.Get(wire.HeaderStreamClosed))}
	if b.Offset == "" {
		return fmt.Errorf("read %s: the answer has no %s: this is no stream", req.target(), wire.HeaderStreamNextOffset)
	}
	if a.status == http.StatusOK {
		b.ContentType = h.Get("Content-Type")
		r.s.contentType.Store(&b.ContentType)
	}
	r.cursor = h.Get(wire.HeaderStreamCursor)
	r.emit(b)
	if b.UpToDate && !r.waiting {
		r.catchUp()
	}
	return nil
}

// catchUp ends plain reading.
func (r *reader) catchUp() {
	r.waiting = true
	switch r.live {
	case CatchUp:
		r.done = true
	case Follow:
		r.live = SSE
		if wire.IsText(r.at.ContentType) {
			r.live = LongPoll
		}
	}
}

// events takes the answer of an SSE read: data count only with the control event
// that follows them.
func (r *reader) events(ctx context.Context, req *call, res *http.Response) error {
	if t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); t != "text/event-stream" {
		return fmt.Errorf("read %s: the answer is %q, not an event stream", req.target(), t)
	}
	encoded := res.Header.Get(wire.HeaderStreamSSEDataEncoding) == wire.SSEDataEncodingBase64
	in := newEventReader(res.Body, r.s.c.opts.MaxAnswer)
	var data []byte
	for !r.done {
		ev, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil // servers end live reads now and then
		}
		switch {
		case errors.Is(err, errEventTooLarge):
			return fmt.Errorf("read %s: %w", req.target(), err)
		case err != nil:
			return networkError(ctx, req.op, req.target(), err)
		case ev.name == "data":
			data, err = r.gather(data, ev.data, encoded)
		case ev.name == "control":
			var c wire.Control
			if c, err = parseControl(ev.data); err == nil {
				r.cursor = c.Cursor
				r.emit(Batch{data, Offset(c.NextOffset), c.UpToDate, c.Closed, r.at.ContentType})
				data = nil
			}
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", req.target(), err)
		}
	}
	return nil
}

// gather adds the data of one event to those for which no control event has come.
func (r *reader) gather(data, more []byte, encoded bool) ([]byte, error) {
	switch {
	case int64(len(data)+len(more)) > r.s.c.opts.MaxAnswer:
		return nil, errEventTooLarge
	case encoded:
		return decodeBase64(data, more)
	case wire.IsJSON(r.at.ContentType):
		return joinArrays(data, more), nil
	}
	return append(data, more...), nil
}

// emit passes a batch on unless there is nothing new in it.
func (r *reader) emit(b Batch) {
	if wire.IsJSON(b.ContentType) && isEmptyArray(b.Data) {
		b.Data = nil
	}
	last := r.at
	r.at = b
	r.at.Data = nil
	r.done = b.Closed
	if len(b.Data) == 0 && b.Offset == last.Offset && b.UpToDate == last.UpToDate && b.Closed == last.Closed {
		return
	}
	if !r.yield(b) {
		r.done = true
	}
}
