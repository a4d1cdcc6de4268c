package httpapi

import (
	"errors"
	"io"
	"os"
	"time"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// firstBuffer bounds the memory that a body gets before any of it has come.
const firstBuffer = protocol.SmallBody

// readBody reads the body, at most limit bytes. A body that breaks off or stalls
// is an error, so nothing of it is ever appended. The memory is reserved as it
// grows, not as it is announced, and given back by release. The read deadline
// stays in place: after an error net/http may want to drain the rest, and after
// the end it sets its own.
func (x *exchange) readBody(limit int64) ([]byte, error) {
	x.reading = true
	size := x.r.ContentLength // not above limit, Begin saw to that
	if size < 0 {
		size = limit + 1
	}
	var buf []byte
	var pace protocol.BodyPace
	for {
		if !pace.Keeps(time.Now(), int64(len(buf))) {
			return nil, bodyError(os.ErrDeadlineExceeded)
		}
		if len(buf) == cap(buf) {
			if int64(len(buf)) >= size {
				break
			}
			var err error
			if buf, err = x.grow(buf, size); err != nil {
				return nil, err
			}
		}
		_ = x.rc.SetReadDeadline(time.Now().Add(x.opt.StallTimeout))
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, bodyError(err)
		}
		if int64(len(buf)) == size {
			break
		}
	}
	if int64(len(buf)) > limit {
		return nil, x.core.TooLarge()
	}
	if x.r.ContentLength >= 0 && int64(len(buf)) < x.r.ContentLength {
		return nil, bodyError(io.ErrUnexpectedEOF)
	}
	x.drained = true
	return buf, nil
}

// grow doubles a buffer that is full, up to size bytes.
func (x *exchange) grow(buf []byte, size int64) ([]byte, error) {
	room := min(size, max(2*int64(cap(buf)), firstBuffer))
	if !x.core.Reserve(x.reserved, room) {
		return nil, x.core.Busy()
	}
	x.reserved = room
	return append(make([]byte, 0, room), buf...), nil
}

// release gives back the memory of the body, which is not used any more.
func (x *exchange) release() {
	x.core.Release(x.reserved)
	x.reserved = 0
}

func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &stream.Error{Kind: protocol.BodyTimeout, Message: "the body comes too slowly", Err: err}
	}
	return &stream.Error{Kind: stream.IncompleteBody, Message: "the body broke off or is malformed", Err: err}
}
