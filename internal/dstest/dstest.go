// Package dstest has what tests of several packages need: a disk in memory that
// can lose power, fail and be full, an engine that is checked when its test
// ends, and calls that wait for their completion. Programs never import it.
package dstest

import (
	"errors"
	"io"
	"time"

	"durablestreams/store"
	"durablestreams/stream"
)

// Dir is the data directory on a test's disk.
const Dir = "data"

// Waiter turns a completion into a call. The zero value is not usable.
type Waiter struct {
	Res  stream.Result
	Err  error
	Done chan struct{}
}

// NewWaiter makes a Waiter for one completion.
func NewWaiter() *Waiter { return &Waiter{Done: make(chan struct{})} }

// Complete implements stream.Completion; a second call panics.
func (w *Waiter) Complete(res stream.Result, err error) {
	w.Res, w.Err = res, err
	close(w.Done)
}

// Applier is what changes streams.
type Applier interface {
	Apply(cmd stream.Command, done stream.Completion)
}

// Apply applies a command and waits for its outcome.
func Apply(e Applier, cmd stream.Command) (stream.Result, error) {
	w := NewWaiter()
	e.Apply(cmd, w)
	<-w.Done
	return w.Res, w.Err
}

// Reader is what gives streams back.
type Reader interface {
	Stat(p stream.Path, touch bool) (stream.Snapshot, error)
	Read(snap stream.Snapshot, from, to uint64) stream.Blocks
}

// ReadRange reads positions [from, to) of a snapshot.
func ReadRange(e Reader, snap stream.Snapshot, from, to uint64) ([]byte, error) {
	b := e.Read(snap, from, to)
	var all []byte
	for {
		block, err := b.Next()
		if errors.Is(err, io.EOF) {
			return all, b.Close()
		}
		if err != nil {
			return all, errors.Join(err, b.Close())
		}
		all = append(all, block...)
	}
}

// ReadAll reads all of the stream at a path.
func ReadAll(e Reader, p stream.Path) ([]byte, stream.Snapshot, error) {
	snap, err := e.Stat(p, true)
	if err != nil {
		return nil, snap, err
	}
	data, err := ReadRange(e, snap, 0, snap.Tail)
	return data, snap, err
}

// Text makes an append of text/plain data.
func Text(p stream.Path, data string) *stream.Append {
	return &stream.Append{Path: p, ContentType: "text/plain", HasBody: data != "", Data: []byte(data)}
}

// CreateText makes a create of a text/plain stream.
func CreateText(p stream.Path, data string) *stream.Create {
	return &stream.Create{Path: p, ContentType: "text/plain", Data: []byte(data)}
}

// Fork makes a create of a fork of source, a snapshot's stream, at a position.
func Fork(p stream.Path, source stream.Snapshot, point uint64) *stream.Create {
	return &stream.Create{Path: p, Fork: &stream.ForkRequest{
		SourcePath: source.Path, Source: source.ID, Point: point, AskedOffset: source.OffsetAt(point).String()}}
}

var _ interface {
	Applier
	Reader
} = (*store.Engine)(nil)

// Pause lets real time pass, for tests that stir up races and have no event to
// wait for. Whatever a test checks must hold however long it takes.
func Pause(d time.Duration) { time.Sleep(d) }
