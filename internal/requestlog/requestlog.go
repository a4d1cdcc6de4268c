// Package requestlog writes a line for each answer, or for slow ones only, and never
// keeps an answer waiting: what the log does not take in time is left out and counted.
//
// A Log may be used by any number of goroutines at once.
package requestlog

import (
	"context"
	"log/slog"

	"durablestreams/internal/protocol"
)

// Log writes lines about answers.
type Log struct {
	all    bool
	lines  *slog.Logger
	slow   *slog.Logger // limited
	teller *protocol.Teller
}

// New begins a log of all answers, or of slow ones only.
func New(logger *slog.Logger, all bool) *Log {
	l := &Log{all: all, lines: logger, slow: protocol.LimitLog(logger)}
	l.teller = protocol.NewTeller(l.write)
	return l
}

// Tell takes an answer. It never waits.
func (l *Log) Tell(a protocol.Answer) {
	if l.all || a.Slow {
		l.teller.Tell(a)
	}
}

// Close writes the lines that wait; what comes later is left out. A log whose reader
// takes nothing holds it up until ctx ends. It is idempotent. A nil Log has no lines.
func (l *Log) Close(ctx context.Context) {
	if l != nil {
		l.teller.Close(ctx)
	}
}

func (l *Log) write(a protocol.Answer, dropped int64) {
	attrs := make([]slog.Attr, 0, 11)
	attrs = append(attrs, slog.String("id", a.ID), slog.String("client", a.Client), slog.String("method", a.Method), slog.String("path", a.Path),
		slog.String("kind", a.Kind.String()), slog.Int("status", a.Status))
	if a.Code != "" {
		attrs = append(attrs, slog.String("code", string(a.Code)))
	}
	if a.Bytes > 0 {
		attrs = append(attrs, slog.Int64("bytes", a.Bytes))
	}
	attrs = append(attrs, slog.Float64("ms", float64(a.Took.Microseconds())/1000))
	if a.Slow {
		l.slow.LogAttrs(context.Background(), slog.LevelWarn, "slow request", attrs...)
	}
	if !l.all {
		return
	}
	if dropped > 0 {
		attrs = append(attrs, slog.Int64("dropped", dropped))
	}
	l.lines.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}
