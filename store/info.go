package store

import (
	"errors"
	"slices"

	"durablestreams/internal/archive"
	"durablestreams/stream"
)

// Info is what is known of a stream without its data.
type Info struct {
	stream.Snapshot

	Gone      bool   // soft-deleted, or its lifetime is over; only forks still read it
	Forks     uint32 // living forks that name it as their source
	WrittenAt int64  // Unix nanoseconds of the last append or close, or of the creation
	UsedAt    int64  // Unix nanoseconds of the last read or write, as far as it counts for the lifetime

	// Damaged says that the state cannot be read. Of the snapshot there are only
	// path and number then, and the number is 0 if that is unknown too.
	Damaged bool
}

// Size is the number of bytes that are the stream's own; inherited ones are not.
func (i *Info) Size() uint64 {
	if i.Damaged {
		return 0
	}
	return i.Tail - i.Base()
}

// Deadline is the time in Unix nanoseconds at which the stream ends if nobody uses
// it before, or [stream.Never].
func (i *Info) Deadline() int64 { return i.Lifetime.Deadline(i.UsedAt) }

// Page is a part of a listing.
type Page struct {
	Streams []Info
	Next    stream.Path // to go on after; empty at the end
}

// Page lists streams as [Engine.List] does, with those that only their forks
// still read and those that are damaged. It looks at no more than max names, of
// which some may lead to nothing: only an empty Next is the end. A call takes time
// and memory for max names, and a look at each path that the archive does not have
// yet; changes go on meanwhile.
func (e *Engine) Page(prefix string, after stream.Path, max int) (p Page, err error) {
	if err := e.failed(); err != nil {
		return Page{}, err
	}
	// What is in the archive by now shows in the later look at that.
	return e.page(prefix, after, max, e.fresh.after(prefix, after, max+1))
}

// page is Page with the first paths that the archive does not have.
func (e *Engine) page(prefix string, after stream.Path, max int, fresh []stream.Path) (p Page, err error) {
	names, more, err := e.names(prefix, after, max, fresh)
	if err != nil {
		return Page{}, err
	}
	for _, name := range names {
		info, err := e.inspect(name)
		if err != nil {
			return Page{}, err
		}
		if info != nil {
			p.Streams = append(p.Streams, *info)
		}
	}
	if more {
		p.Next = names[len(names)-1].Path
	}
	return p, nil
}

// Walk goes through all that Page shows, page by page. It looks at the paths that the
// archive does not have yet once, at its beginning, and keeps them: what is made later
// may be left out. It is for one goroutine.
type Walk struct {
	engine *Engine
	prefix string
	after  stream.Path
	fresh  []stream.Path
}

// Walk begins one.
func (e *Engine) Walk(prefix string) *Walk {
	return &Walk{engine: e, prefix: prefix, fresh: e.fresh.after(prefix, "", 0)}
}

// Next gives the next page, of no more than max names. One without a Next is the last.
func (w *Walk) Next(max int) (Page, error) {
	if err := w.engine.failed(); err != nil {
		return Page{}, err
	}
	p, err := w.engine.page(w.prefix, w.after, max, w.fresh[:min(len(w.fresh), max+1)])
	w.after = p.Next
	n, _ := slices.BinarySearch(w.fresh, w.after+"\x00") // those up to it
	w.fresh = w.fresh[n:]
	return p, err
}

// Inspect gives what Page shows of the stream at one path: [stream.NotFound] if
// there is nothing.
func (e *Engine) Inspect(p stream.Path) (Info, error) {
	if err := e.failed(); err != nil {
		return Info{}, err
	}
	info, err := e.inspect(archive.Name{Path: p})
	if err == nil && info == nil {
		err = stream.Access(nil, now())
	}
	if err != nil {
		return Info{}, err
	}
	return *info, nil
}

// names gives up to max names, and whether there may be more behind them.
func (e *Engine) names(prefix string, after stream.Path, max int, fresh []stream.Path) (names []archive.Name, more bool, err error) {
	archived, err := e.archive.NamesAfter(nil, prefix, after, max+1)
	if err != nil {
		return nil, false, listError(err)
	}
	names = mergeNames(make([]archive.Name, 0, len(archived)+len(fresh)), archived, fresh)
	more = len(names) > max
	return names[:min(len(names), max)], more, nil
}

// inspect is look for people: the second copy helps out, and damage shows.
func (e *Engine) inspect(n archive.Name) (*Info, error) {
	info, err := e.look(n)
	switch {
	case err == nil:
		return info, nil
	case errors.Is(err, archive.ErrClosed):
		return nil, errClosing
	}
	s, err := e.acquire(n.Path)
	switch {
	case err == nil:
		defer e.release(s)
		return s.pub.info(now()), nil
	case errors.Is(err, stream.Damaged):
		return &Info{Snapshot: stream.Snapshot{Meta: &stream.Meta{ID: n.ID, Path: n.Path}}, Damaged: true}, nil
	}
	return nil, err
}

// look gives what is published of a stream, nil if there is none, without loading
// it.
func (e *Engine) look(n archive.Name) (*Info, error) {
	for s := e.table.peek(n.Path); s != nil && s.loaded.Load(); s = e.table.peek(n.Path) {
		if info, ok := s.look(); ok {
			return info, nil
		}
	}
	if n.ID == 0 {
		id, found, err := e.archive.Lookup(n.Path)
		if err != nil || !found {
			return nil, err
		}
		n.ID = id
	}
	row, err := e.archive.LoadState(n.ID)
	if err != nil {
		return nil, err
	}
	if row == nil || row.State.Path != n.Path {
		id, found, err := e.archive.Lookup(n.Path)
		if err == nil && found && id == n.ID { // it has not just gone
			err = errLooseName
		}
		return nil, err
	}
	return infoOf(row.State, now()), nil
}

// look is the same for a slot; ok is false if the slot has left the table.
func (s *slot) look() (info *Info, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return nil, false
	}
	return s.pub.info(now()), true
}

// info gives what is published, with the slot held. l may be nil.
func (l *live) info(at int64) *Info {
	if l == nil || l.damaged { // the latter is on its way out
		return nil
	}
	seen := l.state
	seen.Tail, seen.Closed, seen.Deleted, seen.Forks, seen.WrittenAt = l.tail.end(), l.closed, l.deleted, l.forks, l.writtenAt
	if len(l.watchers) > 0 {
		seen.Touch(at)
	}
	return infoOf(&seen, at)
}

func infoOf(s *stream.State, at int64) *Info {
	err := stream.Access(s, at)
	if errors.Is(err, stream.NotFound) {
		return nil
	}
	return &Info{Snapshot: stream.Snapshot{Meta: s.Meta, Tail: s.Tail, Closed: s.Closed},
		Gone: err != nil, Forks: s.Forks, WrittenAt: s.WrittenAt, UsedAt: s.TouchedAt}
}
