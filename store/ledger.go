package store

import (
	"errors"
	"fmt"

	"durablestreams/internal/archive"
	"durablestreams/internal/format"
	"durablestreams/stream"
)

// Ledger counts what streams take, and may refuse that they take more. A stream counts
// from its creation until nothing of it is left: as long as forks read it, its deletion
// does not take it out. Its bytes are its own, without what a fork inherits. One that
// cannot be read does not count.
//
// A ledger is asked with the stream's lock held, after everything else has been decided:
// it must answer at once. What it has let in is on its way to the disk; if that fails,
// the engine has failed.
type Ledger interface {
	// Create asks for a stream that begins with so many bytes, and charges it unless
	// dry says that this is a question only.
	Create(p stream.Path, bytes int, dry bool) (Account, *stream.Error)

	// Account is where the stream at a path, which is there, is charged.
	Account(p stream.Path) Account

	// Found charges a stream without asking, when the engine opens.
	Found(p stream.Path, bytes uint64)
}

// Account is where streams are charged. It is good as long as one of them is there.
type Account interface {
	// Append asks for so many bytes more in one append, and charges them unless dry
	// says that this is a question only. A close alone has none.
	Append(bytes int, dry bool) *stream.Error

	// GiveBack takes back the charge of streams that are over, with their bytes.
	GiveBack(streams int, bytes uint64)
}

// chargeAppend asks for bytes of the stream in a slot, which is held.
func (e *Engine) chargeAppend(s *slot, bytes int, dry bool) *stream.Error {
	if s.account == nil {
		s.account = e.opts.Ledger.Account(s.path)
	}
	return s.account.Append(bytes, dry)
}

// giveBack ends the charge of a stream that is over, with its slot held.
func (e *Engine) giveBack(l *live) {
	if e.opts.Ledger == nil {
		return
	}
	e.opts.Ledger.Account(l.slot.path).GiveBack(1, l.state.Tail-l.state.Base())
	l.slot.account = nil // which is good as long as the stream is
}

// countAll tells the ledger of every stream there is, before anything changes. What is
// counted is derived from the streams each time, so that it cannot come to differ from
// them, whatever happens.
func (e *Engine) countAll() error {
	if e.opts.Ledger == nil {
		return nil
	}
	type found struct {
		path  stream.Path
		bytes uint64
	}
	var archived []found // not yet told: the walk may fail on its way
	unread := map[stream.ID]bool{}
	err := e.archive.States(func(row *archive.Row) error {
		if s := e.table.peek(row.State.Path); s == nil || !s.loaded.Load() { // else memory knows better
			archived = append(archived, found{row.State.Path, row.State.Tail - row.State.Base()})
		}
		return nil
	}, func(id stream.ID, _ error) { unread[id] = true })
	if err != nil {
		if errors.Is(err, format.ErrNewer) {
			return err
		}
		e.log.Warn("the streams are counted one by one", "err", err)
		archived = nil
	}
	if err != nil || len(unread) > 0 {
		if err := e.loadUnread(unread, err != nil); err != nil {
			return fmt.Errorf("%w: the streams cannot be counted: %w", ErrDamaged, err)
		}
	}
	for _, f := range archived {
		e.opts.Ledger.Found(f.path, f.bytes)
	}
	for i := range e.table.paths {
		for _, s := range e.table.paths[i].m {
			if l := s.cur; l != nil {
				e.opts.Ledger.Found(s.path, l.state.Tail-l.state.Base())
			}
		}
	}
	return nil
}

// loadUnread loads streams whose rows cannot be read, or all, as far as the second copy
// has them. They leave memory as others do.
func (e *Engine) loadUnread(ids map[stream.ID]bool, all bool) error {
	var page []archive.Name
	for after, more := stream.Path(""), true; more; {
		var err error
		if page, err = e.archive.NamesAfter(page[:0], "", after, listPage); err != nil {
			return listError(err)
		}
		for _, name := range page {
			after = name.Path
			if !all && !ids[name.ID] {
				continue
			}
			s, err := e.acquire(name.Path)
			if err == nil {
				e.release(s)
			} else if !errors.Is(err, stream.Damaged) {
				return err
			}
		}
		more = len(page) == listPage
	}
	return nil
}
