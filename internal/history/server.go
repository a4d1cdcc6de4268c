package history

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/httpapi"
	"durablestreams/internal/dstest"
	"durablestreams/internal/metamorphic"
	"durablestreams/internal/protocol"
	"durablestreams/internal/wire"
	"durablestreams/store"
)

// Small gives the opener of a server whose sizes are so small that everything
// happens often.
func Small(seed uint64) func(fs vfs.FS) (Server, error) {
	rng := rand.New(rand.NewPCG(seed, 3))
	o := metamorphic.RandomOptions(seed)
	o.SameType = wire.SameMediaType
	p := &protocol.Options{PageSize: 64 << 10, LongPollTimeout: LongPoll, KeepAlive: 10 * time.Millisecond,
		SSEMaxAge: []time.Duration{10 * time.Millisecond, time.Minute}[rng.IntN(2)]}
	return func(fs vfs.FS) (Server, error) {
		s := &small{failed: make(chan struct{})}
		mine := o
		mine.OnFatal = func(error) { close(s.failed) }
		var err error
		if s.engine, err = store.Open(fs, dstest.Dir, &mine); err != nil {
			return nil, err
		}
		if s.core, err = protocol.New(s.engine, p); err != nil {
			return nil, err
		}
		s.handler = httpapi.Handler(s.core, nil)
		return s, nil
	}
}

// small is a server as the root package puts it together, but for its limits.
type small struct {
	engine  *store.Engine
	core    *protocol.Core
	handler http.Handler
	failed  chan struct{}
}

func (s *small) Handler() http.Handler   { return s.handler }
func (s *small) Root() string            { return s.core.Root() }
func (s *small) Failed() <-chan struct{} { return s.failed }
func (s *small) Drain()                  { s.core.Drain() }
func (s *small) Close() error            { return s.engine.Close() }
