package subscription

// Waiting is the number of subscriptions that wait for room to be called.
func (m *Manager) Waiting() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.gate.targets {
		n += len(t.waiting)
	}
	return n
}
