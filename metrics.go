package durablestreams

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"durablestreams/auth"
	"durablestreams/internal/metric"
	"durablestreams/internal/version"
	"durablestreams/store"
	"durablestreams/subscription"
)

// observed is an engine that tells how it is.
type observed interface {
	Stats() store.Stats
	Full() bool
}

// metrics shows what the packages have counted, for Prometheus: this file is the one
// place of all names. What they mean stands in docs/observe.md.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), figures{s})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// figures collects the server's own metrics.
type figures struct{ s *Server }

// Describe says nothing beforehand: Collect does, with every figure.
func (figures) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f figures) Collect(ch chan<- prometheus.Metric) {
	out := sink(ch)
	build := version.Read()
	out.gauge("ds_build_info", "The version that runs; always 1.", 1, "version", build.Version, "commit", build.Commit, "go", build.Go)
	out.gauge("ds_ready", "1 if clients may come, as /readyz says.", truth(f.s.ready() == nil))
	f.requests(out)
	f.use(out)
	if e, ok := f.s.engine.(observed); ok {
		stats := e.Stats()
		engineFigures(out, &stats)
		archiveFigures(out, &stats)
	}
	if f.s.access != nil {
		accessFigures(out, f.s.access.Stats())
	}
	if f.s.tenants != nil {
		tenantFigures(out, f.s.tenants.Listed())
	}
	if f.s.subs != nil {
		subscriptionFigures(out, f.s.subs.manager.Stats())
	}
}

func (f figures) requests(out sink) {
	n := f.s.core.Figures()
	for _, a := range n.Answers {
		status := "other"
		if a.Status != 0 {
			status = strconv.Itoa(a.Status)
		}
		out.counter("ds_requests_total", "Answers that were sent, by kind of request and status.", float64(a.Count), "kind", a.Kind.String(), "status", status)
	}
	for kind, h := range n.Latency {
		out.seconds("ds_request_seconds", "Time from a request's head until its answer, without live reads.", h, "kind", kind.String())
	}
	for kind, bytes := range n.Bytes {
		out.counter("ds_response_body_bytes_total", "Bytes of answers' bodies, without SSE.", float64(bytes), "kind", kind.String())
	}
	for kind, count := range n.Refusals {
		out.counter("ds_refused_requests_total", "Answers that say no, by the code in their bodies.", float64(count), "reason", string(kind))
	}
	out.counter("ds_sse_frames_total", "Pieces of SSE answers that were sent.", float64(n.Frames))
	out.counter("ds_sse_bytes_total", "Their bytes.", float64(n.FrameBytes))
	live := f.s.core.Use().Live
	out.gauge("ds_live_readers", "Live reads that wait for data.", float64(n.SSE), "kind", "sse")
	out.gauge("ds_live_readers", "Live reads that wait for data.", float64(max(live-n.SSE, 0)), "kind", "long-poll")
}

// use tells how much of what is bounded is in use, and the bounds.
func (f figures) use(out sink) {
	use, opt := f.s.core.Use(), f.s.core.Options()
	f.s.mu.Lock()
	endpoints := f.s.endpoints
	f.s.mu.Unlock()
	var open int64
	var turned uint64
	for _, e := range endpoints {
		open += e.limit.open.Load()
		turned += e.limit.turned.Load()
	}
	out.gauge("ds_connections", "Open connections of clients.", float64(open))
	out.counter("ds_refused_connections_total", "Connections beyond the bound.", float64(turned))
	out.gauge("ds_inflight_bytes", "Memory of bodies that are being received.", float64(use.Inflight))
	out.gauge("ds_unsent_bytes", "Memory of answers that clients have not taken.", float64(use.Unsent))
	out.gauge("ds_large_sends", "Answers of more than 64 KiB that are being sent.", float64(use.Sends))
	out.gauge("ds_disk_reads", "Answers that are being read from the disk.", float64(use.DiskReads))
	for of, bound := range map[string]int64{"connections": int64(f.s.opts.MaxConnections), "inflight_bytes": opt.MaxInflight, "unsent_bytes": opt.MaxUnsent,
		"large_sends": int64(opt.MaxSends), "disk_reads": int64(opt.MaxReads), "live_readers": int64(opt.MaxLive)} {
		out.gauge("ds_limit", "The bound of what the metric ds_<of> shows.", float64(bound), "of", of)
	}
}

