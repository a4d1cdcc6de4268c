// Package due keeps what waits in the order in which its time comes: a heap whose
// entries are fields of those who wait, so that moving one allocates nothing.
package due

import "container/heap"

// Entry is the place of its owner in a [Queue]. The zero Entry is in none.
type Entry[T any] struct {
	owner *T
	at    int64
	index int // in the heap, plus one; 0: not in it
}

// Queued tells whether the entry is in a queue.
func (e *Entry[T]) Queued() bool { return e.index > 0 }

// At is the time the entry was last queued for.
func (e *Entry[T]) At() int64 { return e.at }

// Queue orders entries by time; what the times count is up to its user. The zero
// Queue is empty. It is not safe for concurrent use.
type Queue[T any] struct{ heap entries[T] }

// Set queues an owner's entry for a time, or moves it there. It tells whether the
// entry has become the first, or stayed it with another time: whoever sleeps until
// the first is due looks again then.
func (q *Queue[T]) Set(owner *T, e *Entry[T], at int64) (first bool) {
	e.owner = owner
	switch {
	case !e.Queued():
		e.at = at
		heap.Push(&q.heap, e)
	case e.at != at:
		e.at = at
		heap.Fix(&q.heap, e.index-1)
	default:
		return false
	}
	return e.index == 1
}

// Remove takes an entry out, if it is in.
func (q *Queue[T]) Remove(e *Entry[T]) {
	if e.Queued() {
		heap.Remove(&q.heap, e.index-1)
	}
}

// Next is the time of the first entry; ok is false if there is none.
func (q *Queue[T]) Next() (at int64, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// Pop takes out the first entry if its time is not after now, and gives its owner;
// nil if there is no such entry.
func (q *Queue[T]) Pop(now int64) *T {
	if at, ok := q.Next(); !ok || at > now {
		return nil
	}
	return heap.Pop(&q.heap).(*Entry[T]).owner
}

type entries[T any] []*Entry[T]

func (h entries[T]) Len() int           { return len(h) }
func (h entries[T]) Less(i, j int) bool { return h[i].at < h[j].at }
func (h entries[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

// Push implements heap.Interface.
func (h *entries[T]) Push(x any) {
	e := x.(*Entry[T])
	*h = append(*h, e)
	e.index = len(*h)
}

// Pop implements heap.Interface.
func (h *entries[T]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = 0
	return e
}
