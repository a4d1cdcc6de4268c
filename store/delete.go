package store

import (
	"errors"
	"sync"

	"durablestreams/stream"
)

// Deletion is what a part of a deletion by prefix has done.
type Deletion struct {
	Streams int         // deleted
	Bytes   uint64      // of theirs, about: what was written meanwhile is not counted
	Next    stream.Path // to go on after; empty at the end
}

// DeletePage deletes streams as if each had been asked for, so forks keep what they
// inherit. It goes through them like [Engine.Page] and passes over those that only
// their forks still read. It returns when the deletions are durable. After an error
// the same call goes on where it has ended: what was deleted is listed no more.
func (e *Engine) DeletePage(prefix string, after stream.Path, max int) (Deletion, error) {
	p, err := e.Page(prefix, after, max)
	if err != nil {
		return Deletion{}, err
	}
	ended := deletions{}
	for i := range p.Streams {
		if info := &p.Streams[i]; !info.Gone {
			ended.wg.Add(1)
			e.Apply(&stream.Delete{Path: info.Path}, &oneDeletion{all: &ended, bytes: info.Size()})
		}
	}
	ended.wg.Wait()
	ended.sum.Next = p.Next
	return ended.sum, ended.err
}

// deletions gathers how they have ended.
type deletions struct {
	wg  sync.WaitGroup
	mu  sync.Mutex
	sum Deletion
	err error // the first one
}

// oneDeletion is the completion of one of them.
type oneDeletion struct {
	all   *deletions
	bytes uint64
}

// Complete implements stream.Completion.
func (o *oneDeletion) Complete(_ stream.Result, err error) {
	d := o.all
	defer d.wg.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.sum.Streams++
		d.sum.Bytes += o.bytes
	case errors.Is(err, stream.NotFound), errors.Is(err, stream.Gone): // somebody was quicker
	case d.err == nil:
		d.err = err
	}
}

// Totals counts streams.
type Totals struct {
	Streams  int    // all that Page shows
	Bytes    uint64 // their own data
	Closed   int
	Forks    int
	Gone     int // only forks still read them
	Damaged  int
	Mortal   int // that end by themselves if nobody uses them, or at a fixed time
	Expiring int // of those, before the time that was asked for
}

// Add counts a stream; before is a time in Unix nanoseconds.
func (t *Totals) Add(i *Info, before int64) {
	t.Streams++
	if i.Damaged {
		t.Damaged++
		return
	}
	t.Bytes += i.Size()
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	count(&t.Closed, i.Closed)
	count(&t.Forks, i.Fork != nil)
	count(&t.Gone, i.Gone)
	count(&t.Mortal, !i.Gone && !i.Lifetime.IsForever())
	count(&t.Expiring, !i.Gone && i.Deadline() < before)
}
