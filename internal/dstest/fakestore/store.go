// Package fakestore is a store for tests of the protocol and its adapters.
// It decides and folds with package stream, like the engine does, and keeps
// everything in maps under one lock: nothing is durable, fast or bounded.
package fakestore

import (
	"io"
	"sync"
	"time"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// Store satisfies protocol.Store. The zero value is ready for use. The exported
// fields are set before the first use, Err and BlockErr with Do also later.
type Store struct {
	// BlockSize is how long the blocks of a read are, so that tests see pages
	// made of many. Default 7.
	BlockSize int

	// Err, if not nil, is the outcome of every call.
	Err error

	// BlockErr, if not nil, is what a read gives after its first block.
	BlockErr error

	// Held makes every Apply wait for Release before it completes.
	Held bool

	mu      sync.Mutex
	paths   map[stream.Path]*entry
	ids     map[stream.ID]*entry
	last    stream.ID
	watches int
	held    []func()
}

type entry struct {
	*stream.State
	data     []byte // own bytes, from Base on
	watchers map[*int]func()
}

// Do runs f under the store's lock.
func (s *Store) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Watches is the number of watches that were not stopped.
func (s *Store) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}

// Release completes what Held kept back.
func (s *Store) Release() {
	s.mu.Lock()
	held := s.held
	s.held = nil
	s.mu.Unlock()
	for _, f := range held {
		f()
	}
}

// Probe decides and completes.
func (s *Store) Probe(cmd stream.Command, done stream.Completion) {
	s.mu.Lock()
	now := time.Now().UnixNano()
	var refusal *stream.Error
	switch c := cmd.(type) {
	case *stream.Create:
		var src *entry
		if c.Fork != nil {
			src = s.at(c.Fork.SourcePath, now)
		}
		_, _, refusal = stream.DecideCreate(s.at(c.Path, now).state(), src.state(), c, wire.SameMediaType, now)
	case *stream.Append:
		_, _, refusal = stream.DecideAppend(s.at(c.Path, now).state(), c, wire.SameMediaType, now)
	case *stream.Delete:
		_, _, refusal = stream.DecideDelete(s.at(c.Path, now).state(), nil, false, now)
	}
	err := s.Err
	if err == nil && refusal != nil {
		err = refusal
	}
	s.mu.Unlock()
	done.Complete(stream.Result{}, err)
}

// Apply decides, folds and completes.
func (s *Store) Apply(cmd stream.Command, done stream.Completion) {
	s.mu.Lock()
	now := time.Now().UnixNano()
	var res stream.Result
	var refusal *stream.Error
	var woken []func()
	switch c := cmd.(type) {
	case *stream.Create:
		res, refusal = s.create(c, now)
	case *stream.Append:
		res, refusal, woken = s.append(c, now)
	case *stream.Delete:
		res, refusal, woken = s.delete(s.at(c.Path, now), false, now)
	}
	err := s.Err
	if err == nil && refusal != nil {
		err = refusal
	}
	complete := func() { done.Complete(res, err) }
	if s.Held {
		s.held = append(s.held, complete)
		complete = func() {}
	}
	s.mu.Unlock()
	for _, wake := range woken {
		wake()
	}
	complete()
}

// at gives the stream at a path after it has been expired, if that is due.
func (s *Store) at(path stream.Path, now int64) *entry {
	e := s.paths[path]
	if e == nil {
		return nil
	}
	if len(e.watchers) > 0 {
		e.Touch(now)
	}
	if e.Expired(now) {
		_, _, _ = s.delete(e, true, now)
	}
	return s.paths[path]
}

func (e *entry) state() *stream.State {
	if e == nil {
		return nil
	}
	return e.State
}

func (s *Store) create(c *stream.Create, now int64) (stream.Result, *stream.Error) {
	if s.paths == nil {
		s.paths, s.ids = map[stream.Path]*entry{}, map[stream.ID]*entry{}
	}
	s.last++
	c.ID, c.Incarnation = s.last, stream.Incarnation(s.last)*0x9E3779B97F4A&(1<<stream.IncarnationBits-1)
	cur := s.at(c.Path, now)
	var src *entry
	if c.Fork != nil {
		src = s.at(c.Fork.SourcePath, now)
	}
	rec, res, err := stream.DecideCreate(cur.state(), src.state(), c, wire.SameMediaType, now)
	if err != nil || rec.Kind == 0 {
		return res, err
	}
	e := &entry{State: &stream.State{}, data: append([]byte(nil), rec.Data...), watchers: map[*int]func(){}}
	e.Fold(&rec)
	s.paths[c.Path], s.ids[c.ID] = e, e
	if src != nil {
		src.AddFork()
	}
	return res, nil
}

