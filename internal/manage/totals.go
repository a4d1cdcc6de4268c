package manage

import (
	"context"
	"sync/atomic"
	"time"

	"durablestreams/store"
)

// Totals counts streams.
type Totals struct {
	Streams  int    `json:"streams"`
	Bytes    uint64 `json:"bytes"` // stored, without what forks inherit
	Closed   int    `json:"closed"`
	Forks    int    `json:"forks"`
	Deleted  int    `json:"deleted"` // or expired, and kept for their forks
	Damaged  int    `json:"damaged"`
	Expiring int    `json:"expiring"` // within the next hour, if nobody uses them
	At       string `json:"at"`       // when they were counted
}

// totals counts all streams at most for a small part of the time, and one request's at
// a time, whoever asks how often: counting looks at each of them.
type totals struct {
	count func(ctx context.Context, prefix string, before time.Time) (store.Totals, error)
	turn  chan struct{} // held by who counts; others wait only as long as their client does
	last  atomic.Pointer[counted]
}

// counted is a count of all streams.
type counted struct {
	Totals
	until time.Time // before it the count is good enough
}

// restFactor is how much longer the last count is used than it took.
const restFactor = 20

func newTotals(count func(context.Context, string, time.Time) (store.Totals, error)) *totals {
	return &totals{count: count, turn: make(chan struct{}, 1)}
}

func (t *totals) get(ctx context.Context, prefix string) (Totals, error) {
	if now, ok := t.known(prefix); ok {
		return now, nil
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return Totals{}, ctx.Err()
	}
	if now, ok := t.known(prefix); ok { // somebody has counted meanwhile
		return now, nil
	}
	begin := time.Now()
	now, err := t.now(ctx, prefix)
	if err == nil && prefix == "" {
		t.last.Store(&counted{now, time.Now().Add(restFactor * time.Since(begin))})
	}
	return now, err
}

// known gives the last count of all streams, if that is asked for and good enough.
func (t *totals) known(prefix string) (Totals, bool) {
	last := t.last.Load()
	if prefix != "" || last == nil || !time.Now().Before(last.until) {
		return Totals{}, false
	}
	return last.Totals, true
}

func (t *totals) now(ctx context.Context, prefix string) (Totals, error) {
	at := time.Now()
	n, err := t.count(ctx, prefix, at.Add(soon))
	if err != nil {
		return Totals{}, err
	}
	return Totals{Streams: n.Streams, Bytes: n.Bytes, Closed: n.Closed, Forks: n.Forks, Deleted: n.Gone, Damaged: n.Damaged, Expiring: n.Expiring, At: moment(at.UnixNano())}, nil
}
