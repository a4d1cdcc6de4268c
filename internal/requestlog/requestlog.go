// Package requestlog writes a line for each answer, or for slow ones only, and never
// keeps an answer waiting: what the log does not take in time is left out and counted.
//
// A Log may be used by any number of goroutines at once.
package requestlog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"durablestreams/internal/protocol"
)

// queueSize is how many lines may wait for the log.
const queueSize = 4096

// Log writes lines about answers.
type Log struct {
	all   bool
	lines *slog.Logger
	slow  *slog.Logger // limited

	queue   chan protocol.Answer
	dropped atomic.Int64

	end   sync.Once
	ended chan struct{} // the queue takes nothing more
	done  chan struct{} // all lines are written
}

// New begins a log of all answers, or of slow ones only.
func New(logger *slog.Logger, all bool) *Log {
	l := &Log{all: all, lines: logger, slow: protocol.LimitLog(logger),
		queue: make(chan protocol.Answer, queueSize), ended: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// Tell takes an answer. It never waits.
func (l *Log) Tell(a protocol.Answer) {
	if !l.all && !a.Slow {
		return
	}
	select {
	case l.queue <- a:
	default:
		l.dropped.Add(1)
	}
}

// Close writes the lines that wait; what comes later is left out. A log whose reader
// takes nothing holds it up until ctx ends. It is idempotent. A nil Log has no lines.
func (l *Log) Close(ctx context.Context) {
	if l == nil {
		return
	}
	l.end.Do(func() { close(l.ended) })
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}

func (l *Log) run() {
	defer close(l.done)
	for {
		select {
		case a := <-l.queue:
			l.write(a)
		case <-l.ended:
			for {
				select {
				case a := <-l.queue:
					l.write(a)
				default:
					return
				}
			}
		}
	}
}

func (l *Log) write(a protocol.Answer) {
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
	if n := l.dropped.Swap(0); n > 0 {
		attrs = append(attrs, slog.Int64("dropped", n))
	}
	l.lines.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}
