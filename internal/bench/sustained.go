package bench

import (
	"context"
	"time"
)

// Sample is what a server had used at one moment of a sustained run.
type Sample struct {
	At    time.Duration `json:"at_ns"`
	RSS   int64         `json:"rss,omitempty"`
	Count int64         `json:"count"` // of good answers since the sample before
}

// samples is how many a run is cut into, at most one a second.
const samples = 60

// runSustained is the scenario of that name: appends for a long time, with the
// server's memory and the rate along the way.
func runSustained(ctx context.Context, b *bed) ([]Result, error) {
	const kind = "sustained"
	f := newFormat(b.run, b.opts.Size, b.opts.JSON)
	l := layout{conns: b.opts.Connections, streams: b.opts.Streams}
	if err := b.create(ctx, kind, l.streams, f.contentType()); err != nil {
		return nil, err
	}
	ledgers := make([]ledger, l.conns)
	w, err := b.newWriters(ctx, kind, "appends", newAppendRun(b, kind, f, l, b.opts.Producers), ledgers)
	if err != nil {
		return nil, err
	}
	defer w.pool.close()
	step := max(b.opts.Duration/samples, min(time.Second, b.opts.Duration/4))
	for _, t := range w.tallies {
		t.slice = int64(step)
	}
	memory := b.watch(ctx, step)
	res, err := b.measure(ctx, w)
	points := memory()
	if err != nil {
		return nil, err
	}
	res.trend(sum(w.tallies).slices, points, step)
	res.Verify, err = b.readBack(ctx, &source{kind: kind, count: l.streams, format: f, layout: l, ledgers: ledgers})
	if err != nil {
		return nil, err
	}
	return []Result{res}, b.remove(ctx, kind, l.streams)
}

// point is the server's memory at a moment of the bed's clock.
type point struct {
	at  int64
	rss int64
}

// watch looks at the server's memory at every step until it is asked for the result.
func (b *bed) watch(ctx context.Context, step time.Duration) (result func() []point) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan []point, 1)
	go func() {
		var points []point
		ticker := time.NewTicker(step)
		defer ticker.Stop()
		for {
			if s, err := b.observe(); err == nil && b.pid != 0 {
				points = append(points, point{int64(time.Since(b.clock)), s.rss})
			}
			select {
			case <-ctx.Done():
				done <- points
				return
			case <-ticker.C:
			}
		}
	}()
	return func() []point {
		cancel()
		return <-done
	}
}

// trend sets rates and memory side by side and says where they went. The last slice
// is cut short by the run's end and left out.
func (r *Result) trend(counts []int64, points []point, step time.Duration) {
	n := min(int(r.Elapsed/step), len(counts))
	for i, count := range counts[:n] {
		s := Sample{At: time.Duration(i+1) * step, Count: count}
		for _, p := range points { // the last one taken by then
			if time.Duration(p.at-r.start) <= s.At {
				s.RSS = p.rss
			}
		}
		r.Samples = append(r.Samples, s)
	}
	quarter := n / 4
	if quarter == 0 {
		return
	}
	first, last := r.Samples[:quarter], r.Samples[n-quarter:]
	if rate := meanOf(first, Sample.count); rate > 0 {
		r.Metrics = append(r.Metrics, Metric{"rate of the last quarter against the first", "%", 100 * meanOf(last, Sample.count) / rate})
	}
	if len(points) > 0 {
		middle := r.Samples[n/2 : n/2+quarter]
		r.Metrics = append(r.Metrics,
			Metric{"memory in the first quarter", "B", meanOf(first, Sample.memory)},
			Metric{"memory in the third quarter", "B", meanOf(middle, Sample.memory)},
			Metric{"memory in the last quarter", "B", meanOf(last, Sample.memory)})
	}
}

func (s Sample) count() float64  { return float64(s.Count) }
func (s Sample) memory() float64 { return float64(s.RSS) }

func meanOf(all []Sample, of func(Sample) float64) float64 {
	total := 0.0
	for _, s := range all {
		total += of(s)
	}
	return total / float64(len(all))
}
