package stream

import (
	"strings"
	"time"
)

// Kind is the closed set of ways in which a request about a stream can fail.
// Its text is the short machine-readable code that clients see. A Kind is an
// error, so errors.Is(err, stream.NotFound) works on any wrapped [*Error].
type Kind string

// The kinds of failure. Statuses belong to the transport: package protocol has
// the one table.
const (
	InvalidPath         Kind = "invalid_path"
	InvalidHeader       Kind = "invalid_header"
	InvalidParameter    Kind = "invalid_parameter"
	InvalidOffset       Kind = "invalid_offset"
	InvalidJSON         Kind = "invalid_json"
	EmptyBody           Kind = "empty_body"
	IncompleteBody      Kind = "incomplete_body"
	NotFound            Kind = "not_found"
	Gone                Kind = "gone"            // deleted, but living forks still read it
	OffsetGone          Kind = "offset_gone"     // offset of a former incarnation or of another stream
	Reserved            Kind = "reserved_path"   // below the control prefix
	ConfigMismatch      Kind = "config_mismatch" // the path holds a stream of another configuration
	PathInUse           Kind = "path_in_use"     // the path holds a deleted stream that forks still read
	Closed              Kind = "stream_closed"
	ContentTypeMismatch Kind = "content_type_mismatch"
	SeqRegression       Kind = "sequence_regression"
	ProducerGap         Kind = "producer_sequence_gap"
	ProducerFenced      Kind = "producer_epoch_stale"
	ProducerEpochStart  Kind = "producer_epoch_start"
	ForkSourceNotFound  Kind = "fork_source_not_found"
	ForkSourceGone      Kind = "fork_source_gone"
	ForkTooDeep         Kind = "fork_too_deep"
	Unauthenticated     Kind = "unauthenticated" // the request does not say who sends it
	InvalidToken        Kind = "invalid_token"   // what it says is wrong, or too old
	Forbidden           Kind = "forbidden"       // whoever sends it may not do that
	TooLarge            Kind = "too_large"
	StreamFull          Kind = "stream_full" // the last position an offset can name is reached
	Busy                Kind = "busy"
	DiskFull            Kind = "disk_full"
	QuotaStreams        Kind = "quota_streams" // the tenant has as many streams as it may
	QuotaBytes          Kind = "quota_bytes"   // as many bytes
	QuotaAppends        Kind = "quota_appends" // adds more in a second than it may
	QuotaLive           Kind = "quota_live"    // has as many live reads as it may
	ShuttingDown        Kind = "shutting_down"
	Damaged             Kind = "damaged"
	Internal            Kind = "internal"
)

// Error makes a Kind usable as the target of errors.Is.
func (k Kind) Error() string { return strings.ReplaceAll(string(k), "_", " ") }

// Error is a refusal. Kind decides the status; Message is safe to show to a
// client; Err is the cause, for logs only.
type Error struct {
	Kind    Kind
	Message string
	Err     error

	// Details that a client needs to act on the refusal. Which ones are set
	// follows from Kind.
	Tail     Offset        // Closed: the final offset
	Expected uint64        // ProducerGap, and Closed with a producer: Producer-Expected-Seq
	Received uint64        // the same: Producer-Received-Seq
	Epoch    uint64        // ProducerFenced: the current epoch
	Producer *ProducerSeen // set when the refused request named a producer
	Retry    time.Duration // the quota kinds: when it may be tried again
}

// ProducerSeen marks that a refused request came from an idempotent producer.
type ProducerSeen struct{ Epoch, Seq uint64 }

// Errorf-free constructor: messages are constant texts, so nothing of a
// request is ever echoed by accident.
func refuse(kind Kind, message string) *Error { return &Error{Kind: kind, Message: message} }

// Error describes the refusal and its cause.
func (e *Error) Error() string {
	s := string(e.Kind)
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}
