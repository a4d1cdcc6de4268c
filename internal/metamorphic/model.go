package metamorphic

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"durablestreams/stream"
)

// entry is a stream as the model sees it.
type entry struct {
	state  stream.State // TouchedAt is the latest time it can have been used
	data   []byte       // all of it, inherited data too
	source *entry

	// sure is the earliest time of its last use that the store may still know:
	// renewals of a sliding window may be lost up to a tenth of the window.
	sure     int64
	watchers int
	forked   bool                       // was ever a source
	last     map[string]stream.Producer // last accepted triple of a producer
}

// model is what a store should hold.
type model struct {
	at    map[stream.Path]*entry
	same  stream.SameType
	ended map[stream.ID]bool // streams that were deleted for good

	// eased is when a lifetime last changed something between streams: the end
	// of a source or of a fork.
	eased int64
}

func newModel(same stream.SameType) *model {
	return &model{at: map[stream.Path]*entry{}, same: same, ended: map[stream.ID]bool{}}
}

// clone copies everything that apply can change.
func (m *model) clone() *model {
	out := newModel(m.same)
	maps.Copy(out.ended, m.ended)
	out.eased = m.eased
	copies := map[*entry]*entry{}
	var dup func(e *entry) *entry
	dup = func(e *entry) *entry {
		if e == nil {
			return nil
		}
		if c := copies[e]; c != nil {
			return c
		}
		c := &entry{state: *copyState(&e.state), data: e.data, sure: e.sure, watchers: e.watchers, forked: e.forked, last: maps.Clone(e.last)}
		copies[e] = c
		c.source = dup(e.source)
		return c
	}
	for p, e := range m.at {
		out.at[p] = dup(e)
	}
	return out
}

// copyState copies a state through its stored form, which so gets its test.
func copyState(s *stream.State) *stream.State {
	c, err := stream.DecodeState(s.AppendTo(nil))
	if err == nil {
		err = c.DecodeProducers(s.AppendProducers(nil))
	}
	if err != nil {
		panic(fmt.Sprintf("stored form of stream %d: %v", s.ID, err))
	}
	return c
}

// slack is how much of a renewal a store may forget.
func slack(l stream.Lifetime) int64 {
	window, ok := l.TTL()
	if !ok {
		return 0
	}
	tenth := int64(min(window, stream.MaxTTL/uint64(time.Second))) * int64(time.Second/10)
	const step = 20 * time.Millisecond // of a sweeper that renews what is watched
	return max(tenth, int64(100*time.Millisecond)) + int64(step)
}

// used notes a use at now; durable says that it is in a record.
func (e *entry) used(now int64, durable bool) {
	e.state.Touch(now)
	e.sure = max(e.sure, now-slack(e.state.Lifetime))
	if durable {
		e.sure = now
	}
}

// uncertain reports whether a store may or may not have let the stream expire.
func (e *entry) uncertain(now int64) bool {
	if e == nil || e.watchers > 0 || e.state.Deleted || e.state.Expired(now) {
		return false
	}
	return now >= e.state.Lifetime.Deadline(e.sure)
}

// expire ends what is over at now.
func (m *model) expire(now int64) {
	for _, p := range slices.Sorted(maps.Keys(m.at)) {
		e := m.at[p]
		if e == nil {
			continue // collected with one before it
		}
		if e.watchers > 0 {
			e.used(now, false)
		}
		if e.state.Expired(now) {
			m.end(e, now, true)
		}
	}
}

// end folds a deletion.
func (m *model) end(e *entry, now int64, expire bool) {
	r := stream.Record{Kind: stream.RecordDelete, ID: e.state.ID, Time: now, Soft: e.state.Forks > 0, Expired: expire}
	touched := e.state.TouchedAt
	e.state.Fold(&r)
	e.state.TouchedAt = touched
	e.watchers = 0
	if expire && (e.forked || e.source != nil) {
		m.eased = now
	}
	for !r.Soft {
		m.ended[e.state.ID] = true
		if m.at[e.state.Path] == e {
			delete(m.at, e.state.Path)
		}
		src := e.source
		if src == nil {
			return
		}
		src.state.DropFork()
		if !src.state.Deleted || src.state.Forks > 0 {
			return
		}
		e = src
	}
}

