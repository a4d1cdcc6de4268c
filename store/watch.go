package store

import (
	"sync"

	"durablestreams/stream"
)

// watcher is somebody who wants to know about a stream's changes.
type watcher struct {
	wake  func()
	index int // in live.watchers; -1 once removed
}

// Watch calls wake whenever the published state of snap's stream changes: data,
// close, deletion. wake must not block; it may be called from any goroutine,
// with several changes in one call, and for nothing. While it is watched a
// stream does not expire; the beginning and the end of a watch count as reads.
// stop is idempotent; wake may still be called once while it runs.
func (e *Engine) Watch(snap stream.Snapshot, wake func()) (stop func()) {
	s, err := e.acquire(snap.Path)
	if err != nil {
		wake()
		return func() {}
	}
	defer e.release(s)
	l := s.pub
	if l == nil || l.damaged || l.state.ID != snap.ID {
		wake()
		return func() {}
	}
	w := &watcher{wake: wake, index: len(l.watchers)}
	l.watchers = append(l.watchers, w)
	e.touch(l, now())
	if l == s.cur {
		e.deadlines.add(l)
	}
	return func() {
		l.slot.mu.Lock()
		defer l.slot.mu.Unlock()
		if w.index < 0 {
			return
		}
		last := len(l.watchers) - 1
		l.watchers[w.index] = l.watchers[last]
		l.watchers[w.index].index = w.index
		l.watchers[last] = nil
		l.watchers = l.watchers[:last]
		w.index = -1
		if !l.gone {
			e.touch(l, now())
		}
	}
}

// wakeQueue lists the streams whose watchers are to be woken. Waking is a
// goroutine's own work, so that a stream with many watchers does not hold up
// the committer.
type wakeQueue struct {
	mu    sync.Mutex
	list  []*live
	ready chan struct{} // capacity 1
}

func (q *wakeQueue) init() { q.ready = make(chan struct{}, 1) }

// add queues a stream; its slot is held.
func (q *wakeQueue) add(l *live) {
	q.mu.Lock()
	if !l.wakes {
		l.wakes = true
		q.list = append(q.list, l)
	}
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *wakeQueue) take() []*live {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	for _, l := range list {
		l.wakes = false
	}
	return list
}

// runWaker wakes watchers until the engine stops.
func (e *Engine) runWaker() {
	var calls []func()
	for {
		select {
		case <-e.wakes.ready:
		case <-e.stopped:
			return
		}
		for _, l := range e.wakes.take() {
			l.slot.mu.Lock()
			for _, w := range l.watchers {
				calls = append(calls, w.wake)
			}
			l.slot.mu.Unlock()
			for i, wake := range calls {
				wake()
				calls[i] = nil
			}
			calls = calls[:0]
		}
	}
}
