package protocol

import (
	"time"

	"durablestreams/stream"
)

// Access says who may do what. Errors wrap a [*stream.Error] and say nothing about
// streams; its methods may be called at once from any number of goroutines.
type Access interface {
	// Identify gives the caller behind the values of an Authorization field, of which
	// there may be none, or the refusal. Only if it may wait, it may be long: for
	// keys to be fetched, or a signature to be verified. Otherwise known is false
	// where that would be needed.
	Identify(authorization []string, wait bool) (c Caller, known bool, err error)

	// Signed gives the caller whom a URL names by itself, nil if it does not. Alone
	// says that the request has no Authorization field.
	Signed(query string, path stream.Path, alone bool) (Caller, error)

	// Public reports whether everybody may read the stream at a path.
	Public(path stream.Path) bool
}

// Caller is whoever sends a request.
type Caller interface {
	// Allow gives nil if the caller may do that, or the refusal.
	Allow(right stream.Right, path stream.Path) error

	// AllowAll gives nil if the caller may do that with all paths that a pattern
	// matches.
	AllowAll(right stream.Right, pattern string) error

	// Expires is when a live read must end; zero: no such time.
	Expires() time.Time

	// Renew gives the caller as the rules of now have it, which may have changed
	// since it was identified, or the refusal. It waits for nothing.
	Renew() (Caller, error)
}

// identity is what is known of a request's sender.
type identity struct {
	caller Caller
	known  bool
	err    error
}

// identify finds out who sends a request, as far as that can be done.
func (c *Core) identify(req *Request, wait bool) (id identity) {
	id.caller, id.known, id.err = c.opt.Access.Identify(req.Header.Values(authorization), wait)
	return id
}

const authorization = "Authorization"

// BeginWaits reports whether [Core.Begin] of this request may wait: for the disk, or
// to know who sends it. What it finds out about that is good for one Begin.
func (c *Core) BeginWaits(req *Request) bool {
	if c.opt.Access != nil {
		if req.sender = c.identify(req, false); !req.sender.known {
			return true
		}
	}
	return req.waitsForDisk()
}

// sender gives the caller of a request; nil if everybody may do everything.
func (c *Core) sender(req *Request) (Caller, error) {
	if c.opt.Access == nil {
		return nil, nil
	}
	id := req.sender
	req.sender = identity{} // the next request may look the same and come later
	if !id.known {
		id = c.identify(req, true)
	}
	return id.caller, id.err
}

// methodRights are what a method needs on a stream.
var methodRights = map[string]stream.Right{"GET": stream.MayRead, "HEAD": stream.MayRead, "POST": stream.MayAppend,
	"PUT": stream.MayCreate, "DELETE": stream.MayDelete}

// admit refuses an operation on a stream that its sender may not do. It comes before
// everything that tells whether there is such a stream.
func (o *Op) admit() error {
	access := o.core.opt.Access
	if access == nil {
		return nil
	}
	caller, err := o.core.sender(o.req)
	if err != nil {
		return err
	}
	signed, err := access.Signed(o.req.Query, o.path, len(o.req.Header.Values(authorization)) == 0)
	if err != nil {
		return err
	}
	if signed != nil {
		caller = signed
	}
	o.caller = caller
	return caller.Allow(methodRights[o.req.Method], o.path)
}

// admitFork refuses a fork of a stream that the caller may not read.
func (o *Op) admitFork(source stream.Path) error {
	if o.caller == nil {
		return nil
	}
	err := o.caller.Allow(stream.MayRead, source)
	if err == nil {
		return nil
	}
	return asRefusal(err)
}

// admitControl refuses a request for an endpoint that its sender may not use.
func (o *Op) admitControl(path string) error {
	if o.core.opt.Access == nil {
		return nil
	}
	right, of := o.core.opt.Control.Needs(path)
	if right == 0 {
		return nil
	}
	var err error
	if o.caller, err = o.core.sender(o.req); err != nil {
		return err
	}
	return o.caller.Allow(right, of)
}

// until gives the earlier one of a deadline and the end of the caller's right.
func (o *Op) until(deadline time.Time) time.Time {
	if o.caller == nil {
		return deadline
	}
	if end := o.caller.Expires(); !end.IsZero() && end.Before(deadline) {
		return end
	}
	return deadline
}

// cache gives one of two values of Cache-Control: for what everybody may read, or for
// its reader only.
func (o *Op) cache(public, private string) string {
	if o.core.opt.Access == nil || o.core.opt.Access.Public(o.path) {
		return public
	}
	return private
}

// challenges are the values of WWW-Authenticate (RFC 6750 §3).
var challenges = map[stream.Kind]string{
	stream.Unauthenticated: `Bearer realm="durable-streams"`,
	stream.InvalidToken:    `Bearer realm="durable-streams", error="invalid_token"`,
	stream.Forbidden:       `Bearer realm="durable-streams", error="insufficient_scope"`,
}

// varies lists the request fields on which answers depend, for Vary.
func (c *Core) varies(origins []string) string {
	switch {
	case origins == nil && c.opt.Access == nil:
		return ""
	case c.opt.Access == nil:
		return "Origin"
	case origins == nil:
		return authorization
	}
	return "Origin, " + authorization
}
