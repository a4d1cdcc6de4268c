package store

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"durablestreams/internal/archive"
	"durablestreams/stream"
)

// Ready says why small changes are not wanted at the moment, nil if they are. Who
// is about to decide something that PutRows is to keep asks before, and may hold
// locks meanwhile. On a full disk small changes go on until half of the reserve
// is gone: whoever works off what there is can say so.
func (e *Engine) Ready() error {
	switch {
	case e.failure.Load() != nil:
		return e.failed()
	case e.closing.Load():
		return errClosing
	case e.space.spent():
		return diskFull()
	case e.open.queued.Load() >= e.opts.MaxQueued:
		return busy()
	}
	return nil
}

// PutRows puts rows into the open commit batch, in the order of the calls. The
// rows of one call are kept or lost together. It never waits for the disk, and
// keeps nothing of rows. With no rows it only waits for what was put before. What
// is within its bounds is always taken, however much is waiting, until the engine
// has failed or closed: see Ready.
//
// done, which may be nil, is called exactly once and never by the goroutine that
// calls PutRows, so both may take the same lock: when the rows and everything
// before them are durable and visible, or with the reason if they were refused or
// the engine has failed. It must not block.
func (e *Engine) PutRows(rows []Row, done func(error)) {
	if err := e.putRows(rows, rowsDone(done)); err != nil && done != nil {
		go done(err)
	}
}

func (e *Engine) putRows(rows []Row, done rowsDone) error {
	size, err := checkRows(rows)
	if err != nil {
		return err
	}
	o := op{done: done, reserved: int64(size)}
	var own *batch
	if size >= largeRecord {
		own = newBatch(size)
		o.encodeRows(own, rows)
	}
	e.open.queued.Add(o.reserved)
	if !e.open.putRows(&o, rows, own) {
		e.open.queued.Add(-o.reserved)
		return errClosing
	}
	e.kick()
	return nil
}

// rowsDone is the completion of PutRows.
type rowsDone func(error)

// Complete implements stream.Completion.
func (f rowsDone) Complete(_ stream.Result, err error) {
	if f != nil {
		f(err)
	}
}

// rowTable holds the durable rows that the archive does not have yet; nil values
// stand for rows that are to go.
type rowTable struct {
	mu     sync.Mutex
	fresh  map[string][]byte
	moving map[string][]byte // those that a flush is putting into the archive
	size   int64             // bytes of fresh, about
	leaves int64             // bytes of moving
}

// rowOverhead is about what a row takes in memory besides its bytes.
const rowOverhead = 100

// publish takes durable rows in and says by how many bytes the table has grown.
func (t *rowTable) publish(rows []Row) (grown int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fresh == nil {
		t.fresh = map[string][]byte{}
	}
	for _, r := range rows {
		before, there := t.fresh[string(r.Key)]
		if !there {
			grown += int64(len(r.Key)) + rowOverhead
		}
		grown += int64(len(r.Value) - len(before))
		t.fresh[string(r.Key)] = bytes.Clone(r.Value)
	}
	t.size += grown
	return grown
}

// move gives the rows that the archive does not have, for it to take. What is
// published from now on is for the next time.
func (t *rowTable) move() map[string][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moving, t.fresh = t.fresh, nil
	t.leaves, t.size = t.size, 0
	return t.moving
}

// moved forgets what the archive has taken and says how many bytes that were.
func (t *rowTable) moved() (shrunk int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moving = nil
	shrunk, t.leaves = t.leaves, 0
	return shrunk
}

// over gives the rows with a prefix that are not in the archive, in order, and
// a walk over those that are. Both are as of the same moment.
func (t *rowTable) over(a *archive.Archive, prefix []byte) ([]Row, *archive.SmallRows, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	archived, err := a.SmallRows(prefix)
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	for k, v := range t.fresh {
		if strings.HasPrefix(k, string(prefix)) {
			rows = append(rows, Row{Key: []byte(k), Value: v})
		}
	}
	for k, v := range t.moving {
		if _, newer := t.fresh[k]; !newer && strings.HasPrefix(k, string(prefix)) {
			rows = append(rows, Row{Key: []byte(k), Value: v})
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return bytes.Compare(a.Key, b.Key) })
	return rows, archived, nil
}

// Rows gives all durable rows whose key has a prefix, in the order of the keys,
// as they are at one moment. A row is good until yield returns; an error from it
// ends the walk and is the result. The walk copies what is not in the archive
// yet and keeps the archive open: it is meant for a start.
func (e *Engine) Rows(prefix []byte, yield func(Row) error) (err error) {
	if err := e.failed(); err != nil {
		return err
	}
	fresh, archived, err := e.rows.over(e.archive, prefix)
	if err != nil {
		return rowsError(err)
	}
	defer func() {
		if cerr := archived.Close(); err == nil {
			err = rowsError(cerr)
		}
	}()
	key, value, err := archived.Next()
	for err == nil && (key != nil || len(fresh) > 0) {
		order := -1 // of the next fresh row against the archived one
		switch {
		case len(fresh) == 0:
			order = 1
		case key != nil:
			order = bytes.Compare(fresh[0].Key, key)
		}
		r := Row{Key: key, Value: value}
		if order <= 0 {
			r, fresh = fresh[0], fresh[1:]
		} else if r.Value == nil {
			r.Value = []byte{}
		}
		if r.Value != nil {
			if err := yield(r); err != nil {
				return err
			}
		}
		if order >= 0 {
			key, value, err = archived.Next()
		}
	}
	return rowsError(err)
}

func rowsError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, archive.ErrClosed):
		return errClosing
	}
	return &stream.Error{Kind: stream.Damaged, Message: "the server's rows cannot be read", Err: err}
}

// publishRows makes the rows of a record visible that is durable.
func (e *Engine) publishRows(body []byte) error {
	rows, err := DecodeRows(body)
	if err == nil {
		e.flush.tails.Add(e.rows.publish(rows))
	}
	return err
}

// flushRows puts the rows into the archive, in batches of some size, and gives
// the last batch, which is not applied yet.
func (e *Engine) flushRows() (*archive.Batch, error) {
	w := e.archive.NewBatch()
	began := time.Now()
	for k, v := range e.rows.move() {
		if v == nil {
			w.DeleteSmall([]byte(k))
		} else {
			w.PutSmall([]byte(k), v)
		}
		if w.Len() < flushGroup {
			continue
		}
		if err := w.Apply(); err != nil {
			return nil, err
		}
		e.giveWay(time.Since(began))
		w, began = e.archive.NewBatch(), time.Now()
	}
	return w, nil
}
