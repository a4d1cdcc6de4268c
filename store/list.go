package store

import (
	"errors"
	"slices"
	"strings"

	"durablestreams/internal/archive"
	"durablestreams/stream"
)

// listPage is how many names List takes from the archive at once.
const listPage = 256

// List gives the published streams whose path begins with prefix and comes after
// a path, in the order of paths, until yield returns false. It does not count as
// reading them.
//
// A stream that is there during the whole call is given once; one that comes or
// goes meanwhile may be given or not. Each snapshot was true at some moment of
// the call. No lock is held while yield runs, and none for longer than a look at
// one stream or at a part of the table. Streams that are not in memory stay out
// of it. One whose state cannot be read is logged and left out.
//
// Each call looks at all paths in memory: it is for backfill and administration,
// not for every request.
func (e *Engine) List(prefix string, after stream.Path, yield func(stream.Snapshot) bool) error {
	fresh := e.unarchived(prefix, after)
	var page, both []archive.Name
	for more := true; more; {
		if err := e.failed(); err != nil {
			return err
		}
		var err error
		if page, err = e.archive.NamesAfter(page[:0], prefix, after, listPage); err != nil {
			return listError(err)
		}
		n := len(fresh)
		if more = len(page) == listPage; more {
			after = page[len(page)-1].Path
			n, _ = slices.BinarySearch(fresh, after+"\x00") // those up to it
		}
		both = mergeNames(both[:0], page, fresh[:n])
		fresh = fresh[n:]
		for _, name := range both {
			snap, err := e.glance(name)
			if err != nil {
				if errors.Is(err, archive.ErrClosed) {
					return errClosing
				}
				e.log.Error("stream cannot be listed", "path", name.Path, "err", err)
				continue
			}
			if snap.Meta != nil && !yield(snap) {
				return nil
			}
		}
	}
	return nil
}

func listError(err error) error {
	if errors.Is(err, archive.ErrClosed) {
		return errClosing
	}
	return &stream.Error{Kind: stream.Damaged, Message: "the streams cannot be listed", Err: err}
}

// unarchived gives, in order, the paths of the published streams that the archive
// may not know yet. What is in the archive by now shows in every later look at it.
func (e *Engine) unarchived(prefix string, after stream.Path) (fresh []stream.Path) {
	var slots []*slot
	for i := range e.table.paths {
		slots = slots[:0]
		shard := &e.table.paths[i]
		shard.Lock()
		for p, s := range shard.m {
			if p > after && strings.HasPrefix(string(p), prefix) {
				slots = append(slots, s)
			}
		}
		shard.Unlock()
		for _, s := range slots {
			if !s.loaded.Load() {
				continue // on its way out of the archive
			}
			s.mu.Lock()
			if s.pub != nil && s.pub.flushedLSN == 0 {
				fresh = append(fresh, s.path)
			}
			s.mu.Unlock()
		}
	}
	slices.Sort(fresh)
	return fresh
}

// mergeNames merges names and paths, both in order. Where both have a path, the
// number is left open: the archive's may be that of a stream before.
func mergeNames(dst, names []archive.Name, fresh []stream.Path) []archive.Name {
	for len(names) > 0 || len(fresh) > 0 {
		if len(fresh) == 0 || len(names) > 0 && names[0].Path < fresh[0] {
			dst = append(dst, names[0])
			names = names[1:]
			continue
		}
		if len(names) > 0 && names[0].Path == fresh[0] {
			names = names[1:]
		}
		dst = append(dst, archive.Name{Path: fresh[0]})
		fresh = fresh[1:]
	}
	return dst
}

// glance gives the published state of a stream without loading it; the zero
// snapshot if there is none that may be read.
func (e *Engine) glance(n archive.Name) (stream.Snapshot, error) {
	for s := e.table.peek(n.Path); s != nil && s.loaded.Load(); s = e.table.peek(n.Path) {
		if snap, ok := s.glance(); ok {
			return snap, nil
		}
	}
	if n.ID == 0 {
		id, found, err := e.archive.Lookup(n.Path)
		if err != nil || !found {
			return stream.Snapshot{}, err
		}
		n.ID = id
	}
	row, err := e.archive.LoadState(n.ID)
	if err != nil || row == nil || row.State.Path != n.Path || stream.Access(row.State, now()) != nil {
		return stream.Snapshot{}, err
	}
	return stream.Snapshot{Meta: row.State.Meta, Tail: row.State.Tail, Closed: row.State.Closed}, nil
}

// glance is the same for a slot; ok is false if the slot has left the table.
func (s *slot) glance() (snap stream.Snapshot, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return snap, false
	}
	if s.pub != nil && !s.pub.damaged && s.pub.readable(now()) == nil {
		snap = s.pub.snapshot()
	}
	return snap, true
}