func engineFigures(out sink, s *store.Stats) {
	out.seconds("ds_commit_seconds", "Time to write and sync one batch of changes.", s.Commits)
	out.histogram("ds_commit_changes", "Changes in one batch.", s.Batches, 1)
	out.gauge("ds_commit_queue_changes", "Changes that wait for a sync to begin.", float64(s.QueuedChanges))
	out.gauge("ds_queued_bytes", "Changes that are not durable yet.", float64(s.QueuedBytes))
	out.gauge("ds_limit", "The bound of what the metric ds_<of> shows.", float64(s.MaxQueued), "of", "queued_bytes")
	out.counter("ds_journal_records_total", "Records written to the journal.", float64(s.Journal.Records))
	out.counter("ds_journal_written_bytes_total", "Bytes written to the journal, framing included.", float64(s.Journal.Bytes))
	out.gauge("ds_journal_bytes", "Size of the journal's files in use.", float64(s.Journal.SegmentBytes))
	out.gauge("ds_tail_bytes", "Recent data in memory.", float64(s.TailBytes))
	out.gauge("ds_streams_in_memory", "Streams that are in memory.", float64(s.Streams))
	out.gauge("ds_dirty_streams", "Streams that wait to be moved to the archive.", float64(s.Dirty))
	out.seconds("ds_flush_seconds", "Time to move recent data to the archive.", s.Flushes)
	out.gauge("ds_recovery_records", "Records that the last start replayed.", float64(s.Recovery.Records))
	out.gauge("ds_recovery_seconds", "Time that the last start took for it.", s.Recovery.Took.Seconds())
	out.gauge("ds_recovery_damaged_streams", "Damaged streams that the last start set aside.", float64(s.Recovery.Damaged))
	out.gauge("ds_disk_full", "1 if changes are refused because the disk is full.", truth(s.DiskFull))
	if s.DiskFree >= 0 {
		out.gauge("ds_disk_free_bytes", "Free space of the data directory's file system.", float64(s.DiskFree))
	}
}

func archiveFigures(out sink, s *store.Stats) {
	a := &s.Archive
	if len(a.Levels) == 0 {
		return // it is closed
	}
	for i, l := range a.Levels {
		level := strconv.Itoa(i)
		out.gauge("ds_archive_files", "Files of the archive, by level.", float64(l.Files), "level", level)
		out.gauge("ds_archive_bytes", "Bytes in the archive's files, by level.", float64(l.Bytes), "level", level)
	}
	out.gauge("ds_archive_disk_bytes", "Size of the archive on the disk.", float64(a.DiskBytes))
	out.gauge("ds_archive_dead_bytes", "Of it deleted data that compactions will free, an estimate.", float64(a.DeadBytes))
	out.gauge("ds_archive_l0_sublevels", "Files of level 0 that one read may look into.", float64(a.L0Sublevels))
	out.counter("ds_archive_compactions_total", "Compactions.", float64(a.Compactions))
	out.counter("ds_archive_failed_compactions_total", "Compactions that failed, for want of space for example.", float64(a.FailedAttempts))
	out.counter("ds_archive_compaction_seconds_total", "Time that compactions took.", a.CompactionTime.Seconds())
	out.gauge("ds_archive_compactions", "Compactions under way.", float64(a.Compacting))
	out.gauge("ds_archive_compaction_debt_bytes", "Bytes that compactions have to rewrite, an estimate.", float64(a.CompactionDebt))
	out.counter("ds_archive_written_bytes_total", "Bytes written to the archive.", float64(a.FlushedBytes), "by", "flush")
	out.counter("ds_archive_written_bytes_total", "Bytes written to the archive.", float64(a.CompactedBytes), "by", "compaction")
	out.gauge("ds_archive_memtable_bytes", "Memory of data on their way into the archive.", float64(a.MemTableBytes))
	out.gauge("ds_archive_cache_bytes", "Memory of the archive's cache.", float64(a.CacheBytes))
	out.counter("ds_archive_cache_requests_total", "Look-ups in the archive's cache.", float64(a.CacheHits), "result", "hit")
	out.counter("ds_archive_cache_requests_total", "Look-ups in the archive's cache.", float64(a.CacheMisses), "result", "miss")
	out.gauge("ds_archive_damaged", "1 if damaged data was met since the start.", truth(a.Damaged))
}

