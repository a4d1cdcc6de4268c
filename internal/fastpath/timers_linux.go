package fastpath

import "durablestreams/internal/due"

// timers queues the connections that something may happen to by itself. A
// connection's entry may be earlier than its deadline: deadlines mostly move
// on, and whoever finds an entry due looks again. So an answered request costs
// no heap operation.
type timers struct{ due.Queue[conn] }

// set makes sure that c is looked at no later than at.
func (t *timers) set(c *conn, at int64) {
	if !c.timer.Queued() || at < c.timer.At() {
		t.Set(c, &c.timer, at)
	}
}
