package subscription

import (
	"maps"
	"slices"
)

// Summary is what a list shows of a subscription: a View without its streams.
type Summary struct {
	View
	State    string // idle, woken, held or failed
	Explicit int    // streams that are linked by their path
	Pending  int    // streams with work
}

// List gives up to limit subscriptions whose id comes after one, in the order of ids. What it
// shows may not be durable yet.
func (m *Manager) List(after string, limit int) []Summary {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := slices.Sorted(maps.Keys(m.subs))
	from, found := slices.BinarySearch(ids, after)
	if found {
		from++
	}
	ids = ids[from:min(from+limit, len(ids))]
	list := make([]Summary, len(ids))
	for i, id := range ids {
		list[i] = m.subs[id].summary()
	}
	return list
}

func (s *sub) summary() Summary {
	sum := Summary{View: s.describe(), Explicit: len(s.state.explicit), Pending: s.marks.len() + len(s.aside)}
	switch {
	case sum.Failed:
		sum.State = "failed"
	default:
		sum.State = [...]string{idle: "idle", woken: "woken", held: "held"}[s.phase]
	}
	return sum
}
