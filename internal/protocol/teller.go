package protocol

import (
	"context"
	"sync"
	"sync/atomic"
)

// tellerQueue is how many answers may wait to be written.
const tellerQueue = 4096

// Teller is a [Watch.Tell] for what may take its time: it has a goroutine write, and leaves
// out what that cannot keep up with. Its methods may be called at once.
type Teller struct {
	write   func(a Answer, dropped int64)
	queue   chan Answer
	dropped atomic.Int64

	end   sync.Once
	ended chan struct{} // what comes now is left out
	done  chan struct{} // all is written
}

// NewTeller starts a teller. Write gets one answer after the other, and how many were left
// out since the one before.
func NewTeller(write func(a Answer, dropped int64)) *Teller {
	t := &Teller{write: write, queue: make(chan Answer, tellerQueue), ended: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t
}

// Tell takes an answer. It never waits.
func (t *Teller) Tell(a Answer) {
	select {
	case t.queue <- a:
	default:
		t.dropped.Add(1)
	}
}

// Close has what waits written, or stops waiting for that when ctx ends. It is idempotent.
func (t *Teller) Close(ctx context.Context) {
	t.end.Do(func() { close(t.ended) })
	select {
	case <-t.done:
	case <-ctx.Done():
	}
}

func (t *Teller) run() {
	defer close(t.done)
	for {
		select {
		case a := <-t.queue:
			t.write(a, t.dropped.Swap(0))
		case <-t.ended:
			for {
				select {
				case a := <-t.queue:
					t.write(a, t.dropped.Swap(0))
				default:
					return
				}
			}
		}
	}
}
