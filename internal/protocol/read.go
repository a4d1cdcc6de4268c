package protocol

import (
	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// Read answers a HEAD or a catch-up read.
func (o *Op) Read() *Response {
	leave, err := o.enter(o.core.limits.reads)
	if err != nil {
		return o.core.Refuse(o.req, err)
	}
	defer leave()
	r, err := o.read()
	if err != nil {
		return o.core.Refuse(o.req, err)
	}
	return r
}

func (o *Op) read() (*Response, error) {
	snap, err := o.core.store.Stat(o.path, !o.head)
	if err != nil {
		return nil, err
	}
	if o.head {
		return o.headResponse(snap), nil
	}
	pos, err := o.core.locate(o.from, snap)
	if err != nil {
		return nil, err
	}
	return o.page(snap, pos)
}

// headResponse is the metadata of a stream (§5.5).
func (o *Op) headResponse(snap stream.Snapshot) *Response {
	r := o.core.answer(o.req, 200)
	r.add("Content-Type", snap.ContentType)
	r.add("Cache-Control", cacheNever)
	r.add(wire.HeaderStreamNextOffset, snap.TailOffset().String())
	if ttl, ok := snap.Lifetime.TTL(); ok {
		r.addUint(wire.HeaderStreamTTL, ttl)
	}
	if at, ok := snap.Lifetime.ExpiresAt(); ok {
		r.add(wire.HeaderStreamExpiresAt, at)
	}
	r.addTrue(wire.HeaderStreamClosed, snap.Closed)
	return r
}

// page answers with the data from pos on, as far as a page goes (§5.6).
func (o *Op) page(snap stream.Snapshot, pos uint64) (*Response, error) {
	c := o.core
	code := codingOf(snap.ContentType)
	end, err := c.pageEnd(snap, pos, c.opt.PageSize, code)
	if err != nil {
		return nil, err
	}
	tag := ""
	if !o.from.now {
		tag = etag(snap, pos, end, snap.Closed && end == snap.Tail)
	}
	// A long-poll that has data always gives them: a 304 would be no news.
	matched := o.mode == Read && wire.MatchETag(o.req.Header.Values("If-None-Match"), tag)
	status := 200
	if matched {
		status = 304
	}
	r := c.answer(o.req, status)
	r.add("Content-Type", snap.ContentType)
	if end > pos && !o.from.now {
		r.add("Cache-Control", o.cache(cacheData, cacheDataPrivate))
	} else {
		r.add("Cache-Control", cacheNever)
	}
	if tag != "" {
		r.add("ETag", tag)
	}
	r.add(wire.HeaderStreamNextOffset, snap.OffsetAt(end).String())
	r.addTrue(wire.HeaderStreamUpToDate, end == snap.Tail)
	r.addTrue(wire.HeaderStreamClosed, snap.Closed && end == snap.Tail)
	if matched {
		return r, nil
	}
	whole := false
	defer func() {
		if !whole {
			r.Close() // also if a panic comes
		}
	}()
	err = c.setPage(r, snap, pos, end, code)
	whole = err == nil
	return r, err
}
