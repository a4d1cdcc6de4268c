package protocol

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LimitLog gives a logger for what clients can cause, at most logBurst lines in
// logPeriod: what is left out is counted in the next line. An adapter uses one
// for everything that it logs about requests.
func LimitLog(l *slog.Logger) *slog.Logger {
	return slog.New(&limitedHandler{Handler: l.Handler(), limit: &logLimit{}})
}

const (
	logPeriod = 10 * time.Second
	logBurst  = 20
)

// limitedHandler passes on what its limit allows. Handlers made of it share that.
type limitedHandler struct {
	slog.Handler
	limit *logLimit
}

// logLimit counts lines.
type logLimit struct {
	mu      sync.Mutex
	since   time.Time // beginning of the period
	lines   int       // in it
	dropped int       // since the last line that was passed on
}

// take reports whether a line may pass, and how many did not before it.
func (l *logLimit) take(now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= logPeriod {
		l.since, l.lines = now, 0
	}
	if l.lines >= logBurst {
		l.dropped++
		return 0, false
	}
	l.lines++
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}

// Handle implements slog.Handler.
func (h *limitedHandler) Handle(ctx context.Context, r slog.Record) error {
	dropped, ok := h.limit.take(time.Now())
	if !ok {
		return nil
	}
	if dropped > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("dropped", dropped))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *limitedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitedHandler{h.Handler.WithAttrs(attrs), h.limit}
}

// WithGroup implements slog.Handler.
func (h *limitedHandler) WithGroup(name string) slog.Handler {
	return &limitedHandler{h.Handler.WithGroup(name), h.limit}
}
