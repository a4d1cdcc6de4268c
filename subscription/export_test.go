package subscription

import "time"

// Waiting is the number of subscriptions that wait for room to be called.
func (m *Manager) Waiting() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.gate.targets {
		n += len(t.waiting)
	}
	return n
}

// ClockSetBack makes everything look as it does after the clock was set back.
func (m *Manager) ClockSetBack(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turned += int64(by)
	for _, s := range m.subs {
		for _, at := range []*int64{&s.lease, &s.retryAt, &s.event.at} {
			if *at != 0 {
				*at += int64(by)
			}
		}
		if s.entry.Queued() {
			m.due.Set(s, &s.entry, s.entry.At()+int64(by))
		}
	}
}
