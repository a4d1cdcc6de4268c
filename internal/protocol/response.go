package protocol

import (
	"strconv"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// Field is one header field of a response.
type Field struct{ Name, Value string }

// Response is an answer, or the head of one.
type Response struct {
	Status int

	// Fields are the header fields in wire order, less Date, Content-Length and
	// what concerns the connection.
	Fields []Field

	// Length is the length of the whole body: the adapter's Content-Length. It
	// is -1 for the head of an SSE answer, whose body comes as frames. A HEAD
	// request and the statuses 204 and 304 send no body and no length.
	Length int64

	// Body is the body, or its beginning if Rest is not nil. It must be sent
	// before Rest is asked for more.
	Body []byte

	// Rest gives the remainder. If it fails, the answer must be cut, not ended.
	Rest stream.Blocks

	// Last says that the connection is to be closed behind this answer.
	Last bool

	refusal stream.Kind // why, if it is one

	limits *limits // nil if nothing is held
	unsent int64   // bytes held of limits.unsent
	buf    [16]Field
}

// Close lets go of what an answer holds. Whoever takes a Response calls it when
// the answer has been sent, or is not to be. It is idempotent.
func (r *Response) Close() {
	if r.Rest != nil {
		_ = r.Rest.Close()
		r.Rest = nil
	}
	if r.limits == nil {
		return
	}
	if r.unsent > 0 {
		r.limits.unsent.give(r.unsent)
	} else {
		r.limits.sends.give(1)
	}
	r.limits = nil
}

// holdBody reserves memory for a body of so many bytes.
func (r *Response) holdBody(l *limits, n int64) error {
	if !l.unsent.takeBytes(0, n) {
		return errNoRoom
	}
	r.limits, r.unsent = l, n
	return nil
}

// holdSend takes a place among the large answers.
func (r *Response) holdSend(l *limits) error {
	if !l.sends.place() {
		return busy("too many large reads at once")
	}
	r.limits = l
	return nil
}

// errNoRoom says that clients are slow to take what they have been answered.
var errNoRoom = busy("too many answers are waiting for their clients")

func (r *Response) add(name, value string) {
	r.Fields = append(r.Fields, Field{name, value})
}

func (r *Response) addUint(name string, value uint64) {
	r.add(name, strconv.FormatUint(value, 10))
}

// addTrue adds a flag if it is set.
func (r *Response) addTrue(name string, set bool) {
	if set {
		r.add(name, wire.True)
	}
}

func (r *Response) setBody(b []byte) {
	r.Body, r.Length = b, int64(len(b))
}

// Get returns the first value of a field, "" if it is not there. It is for
// adapters and tests that look at an answer, not for speed.
func (r *Response) Get(name string) string {
	for _, f := range r.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// HasBody reports whether the answer to method has a body on the wire.
func (r *Response) HasBody(method string) bool {
	return method != "HEAD" && r.Status != 204 && r.Status != 304
}

// Cache-Control values (§10).
const (
	cacheData  = "public, max-age=60, stale-while-revalidate=300"
	cacheNever = "no-store"
	cacheSSE   = "no-cache, no-transform"

	// Where not everybody may read.
	cacheDataPrivate = "private, max-age=60, stale-while-revalidate=300"
	cacheSSEPrivate  = "private, no-cache, no-transform"
)

// answer starts a response with the fields that every answer has.
func (c *Core) answer(req *Request, status int) *Response {
	r := &Response{Status: status}
	r.Fields = append(r.buf[:0], c.cors.Load().common...)
	c.allowOrigin(r, req)
	return r
}

// etag names the bytes of an answer: the incarnation, the first and the last
// position, and whether the stream ends there (§10.1).
func etag(snap stream.Snapshot, from, to uint64, atEnd bool) string {
	b := make([]byte, 0, 64)
	b = append(b, '"')
	b = strconv.AppendUint(b, uint64(snap.Incarnation), 16)
	b = append(b, ':')
	b = strconv.AppendUint(b, from, 10)
	b = append(b, ':')
	b = strconv.AppendUint(b, to, 10)
	if atEnd {
		b = append(b, ":c"...)
	}
	return string(append(b, '"'))
}
