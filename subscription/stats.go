package subscription

import (
	"sync/atomic"
	"time"

	"durablestreams/internal/metric"
)

// stats is what a manager counts.
type stats struct {
	calls        *metric.Histogram // how long webhook calls took, in nanoseconds
	delivered    atomic.Uint64
	failed       atomic.Uint64
	events       atomic.Uint64 // wake events that were written
	eventsFailed atomic.Uint64
}

func (s *stats) init() { s.calls = metric.New(metric.Durations()) }

func (s *stats) called(began time.Time, err error) {
	s.calls.Took(began)
	if err != nil {
		s.failed.Add(1)
	} else {
		s.delivered.Add(1)
	}
}

func (s *stats) eventWritten(err error) {
	if err != nil {
		s.eventsFailed.Add(1)
	} else {
		s.events.Add(1)
	}
}

// Stats is a manager at one moment. The counters start with the process.
type Stats struct {
	Subscriptions map[Type]int
	Pending       int // subscriptions with something new for their worker
	Leases        int // of them or others those that a worker holds
	Retrying      int // webhooks whose last delivery failed

	Calls     metric.Snapshot // how long webhook calls took, in nanoseconds
	Running   int             // webhook calls under way
	Waiting   int             // webhooks that wait for room to be called
	Delivered uint64
	Failed    uint64

	Events       uint64 // wake events written
	EventsFailed uint64
}

// Stats gives the figures. It looks at every subscription.
func (m *Manager) Stats() Stats {
	s := Stats{Subscriptions: map[Type]int{Webhook: 0, PullWake: 0}, Calls: metric.Sum(m.stats.calls), Delivered: m.stats.delivered.Load(),
		Failed: m.stats.failed.Load(), Events: m.stats.events.Load(), EventsFailed: m.stats.eventsFailed.Load()}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Running = m.gate.running
	for _, t := range m.gate.targets {
		s.Waiting += len(t.waiting)
	}
	for _, sub := range m.subs {
		s.Subscriptions[sub.typ]++
		if sub.pending() {
			s.Pending++
		}
		if sub.phase == held {
			s.Leases++
		}
		if sub.retries > 0 {
			s.Retrying++
		}
	}
	return s
}
