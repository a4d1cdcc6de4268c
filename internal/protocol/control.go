package protocol

import (
	"slices"
	"strings"

	"durablestreams/stream"
)

// Control answers requests below the reserved first segment, which are about the
// server and not about one stream (§6). Which endpoints there are and what they do
// is its own; methods, caching, CORS and the size of bodies are the core's.
type Control interface {
	// Methods lists the methods of the endpoint at a path, HEAD with GET; none if
	// there is no endpoint. The path is what follows the reserved segment and its
	// slash, as sent.
	Methods(path string) []string

	// Needs gives the right that a caller needs for the endpoint at a path, and on
	// what; none if it decides by itself. It is asked if there is access control.
	Needs(path string) (right stream.Right, of stream.Path)

	// Serve answers a request with one of those methods, and HEAD as GET. It may wait
	// for the disk. An error is answered as that of a stream would be.
	Serve(r *ControlRequest) (ControlAnswer, error)
}

// ControlRequest is a request for an endpoint, with its whole body.
type ControlRequest struct {
	Method string
	Path   string // behind the reserved segment, as sent
	Root   string // absolute URL of all streams as the client sees it, without a slash at the end; "" if it named no host
	Header Header
	Body   []byte // nil unless the method is PUT or POST
	Caller Caller // who needs a right; nil: nobody needs any
}

// ControlAnswer is what an endpoint says.
type ControlAnswer struct {
	Status int
	Type   string // of Body
	Cache  string // Cache-Control; "": nobody may keep it
	Body   []byte // nil: none
}

// maxControlBody bounds the body of a control request, if [Options.MaxBody] does
// not: the acks of the 1,000 streams that a wake may name fit in.
const maxControlBody = 2 << 20

// Controls reports whether a path, as sent, belongs to the control API. Its requests
// may wait for long and have to be answered where that harms nobody.
func (c *Core) Controls(path string) bool {
	return c.opt.Control != nil && strings.HasPrefix(path, c.controlRoot)
}

// endpoint gives the methods of the endpoint at a path, none if there is none.
func (c *Core) endpoint(path string) []string {
	if !c.Controls(path) {
		return nil
	}
	return c.opt.Control.Methods(path[len(c.controlRoot):])
}

// beginControl is Begin for an endpoint with these methods.
func (c *Core) beginControl(req *Request, methods []string) (*Op, *Response) {
	req.kind = ControlKind
	switch {
	case req.Method == "OPTIONS":
		return nil, c.preflight(req)
	case !slices.Contains(methods, req.Method):
		return nil, c.Refuse(req, refuseMethod(req.Method))
	}
	o := &Op{core: c, req: req, mode: ControlMode}
	if err := o.admitControl(req.Path[len(c.controlRoot):]); err != nil {
		return nil, c.Refuse(req, err)
	}
	if o.WantsBody() && req.ContentLength > o.MaxBody() {
		return nil, c.Refuse(req, c.TooLarge())
	}
	return o, nil
}

// refuseMethod tells a method that could be another endpoint's from one that
// nobody here knows.
func refuseMethod(method string) error {
	switch method {
	case "GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "TRACE", "CONNECT":
		return refuse(methodNotAllowed, "there is no such method here")
	}
	return refuse(methodUnknown, "this server knows no such method")
}

// allow lists the methods that a path has.
func (c *Core) allow(req *Request) string {
	if methods := c.endpoint(req.Path); len(methods) > 0 {
		return strings.Join(methods, ", ") + ", OPTIONS"
	}
	return allowedMethods
}

// Serve answers a control request. It may wait for the disk.
func (o *Op) Serve(body []byte) *Response {
	c, req := o.core, o.req
	r := &ControlRequest{Method: req.Method, Path: req.Path[len(c.controlRoot):], Header: req.Header, Body: body, Caller: o.caller}
	if r.Method == "HEAD" {
		r.Method = "GET"
	}
	if origin := c.origin(req); origin != "" {
		r.Root = origin + strings.TrimSuffix(c.root, "/")
	}
	shows := r.Method == "GET" // lists what lies on the disk; a change waits for its sync only
	if shows {
		if err := c.limits.reads.enter(); err != nil {
			return c.Refuse(req, err)
		}
		defer c.limits.reads.leave()
	}
	answer, err := c.opt.Control.Serve(r)
	if err != nil {
		return c.Refuse(req, err)
	}
	res := c.answer(req, answer.Status)
	if err := res.holdControl(&c.limits, r.Method, int64(len(answer.Body))); err != nil {
		return c.Refuse(req, err)
	}
	if answer.Body != nil {
		res.add("Content-Type", answer.Type)
	}
	if answer.Cache == "" {
		answer.Cache = cacheNever
	}
	res.add("Cache-Control", answer.Cache)
	if answer.Status == 401 {
		res.add("WWW-Authenticate", "Bearer") // RFC 9110 §15.5.2
	}
	res.setBody(answer.Body)
	return res
}

// holdControl reserves memory for the body of an answer. What has been done is told
// in any case.
func (r *Response) holdControl(l *limits, method string, n int64) error {
	switch {
	case n == 0:
		return nil
	case method == "GET":
		return r.holdBody(l, n)
	}
	l.unsent.used.Add(n)
	r.limits, r.unsent = l, n
	return nil
}

// controlSegment is the path of the control API below that of all streams.
const controlSegment = stream.ControlSegment + "/"
