package durablestreams

import (
	"context"
	"errors"
	"time"

	"durablestreams/store"
	"durablestreams/stream"
)

// StreamInfo is what is known of a stream without its data.
type StreamInfo = store.Info

// StreamPage is a part of a listing.
type StreamPage = store.Page

// Deletion is what a deletion by prefix has done.
type Deletion = store.Deletion

// Totals counts streams.
type Totals = store.Totals

// adminPage is how many streams are looked at in one step.
const adminPage = 1000

// List gives streams whose path begins with prefix and comes after a path, in the
// order of paths, and where to go on. It looks at no more than max names, and some
// may lead to nothing: only an empty Next is the end. Being listed is not being
// read.
func (s *Server) List(prefix string, after stream.Path, max int) (StreamPage, error) {
	return s.store.Page(prefix, after, max)
}

// Inspect gives what List shows of one stream, [stream.NotFound] if there is none.
func (s *Server) Inspect(path stream.Path) (StreamInfo, error) { return s.store.Inspect(path) }

// DeletePage deletes the streams that List gives, as if each had been asked for. It
// returns when that is durable. After an error the same call goes on.
func (s *Server) DeletePage(prefix string, after stream.Path, max int) (Deletion, error) {
	return s.store.DeletePage(prefix, after, max)
}

// deletePause is how long a deletion waits when too much is waiting for the disk.
const deletePause = 100 * time.Millisecond

// DeletePrefix deletes all streams whose path begins with prefix, step by step, and
// tells progress, which may be nil, the sum so far. What is created meanwhile may
// stay. It can be ended by ctx and called again.
func (s *Server) DeletePrefix(ctx context.Context, prefix string, progress func(Deletion)) (sum Deletion, err error) {
	for more := true; more; {
		d, err := s.deleteStep(ctx, prefix, sum.Next, adminPage)
		sum = added(sum, d)
		if err != nil {
			return sum, err
		}
		sum.Next = d.Next
		more = d.Next != ""
		if progress != nil {
			progress(sum)
		}
	}
	return sum, nil
}

// deleteStep is DeletePage, called again while too much waits for the disk.
func (s *Server) deleteStep(ctx context.Context, prefix string, after stream.Path, max int) (sum Deletion, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		d, err := s.store.DeletePage(prefix, after, max)
		sum = added(sum, d)
		sum.Next = d.Next
		if !errors.Is(err, stream.Busy) {
			return sum, err
		}
		rest(ctx, deletePause)
	}
}

// added is what both have deleted.
func added(sum, d Deletion) Deletion {
	return Deletion{Streams: sum.Streams + d.Streams, Bytes: sum.Bytes + d.Bytes, Next: sum.Next}
}

// Totals counts the streams whose path begins with prefix; those that end before a
// time if nobody uses them also by themselves. It looks at each of them.
func (s *Server) Totals(ctx context.Context, prefix string, before time.Time) (t Totals, err error) {
	walk := s.store.Walk(prefix)
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		begin := time.Now()
		p, err := walk.Next(countStep)
		if err != nil {
			return t, err
		}
		for i := range p.Streams {
			t.Add(&p.Streams[i], before.UnixNano())
		}
		if more = p.Next != ""; more {
			rest(ctx, min(time.Since(begin), longestRest))
		}
	}
	return t, nil
}

// countStep is how many streams are counted in one go, which takes about a millisecond.
// Then others have the processor for as long: a count is in no hurry, and who appends is.
const (
	countStep   = 250
	longestRest = 10 * time.Millisecond // it was kept waiting itself
)

func rest(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}
