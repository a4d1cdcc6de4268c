package httpapi

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// NewServer gives a server for handler with limits on everything that a peer
// could make last. opt may be nil. The caller sets Addr and TLSConfig.
func NewServer(handler http.Handler, opt *Options) *http.Server {
	o := opt.withDefaults()
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: o.HeaderTimeout,
		// The handler renews it with every write. Set here, it also starts anew
		// with each request of a connection and covers what net/http writes by
		// itself.
		WriteTimeout:   o.StallTimeout,
		IdleTimeout:    o.IdleTimeout,
		MaxHeaderBytes: o.MaxHeaderBytes,
		ErrorLog:       log.New(&errorLog{logger: o.Logger}, "", 0),
		// "OPTIONS *" is the handler's, which names the protocol's headers.
		DisableGeneralOptionsHandler: true,
	}
}

// errorLog passes what net/http reports on to a structured logger, at most
// logBurst lines in logPeriod: broken peers can cause any number of them.
type errorLog struct {
	logger *slog.Logger

	mu      sync.Mutex
	since   time.Time // beginning of the period
	lines   int       // in it
	dropped int       // since the last line that was passed on
}

const (
	logPeriod = 10 * time.Second
	logBurst  = 20
)

func (l *errorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	now := time.Now()
	if now.Sub(l.since) >= logPeriod {
		l.since, l.lines = now, 0
	}
	if l.lines >= logBurst {
		l.dropped++
		l.mu.Unlock()
		return len(p), nil
	}
	dropped := l.dropped
	l.lines, l.dropped = l.lines+1, 0
	l.mu.Unlock()
	l.logger.LogAttrs(context.Background(), slog.LevelWarn, "http server",
		slog.String("message", string(bytes.TrimSpace(p))), slog.Int("dropped", dropped))
	return len(p), nil
}
