package durablestreams

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"durablestreams/httpapi"
	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// Limits that follow from the number of files the process may have open.
const (
	fileReserve    = 512     // kept free for the data directory; half of the limit if that is less
	maxConnections = 1 << 20 // where the system has no limit
)

// defaultConnections leaves the data directory what it needs: running out of
// descriptors there would stop the server, and out here only a newcomer.
func defaultConnections() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fileReserve
	}
	n := min(uint64(files.Cur), maxConnections)
	return max(int(n-min(n/2, fileReserve)), 1)
}

// defaultSends is how many large answers may use the reserve at once.
func defaultSends() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fileReserve / 4
	}
	return max(int(min(files.Cur/2, fileReserve)/4), 1)
}

// defaultRefusing is how many connections may be refused at once: an eighth of the
// reserve, of which the archive has half.
func defaultRefusing() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fileReserve / 8
	}
	return max(int(min(files.Cur/2, fileReserve)/8), 1)
}

// connectionLimit bounds the connections that an http.Server has. Connections
// beyond are told so and closed, some at a time.
type connectionLimit struct {
	net.Listener
	max     int64
	refusal []byte        // a whole answer to whatever the client asks
	places  chan struct{} // one for each connection that is being refused
	tls     *tls.Config   // nil: in the clear
	log     *slog.Logger

	open    atomic.Int64
	turned  atomic.Uint64 // away, of all times
	refused int64         // since the last line in the log; only Accept uses it
	nextLog time.Time     // likewise
}

const (
	refusalTime   = time.Second            // for a connection that is being refused
	refusalWait   = 100 * time.Millisecond // for a place to do so
	refusalPeriod = 10 * time.Second       // between lines in the log
)

func (s *Server) limit(ln net.Listener) *connectionLimit {
	res := s.core.RefuseUnheard(&stream.Error{Kind: stream.Busy, Message: "the server has no room for more connections"})
	l := &connectionLimit{Listener: ln, max: int64(s.opts.MaxConnections), refusal: refusalOf(res),
		places: make(chan struct{}, defaultRefusing()), log: s.opts.Logger}
	if s.cert != nil {
		l.tls = &tls.Config{GetCertificate: s.cert.get, NextProtos: []string{"http/1.1"}}
	}
	return l
}

// refusalOf gives an answer as it goes over the wire, less the date.
func refusalOf(res *protocol.Response) []byte {
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n", res.Status, http.StatusText(res.Status))
	for _, f := range res.Fields {
		b = fmt.Appendf(b, "%s: %s\r\n", f.Name, f.Value)
	}
	b = fmt.Appendf(b, "Content-Length: %d\r\nConnection: close\r\n\r\n", len(res.Body))
	return append(b, res.Body...)
}

// track is the http.Server's ConnState hook. StateNew comes from the goroutine
// that calls Accept, so Accept never counts wrong.
func (l *connectionLimit) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		l.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		l.open.Add(-1)
	}
}

// Accept gives the next connection for which there is room.
func (l *connectionLimit) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Load() < l.max {
			httpapi.LimitUnsent(c)
			return c, nil
		}
		l.report()
		if l.place() {
			go l.refuse(c)
			continue
		}
		// Without a place there is no time to listen, and what the client has sent
		// may take the answer away from it.
		if l.tls == nil {
			_ = c.SetWriteDeadline(time.Now().Add(refusalWait))
			_, _ = c.Write(l.refusal)
		}
		_ = c.Close()
	}
}

// place waits for a place for a moment: nobody who comes after gets in either, and
// the system keeps those.
func (l *connectionLimit) place() bool {
	select {
	case l.places <- struct{}{}:
		return true
	default:
	}
	wait := time.NewTimer(refusalWait)
	defer wait.Stop()
	select {
	case l.places <- struct{}{}:
		return true
	case <-wait.C:
		return false
	}
}

// report logs that connections are refused, now and then.
func (l *connectionLimit) report() {
	l.refused++
	l.turned.Add(1)
	now := time.Now()
	if now.Before(l.nextLog) {
		return
	}
	l.nextLog = now.Add(refusalPeriod)
	l.log.LogAttrs(context.Background(), slog.LevelWarn, "connections refused: the limit is reached",
		slog.Int64("limit", l.max), slog.Int64("refused", l.refused))
	l.refused = 0
}

// refuse answers and then reads what the client has sent, so that closing does
// not take the answer away from it.
func (l *connectionLimit) refuse(c net.Conn) {
	defer func() { <-l.places }()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(refusalTime))
	if l.tls != nil {
		c = tls.Server(c, l.tls)
		// Clients do not expect an answer between the handshake and their request.
		if _, err := c.Read(make([]byte, 4<<10)); err != nil {
			return
		}
	}
	if _, err := c.Write(l.refusal); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, 64<<10)
}
