package bench

import (
	"context"
	"errors"
	"time"
)

// runMixed is the scenario of that name: what writers lose when others read a large
// stream as fast as they can. The writers are measured alone, with the readers and
// alone again, so that a machine that drifts is found out. Readers have threads of
// their own.
func runMixed(ctx context.Context, b *bed) ([]Result, error) {
	const kind = "mixed"
	a, err := b.fillArchive(ctx, "mixed-read")
	if err != nil {
		return nil, err
	}
	f := newFormat(b.run, b.opts.Size, b.opts.JSON)
	l := layout{conns: b.opts.Connections, streams: b.opts.Streams}
	if err := b.create(ctx, kind, l.streams, f.contentType()); err != nil {
		return nil, err
	}
	ledgers := make([]ledger, l.conns)
	w, err := b.newWriters(ctx, "writes alone", "appends", newAppendRun(b, kind, f, l, b.opts.Producers), ledgers)
	if err != nil {
		return nil, err
	}
	defer w.pool.close()
	r, err := b.readers(ctx, "reads", a, b.opts.Subscribers)
	if err != nil {
		return nil, err
	}
	defer r.pool.close()
	results, err := b.mix(ctx, w, r, a.flowing)
	if err != nil {
		return nil, err
	}
	last := &results[len(results)-1]
	last.Verify, err = b.readBack(ctx, &source{kind: kind, count: l.streams, format: f, layout: l, ledgers: ledgers})
	if err != nil {
		return nil, err
	}
	archived, err := b.readBack(ctx, a.source)
	if err != nil {
		return nil, err
	}
	last.Verify.add(archived)
	if err := b.remove(ctx, "mixed-read", 1); err != nil {
		return nil, err
	}
	return results, b.remove(ctx, kind, l.streams)
}

// mix measures the three phases. The reads are a result of their own.
func (b *bed) mix(ctx context.Context, w, r *measured, flowing <-chan struct{}) ([]Result, error) {
	alone, err := b.measure(ctx, w)
	if err != nil {
		return nil, err
	}
	w.name = "writes with readers"
	var reads Result
	var readErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		reads, readErr = b.background(ctx, r)
	}()
	late := time.NewTimer(b.opts.Timeout)
	defer late.Stop()
	select {
	case <-flowing:
	case <-ended:
	case <-late.C: // the readers' result will tell
	}
	with, err := b.measure(ctx, w)
	r.pool.quit.Store(true)
	<-ended
	if err := errors.Join(err, readErr); err != nil {
		return nil, err
	}
	w.name = "writes alone again"
	again, err := b.measure(ctx, w)
	if err != nil {
		return nil, err
	}
	base := (alone.Rate() + again.Rate()) / 2
	if base > 0 {
		with.Metrics = append(with.Metrics, Metric{"writes lost to readers", "%", 100 * (1 - with.Rate()/base)})
	}
	return []Result{alone, with, reads, again}, nil
}

// background reads until the pool is told to quit.
func (b *bed) background(ctx context.Context, r *measured) (Result, error) {
	start := r.pool.now()
	for _, t := range r.tallies {
		t.reset(start)
	}
	r.enter(&phase{start: start, end: never})
	used, err := r.pool.run(ctx)
	total := sum(r.tallies)
	total.last = r.pool.now() // the reads that were cut count up to here
	res := Result{Name: r.name, URL: b.url, Run: b.run, Unit: r.unit, Own: Cost{used.user, used.system}}
	res.fill(total, &tally{}, start)
	res.inMiB()
	res.Reconnects, res.Unsolicited = r.pool.reconnects.Load(), r.pool.unsolicited.Load()
	return res, err
}
