package durablestreams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"durablestreams/stream"
)

// nullStore takes every change at once and keeps nothing.
type nullStore struct{ meta stream.Meta }

func (n *nullStore) Apply(_ stream.Command, done stream.Completion) {
	done.Complete(stream.Result{Outcome: stream.Appended, Meta: &n.meta, Tail: n.meta.OffsetAt(0)}, nil)
}

func (*nullStore) Probe(_ stream.Command, done stream.Completion) {
	done.Complete(stream.Result{}, nil)
}

func (n *nullStore) Stat(stream.Path, bool) (stream.Snapshot, error) {
	return stream.Snapshot{Meta: &n.meta}, nil
}

func (*nullStore) Cork() {}

func (*nullStore) Uncork() {}

// InMemory is true: a loop answers without a detour.
func (*nullStore) InMemory(stream.Path, uint64) bool { return true }

func (*nullStore) Read(stream.Snapshot, uint64, uint64) stream.Blocks { return nothing{} }

func (*nullStore) Watch(stream.Snapshot, func()) (stop func()) { return func() {} }

func (*nullStore) Close() error { return nil }

// nothing is the data of a stream that keeps nothing.
type nothing struct{}

func (nothing) Next() ([]byte, error) { return nil, io.EOF }
func (nothing) Close() error          { return nil }

// NullServer starts a server on a free port of this machine that answers every
// append with a fixed 204 and keeps nothing. Its adapters and its protocol are
// those of a real Server: it is the yardstick for what the engine adds to them.
func NullServer() (addr string, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	s := newServer(nil)
	store := &nullStore{meta: stream.Meta{Incarnation: 1, ContentType: "application/octet-stream"}}
	if err := s.mount(store); err != nil {
		return "", nil, errors.Join(err, ln.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ctx, ln) // ends when it is told to
	}()
	return ln.Addr().String(), func() {
		cancel()
		<-done
	}, nil
}