func stateOf(e *entry) *stream.State {
	if e == nil {
		return nil
	}
	return &e.state
}

// apply gives the right answer to a command and takes it in.
func (m *model) apply(cmd stream.Command, now int64) (stream.Result, *stream.Error) {
	m.expire(now)
	switch c := cmd.(type) {
	case *stream.Create:
		return m.create(c, now)
	case *stream.Append:
		e := m.at[c.Path]
		r, res, err := stream.DecideAppend(stateOf(e), c, m.same, now)
		if err != nil {
			return res, err
		}
		e.used(now, r.Kind != 0) // what is repeated is a use too
		if r.Kind == 0 {
			return res, nil
		}
		e.state.Fold(&r)
		e.data = append(e.data[:len(e.data):len(e.data)], c.Data...)
		if c.Producer != nil {
			e.last[c.Producer.ID] = *c.Producer
		}
		return res, nil
	case *stream.Delete:
		e := m.at[c.Path]
		_, res, err := stream.DecideDelete(stateOf(e), nil, false, now)
		if err == nil {
			m.end(e, now, false)
		}
		return res, err
	}
	panic("unknown command")
}

func (m *model) create(c *stream.Create, now int64) (stream.Result, *stream.Error) {
	var source *entry
	if c.Fork != nil {
		source = m.at[c.Fork.SourcePath]
	}
	r, res, err := stream.DecideCreate(stateOf(m.at[c.Path]), stateOf(source), c, m.same, now)
	if err != nil {
		return res, err
	}
	if r.Kind == 0 {
		m.at[c.Path].used(now, false)
		return res, nil
	}
	e := &entry{source: source, sure: now, last: map[string]stream.Producer{}}
	e.state.Fold(&r)
	if source != nil {
		source.state.AddFork()
		source.forked = true
		e.data = source.data[:r.Meta.Fork.Point:r.Meta.Fork.Point]
	}
	e.data = append(e.data[:len(e.data):len(e.data)], c.Data...)
	m.at[c.Path] = e
	return res, nil
}

// stat is what a reader should see of a path.
func (m *model) stat(p stream.Path, now int64) (*entry, error) {
	m.expire(now)
	e := m.at[p]
	return e, stream.Access(stateOf(e), now)
}

// compareSnapshot says what is wrong with what a store shows of a stream.
func (e *entry) compareSnapshot(snap stream.Snapshot) error {
	switch {
	case !reflect.DeepEqual(snap.Meta, e.state.Meta):
		return fmt.Errorf("metadata %s, want %s", describeMeta(snap.Meta), describeMeta(e.state.Meta))
	case snap.Tail != e.state.Tail:
		return fmt.Errorf("tail %d, want %d", snap.Tail, e.state.Tail)
	case snap.Closed != e.state.Closed:
		return fmt.Errorf("closed %v, want %v", snap.Closed, e.state.Closed)
	}
	return nil
}

func describeMeta(m *stream.Meta) string {
	s := fmt.Sprintf("%+v", *m)
	if m.Fork != nil {
		s += fmt.Sprintf(" fork %+v", *m.Fork)
	}
	return s
}

// compareData says where two byte strings differ.
func compareData(got, want []byte, from uint64) error {
	if bytes.Equal(got, want) {
		return nil
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	return fmt.Errorf("%d bytes, want %d; they differ at position %d: %q, want %q",
		len(got), len(want), from+uint64(i), clip(got[i:]), clip(want[i:]))
}

func clip(b []byte) []byte { return b[:min(len(b), 40)] }
