package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// live is what one stream's writer and its subscribers share. The writer has a thread
// of its own, so that its latency is the server's and not that of reading for all the
// subscribers; the clock is one.
type live struct {
	bed    *bed
	kind   string
	format *format
	pool   *pool
	writer *liveWriter
	all    []*subscriber
	ready  atomic.Int64 // subscribers whose answer has begun

	// Of the writer's thread while the run lasts.
	started []int64 // for each append, from when its latency counts
	acked   []int64 // and when its answer was complete; 0 if not
	begin   mark    // around the measured time
	end     mark
	err     error

	tally *tally // of the subscribers' thread
}

// mark is what server and generator had used at a moment.
type mark struct {
	at     int64
	server snapshot
	own    usage
}

func (l *live) mark() mark {
	m := mark{at: l.pool.now(), own: processUsage()}
	var err error
	if m.server, err = l.bed.observe(); err != nil {
		l.err = err
	}
	return m
}

// liveWriter appends by schedule once all subscribers are there, and ends the run once
// they have everything.
type liveWriter struct {
	appendTask
	live     *live
	idle     bool // no append until the measured time is over, then one
	stage    stage
	deadline int64
}

type stage uint8

const (
	gathering stage = iota
	settling
	measuring
	draining
)

const (
	gatherPatience = 60 * time.Second
	settleTime     = 500 * time.Millisecond
	lookAgain      = 5 * time.Millisecond
)

func (w *liveWriter) next(now int64, buf []byte) ([]byte, move) {
	l := w.live
	if w.deadline == 0 {
		w.deadline = now + int64(gatherPatience)
	}
	switch w.stage {
	case gathering:
		if ready := int(l.ready.Load()); ready == len(l.all) {
			w.stage, w.deadline = settling, now+int64(min(settleTime, l.bed.opts.Timeout/4))
		} else if now > w.deadline {
			return w.giveUp(buf, fmt.Errorf("%d of %d subscribers got an answer in %v", ready, len(l.all), gatherPatience))
		}
	case settling:
		if now >= w.deadline {
			w.start(now)
		}
	case measuring:
		if out, m := w.write(now, buf); m.kind != stop {
			return out, m
		}
		w.stage, w.deadline = draining, now+int64(l.bed.opts.Timeout)
	case draining:
		if l.complete() || now > w.deadline {
			if !w.idle {
				l.end = l.mark()
			}
			l.pool.quit.Store(true)
			return buf, move{kind: stop}
		}
	}
	return buf, move{kind: wait, due: now + int64(lookAgain)}
}

// start begins the measured time.
func (w *liveWriter) start(now int64) {
	w.stage = measuring
	w.live.begin = w.live.mark()
	opts := &w.live.bed.opts
	ph := &phase{start: now, end: now + int64(opts.Duration), limit: opts.Requests, interval: float64(time.Second) / opts.Rate}
	if w.idle { // one append, at the end
		ph.start, ph.end, ph.limit, ph.interval = ph.end, never, 1, float64(time.Second)
	}
	w.pace.enter(ph)
}

// write makes the next append and takes note of its time.
func (w *liveWriter) write(now int64, buf []byte) ([]byte, move) {
	first := w.attempts == 0
	out, m := w.appendTask.next(now, buf)
	if m.kind == send && first {
		if w.idle {
			w.live.end = w.live.mark()
		}
		w.live.started = append(w.live.started, w.appendTask.start)
		w.live.acked = append(w.live.acked, 0)
	}
	return out, m
}

func (w *liveWriter) done(now int64, r *response) {
	seq := w.ledger.sent - 1
	w.appendTask.done(now, r)
	if w.run.good(r.status) {
		w.live.acked[seq] = now
	}
}

func (w *liveWriter) giveUp(buf []byte, err error) ([]byte, move) {
	w.live.err = err
	w.live.pool.quit.Store(true)
	return buf, move{kind: stop}
}

// complete tells whether every subscriber has every acknowledged append, or has shown
// that it never will.
func (l *live) complete() bool {
	want := l.writer.ledger.sent
	for want > 0 && l.writer.ledger.outcome(want-1) != acknowledged {
		want--
	}
	for _, s := range l.all {
		if s.progress.Load() < want {
			return false
		}
	}
	return true
}

// newLive makes the tasks of a live scenario.
func (b *bed) newLive(kind string, longPoll, idle bool) (*live, [][]task) {
	l := &live{bed: b, kind: kind, format: newFormat(b.run, b.opts.Size, true), tally: &tally{}}
	lay := layout{conns: 1, streams: 1}
	l.writer = &liveWriter{live: l, idle: idle, appendTask: appendTask{
		run: newAppendRun(b, kind, l.format, lay, b.opts.Producers), tally: &tally{}, ledger: &ledger{},
		pace: pace{conns: 1},
	}}
	var tasks []task
	most := int64(b.opts.Rate*b.opts.Duration.Seconds()) + 1
	for range b.opts.Subscribers {
		s := &subscriber{live: l, longPoll: longPoll, scan: scan{format: l.format}}
		s.check = check{layout: lay, ledgers: []ledger{{sent: most}}, total: &Verification{}} // the writer's at the end
		s.check.begin(0)
		s.offset = append(s.offset, "-1"...)
		l.all = append(l.all, s)
		tasks = append(tasks, s)
	}
	return l, [][]task{{l.writer}, tasks}
}

// runFanout: one writer, many SSE subscribers.
func runFanout(ctx context.Context, b *bed) ([]Result, error) {
	return b.runLive(ctx, "fanout", false, false)
}

// runLongPoll: one writer, many readers that long-poll.
func runLongPoll(ctx context.Context, b *bed) ([]Result, error) {
	return b.runLive(ctx, "longpoll", true, false)
}

// runIdle: many SSE subscribers to whom nothing happens, until at the end one append
// shows that they were all alive.
func runIdle(ctx context.Context, b *bed) ([]Result, error) {
	return b.runLive(ctx, "idle", false, true)
}

func (b *bed) runLive(ctx context.Context, kind string, longPoll, idle bool) ([]Result, error) {
	l, groups := b.newLive(kind, longPoll, idle)
	if err := b.create(ctx, kind, 1, l.format.contentType()); err != nil {
		return nil, err
	}
	var disk Disk
	if err := b.probe(&disk.Before); err != nil {
		return nil, err
	}
	empty, err := b.observe()
	if err != nil {
		return nil, err
	}
	l.pool = newPool(b.addr, &b.opts, b.clock, groups)
	defer l.pool.close()
	if err := l.pool.connect(ctx); err != nil {
		return nil, err
	}
	if _, err := l.pool.run(ctx); err != nil {
		return nil, err
	}
	if l.err != nil {
		return nil, l.err
	}
	if err := b.probe(&disk.After); err != nil {
		return nil, err
	}
	res := l.result(empty, idle)
	if b.opts.SyncDir != "" {
		res.Disk = &disk
	}
	back, err := b.readBack(ctx, &source{kind: kind, count: 1, format: l.format, layout: layout{1, 1}, ledgers: []ledger{*l.writer.ledger}})
	if err != nil {
		return nil, err
	}
	res.Verify.add(back)
	return []Result{res}, b.remove(ctx, kind, 1)
}
