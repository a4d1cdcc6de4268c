package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// Kinds that only a transport can meet.
const (
	methodNotAllowed stream.Kind = "method_not_allowed"
	methodUnknown    stream.Kind = "method_not_implemented"

	// headTooLarge is a head with too many fields.
	headTooLarge stream.Kind = "head_too_large"

	// encoded is a body in a content coding.
	encoded stream.Kind = "encoding_unsupported"

	// BodyTimeout is a body that made no progress for too long.
	BodyTimeout stream.Kind = "body_timeout"
)

// status is the one table from kinds of failure to HTTP statuses. A kind that
// is not in it is a fault of the server.
func status(kind stream.Kind) int {
	switch kind {
	case stream.InvalidPath, stream.InvalidHeader, stream.InvalidParameter, stream.InvalidOffset, stream.InvalidJSON,
		stream.EmptyBody, stream.IncompleteBody, stream.ProducerEpochStart, stream.ForkTooDeep:
		return 400
	case stream.Unauthenticated, stream.InvalidToken:
		return 401
	case stream.ProducerFenced, stream.Forbidden:
		return 403
	case stream.NotFound, stream.Reserved, stream.ForkSourceNotFound:
		return 404
	case methodNotAllowed:
		return 405
	case BodyTimeout:
		return 408
	case stream.ConfigMismatch, stream.PathInUse, stream.Closed, stream.ContentTypeMismatch, stream.SeqRegression,
		stream.ProducerGap, stream.ForkSourceGone, stream.StreamFull:
		return 409
	case stream.Gone, stream.OffsetGone:
		return 410
	case stream.TooLarge:
		return 413
	case encoded:
		return 415 // RFC 9110 §15.5.16
	case stream.QuotaAppends, stream.QuotaLive:
		return 429 // RFC 6585 §4
	case headTooLarge:
		return 431
	case methodUnknown:
		return 501
	case stream.Busy, stream.ShuttingDown:
		return 503
	case stream.DiskFull, stream.QuotaStreams, stream.QuotaBytes:
		return 507 // as RFC 4331 §6 has it for quotas
	}
	return 500 // Damaged, Internal
}

// retryAfter is the Retry-After of 503 and 507, in seconds.
const retryAfter = "1"

// Refuse gives the answer to a request that failed with err. An err without a
// [*stream.Error] in it is internal; only the log sees its text.
func (c *Core) Refuse(req *Request, err error) *Response {
	e, ok := errors.AsType[*stream.Error](err)
	if !ok {
		e = &stream.Error{Kind: stream.Internal, Err: err}
	}
	code := status(e.Kind)
	if code == 500 {
		// The others are a client's doing or a state of the server, which the
		// engine reports once.
		c.logFailure(req, err)
	}
	r := c.answer(req, code)
	r.refusal = e.Kind
	r.add("Content-Type", "application/json")
	r.add("Cache-Control", cacheNever)
	c.addDetails(r, req, e)
	r.setBody(errorBody(e))
	return r
}

// RefuseUnheard gives the answer to a connection of which no request was read.
func (c *Core) RefuseUnheard(err error) *Response {
	return c.Refuse(&Request{Header: origins(nil)}, err)
}

// addDetails adds what a client needs to act on a refusal.
func (c *Core) addDetails(r *Response, req *Request, e *stream.Error) {
	switch e.Kind {
	case stream.Closed:
		r.add(wire.HeaderStreamNextOffset, e.Tail.String())
		r.add(wire.HeaderStreamClosed, wire.True)
		if e.Producer != nil {
			r.addUint(wire.HeaderProducerExpectedSeq, e.Expected)
			r.addUint(wire.HeaderProducerReceivedSeq, e.Received)
		}
	case stream.ProducerGap:
		r.addUint(wire.HeaderProducerExpectedSeq, e.Expected)
		r.addUint(wire.HeaderProducerReceivedSeq, e.Received)
	case stream.ProducerFenced:
		r.addUint(wire.HeaderProducerEpoch, e.Epoch)
	case methodNotAllowed, methodUnknown:
		r.add("Allow", c.allow(req))
	case encoded:
		r.add("Accept-Encoding", noCoding)
	case stream.Unauthenticated, stream.InvalidToken, stream.Forbidden:
		r.add("WWW-Authenticate", challenges[e.Kind])
	}
	switch {
	case e.Retry > 0:
		r.addUint("Retry-After", uint64((e.Retry+time.Second-1)/time.Second))
	case r.Status == 503 || r.Status == 507:
		r.add("Retry-After", retryAfter)
	}
}

// errorBody is {"error":{"code":…,"message":…}}.
func errorBody(e *stream.Error) []byte {
	message := e.Message
	if message == "" {
		message = e.Kind.Error()
	}
	quoted, err := json.Marshal(message)
	if err != nil {
		quoted = []byte(`""`) // strings always marshal
	}
	b := make([]byte, 0, 64+len(e.Kind)+len(quoted))
	b = append(b, `{"error":{"code":"`...)
	b = append(b, e.Kind...)
	b = append(b, `","message":`...)
	b = append(b, quoted...)
	return append(b, "}}\n"...)
}

func (c *Core) logFailure(req *Request, err error) {
	c.opt.Logger.LogAttrs(context.Background(), slog.LevelError, "request failed", slog.String("id", c.requestID(req)),
		slog.String("method", clip(req.Method, maxMethod)), slog.String("path", LogPath(req.Path)), slog.Int("status", 500), slog.Any("error", err))
}
