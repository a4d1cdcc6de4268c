package bench

import (
	"context"
	"time"
)

// runAppend is the scenario of that name.
func runAppend(ctx context.Context, b *bed) ([]Result, error) {
	res, err := b.appends(ctx, "append", b.opts.Streams)
	return []Result{res}, err
}

// appends measures appends over a number of streams: set up, measure, read back.
func (b *bed) appends(ctx context.Context, name string, streams int) (Result, error) {
	f := newFormat(b.run, b.opts.Size, b.opts.JSON)
	l := layout{conns: b.opts.Connections, streams: streams}
	made, err := b.setUp(ctx, name, streams, f.contentType())
	if err != nil {
		return Result{}, err
	}
	ledgers := make([]ledger, l.conns)
	res, err := b.write(ctx, name, "appends", newAppendRun(b, name, f, l, b.opts.Producers), ledgers)
	if err != nil {
		return res, err
	}
	res.Metrics = append(res.Metrics, made...)
	res.Verify, err = b.readBack(ctx, &source{kind: name, count: streams, format: f, layout: l, ledgers: ledgers})
	if err != nil {
		return res, err
	}
	return res, b.remove(ctx, name, streams)
}

// largeSetUp is from how many streams on their making is worth a figure.
const largeSetUp = 10_000

// setUp creates streams and, if there are many, tells how that went.
func (b *bed) setUp(ctx context.Context, kind string, count int, contentType string) ([]Metric, error) {
	before, err := b.observe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := b.create(ctx, kind, count, contentType); err != nil || count < largeSetUp {
		return nil, err
	}
	made := []Metric{{"creation of empty streams", "creates/s", float64(count) / time.Since(start).Seconds()}}
	after, err := b.observe()
	if err == nil && b.pid != 0 {
		made = append(made, Metric{"memory per stream created", "B", float64(after.rss-before.rss) / float64(count)})
	}
	return made, err
}

// write measures the writers of a run.
func (b *bed) write(ctx context.Context, name, unit string, r *appendRun, ledgers []ledger) (Result, error) {
	w, err := b.newWriters(ctx, name, unit, r, ledgers)
	if err != nil {
		return Result{}, err
	}
	defer w.pool.close()
	return b.measure(ctx, w)
}

// newWriters connects the writers of a run. The pool is the caller's to close.
func (b *bed) newWriters(ctx context.Context, name, unit string, r *appendRun, ledgers []ledger) (*measured, error) {
	tallies := b.tallies()
	all, groups := r.writers(ledgers, tallies)
	p := newPool(b.addr, &b.opts, b.clock, groups)
	if err := p.connect(ctx); err != nil {
		p.close()
		return nil, err
	}
	return &measured{
		name: name, unit: unit, pool: p, tallies: tallies, pace: b.opts.Rate, conns: r.layout.conns,
		enter: func(ph *phase) {
			for _, t := range all {
				t.pace.enter(ph)
			}
		},
	}, nil
}
