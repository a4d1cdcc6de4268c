package store

import (
	"errors"
	"slices"

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
// one stream or at a part of a table. Streams that are not in memory stay out
// of it. One whose state cannot be read is logged and left out.
//
// Each call looks at all paths that the archive does not have yet, and remembers
// them: it is for backfill. Administration takes [Engine.Page].
func (e *Engine) List(prefix string, after stream.Path, yield func(stream.Snapshot) bool) error {
	// What is in the archive by now shows in every later look at it.
	fresh := e.fresh.after(prefix, after, 0)
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
			info, err := e.look(name)
			if err != nil {
				if errors.Is(err, archive.ErrClosed) {
					return errClosing
				}
				e.log.Error("stream cannot be listed", "path", name.Path, "err", err)
				continue
			}
			if info != nil && !info.Gone && !yield(info.Snapshot) {
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
