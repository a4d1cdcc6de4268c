package protocol

import (
	"strings"
	"time"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// Request is the head of a request as the adapter read it. It must stay as it is
// until the operation is over.
type Request struct {
	Method string
	Path   string // as sent, without the query: nothing decoded, nothing cleaned
	Query  string // as sent, without the question mark
	Host   string // the authority that the client used
	Secure bool   // it came over TLS
	Header Header

	// Proxied says that it came from a proxy whose word about the client counts, see
	// Core.Proxied.
	Proxied bool

	// ContentLength is the announced length of the body, -1 if it was not
	// announced and there may be one.
	ContentLength int64

	// BodyRead says that the adapter has the whole body already, so there is
	// nothing to gain from a look at the stream before.
	BodyRead bool

	// BodyTook is how long the adapter has waited for the body.
	BodyTook time.Duration

	kind   Kind     // 0: as the method says
	id     string   // see Core.requestID; "": none yet
	origin *origin  // of a request that was detached
	sender identity // see Core.BeginWaits
}

// Header gives the field values of a request under a name in the spelling of
// package wire, in the order in which they were sent.
type Header interface {
	Values(name string) []string
}

// single returns the value of a field that may be sent once.
func (r *Request) single(name string) (value string, sent bool, err error) {
	switch v := r.Header.Values(name); len(v) {
	case 0:
		return "", false, nil
	case 1:
		return v[0], true, nil
	}
	return "", true, refuse(stream.InvalidHeader, "the header "+name+" is given more than once")
}

// flag reads Stream-Closed: only "true", in any case, counts (§4.1).
func (r *Request) flag(name string) (bool, error) {
	v, _, err := r.single(name)
	return strings.EqualFold(v, wire.True), err
}

// earlyLength is the announced length of a body above which it is worth a look
// at the stream before it is read.
const earlyLength = 64 << 10

// early reports whether a doomed request should be refused before its body is
// read: the client waits for a 100, or the body is large.
func (r *Request) early() bool {
	return !r.BodyRead && (r.ContentLength > earlyLength || r.asksFirst())
}

// asksFirst reports whether the client waits for a 100 before it sends its body.
func (r *Request) asksFirst() bool { return r.mayHaveBody() && len(r.Header.Values("Expect")) > 0 }

// waitsForDisk reports whether [Core.Begin] of this request may wait for the disk:
// it looks for the source of a fork, and asks the store about a large body or one
// that waits for a 100.
func (r *Request) waitsForDisk() bool {
	switch r.Method {
	case "PUT":
		return r.early() || len(r.Header.Values(wire.HeaderStreamForkedFrom)) > 0
	case "POST":
		return r.early()
	}
	return false
}

// mayHaveBody reports whether a body is announced or possible.
func (r *Request) mayHaveBody() bool { return r.ContentLength != 0 }

// contentType reads and checks Content-Type. A value that is no media type is
// refused (§5.1).
func (r *Request) contentType() (value string, sent bool, err error) {
	value, sent, err = r.single("Content-Type")
	if err != nil || !sent {
		return value, sent, err
	}
	if _, ok := wire.ParseMediaType(value); !ok {
		return "", true, refuse(stream.InvalidHeader, "the Content-Type is not a media type")
	}
	return value, true, nil
}

// noCoding is the one content coding that is taken.
const noCoding = "identity"

// plainBody refuses a body that is said to be encoded or a part of something, since its
// bytes are stored as they come and no reader would be told (RFC 9110 §8.4, §14.5), and
// one that is said to have two lengths.
func (r *Request) plainBody() error {
	if !r.mayHaveBody() {
		return nil
	}
	for _, v := range r.Header.Values("Content-Encoding") {
		if v != "" && !strings.EqualFold(v, noCoding) {
			return refuse(encoded, "this server does not decode bodies: send it without a Content-Encoding")
		}
	}
	if _, _, err := r.single("Content-Length"); err != nil {
		return err // over HTTP/2; with HTTP/1.1 both adapters refuse the head
	}
	if len(r.Header.Values("Content-Range")) > 0 {
		return refuse(stream.InvalidHeader, "a body is taken as a whole: send it without a Content-Range")
	}
	return nil
}

// place is where a read starts: an offset, or one of the two sentinels (§8).
type place struct {
	now    bool
	offset stream.Offset // the zero value is the start
}

func parsePlace(s string) (place, error) {
	switch s {
	case "now":
		return place{now: true}, nil
	case "-1":
		return place{}, nil
	}
	o, err := stream.ParseOffset(s)
	return place{offset: o}, err
}

// locate finds the place in a stream. In JSON mode it must be between messages:
// an offset inside one was never minted.
func (c *Core) locate(p place, snap stream.Snapshot) (uint64, error) {
	if p.now {
		return snap.Tail, nil
	}
	pos, err := snap.Locate(p.offset, snap.Tail)
	if err != nil || pos == 0 || pos == snap.Tail || !wire.IsJSON(snap.ContentType) {
		return pos, err
	}
	var one [1]byte
	b, err := c.load(one[:0], snap, pos-1, pos)
	if err != nil {
		return 0, err
	}
	if b[0] != '\n' {
		return 0, refuse(stream.InvalidOffset, "this offset is inside a message")
	}
	return pos, nil
}

func refuse(kind stream.Kind, message string) *stream.Error {
	return &stream.Error{Kind: kind, Message: message}
}
