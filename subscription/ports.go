package subscription

import (
	"context"
	"time"

	"durablestreams/stream"
)

// Engine is what this package needs of a storage engine.
type Engine interface {
	// Ready says why small changes are refused at the moment, nil if they are not. It
	// is asked before anything is decided, with a lock held; what is decided is always
	// taken.
	Ready() error
	// PutRows puts rows into the journal behind all that was put before it, all or
	// none of them, and calls done once they and everything before them are durable
	// and visible, or with an error if the engine has failed or is closed. It does not
	// wait for the disk and keeps nothing of rows. done must not block. With no rows
	// it only waits.
	PutRows(rows []stream.Row, done func(error))
	// Rows gives the durable rows whose keys begin with a prefix, in order.
	Rows(prefix []byte, yield func(stream.Row) error) error
	// List gives the published streams whose paths begin with a prefix, in order, from
	// behind a path on.
	List(prefix string, after stream.Path, yield func(stream.Snapshot) bool) error
	// Stat gives the published state of a stream, or [stream.NotFound] or [stream.Gone].
	Stat(path stream.Path, touch bool) (stream.Snapshot, error)
}

// WakeStreams writes wake events (§7.2).
type WakeStreams interface {
	// AppendEvent appends a JSON value to a stream as a client's POST with this
	// producer would, and calls done once it is durable. A duplicate is no error.
	// done must not block.
	AppendEvent(path stream.Path, event []byte, producer stream.Producer, done func(error))
}

// Webhooks reaches the receivers of webhook subscriptions (§7.1).
type Webhooks interface {
	// CheckURL says why a URL may not be called (§6.2), in words for the client.
	CheckURL(url string) error
	// Deliver posts a signed body and reports whether the receiver answered that it
	// is done. The error is nil for statuses 2xx only. It returns soon after ctx ends,
	// which happens with the lease at the latest.
	Deliver(ctx context.Context, url string, body []byte) (done bool, err error)
}

// Token is what a bearer token says (§7.3, §12.9): its holder may speak for one wake
// of one subscription.
type Token struct {
	Type       Type
	ID         string
	Own        uint64 // tells a subscription from all that ever had its id
	Generation uint64
	WakeID     string
	Expires    time.Time
}

// Tokens signs bearer tokens.
type Tokens interface {
	Mint(Token) (string, error)
	// Verify gives what a token says, whatever that is, if its signature is right.
	Verify(text string) (Token, error)
}

// tokenLife is longer than a worker keeps a lease alive: what ends a token is the
// end of its wake.
const tokenLife = 7 * 24 * time.Hour

// Ports are the parts of the server that a manager works with.
type Ports struct {
	Engine      Engine
	WakeStreams WakeStreams
	Webhooks    Webhooks
	Tokens      Tokens
}
