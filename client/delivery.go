package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// batch is one request of a producer. Once it is numbered, only the goroutine that
// delivers it changes it.
type batch struct {
	begin  uint64 // number of its first item
	bytes  int    // of its items
	body   []byte
	close  bool // it closes the stream
	seq    uint64
	first  bool          // the first one of the producer
	before *batch        // nil: none, or acknowledged
	done   chan struct{} // closed when it is acknowledged
	unsure bool          // an attempt without an answer may have been taken
}

// run makes batches and sends them until ctx ends.
func (p *Producer) run(ctx context.Context) {
	for ctx.Err() == nil {
		p.mu.Lock()
		changed := p.changed
		pause, ready := p.pause()
		if ready && pause <= 0 {
			b := p.take()
			p.mu.Unlock()
			p.work.Go(func() {
				if err := p.deliver(ctx, b); err != nil {
					p.fail(err)
				}
			})
			continue
		}
		p.mu.Unlock()
		p.rest(ctx, changed, pause, ready)
	}
}

// rest waits for a change, or for the end of the pause if there is one.
func (p *Producer) rest(ctx context.Context, changed <-chan struct{}, pause time.Duration, timed bool) {
	var due <-chan time.Time
	if timed {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-changed:
	case <-due:
	case <-ctx.Done():
	}
}

// pause tells whether a batch may be sent, and when. The first batch of an epoch
// goes alone, since the server takes none of the others before it.
func (p *Producer) pause() (time.Duration, bool) {
	switch {
	case len(p.queue) == 0 || len(p.sending) >= p.opts.MaxInFlight || !p.claimed && len(p.sending) > 0:
		return 0, false
	case p.queued >= p.opts.MaxBatchBytes || len(p.queue) >= p.opts.MaxBatchCount || p.urgent > p.appended-uint64(len(p.queue)):
		return 0, true
	}
	return p.opts.Linger - time.Since(p.oldest), true
}

// take makes a batch of the items that wait.
func (p *Producer) take() *batch {
	n, size := 0, 0
	for n < len(p.queue) && n < p.opts.MaxBatchCount && (n == 0 || size+len(p.queue[n]) <= p.opts.MaxBatchBytes) {
		size += len(p.queue[n])
		n++
	}
	b := &batch{begin: p.appended - uint64(len(p.queue)), bytes: size, body: p.body(p.queue[:n])}
	clear(p.queue[:n])
	p.queue = p.queue[n:]
	p.queued -= size
	p.number(b)
	return b
}

// body is what is sent for some items.
func (p *Producer) body(items [][]byte) []byte {
	if !p.json {
		return bytes.Join(items, nil)
	}
	return append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']')
}

// number gives a batch its place behind the others.
func (p *Producer) number(b *batch) {
	b.done = make(chan struct{})
	b.seq, b.first, b.before = p.seq, p.last == nil, p.last
	p.seq++
	p.last = b
	p.sending = append(p.sending, b)
}

// acknowledged is the number of items that are acknowledged with all before them.
func (p *Producer) acknowledged() uint64 {
	if len(p.sending) > 0 {
		return p.sending[0].begin
	}
	return p.appended - uint64(len(p.queue))
}

// deliver sends a batch until it is acknowledged or an error is final.
func (p *Producer) deliver(ctx context.Context, b *batch) error {
	r := p.s.c.retrier()
	for {
		inOrder := b.before == nil || isDone(b.before)
		res, err := p.post(ctx, b)
		if err == nil {
			return p.acknowledge(b, res)
		}
		refused, _ := errors.AsType[*Error](err)
		switch {
		case errors.Is(err, stream.ProducerGap) && refused.Expected < b.seq:
			if inOrder {
				return fmt.Errorf("%w: %w", ErrAcknowledgedLost, err)
			}
			// A request has overtaken the one before.
			select {
			case <-b.before.done:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case errors.Is(err, stream.ProducerFenced) && p.claim(b, refused.Epoch):
			continue
		}
		b.unsure = b.unsure || !undone(err)
		if err := r.wait(ctx, err); err != nil {
			return err
		}
	}
}

func isDone(b *batch) bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

func (p *Producer) post(ctx context.Context, b *batch) (Appended, error) {
	h := http.Header{}
	if len(b.body) > 0 {
		h.Set("Content-Type", p.opts.ContentType)
	}
	if b.close {
		h.Set(wire.HeaderStreamClosed, wire.True)
	}
	(&ProducerSeq{ID: p.opts.ID, Epoch: p.Epoch(), Seq: b.seq}).header(h)
	a, err := p.s.c.attempt(ctx, &call{op: "append", method: http.MethodPost, url: p.s.url, header: h, body: b.body})
	if err != nil {
		return Appended{}, err
	}
	return p.s.appended(a, len(b.body) > 0)
}

// claim moves a producer that has no epoch yet behind the one that the server
// knows. A batch that may have been taken in the old epoch must not be sent in
// another.
func (p *Producer) claim(b *batch, known uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.opts.AutoClaim || p.claimed || b.unsure || known < p.epoch || known >= wire.MaxSafeInteger {
		return false
	}
	p.epoch = known + 1
	return true
}

// acknowledge notes that the server has a batch, unless what it has is not ours: a
// number beyond all that were sent, or a duplicate of what was never sent before.
// An epoch that was claimed by the clock is nobody else's.
func (p *Producer) acknowledge(b *batch, res Appended) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if res.LastSeq >= p.seq || b.first && res.Duplicate && !b.unsure && !p.opts.AutoClaim {
		return fmt.Errorf("%w: producer %q, epoch %d: sequence number %d was taken before", ErrSequenceUsed, p.opts.ID, p.epoch, res.LastSeq)
	}
	for i, other := range p.sending {
		if other == b {
			p.sending = append(p.sending[:i:i], p.sending[i+1:]...)
			break
		}
	}
	p.claimed = true
	p.buffered -= b.bytes
	b.before, b.body = nil, nil
	close(b.done)
	p.wake()
	return nil
}