func subscriptionFigures(out sink, s subscription.Stats) {
	for typ, n := range s.Subscriptions {
		out.gauge("ds_subscriptions", "Subscriptions.", float64(n), "type", string(typ))
	}
	out.gauge("ds_subscriptions_pending", "Subscriptions with something that their worker has not acknowledged.", float64(s.Pending))
	out.gauge("ds_subscription_leases", "Subscriptions that a worker is busy with.", float64(s.Leases))
	out.gauge("ds_webhooks_retrying", "Webhook subscriptions whose last call failed.", float64(s.Retrying))
	out.gauge("ds_webhook_calls", "Webhook calls under way.", float64(s.Running))
	out.gauge("ds_webhook_calls_waiting", "Webhook calls that wait for room.", float64(s.Waiting))
	out.counter("ds_webhook_deliveries_total", "Webhook calls that have ended.", float64(s.Delivered), "result", "ok")
	out.counter("ds_webhook_deliveries_total", "Webhook calls that have ended.", float64(s.Failed), "result", "failed")
	out.seconds("ds_webhook_seconds", "How long webhook calls took.", s.Calls)
	out.counter("ds_wake_events_total", "Attempts to write a wake event.", float64(s.Events), "result", "ok")
	out.counter("ds_wake_events_total", "Attempts to write a wake event.", float64(s.EventsFailed), "result", "failed")
}

func accessFigures(out sink, s auth.Stats) {
	out.counter("ds_access_reloads_total", "How often the access rules were read from their files.", float64(s.Taken), "result", "ok")
	out.counter("ds_access_reloads_total", "How often the access rules were read from their files.", float64(s.Refused), "result", "failed")
	out.gauge("ds_access_stale", "1 if the files of the access rules are wrong and older rules count.", truth(s.Stale))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// sink takes figures, each with pairs of a label and its value.
type sink chan<- prometheus.Metric

func (s sink) gauge(name, help string, value float64, labels ...string) {
	desc, values := describe(name, help, labels)
	s <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, values...)
}

func (s sink) counter(name, help string, value float64, labels ...string) {
	desc, values := describe(name, help, labels)
	s <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, values...)
}

// seconds is for histograms that have counted nanoseconds.
func (s sink) seconds(name, help string, h metric.Snapshot, labels ...string) {
	s.histogram(name, help, h, 1e9, labels...)
}

func (s sink) histogram(name, help string, h metric.Snapshot, unit float64, labels ...string) {
	desc, values := describe(name, help, labels)
	buckets := make(map[float64]uint64, len(h.Bounds))
	for i, bound := range h.Bounds {
		buckets[float64(bound)/unit] = h.Counts[i]
	}
	s <- prometheus.MustNewConstHistogram(desc, h.Count, float64(h.Sum)/unit, buckets, values...)
}

func describe(name, help string, labels []string) (*prometheus.Desc, []string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	return prometheus.NewDesc(name, help, names, nil), values
}
