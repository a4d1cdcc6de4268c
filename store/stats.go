package store

import (
	"math"
	"time"

	"durablestreams/internal/archive"
	"durablestreams/internal/journal"
	"durablestreams/internal/metric"
)

// stats is what an engine counts besides what its parts know of themselves.
type stats struct {
	commits  *metric.Histogram // how long a batch takes to be durable, in nanoseconds
	batches  *metric.Histogram // changes in one
	flushes  *metric.Histogram // how long a flush takes, in nanoseconds
	recovery Recovery          // written before the engine is open
}

func (s *stats) init() {
	s.commits, s.flushes = metric.New(metric.Durations()), metric.New(metric.Durations())
	s.batches = metric.New(metric.Powers(12))
}

// Recovery tells of the last start.
type Recovery struct {
	Records int           // of the journal that were replayed
	Took    time.Duration // together with opening the files
	Damaged int           // streams that were set aside
}

// Stats is an engine at one moment. The counters start with Open.
type Stats struct {
	Commits, Batches, Flushes metric.Snapshot // see stats

	Journal  journal.Stats
	Archive  archive.Stats
	Recovery Recovery

	MaxQueued     int64 // bytes
	QueuedBytes   int64 // of changes that are not durable yet
	QueuedChanges int   // of them those that no sync is under way for
	TailBytes     int64 // recent data in memory
	Dirty         int   // streams that wait to be flushed
	DiskFull      bool  // changes are refused
	DiskFree      int64 // bytes; -1: unknown
	Streams       int   // that are in memory
}

// Stats gives the figures. It may be called at any time, after Close too; then those
// of the archive are missing.
func (e *Engine) Stats() Stats {
	s := Stats{
		Commits: metric.Sum(e.stats.commits), Batches: metric.Sum(e.stats.batches), Flushes: metric.Sum(e.stats.flushes),
		Journal: e.journal.Stats(), Archive: e.archive.Stats(), Recovery: e.stats.recovery,
		MaxQueued: e.opts.MaxQueued, QueuedBytes: e.open.queued.Load(), QueuedChanges: e.open.waiting(), TailBytes: e.flush.tails.Load(), DiskFull: e.space.full(),
		Dirty: e.flush.waiting(), Streams: e.table.count(),
	}
	s.DiskFree = -1
	if usage, err := e.fs.GetDiskUsage(e.dir); err == nil {
		s.DiskFree = int64(min(usage.AvailBytes, math.MaxInt64))
	}
	return s
}

// Full reports whether changes are refused because the disk is full.
func (e *Engine) Full() bool { return e.space.full() }

// waiting counts the changes that no sync is under way for.
func (b *openBatch) waiting() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.full {
		n += len(f.ops)
	}
	if b.cur != nil {
		n += len(b.cur.ops)
	}
	return n
}

func (f *flusher) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.dirty)
}
