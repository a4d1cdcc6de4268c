package fastpath

import "container/heap"

// timers is a heap of the connections that something may happen to by itself. A
// connection's entry may be earlier than its deadline: deadlines mostly move
// on, and whoever finds an entry due looks again. So an answered request costs
// no heap operation.
type timers struct{ heap timerHeap }

// timer is a connection's place in the heap.
type timer struct {
	c     *conn
	at    int64
	index int // plus one; 0: not in the heap
}

// set makes sure that c is looked at no later than at.
func (t *timers) set(c *conn, at int64) {
	c.timer.c = c
	switch {
	case c.timer.index == 0:
		c.timer.at = at
		heap.Push(&t.heap, &c.timer)
	case at < c.timer.at:
		c.timer.at = at
		heap.Fix(&t.heap, c.timer.index-1)
	}
}

func (t *timers) remove(c *conn) {
	if c.timer.index > 0 {
		heap.Remove(&t.heap, c.timer.index-1)
	}
}

// due takes a connection whose entry is not after now.
func (t *timers) due(now int64) *conn {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return nil
	}
	return heap.Pop(&t.heap).(*timer).c
}

// next is when the first entry is due; ok is false if there is none.
func (t *timers) next() (at int64, ok bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].at, true
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h) + 1
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = 0
	return t
}
