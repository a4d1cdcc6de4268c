package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"durablestreams/internal/protocol"
)

// Handler serves every path: streams below the core's root, refusals elsewhere.
// opt may be nil.
func Handler(core *protocol.Core, opt *Options) http.Handler { return newHandler(core, opt) }

func newHandler(core *protocol.Core, opt *Options) *handler {
	h := &handler{core: core, opt: opt.withDefaults(), meter: core.NewMeter()}
	h.opt.Logger = protocol.LimitLog(h.opt.Logger)
	return h
}

// Refusal gives a handler that answers every request with err.
func Refusal(core *protocol.Core, opt *Options, err error) http.Handler {
	h := newHandler(core, opt)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := h.exchange(w, r)
		defer x.recover()
		x.closes()
		x.send(core.Refuse(&x.req, err))
	})
}

type handler struct {
	core  *protocol.Core
	opt   Options
	meter *protocol.Meter
}

// exchange is one request and its answer.
type exchange struct {
	*handler
	w       http.ResponseWriter
	r       *http.Request
	rc      *http.ResponseController
	req     protocol.Request
	came    time.Time
	reading bool // the body was asked for
	drained bool // and read to its end
	sent    bool // the head of the answer is on its way

	reserved int64 // memory of the body, see protocol.Core.Reserve
}

func (h *handler) exchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{handler: h, w: w, r: r, rc: http.NewResponseController(w), came: time.Now()}
	path, query := target(r)
	x.req = protocol.Request{Method: r.Method, Path: path, Query: query, Host: r.Host, Secure: r.TLS != nil,
		Header: fields(r.Header), ContentLength: r.ContentLength, Proxied: h.core.Proxied(func() string { return r.RemoteAddr })}
	return x
}

// Peer implements protocol.Peer.
func (x *exchange) Peer() string { return x.r.RemoteAddr }

// fields gives core the header without a copy.
type fields http.Header

func (f fields) Values(name string) []string { return f[name] }

// ServeHTTP answers one request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.exchange(w, r)
	defer x.recover()
	if len(r.TransferEncoding) > 0 {
		// net/http drops a Content-Length that came along with a
		// Transfer-Encoding, so an attempt to smuggle a second request past a
		// proxy cannot be told from an honest chunked body any more. Closing
		// after the answer makes it harmless (RFC 9112 §6.3).
		x.closes()
	}
	x.unhurried()
	if tooMany(r.Header) {
		x.closes()
		x.send(h.core.Refuse(&x.req, h.core.TooManyFields()))
		return
	}
	op, res := h.core.Begin(&x.req)
	if op == nil {
		x.send(res)
		return
	}
	switch op.Mode() {
	case protocol.Write:
		x.write(op)
	case protocol.Read:
		x.send(op.Read())
	case protocol.Live:
		x.live(op)
	case protocol.ControlMode:
		x.control(op)
	}
}

// tooMany counts the fields of a head.
func tooMany(h http.Header) bool {
	n := 0
	for _, values := range h {
		n += len(values)
	}
	return n > protocol.MaxFields
}

// target gives path and query as they stand in the request line, which may hold
// a whole URL (RFC 9112 §3.2.2).
func target(r *http.Request) (path, query string) {
	uri := r.RequestURI
	if uri == "" { // not from a server of net/http
		return r.URL.EscapedPath(), r.URL.RawQuery
	}
	if uri[0] != '/' {
		if _, rest, ok := strings.Cut(uri, "://"); ok {
			uri = "/"
			if i := strings.IndexAny(rest, "/?"); i >= 0 {
				uri = rest[i:]
			}
		}
	}
	path, query, _ = strings.Cut(uri, "?")
	return path, query
}

// write reads the body, if it counts, and waits until the store is done. It
// waits even if the client has gone: the write is under way.
func (x *exchange) write(op *protocol.Op) {
	defer x.release() // also if a panic comes
	body, ok := x.body(op)
	if !ok {
		return
	}
	done := make(chan struct{})
	op.Submit(body, func() { close(done) })
	x.release() // the store has taken what it needs
	<-done
	x.send(op.Response())
}

// control answers a control request. Like write it does not ask whether the client
// is still there: the change is under way.
func (x *exchange) control(op *protocol.Op) {
	defer x.release()
	if body, ok := x.body(op); ok {
		x.send(op.Serve(body))
	}
}

// body reads the body, if it counts. If that fails the client is told, and ok is
// false.
func (x *exchange) body(op *protocol.Op) (body []byte, ok bool) {
	if !op.WantsBody() {
		return nil, true
	}
	began := time.Now()
	body, err := x.readBody(op.MaxBody())
	x.req.BodyTook = time.Since(began)
	if err != nil {
		x.closes()
		x.send(x.core.Refuse(&x.req, err))
		return nil, false
	}
	return body, true
}

// closes lets the connection end with this answer. HTTP/2 ends the request alone:
// there the field would send the other requests of the connection away.
func (x *exchange) closes() {
	if x.r.ProtoMajor == 1 {
		x.w.Header().Set("Connection", "close")
	}
}

// recover keeps a panic from taking the process down. An answer that has begun
// is cut; otherwise the client gets a 500. Without a panic there was an answer:
// net/http would make up an empty 200 for who has none, and the client might
// still be reading, having ended only its own side.
func (x *exchange) recover() {
	v := recover()
	switch {
	case v == nil && x.sent:
		return
	case v == nil:
		panic(http.ErrAbortHandler)
	case v == http.ErrAbortHandler:
		panic(v)
	}
	err := panicError{value: v, stack: debug.Stack()}
	if x.sent {
		x.opt.Logger.LogAttrs(context.Background(), slog.LevelError, "panic in the middle of an answer",
			slog.String("method", x.req.Method), slog.String("path", protocol.LogPath(x.req.Path)), slog.Any("error", err))
		panic(http.ErrAbortHandler)
	}
	x.closes()
	x.send(x.core.Refuse(&x.req, err)) // which logs it
}

// panicError is a panic as the log sees it.
type panicError struct {
	value any
	stack []byte
}

func (e panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// LogValue adds the stack.
func (e panicError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("panic", fmt.Sprint(e.value)), slog.String("stack", string(e.stack)))
}

// live steps a feed until it ends or the client goes.
func (x *exchange) live(op *protocol.Op) {
	wake := make(chan struct{}, 1)
	feed := op.Open(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer feed.Close()
	var timer *time.Timer
	draining := x.core.Draining()
	for {
		act, err := feed.Step(time.Now())
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		x.act(act)
		if act.Done {
			return
		}
		if act.Wait.IsZero() {
			continue
		}
		x.unhurried()
		if timer == nil {
			timer = time.NewTimer(time.Until(act.Wait))
			defer timer.Stop()
		} else {
			timer.Reset(time.Until(act.Wait))
		}
		select {
		case <-wake:
		case <-timer.C:
		case <-draining:
			draining = nil // the next step tells when to end
		case <-x.r.Context().Done():
			return // recover cuts what has no answer yet
		}
	}
}

// act sends what a step gave, in one packet if it fits.
func (x *exchange) act(act protocol.Action) {
	if act.Response != nil {
		x.send(act.Response)
		if act.Response.Length >= 0 {
			return
		}
	}
	if act.Response == nil && len(act.Frame) == 0 {
		return
	}
	x.writeBody(act.Frame)
	if err := x.rc.Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}
}
