package durablestreams

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
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

// connectionLimit bounds the connections that an http.Server has. Connections
// beyond are told so and closed, a few at a time.
type connectionLimit struct {
	net.Listener
	max int64
	log *slog.Logger

	open     atomic.Int64
	refusing atomic.Int64
	refused  atomic.Int64 // since the last line in the log
	nextLog  time.Time    // only Accept uses it
}

const (
	maxRefusing   = 16 // connections being refused at once; beyond that they are just closed
	refusalTime   = time.Second
	refusalPeriod = 10 * time.Second // between lines in the log
)

const refusalBody = `{"error":{"code":"busy","message":"the server has no room for more connections"}}` + "\n"

// refusal is a whole answer to whatever the client asks.
var refusal = []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n" +
	"Retry-After: 1\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(refusalBody)) + "\r\n\r\n" + refusalBody)

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
		if err != nil || l.open.Load() < l.max {
			return c, err
		}
		l.report()
		if l.refusing.Add(1) > maxRefusing {
			l.refusing.Add(-1)
			_ = c.Close()
			continue
		}
		go l.refuse(c)
	}
}

// report logs that connections are refused, now and then.
func (l *connectionLimit) report() {
	n := l.refused.Add(1)
	now := time.Now()
	if now.Before(l.nextLog) {
		return
	}
	l.nextLog = now.Add(refusalPeriod)
	l.refused.Store(0)
	l.log.LogAttrs(context.Background(), slog.LevelWarn, "connections refused: the limit is reached",
		slog.Int64("limit", l.max), slog.Int64("refused", n))
}

// refuse answers and then reads what the client has sent, so that closing does
// not take the answer away from it.
func (l *connectionLimit) refuse(c net.Conn) {
	defer l.refusing.Add(-1)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(refusalTime))
	if _, err := c.Write(refusal); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, 64<<10)
}
