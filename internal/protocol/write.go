package protocol

import (
	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// defaultType is the content type of a stream whose PUT names none (§5.1).
const defaultType = "application/octet-stream"

func (o *Op) beginAppend() error {
	r := o.req
	o.mode = Write
	a := &o.append
	a.Path = o.path
	var err error
	if a.Close, err = r.flag(wire.HeaderStreamClosed); err != nil {
		return err
	}
	if err = o.readProducer(); err != nil {
		return err
	}
	if err = o.readSeq(); err != nil {
		return err
	}
	if r.ContentLength > 0 {
		if err = o.readType(); err != nil {
			return err
		}
	}
	if err = r.plainBody(); err != nil {
		return err
	}
	if err = o.checkLength(); err != nil {
		return err
	}
	if r.early() {
		return o.probeAppend()
	}
	return nil
}

// readProducer reads the triple of an idempotent producer: all or nothing
// (§5.2.1).
func (o *Op) readProducer() error {
	id, hasID, err := o.req.single(wire.HeaderProducerID)
	if err != nil {
		return err
	}
	epoch, hasEpoch, err := o.req.single(wire.HeaderProducerEpoch)
	if err != nil {
		return err
	}
	seq, hasSeq, err := o.req.single(wire.HeaderProducerSeq)
	if err != nil {
		return err
	}
	if !hasID && !hasEpoch && !hasSeq {
		return nil
	}
	if !hasID || !hasEpoch || !hasSeq {
		return refuse(stream.InvalidHeader, "Producer-Id, Producer-Epoch and Producer-Seq are sent together")
	}
	p := &o.producer
	if !validProducerID(id) {
		return refuse(stream.InvalidHeader, "Producer-Id has 1 to 256 bytes and no control characters")
	}
	var ok bool
	if p.Epoch, ok = wire.ParsePaddedDigits(epoch, stream.MaxProducerInt); !ok {
		return refuse(stream.InvalidHeader, "Producer-Epoch is a whole number from 0 to 2^53-1")
	}
	if p.Seq, ok = wire.ParsePaddedDigits(seq, stream.MaxProducerInt); !ok {
		return refuse(stream.InvalidHeader, "Producer-Seq is a whole number from 0 to 2^53-1")
	}
	p.ID, o.append.Producer = id, p
	return nil
}

func validProducerID(id string) bool {
	if id == "" || len(id) > stream.MaxProducerIDLen {
		return false
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] == 0x7f {
			return false
		}
	}
	return true
}

func (o *Op) readSeq() error {
	seq, sent, err := o.req.single(wire.HeaderStreamSeq)
	if err != nil || !sent {
		return err
	}
	if seq == "" || len(seq) > stream.MaxStreamSeqLen {
		return refuse(stream.InvalidHeader, "Stream-Seq has 1 to 1024 bytes")
	}
	o.seq, o.append.Seq = seq, &o.seq
	return nil
}

// readType reads the content type of an append that has a body.
func (o *Op) readType() error {
	value, sent, err := o.req.contentType()
	if err != nil {
		return err
	}
	if !sent {
		return refuse(stream.InvalidHeader, "a body needs a Content-Type")
	}
	o.append.ContentType = value
	return nil
}

func (o *Op) checkLength() error {
	if o.req.ContentLength > o.MaxBody() {
		return o.core.TooLarge()
	}
	return nil
}

// TooLarge is the refusal of a body that is longer than the options allow.
func (c *Core) TooLarge() error {
	return refuse(stream.TooLarge, "the body is larger than this server takes")
}

// Submit hands the operation and its body to the store. done is called once,
// possibly before Submit returns and from any goroutine, when Response may be
// called; it must not block. The body must not be changed any more.
func (o *Op) Submit(body []byte, done func()) {
	o.done = done
	o.core.pacer.changes.Add(1)
	leave, err := o.enter(o.core.limits.changes)
	if err != nil {
		o.err = err
		done()
		return
	}
	defer leave()
	switch {
	case o.remove != nil:
		o.core.store.Apply(o.remove, (*completion)(o))
	case o.create != nil:
		o.frameCreate(body)
		o.core.store.Apply(o.create, (*completion)(o))
	default:
		if o.err = o.frameAppend(body); o.err != nil {
			done()
			return
		}
		o.core.store.Apply(&o.append, (*completion)(o))
	}
}

