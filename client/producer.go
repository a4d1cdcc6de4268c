package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"durablestreams/internal/wire"
)

// ErrProducerClosed says that a producer has been closed.
var ErrProducerClosed = errors.New("the producer has been closed")

// ErrSequenceUsed says that the server has taken a producer's sequence numbers
// from somebody else: two producers share an id and an epoch, or one has come
// back without a new epoch. What was appended since is not in the stream.
var ErrSequenceUsed = errors.New("the producer's sequence numbers have been used by another one")

// ErrAcknowledgedLost says that the server expects a sequence number that it has
// acknowledged before: it has lost data, or forgotten the producer.
var ErrAcknowledgedLost = errors.New("the server no longer knows of data that it has acknowledged")

// ProducerOptions set up a Producer. Only the ID must be given.
type ProducerOptions struct {
	// ID names the producer. At any time one process may use it on a stream.
	ID string

	// Epoch has to be greater than that of the producer's last run; the server then
	// refuses whatever that one still has on its way. With the same Epoch the run
	// before is continued, and Seq has to be right.
	Epoch uint64

	// Seq is the first sequence number, for a run that continues another.
	Seq uint64

	// AutoClaim finds an epoch: the time in milliseconds and, if the server knows a
	// later one, that and one more. It is for producers that keep no state. Once the
	// first batch is taken, being fenced by another producer is an error.
	AutoClaim bool

	// MaxBatchBytes and MaxBatchCount end a batch. An item that is larger goes alone.
	// Defaults 1 MiB and 10,000.
	MaxBatchBytes int
	MaxBatchCount int

	// Linger is how long an item may wait for others to share its batch. By default
	// it is sent when one of MaxInFlight requests is free, so that batches grow with
	// the load.
	Linger time.Duration

	// MaxInFlight bounds the batches on their way at one time. Default 5.
	MaxInFlight int

	// MaxBuffered bounds the bytes that are appended and not acknowledged. Append
	// waits beyond it. Default 16 MiB.
	MaxBuffered int

	// ContentType must be the stream's. Default: the stream is asked.
	ContentType string
}

func (o *ProducerOptions) withDefaults() (ProducerOptions, error) {
	d := *o
	for _, f := range []struct {
		field *int
		value int
	}{{&d.MaxBatchBytes, 1 << 20}, {&d.MaxBatchCount, 10_000}, {&d.MaxInFlight, 5}, {&d.MaxBuffered, 16 << 20}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	switch {
	case d.ID == "":
		return d, errors.New("producer: no id")
	case d.AutoClaim && (d.Epoch != 0 || d.Seq != 0):
		return d, errors.New("producer: with AutoClaim, neither Epoch nor Seq can be given")
	case d.Epoch > wire.MaxSafeInteger || d.Seq > wire.MaxSafeInteger:
		return d, errors.New("producer: epoch and seq are at most 2^53-1")
	}
	if d.AutoClaim {
		d.Epoch = uint64(max(time.Now().UnixMilli(), 0))
	}
	return d, nil
}

// Producer appends to a stream, each item once and in order, whatever happens to
// requests and answers. Items gather in batches, of which several are on their way
// at a time. Its first error that is final ends it: every later call returns it.
type Producer struct {
	s      *Stream
	opts   ProducerOptions
	json   bool
	cancel context.CancelCauseFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change of what follows
	queue    [][]byte      // items that are in no batch
	oldest   time.Time     // when the first of them came
	queued   int           // bytes in queue
	buffered int           // bytes in queue and batches
	appended uint64        // items that Append has taken
	urgent   uint64        // items before this one do not linger
	sending  []*batch      // on their way, in order
	last     *batch        // the one that was numbered last
	epoch    uint64
	seq      uint64 // of the next batch
	claimed  bool   // the server has taken a batch of the epoch
	closed   bool
	err      error
}

// Producer makes a producer for the stream. ctx is for finding out the content
// type; the producer works until it is closed.
func (s *Stream) Producer(ctx context.Context, opts *ProducerOptions) (*Producer, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.ContentType == "" {
		if o.ContentType, err = s.typ(ctx); err != nil {
			return nil, err
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	work, cancel := context.WithCancelCause(context.Background())
	p := &Producer{s: s, opts: o, json: wire.IsJSON(o.ContentType), cancel: cancel, changed: make(chan struct{}), epoch: o.Epoch, seq: o.Seq}
	p.work.Go(func() { p.run(work) })
	return p, nil
}

// Epoch is the epoch in which the producer appends. With AutoClaim it may change
// until the first batch is acknowledged.
func (p *Producer) Epoch() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// Append takes one item: bytes, or for a JSON stream the text of one message. It
// copies it and returns before it is sent, and waits only for room. That it is in
// the stream is known when a later Flush has returned nil.
func (p *Producer) Append(ctx context.Context, item []byte) error {
	switch {
	case len(item) == 0:
		return errors.New("append: an item without data")
	case p.json && !json.Valid(item):
		return fmt.Errorf("append %s: the item is not one JSON value", p.s.URL())
	}
	item = bytes.Clone(item)
	return p.await(ctx, func() (bool, error) {
		switch {
		case p.closed:
			return false, ErrProducerClosed
		case p.buffered > 0 && p.buffered+len(item) > p.opts.MaxBuffered:
			return false, nil
		case len(p.queue) == 0:
			p.oldest = time.Now()
		}
		p.queue = append(p.queue, item)
		p.queued += len(item)
		p.buffered += len(item)
		p.appended++
		p.wake()
		return true, nil
	})
}

// AppendJSON takes one message for a JSON stream.
func (p *Producer) AppendJSON(ctx context.Context, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("append %s: %w", p.s.URL(), err)
	}
	return p.Append(ctx, text)
}

// Flush returns when the server has acknowledged everything that was appended
// before the call.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	end := p.appended
	p.urgent = end
	p.wake()
	p.mu.Unlock()
	return p.await(ctx, func() (bool, error) { return p.acknowledged() >= end, nil })
}

// Close flushes and ends the producer. If ctx ends first, what is not
// acknowledged may be in the stream or not, and the error says so. The stream
// stays open.
func (p *Producer) Close(ctx context.Context) error { return p.end(ctx, nil) }

// CloseStream flushes, closes the stream, with final as its last item unless that is
// empty, and ends the producer.
func (p *Producer) CloseStream(ctx context.Context, final []byte) error {
	b := &batch{close: true}
	if len(final) > 0 {
		if p.json && !json.Valid(final) {
			return fmt.Errorf("close %s: the last item is not one JSON value", p.s.URL())
		}
		b.body = p.body([][]byte{final})
	}
	return p.end(ctx, b)
}

// end flushes, sends a last batch if there is one, and stops.
func (p *Producer) end(ctx context.Context, final *batch) error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.mu.Unlock()
	if !already {
		err := p.Flush(ctx)
		if err == nil && final != nil {
			p.mu.Lock()
			p.number(final)
			p.mu.Unlock()
			err = p.deliver(ctx, final)
		}
		if err != nil {
			p.fail(fmt.Errorf("the producer has ended before all was acknowledged: %w", err))
		}
	}
	p.cancel(ErrProducerClosed)
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// await asks ready, under the lock, at each change until it says yes or fails.
func (p *Producer) await(ctx context.Context, ready func() (bool, error)) error {
	for {
		p.mu.Lock()
		ok, err := false, p.err
		if err == nil {
			ok, err = ready()
		}
		changed := p.changed
		p.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wake makes all look again. The lock is held.
func (p *Producer) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// fail ends the producer with its first error.
func (p *Producer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		p.cancel(err)
		p.wake()
	}
}
