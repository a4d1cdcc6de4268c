package protocol

import (
	"slices"
	"strings"
)

const allowedMethods = "GET, HEAD, PUT, POST, DELETE, OPTIONS"

// exposedHeaders is what a page of another origin may read of an answer.
const exposedHeaders = "Stream-Next-Offset, Stream-Up-To-Date, Stream-Closed, Stream-Cursor, Stream-TTL, Stream-Expires-At, " +
	"Stream-SSE-Data-Encoding, Producer-Epoch, Producer-Seq, Producer-Expected-Seq, Producer-Received-Seq, " +
	"ETag, Location, Retry-After, WWW-Authenticate, Content-Type, Content-Length, Content-Encoding, Cache-Control, Date, Vary, Allow"

// acceptedHeaders is what such a page may send. "*" would not cover
// Authorization, and not every browser knows it.
const acceptedHeaders = "Content-Type, Authorization, If-None-Match, Last-Event-ID, Accept, Cache-Control, Pragma, " +
	"Stream-TTL, Stream-Expires-At, Stream-Seq, Stream-Closed, Stream-Cursor, Stream-Forked-From, Stream-Fork-Offset, " +
	"Stream-Fork-Sub-Offset, Producer-Id, Producer-Epoch, Producer-Seq, X-Requested-With, traceparent, tracestate, baggage"

// preflightMaxAge is how long a browser may keep the answer to a preflight, in
// seconds.
const preflightMaxAge = "86400"

// corsPolicy says who may use the server from a page.
type corsPolicy struct {
	allowed []string // nil: all
	common  []Field  // of every answer, whatever the request (§12.7)
}

// AllowOrigins replaces Options.AllowedOrigins while requests are served.
func (c *Core) AllowOrigins(allowed []string) {
	p := &corsPolicy{allowed: slices.Clone(allowed), common: []Field{
		{"X-Content-Type-Options", "nosniff"},
		{"Cross-Origin-Resource-Policy", "cross-origin"},
		{"Access-Control-Expose-Headers", exposedHeaders},
	}}
	if allowed == nil {
		p.common = append(p.common, Field{"Access-Control-Allow-Origin", "*"})
	}
	if fields := c.varies(allowed); fields != "" {
		p.common = append(p.common, Field{"Vary", fields})
	}
	c.cors.Store(p)
}

// allowOrigin names the request's origin if it is on the allow-list.
func (c *Core) allowOrigin(r *Response, req *Request) {
	allowed := c.cors.Load().allowed
	if allowed == nil {
		return
	}
	origin := req.Header.Values("Origin")
	if len(origin) == 1 && slices.ContainsFunc(allowed, func(o string) bool { return strings.EqualFold(o, origin[0]) }) {
		r.add("Access-Control-Allow-Origin", origin[0])
	}
}

// preflight answers OPTIONS, on any path.
func (c *Core) preflight(req *Request) *Response {
	r := c.answer(req, 204)
	allow := c.allow(req)
	r.add("Allow", allow)
	r.add("Access-Control-Allow-Methods", allow)
	r.add("Access-Control-Allow-Headers", acceptedHeaders)
	r.add("Access-Control-Max-Age", preflightMaxAge)
	r.add("Cache-Control", cacheNever)
	return r
}
