package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// Error is an answer that refuses a request.
type Error struct {
	Op      string // create, append, read, ...
	URL     string
	Status  int
	Kind    stream.Kind // what the server's code or, without one, status and headers say
	Message string      // the server's

	// Details that came along. Which ones are set follows from Kind.
	Tail       Offset // stream.Closed: the final offset
	Epoch      uint64 // stream.ProducerFenced: the current epoch
	Expected   uint64 // stream.ProducerGap: the sequence number that the server expects
	Received   uint64 // stream.ProducerGap: the one that it got
	RetryAfter time.Duration

	// Code is the server's code as sent. Subscriptions have codes of their own.
	Code string
}

// Error describes the refusal.
func (e *Error) Error() string {
	what := string(e.Kind)
	if e.Code != "" {
		what = e.Code
	}
	if what == "" {
		what = http.StatusText(e.Status)
	}
	text := fmt.Sprintf("%s %s: %d %s", e.Op, e.URL, e.Status, what)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Is reports whether target is this error's Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(stream.Kind)
	return ok && k == e.Kind
}

// NetworkError is a request that got no whole answer. Whether the server has done
// what it asked for is unknown, unless the connection could not even be made.
type NetworkError struct {
	Op  string
	URL string
	Err error
}

// Error describes what failed.
func (e *NetworkError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.URL, e.Err) }

// Unwrap gives the cause.
func (e *NetworkError) Unwrap() error { return e.Err }

// errStalled is the cause when an attempt makes no progress.
var errStalled = errors.New("no byte in either direction for too long")

// errIdle is the cause when an answer comes at once and brings nothing.
var errIdle = errors.New("the server answers at once and with nothing new")

// maxErrorBody is how much of a refusal's text is read.
const maxErrorBody = 64 << 10

// refusal turns an answer into an Error.
func refusal(op, url string, a *answer) *Error {
	e := &Error{Op: op, URL: url, Status: a.status, RetryAfter: retryAfter(a.header, time.Now())}
	var body struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(a.body, &body) == nil {
		e.Code, e.Message = body.Error.Code, body.Error.Message
	}
	h := a.header
	e.Tail = Offset(h.Get(wire.HeaderStreamNextOffset))
	e.Epoch, _ = wire.ParsePaddedDigits(h.Get(wire.HeaderProducerEpoch), wire.MaxSafeInteger)
	expected, hasExpected := wire.ParsePaddedDigits(h.Get(wire.HeaderProducerExpectedSeq), wire.MaxSafeInteger)
	e.Expected = expected
	e.Received, _ = wire.ParsePaddedDigits(h.Get(wire.HeaderProducerReceivedSeq), wire.MaxSafeInteger)
	e.Kind = kind(a.status, h, hasExpected, stream.Kind(e.Code))
	return e
}

// kind is the table from kinds to statuses, read backwards. What other servers
// say in their texts is not relied on, their headers are.
func kind(status int, h http.Header, hasExpected bool, code stream.Kind) stream.Kind {
	switch {
	case status == 409 && isTrue(h.Get(wire.HeaderStreamClosed)):
		return stream.Closed
	case status == 409 && hasExpected:
		return stream.ProducerGap
	case status == 403 && h.Get(wire.HeaderProducerEpoch) != "":
		return stream.ProducerFenced
	case code != "":
		return code
	}
	switch status {
	case 404:
		return stream.NotFound
	case 410:
		return stream.Gone
	case 413:
		return stream.TooLarge
	case 429, 503:
		return stream.Busy
	case 507:
		return stream.DiskFull
	}
	return ""
}

// retryAfter reads Retry-After, seconds or a date (RFC 9110 §10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// retryable tells whether the same request may succeed later.
func retryable(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests:
			return true
		case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
			return false
		}
		return e.Status >= 500 && e.Kind != stream.Damaged
	}
	e, ok := errors.AsType[*NetworkError](err)
	if !ok {
		return false
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](e.Err)
	return !untrusted
}

// undone tells whether a failed request has certainly changed nothing, so that
// one which must not be done twice may be repeated: the connection was never
// made, or the server refused before it did anything.
func undone(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status < 500
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// networkError names what failed without repeating the URL, nor the context's end
// as a trouble of the network.
func networkError(ctx context.Context, op, target string, err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if context.Cause(ctx) != nil {
		return fmt.Errorf("%s %s: %w", op, target, context.Cause(ctx))
	}
	return &NetworkError{Op: op, URL: target, Err: err}
}
