package subscription_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"durablestreams/stream"
	"durablestreams/subscription"
)

// hollow is an engine without streams of its own: all that is asked for has one
// tail, and everything is durable at once.
type hollow struct {
	meta *stream.Meta
	tail uint64
	rows int // put, less those taken away
}

func (*hollow) Ready() error { return nil }

func (h *hollow) PutRows(rows []stream.Row, done func(error)) {
	h.count(rows)
	done(nil)
}

func (h *hollow) count(rows []stream.Row) {
	for _, r := range rows {
		if r.Value == nil {
			h.rows--
		} else {
			h.rows++
		}
	}
}

func (*hollow) Rows([]byte, func(stream.Row) error) error { return nil }

func (*hollow) List(string, stream.Path, func(stream.Snapshot) bool) error { return nil }

func (h *hollow) Stat(stream.Path, bool) (stream.Snapshot, error) {
	return stream.Snapshot{Meta: h.meta, Tail: h.tail}, nil
}

func (*hollow) AppendEvent(_ stream.Path, _ []byte, _ stream.Producer, done func(error)) { done(nil) }

func (h *hollow) change(m *subscription.Manager, path stream.Path) {
	m.Decided(stream.Change{Path: path, Before: h.meta.OffsetAt(h.tail - 1), After: h.meta.OffsetAt(h.tail)}, h.count)
}

// atScale gives a manager with thousands of subscriptions, one of them over all of
// e/, and the names of many streams.
func atScale(t testing.TB, patterns, streams int) (*subscription.Manager, *hollow, []stream.Path) {
	h := &hollow{meta: &stream.Meta{Incarnation: 1}, tail: 10}
	m := subscription.New(nil)
	if err := m.Start(subscription.Ports{Engine: h, WakeStreams: h, Webhooks: &receivers{}, Tokens: tokens{}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	for i := range patterns {
		if _, _, err := m.Create(t.Context(), fmt.Sprint("s", i), rootURL, pull(fmt.Sprintf("u/%d/*", i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := m.Create(t.Context(), "all", rootURL, pull("e/*")); err != nil {
		t.Fatal(err)
	}
	paths := make([]stream.Path, streams)
	for i := range paths {
		paths[i] = stream.Path(fmt.Sprintf("e/%d", i))
	}
	return m, h, paths
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// TestMemory: streams cost memory and rows while they are pending, and only then.
func TestMemory(t *testing.T) {
	const streams = 100_000
	m, h, paths := atScale(t, 3000, streams)
	rows, before := h.rows, heap()
	for _, p := range paths {
		if !m.Interested(p) || m.Interested("other/"+p) {
			t.Fatal("interested in the wrong streams")
		}
	}
	if grown := heap() - before; grown > 100<<10 {
		t.Errorf("%d B for streams at rest", grown)
	}
	for _, p := range paths {
		h.change(m, p)
	}
	if grown := (heap() - before) / streams; grown > 250 {
		t.Errorf("%d B for a pending stream", grown)
	}
	if n := h.rows - rows - 1; n != streams {
		t.Errorf("%d rows for %d pending streams", n, streams)
	}
	for next := true; next; {
		w, err := m.Claim(t.Context(), "all", "w")
		if err != nil {
			t.Fatal(err)
		}
		if next, err = m.Ack(t.Context(), "all", ref(w), ackAll(w), true); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > 200<<10 {
		t.Errorf("%d B are left when all is acked", grown)
	}
	runtime.KeepAlive(paths)
}

// TestAllocations: what the path of an append does for a stream that is pending
// already, and for one that becomes so.
func TestAllocations(t *testing.T) {
	m, h, paths := atScale(t, 1000, 2000)
	h.change(m, paths[0])
	if n := testing.AllocsPerRun(1000, func() { h.change(m, paths[0]) }); n > 6 {
		t.Errorf("%v allocations for a stream that is pending", n)
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() { i++; h.change(m, paths[i]) }); n > 16 {
		t.Errorf("%v allocations for a stream that becomes pending", n)
	}
}

func BenchmarkDecided(b *testing.B) {
	m, h, paths := atScale(b, 5000, 1000)
	for _, p := range paths {
		h.change(m, p)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.change(m, paths[i%len(paths)])
	}
}
