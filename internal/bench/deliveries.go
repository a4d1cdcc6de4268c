package bench

import "time"

// result puts together what a live scenario measured. What is counted are deliveries:
// a record that reached a subscriber.
func (l *live) result(empty snapshot, idle bool) Result {
	b := l.bed
	res := Result{Name: l.kind, URL: b.url, Run: b.run, Unit: "deliveries"}
	var fromStart, fromAck histogram
	early := int64(0)
	last := l.begin.at
	res.Verify = &Verification{}
	resubscribed := 0
	for _, s := range l.all {
		res.Verify.add(s.end(l.writer.ledger))
		for _, d := range s.got {
			fromStart.record(d.at - l.started[d.seq])
			if acked := l.acked[d.seq]; acked > d.at || acked == 0 {
				early++
				fromAck.record(0)
			} else {
				fromAck.record(d.at - acked)
			}
			last = max(last, d.at)
		}
		resubscribed += s.again
	}
	written := l.writer.tally
	total := &tally{good: fromStart.count, bytes: l.tally.bytes, last: last}
	total.add(l.tally)
	total.bytes = l.tally.bytes
	res.fill(total, written, l.begin.at)
	res.Latency, res.Lateness, res.Unsent = fromStart.quantiles(), written.lateness.quantiles(), written.unsent
	res.Reconnects, res.Unsolicited = l.pool.reconnects.Load(), l.pool.unsolicited.Load()
	server, own := l.end.server.cpu.less(l.begin.server.cpu), l.end.own.less(l.begin.own)
	res.Own = Cost{own.user, own.system}
	if b.pid != 0 {
		res.Server = &Server{CPU: Cost{server.user, server.system}, RSSBefore: empty.rss, RSSAfter: l.end.server.rss}
	}
	if resubscribed > 0 {
		res.Metrics = append(res.Metrics, Metric{"answers that the server ended", "", float64(resubscribed)})
	}
	if idle {
		l.idleMetrics(&res, empty, server)
		return res
	}
	res.Metrics = append(res.Metrics, named3("write", &written.latency)...)
	res.Metrics = append(res.Metrics, named3("delivery after the ack", &fromAck)...)
	res.Metrics = append(res.Metrics, Metric{"deliveries before the ack", "", float64(early)})
	res.Notes = append(res.Notes, "latency is from when the write was due until the record is read")
	return res
}

func named3(what string, h *histogram) []Metric {
	return []Metric{
		{what + " p50", "ns", float64(h.quantile(0.5))},
		{what + " p99", "ns", float64(h.quantile(0.99))},
		{what + " max", "ns", float64(h.max)},
	}
}

// idleMetrics says what connections cost to which nothing happens.
func (l *live) idleMetrics(res *Result, empty snapshot, server usage) {
	n := float64(len(l.all))
	window := time.Duration(l.end.at - l.begin.at)
	res.Elapsed = window
	res.Notes = append(res.Notes, "the one append after the idle time reached every subscriber, or it would be lost below")
	if l.bed.pid == 0 || n == 0 {
		return
	}
	res.Metrics = append(res.Metrics,
		Metric{"server memory per connection", "B", float64(l.end.server.rss-empty.rss) / n},
		Metric{"server CPU per connection and second", "ns", float64(server.user+server.system) / n / window.Seconds()})
}
