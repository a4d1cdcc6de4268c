package manage

import (
	"context"
	"sync"
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

// totals counts all streams at most for a small part of the time, whoever asks how
// often: counting looks at each of them.
type totals struct {
	count func(ctx context.Context, prefix string, before time.Time) (store.Totals, error)

	mu   sync.Mutex
	last Totals
	next time.Time // before it the last count of all streams is good enough
}

// restFactor is how much longer the last count is used than it took.
const restFactor = 20

func (t *totals) get(ctx context.Context, prefix string) (Totals, error) {
	if prefix != "" {
		return t.now(ctx, prefix)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	begin := time.Now()
	if begin.Before(t.next) {
		return t.last, nil
	}
	counted, err := t.now(ctx, "")
	if err != nil {
		return Totals{}, err
	}
	t.last, t.next = counted, time.Now().Add(restFactor*time.Since(begin))
	return counted, nil
}

func (t *totals) now(ctx context.Context, prefix string) (Totals, error) {
	at := time.Now()
	n, err := t.count(ctx, prefix, at.Add(soon))
	if err != nil {
		return Totals{}, err
	}
	return Totals{Streams: n.Streams, Bytes: n.Bytes, Closed: n.Closed, Forks: n.Forks, Deleted: n.Gone, Damaged: n.Damaged, Expiring: n.Expiring, At: moment(at.UnixNano())}, nil
}
