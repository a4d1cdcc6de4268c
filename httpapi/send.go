package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// writeSize is how much is written under one deadline.
const writeSize = 32 << 10

// send writes an answer, or the head of an SSE answer. It does not return if the
// answer cannot be completed: the connection is cut, so that a client never
// takes a part for the whole.
func (x *exchange) send(res *protocol.Response) {
	defer res.Close()
	x.hurry()
	x.limitDrain()
	if res.Last {
		x.closes()
	}
	x.meter.Answered(&x.req, res, time.Since(x.came), x)
	header := x.w.Header()
	values := make([]string, len(res.Fields)+1)
	for i, f := range res.Fields {
		values[i] = f.Value
		header[f.Name] = values[i : i+1 : i+1]
	}
	body := res.HasBody(x.r.Method)
	if body && res.Length >= 0 {
		n := len(res.Fields)
		values[n] = strconv.FormatInt(res.Length, 10)
		header["Content-Length"] = values[n : n+1 : n+1]
	}
	x.sent = true
	x.w.WriteHeader(res.Status)
	if !body {
		return
	}
	x.writeBody(res.Body)
	for res.Rest != nil {
		block, err := res.Rest.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			x.logCut(err)
			panic(http.ErrAbortHandler)
		}
		if d := x.core.Pause(len(block)); d > 0 {
			<-time.After(d)
		}
		x.writeBody(block)
	}
}

// writeBody writes b piece by piece, each under a new deadline: a slow reader
// gets everything, a stuck one is dropped.
func (x *exchange) writeBody(b []byte) {
	for len(b) > 0 {
		n := min(len(b), writeSize)
		x.hurry()
		if _, err := x.w.Write(b[:n]); err != nil {
			panic(http.ErrAbortHandler)
		}
		b = b[n:]
	}
}

// hurry gives the connection StallTimeout for what is written next. A
// ResponseWriter without deadlines keeps its own.
func (x *exchange) hurry() {
	_ = x.rc.SetWriteDeadline(time.Now().Add(x.opt.StallTimeout))
}

// unhurried takes the deadline away where it would end an answer that merely
// waits: HTTP/2 applies it to the stream as a whole.
func (x *exchange) unhurried() {
	if x.r.ProtoMajor >= 2 {
		_ = x.rc.SetWriteDeadline(time.Time{})
	}
}

// limitDrain bounds how long net/http waits for a body that was not wanted: it
// reads some of it before the connection goes on or is closed.
func (x *exchange) limitDrain() {
	if x.r.ContentLength == 0 || x.drained {
		return
	}
	wait := x.opt.StallTimeout
	if !x.reading && len(x.r.Header["Expect"]) > 0 {
		wait = 0 // without a 100 the body never comes
	}
	_ = x.rc.SetReadDeadline(time.Now().Add(wait))
}

// logCut tells why an answer that had begun was cut, unless its stream was
// deleted.
func (x *exchange) logCut(err error) {
	if errors.Is(err, stream.NotFound) || errors.Is(err, stream.Gone) {
		return
	}
	x.opt.Logger.LogAttrs(context.Background(), slog.LevelError, "answer cut: the rest cannot be read",
		slog.String("path", protocol.LogPath(x.req.Path)), slog.Any("error", err))
}