func (s *Store) append(c *stream.Append, now int64) (stream.Result, *stream.Error, []func()) {
	e := s.at(c.Path, now)
	rec, res, err := stream.DecideAppend(e.state(), c, wire.SameMediaType, now)
	if err != nil || rec.Kind == 0 {
		return res, err, nil
	}
	e.Fold(&rec)
	e.data = append(e.data, rec.Data...)
	return res, nil, e.wakes()
}

func (s *Store) delete(e *entry, expire bool, now int64) (stream.Result, *stream.Error, []func()) {
	var ancestors []*stream.State
	for a := e; a != nil && a.Fork != nil; {
		if a = s.ids[a.Fork.Source]; a == nil {
			break
		}
		ancestors = append(ancestors, a.State)
	}
	rec, res, err := stream.DecideDelete(e.state(), ancestors, expire, now)
	if err != nil {
		return res, err, nil
	}
	e.Fold(&rec)
	if !rec.Soft {
		s.forget(e)
	}
	for _, id := range rec.Collected {
		s.forget(s.ids[id])
	}
	if rec.Unref != 0 {
		s.ids[rec.Unref].DropFork()
	}
	return res, nil, e.wakes()
}

func (s *Store) forget(e *entry) {
	delete(s.ids, e.ID)
	if s.paths[e.Path] == e {
		delete(s.paths, e.Path)
	}
}

func (e *entry) wakes() []func() {
	var list []func()
	for _, wake := range e.watchers {
		list = append(list, wake)
	}
	return list
}

// Stat gives the state of a stream.
func (s *Store) Stat(path stream.Path, touch bool) (stream.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Err != nil {
		return stream.Snapshot{}, s.Err
	}
	now := time.Now().UnixNano()
	e := s.at(path, now)
	if err := stream.Access(e.state(), now); err != nil {
		return stream.Snapshot{}, err
	}
	if touch {
		e.Touch(now)
	}
	return stream.Snapshot{Meta: e.Meta, Tail: e.Tail, Closed: e.Closed}, nil
}

// Read gives bytes of a stream and of those it was forked from.
func (s *Store) Read(snap stream.Snapshot, from, to uint64) stream.Blocks {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := s.BlockSize
	if size == 0 {
		size = 7
	}
	b := &blocks{err: s.BlockErr}
	for _, span := range snap.Spans(nil, from, to) {
		e := s.ids[span.ID]
		if e == nil {
			b.err = stream.Damaged
			return b
		}
		part := e.data[span.From-e.Base() : span.To-e.Base()]
		for len(part) > 0 {
			n := min(size, len(part))
			b.list = append(b.list, part[:n])
			part = part[n:]
		}
	}
	return b
}

type blocks struct {
	list  [][]byte
	given bool
	err   error
}

func (b *blocks) Next() ([]byte, error) {
	if b.err != nil && (b.given || len(b.list) == 0) {
		return nil, b.err
	}
	if len(b.list) == 0 {
		return nil, io.EOF
	}
	next := b.list[0]
	b.list, b.given = b.list[1:], true
	return next, nil
}

func (b *blocks) Close() error { return nil }

// Watch calls wake at every change of the stream.
func (s *Store) Watch(snap stream.Snapshot, wake func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := new(int)
	e := s.ids[snap.ID]
	if e == nil {
		go wake()
		return func() {}
	}
	e.watchers[key] = wake
	s.watches++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, ok := e.watchers[key]; ok {
			e.Touch(time.Now().UnixNano())
			delete(e.watchers, key)
			s.watches--
		}
	}
}

// Cork and Uncork do nothing: there are no batches.
func (s *Store) Cork() {}

// Uncork is the counterpart of Cork.
func (s *Store) Uncork() {}

// InMemory is always true: there is no disk.
func (s *Store) InMemory(stream.Path, uint64) bool { return true }
