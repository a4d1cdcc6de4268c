package subscription_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
	"durablestreams/subscription"
)

// realEngine is the store on a disk in memory, as a backend of histories.
type realEngine struct {
	*store.Engine
	t    *testing.T
	rnd  *rand.Rand
	disk **dstest.Disk // where the next run finds what this one leaves
	busy atomic.Bool
	dead atomic.Bool // the power is gone: what is said from now on nobody hears
}

func openReal(t *testing.T, disk **dstest.Disk, m *subscription.Manager, rnd *rand.Rand) *realEngine {
	e, err := store.Open(*disk, dstest.Dir, &store.Options{SegmentSize: 64 << 10, TailMemory: 16 << 10, Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	return &realEngine{Engine: e, t: t, rnd: rnd, disk: disk}
}

func (e *realEngine) heard(err error) error {
	if e.dead.Load() {
		return errDead
	}
	return err
}

func (e *realEngine) setBusy(busy bool) { e.busy.Store(busy) }

// Ready implements subscription.Engine.
func (e *realEngine) Ready() error {
	if e.busy.Load() {
		return &stream.Error{Kind: stream.Busy, Message: "busy"}
	}
	return e.Engine.Ready()
}

// PutRows implements subscription.Engine.
func (e *realEngine) PutRows(rows []stream.Row, done func(error)) {
	e.Engine.PutRows(rows, func(err error) {
		if done != nil {
			done(e.heard(err))
		}
	})
}

func (e *realEngine) apply(cmd stream.Command) error {
	_, err := dstest.Apply(e.Engine, cmd)
	return e.heard(err)
}

func (e *realEngine) create(path stream.Path, size uint64) error {
	return e.apply(&stream.Create{Path: path, ContentType: "application/json", Data: bytes.Repeat([]byte("1"), int(size))})
}

func (e *realEngine) append(path stream.Path, size uint64) error {
	return e.apply(&stream.Append{Path: path, ContentType: "application/json", HasBody: true, Data: bytes.Repeat([]byte("1"), int(size))})
}

func (e *realEngine) delete(path stream.Path) error { return e.apply(&stream.Delete{Path: path}) }

func (e *realEngine) tail(path stream.Path) (inc stream.Incarnation, tail uint64, found bool) {
	snap, err := e.Stat(path, false)
	if err != nil {
		return 0, 0, false
	}
	return snap.Incarnation, snap.Tail, true
}

// AppendEvent implements subscription.WakeStreams.
func (e *realEngine) AppendEvent(path stream.Path, event []byte, p stream.Producer, done func(error)) {
	e.Apply(&stream.Append{Path: path, ContentType: "application/json", HasBody: true, Data: append(event, ",\n"...), Producer: &p},
		completion(func(err error) { done(e.heard(err)) }))
}

type completion func(error)

func (c completion) Complete(_ stream.Result, err error) { c(err) }

func (e *realEngine) events(t *testing.T, path stream.Path) (events []wakeEvent) {
	data, _, err := dstest.ReadAll(e.Engine, path)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(data) {
		var event wakeEvent
		if err := json.Unmarshal(bytes.TrimRight(line, ",\n"), &event); err != nil {
			t.Fatalf("wake event %q: %v", line, err)
		}
		events = append(events, event)
	}
	return events
}

func (e *realEngine) crash() {
	e.dead.Store(true)
	left := (*e.disk).Crash(e.rnd, dstest.Loss{Keep: e.rnd.IntN(101), Tear: e.rnd.IntN(3) == 0})
	_ = e.Close() // of a world that is no more
	*e.disk = left
}

func (e *realEngine) close() {
	if err := e.Close(); err != nil {
		e.t.Error(err)
	}
	dstest.CheckDisk(e.t, *e.disk)
}

// TestHistoriesOnStore plays a few of the histories on the real engine.
func TestHistoriesOnStore(t *testing.T) {
	playHistories(t, 3, func(t *testing.T, seed uint64) func(*subscription.Manager) backend {
		rnd, disk := rand.New(rand.NewPCG(seed, 4)), dstest.NewDisk()
		return func(m *subscription.Manager) backend { return openReal(t, &disk, m, rnd) }
	})
}