// frameAppend completes the command. The errors that it returns are those of
// the request's syntax; what is wrong inside the body comes after refusals that
// depend on the stream, so the store gets it as BodyErr.
func (o *Op) frameAppend(body []byte) error {
	a := &o.append
	a.HasBody = len(body) > 0
	if !a.HasBody {
		if !a.Close {
			a.BodyErr = refuse(stream.EmptyBody, "an append without Stream-Closed: true needs a body")
		}
		return nil
	}
	if a.ContentType == "" {
		if err := o.readType(); err != nil {
			return err
		}
	}
	var messages int
	a.Data, messages, a.BodyErr = frame(a.ContentType, body)
	if a.BodyErr == nil && messages == 0 {
		a.BodyErr = refuse(stream.InvalidJSON, "an empty array appends nothing")
	}
	return nil
}

// frame gives the stored form of a body that is not empty. In byte mode it is
// one message.
func frame(contentType string, body []byte) (data []byte, messages int, refusal *stream.Error) {
	if !wire.IsJSON(contentType) {
		return body, 1, nil
	}
	data, messages, err := wire.FrameJSON(make([]byte, 0, len(body)+len(body)/8+2), body)
	if err != nil {
		return nil, 0, &stream.Error{Kind: stream.InvalidJSON, Message: err.Error()}
	}
	return data, messages, nil
}

// completion is an Op as the store sees it. It only takes notes: the answer is
// made by whoever waits for it, not by the store's goroutine.
type completion Op

func (c *completion) Complete(res stream.Result, err error) {
	c.res, c.err = res, err
	c.done()
}

// Response gives the answer to a submitted operation once it is done.
func (o *Op) Response() *Response {
	if o.err != nil {
		return o.core.Refuse(o.req, o.err)
	}
	if o.remove != nil {
		r := o.core.answer(o.req, 204)
		r.add("Cache-Control", cacheNever)
		return r
	}
	if o.create != nil {
		return o.createResponse()
	}
	return o.appendResponse()
}

func (o *Op) appendResponse() *Response {
	a, res := &o.append, &o.res
	status := 204
	if a.Producer != nil && a.HasBody && res.Outcome == stream.Appended {
		status = 200
	}
	r := o.core.answer(o.req, status)
	r.add("Cache-Control", cacheNever)
	r.add(wire.HeaderStreamNextOffset, res.Tail.String())
	r.addTrue(wire.HeaderStreamClosed, res.Closed)
	if a.Producer != nil {
		r.addUint(wire.HeaderProducerEpoch, a.Producer.Epoch)
		r.addUint(wire.HeaderProducerSeq, res.Highest)
	}
	return r
}

func (o *Op) createResponse() *Response {
	status := 200
	if o.res.Outcome == stream.Created {
		status = 201
	}
	r := o.core.answer(o.req, status)
	if status == 201 {
		r.add("Location", o.core.location(o.req))
	}
	r.add("Content-Type", o.res.Meta.ContentType)
	r.add("Cache-Control", cacheNever)
	r.add(wire.HeaderStreamNextOffset, o.res.Tail.String())
	r.addTrue(wire.HeaderStreamClosed, o.res.Closed)
	return r
}

// location is the URL of the request's stream, encoded as the client sent it.
func (c *Core) location(req *Request) string { return c.origin(req) + req.Path }

// origin is what stands before a path of this server in a URL that the client can
// use, "" if it named no host.
func (c *Core) origin(req *Request) string {
	if c.opt.PublicURL != "" {
		return c.opt.PublicURL
	}
	scheme, host := "http", req.Host
	if req.Secure {
		scheme = "https"
	}
	if req.Proxied {
		scheme, host = forwarded(req.Header, scheme, host)
	}
	if host == "" {
		return ""
	}
	return scheme + "://" + host
}
