package bench

import (
	"context"
	"os"
	"time"
)

// measured is one phase of tasks that count into tallies.
type measured struct {
	name    string
	unit    string
	pool    *pool
	tallies []*tally
	enter   func(*phase) // tells every task that a phase begins
	pace    float64      // requests a second by schedule of all connections, 0 for none
	conns   int          // that share them
}

// measure runs a warm-up and then the phase that counts. Errors of the warm-up are
// counted too: they happened.
func (b *bed) measure(ctx context.Context, m *measured) (Result, error) {
	warm := &tally{}
	if b.opts.Warmup > 0 {
		if _, err := b.phase(ctx, m, b.opts.Warmup, 0); err != nil {
			return Result{}, err
		}
		warm = sum(m.tallies)
	}
	res := Result{Name: m.name, URL: b.url, Run: b.run, Unit: m.unit}
	var disk Disk
	if err := b.probe(&disk.Before); err != nil {
		return res, err
	}
	before, err := b.observe()
	if err != nil {
		return res, err
	}
	self := processUsage()
	start := int64(time.Since(b.clock))
	used, err := b.phase(ctx, m, b.opts.Duration, b.opts.Requests)
	if err != nil {
		return res, err
	}
	self = processUsage().less(self)
	after, err := b.observe()
	if err != nil {
		return res, err
	}
	if err := b.probe(&disk.After); err != nil {
		return res, err
	}
	total := sum(m.tallies)
	res.fill(total, warm, start)
	res.Reconnects, res.Unsolicited = m.pool.reconnects.Load(), m.pool.unsolicited.Load()
	res.Own = Cost{used.user, used.system}
	if b.pid != 0 {
		cpu := after.cpu.less(before.cpu)
		if b.pid == os.Getpid() { // the yardstick serves from this process: all but the loops
			cpu = self.less(used)
		}
		res.Server = &Server{CPU: Cost{cpu.user, cpu.system}, RSSBefore: before.rss, RSSAfter: after.rss}
	}
	if b.opts.SyncDir != "" {
		res.Disk = &disk
	}
	return res, nil
}

// phase runs all tasks for a time.
func (b *bed) phase(ctx context.Context, m *measured, d time.Duration, limit int64) (usage, error) {
	now := m.pool.now()
	for _, t := range m.tallies {
		t.reset(now)
	}
	ph := &phase{start: now, end: now + int64(d), limit: limit}
	if m.pace > 0 {
		ph.interval = float64(time.Second) * float64(m.conns) / m.pace
	}
	m.enter(ph)
	return m.pool.run(ctx)
}

// fill takes over what was counted.
func (r *Result) fill(total, warm *tally, start int64) {
	r.Count, r.Bytes = total.good, total.bytes
	r.Latency, r.Lateness = total.latency.quantiles(), total.lateness.quantiles()
	r.start = start
	r.Elapsed = time.Duration(max(total.last-start, 1))
	r.Unsent = total.unsent
	r.Duplicates = total.duplicates + warm.duplicates
	r.Retries = total.retries + warm.retries
	both := &tally{}
	for _, t := range []*tally{total, warm} {
		for what, n := range t.errors {
			for range n {
				both.fail(what)
			}
		}
	}
	r.Errors = both.errorCounts()
}

func (b *bed) observe() (snapshot, error) {
	if b.pid == 0 {
		return snapshot{}, nil
	}
	return observe(b.pid)
}

func (b *bed) probe(q *Quantiles) (err error) {
	if b.opts.SyncDir != "" {
		*q, err = probeSync(b.opts.SyncDir)
	}
	return err
}
