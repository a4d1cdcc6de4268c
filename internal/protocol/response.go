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

	// Rest gives the remainder. Whoever takes the Response closes it. If it
	// fails, the answer must be cut, not ended.
	Rest stream.Blocks

	buf [16]Field
}

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
)

// answer starts a response with the fields that every answer has.
func (c *Core) answer(req *Request, status int) *Response {
	r := &Response{Status: status}
	r.Fields = append(r.buf[:0], c.common...)
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
