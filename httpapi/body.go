package httpapi

import (
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// firstBuffer bounds the memory that a body gets before any of it has come.
const firstBuffer = 64 << 10

// readBody reads the body, at most the core's MaxBody bytes. A body that breaks
// off or stalls is an error, so nothing of it is ever appended. The read deadline
// stays in place: after an error net/http may want to drain the rest, and after
// the end it sets its own.
func (x *exchange) readBody() ([]byte, error) {
	x.reading = true
	limit := x.core.Options().MaxBody
	size := x.r.ContentLength // not above limit, Begin saw to that
	if size < 0 {
		size = limit + 1
	}
	buf := make([]byte, 0, min(size, firstBuffer))
	for {
		if len(buf) == cap(buf) {
			if int64(len(buf)) >= size {
				break
			}
			buf = slices.Grow(buf, int(min(size, int64(2*cap(buf))))-len(buf))
		}
		_ = x.rc.SetReadDeadline(time.Now().Add(x.opt.StallTimeout))
		room := min(int64(cap(buf)), size)
		n, err := x.r.Body.Read(buf[len(buf):room])
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

func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &stream.Error{Kind: protocol.BodyTimeout, Message: "the body made no progress for too long", Err: err}
	}
	return &stream.Error{Kind: stream.IncompleteBody, Message: "the body broke off or is malformed", Err: err}
}
