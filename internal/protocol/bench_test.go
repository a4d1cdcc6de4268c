package protocol_test

import (
	"testing"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// instant is a store that takes everything at once, to see the core alone.
type instant struct{ snap stream.Snapshot }

func (s instant) Apply(cmd stream.Command, done stream.Completion) {
	done.Complete(stream.Result{Outcome: stream.Appended, Meta: s.snap.Meta, Tail: s.snap.TailOffset()}, nil)
}

func (s instant) Stat(stream.Path, bool) (stream.Snapshot, error)    { return s.snap, nil }
func (s instant) Probe(_ stream.Command, done stream.Completion)     { done.Complete(stream.Result{}, nil) }
func (s instant) Cork()                                              {}
func (s instant) Uncork()                                            {}
func (s instant) InMemory(stream.Path, uint64) bool                  { return true }
func (s instant) Read(stream.Snapshot, uint64, uint64) stream.Blocks { return nil }
func (s instant) Watch(_ stream.Snapshot, wake func()) (stop func()) { return func() {} }

func newInstant(b *testing.B) *protocol.Core {
	b.Helper()
	meta := &stream.Meta{ID: 1, Incarnation: 1, Path: "a", ContentType: "text/plain"}
	core, err := protocol.New(instant{stream.Snapshot{Meta: meta, Tail: 1000}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return core
}

func BenchmarkAppend(b *testing.B) {
	core := newInstant(b)
	req := &protocol.Request{Method: "POST", Path: "/durable-streams/v1/stream/a", ContentLength: 256,
		Header: fields{"Content-Type": {"text/plain"}, "Producer-Id": {"p"}, "Producer-Epoch": {"0"}, "Producer-Seq": {"17"}}}
	body := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		op, _ := core.Begin(req)
		op.Submit(body, func() {})
		if res := op.Response(); res.Status != 200 {
			b.Fatal(res.Status)
		}
	}
}

func BenchmarkEmptyRead(b *testing.B) {
	core := newInstant(b)
	req := &protocol.Request{Method: "GET", Path: "/durable-streams/v1/stream/a", Query: "offset=now", Header: fields{}}
	b.ReportAllocs()
	for b.Loop() {
		op, _ := core.Begin(req)
		if res := op.Read(); res.Status != 200 {
			b.Fatal(res.Status)
		}
	}
}
