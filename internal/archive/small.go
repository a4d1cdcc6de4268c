package archive

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// SmallRows walks small rows in the order of their keys, as they were when it
// began.
type SmallRows struct {
	a     *Archive
	it    *pebble.Iterator
	began bool
}

// SmallRows begins a walk over the rows whose key has a prefix. It does not read
// yet.
func (a *Archive) SmallRows(prefix []byte) (*SmallRows, error) {
	if err := a.enter(); err != nil {
		return nil, err
	}
	first := smallKey(prefix)
	it, err := a.db.NewIter(&pebble.IterOptions{LowerBound: first, UpperBound: behind(first)})
	if err != nil {
		a.leave()
		return nil, fmt.Errorf("walk rows: %w", err)
	}
	return &SmallRows{a: a, it: it}, nil
}

// Next gives the next row, or a nil key at the end. Both slices are valid until
// the next call.
func (s *SmallRows) Next() (key, value []byte, err error) {
	if s.a.isClosed() {
		return nil, nil, ErrClosed
	}
	ok := false
	if s.began {
		ok = s.it.Next()
	} else {
		ok, s.began = s.it.First(), true
	}
	if !ok {
		if err := s.it.Error(); err != nil {
			return nil, nil, fmt.Errorf("walk rows: %w", err)
		}
		return nil, nil, nil
	}
	value, err = s.it.ValueAndErr()
	if err != nil {
		return nil, nil, fmt.Errorf("walk rows: %w", err)
	}
	return s.it.Key()[1:], value, nil
}

// Close ends the walk.
func (s *SmallRows) Close() error {
	defer s.a.leave()
	return s.it.Close()
}
