package protocol

import (
	"errors"
	"io"
	"strings"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

func (o *Op) beginCreate() error {
	r := o.req
	o.mode, o.create = Write, &stream.Create{Path: o.path}
	c := o.create
	var err error
	if c.Closed, err = r.flag(wire.HeaderStreamClosed); err != nil {
		return err
	}
	var sent bool
	if c.ContentType, sent, err = r.contentType(); err != nil {
		return err
	}
	if c.Lifetime, err = r.lifetime(); err != nil {
		return err
	}
	fork, err := o.readFork()
	if err != nil {
		return err
	}
	if err = r.plainBody(); err != nil {
		return err
	}
	if err = o.checkLength(); err != nil {
		return err
	}
	if fork != nil {
		if err = o.admitFork(fork.SourcePath); err != nil {
			return err
		}
		c.Fork = &fork.ForkRequest
		o.resolveFork(fork)
	} else if !sent {
		c.ContentType = defaultType
	}
	if r.early() {
		probe := *c
		return o.core.probe(&probe)
	}
	return nil
}

// lifetime reads Stream-TTL and Stream-Expires-At, of which one may be sent
// (§5.1).
func (r *Request) lifetime() (stream.Lifetime, error) {
	ttl, hasTTL, err := r.single(wire.HeaderStreamTTL)
	if err != nil {
		return stream.Lifetime{}, err
	}
	at, hasAt, err := r.single(wire.HeaderStreamExpiresAt)
	if err != nil {
		return stream.Lifetime{}, err
	}
	switch {
	case hasTTL && hasAt:
		return stream.Lifetime{}, refuse(stream.InvalidHeader, "Stream-TTL and Stream-Expires-At exclude each other")
	case hasTTL:
		n, ok := wire.ParseDigits(ttl, stream.MaxTTL)
		if !ok {
			return stream.Lifetime{}, refuse(stream.InvalidHeader, "Stream-TTL is a whole number of seconds without sign or leading zero")
		}
		return stream.Sliding(n), nil
	case hasAt:
		t, ok := wire.ParseRFC3339(at)
		if !ok {
			return stream.Lifetime{}, refuse(stream.InvalidHeader, "Stream-Expires-At is an RFC 3339 time")
		}
		return stream.Until(t, at), nil
	}
	return stream.Lifetime{}, nil
}

// forkRequest is a fork with its point as it was asked for.
type forkRequest struct {
	stream.ForkRequest
	from place
}

// readFork reads the fork headers of a PUT (§4.2); nil if there are none.
func (o *Op) readFork() (*forkRequest, error) {
	r := o.req
	source, hasSource, err := r.single(wire.HeaderStreamForkedFrom)
	if err != nil {
		return nil, err
	}
	offset, hasOffset, err := r.single(wire.HeaderStreamForkOffset)
	if err != nil {
		return nil, err
	}
	sub, hasSub, err := r.single(wire.HeaderStreamForkSubOffset)
	if err != nil {
		return nil, err
	}
	if !hasSource {
		if hasOffset || hasSub {
			return nil, refuse(stream.InvalidHeader, "Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From")
		}
		return nil, nil
	}
	f := &forkRequest{from: place{now: true}}
	if f.SourcePath, err = o.core.parseSource(source); err != nil {
		return nil, err
	}
	if hasOffset {
		f.AskedOffset = offset
		if f.from, err = parsePlace(offset); err != nil {
			return nil, err
		}
	}
	if hasSub {
		var ok bool
		if f.AskedSub, ok = wire.ParseDigits(sub, stream.MaxPosition); !ok {
			return nil, refuse(stream.InvalidHeader, "Stream-Fork-Sub-Offset is a whole number without sign or leading zero")
		}
		if f.AskedSub > 0 && !hasOffset {
			return nil, refuse(stream.InvalidHeader, "a Stream-Fork-Sub-Offset above 0 needs a Stream-Fork-Offset")
		}
	}
	return f, nil
}

// parseSource gives the stream that Stream-Forked-From names: the full path of
// its URL on this server.
func (c *Core) parseSource(raw string) (stream.Path, error) {
	if !strings.HasPrefix(raw, "/") {
		return "", refuse(stream.InvalidHeader, "Stream-Forked-From is the path of a stream's URL on this server and starts with a slash")
	}
	rest, inside := strings.CutPrefix(raw, c.root)
	if !inside {
		rest = raw[1:]
	}
	path, err := stream.ParsePath(rest)
	if !inside && !errors.Is(err, stream.InvalidPath) {
		return "", refuse(stream.ForkSourceNotFound, "Stream-Forked-From names no stream of this server; they are below "+c.root)
	}
	return path, err
}

// resolveFork finds the fork point in the source as it is now. What goes wrong
// is left to the store: it must not matter if the fork exists already.
func (o *Op) resolveFork(f *forkRequest) {
	snap, err := o.core.store.Stat(f.SourcePath, false)
	if err == nil {
		f.Source = snap.ID
		if o.create.ContentType == "" {
			o.forkJSON = wire.IsJSON(snap.ContentType)
		}
		f.AtTail = f.from.now
		f.Point, err = o.core.forkPoint(snap, f)
	}
	f.Err = asRefusal(err)
}

// asRefusal gives err as a *stream.Error, with the kinds of a missing source.
func asRefusal(err error) *stream.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stream.NotFound):
		return refuse(stream.ForkSourceNotFound, "there is no stream at the path in Stream-Forked-From")
	case errors.Is(err, stream.Gone):
		return refuse(stream.ForkSourceGone, "the stream in Stream-Forked-From was deleted")
	}
	if e, ok := errors.AsType[*stream.Error](err); ok {
		return e
	}
	return &stream.Error{Kind: stream.Internal, Err: err}
}

// forkPoint gives the position of offset and sub-offset: messages in JSON mode,
// bytes otherwise (§4.2).
func (c *Core) forkPoint(snap stream.Snapshot, f *forkRequest) (uint64, error) {
	pos, err := c.locate(f.from, snap)
	if err != nil || f.AskedSub == 0 {
		return pos, err
	}
	beyond := refuse(stream.InvalidOffset, "the Stream-Fork-Sub-Offset is beyond the end of the source")
	if f.AskedSub > snap.Tail-pos {
		return 0, beyond
	}
	if !wire.IsJSON(snap.ContentType) {
		return pos + f.AskedSub, nil
	}
	end, err := c.skipMessages(snap, pos, f.AskedSub)
	if errors.Is(err, io.EOF) {
		return 0, beyond
	}
	return end, err
}

// frameCreate completes the command with the first data.
func (o *Op) frameCreate(body []byte) {
	if len(body) == 0 {
		return
	}
	contentType := o.create.ContentType
	if o.forkJSON {
		contentType = "application/json"
	}
	o.create.Data, _, o.create.BodyErr = frame(contentType, body)
}
