package durablestreams_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams"
	"durablestreams/internal/dstest"
	"durablestreams/internal/history"
)

// wholeServer lets a history drive a server as others embed it.
type wholeServer struct {
	*durablestreams.Server
	begin sync.Once
	ended chan error // capacity 1
}

// Drain begins the shutdown.
func (w *wholeServer) Drain() {
	w.begin.Do(func() { go func() { w.ended <- w.Shutdown(context.Background()) }() })
}

func (w *wholeServer) Close() error {
	w.Drain()
	return <-w.ended
}

// What concurrent clients are told by a whole server, over power cuts, failing and
// full disks, starts and stops, can be explained one request after the other.
// Package history has the same for a server of smaller sizes.
func TestHistories(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		var ops []*history.Op
		synctest.Test(t, func(t *testing.T) {
			sim := &history.Sim{Seed: seed, Settle: synctest.Wait, Open: func(fs vfs.FS) (history.Server, error) {
				s, err := durablestreams.OpenFS(fs, dstest.Dir, &durablestreams.Options{
					SegmentSize: 256 << 10, TailMemory: 1 << 20, PageSize: 64 << 10, LongPollTimeout: history.LongPoll})
				if err != nil {
					return nil, err
				}
				return &wholeServer{Server: s, ended: make(chan error, 1)}, nil
			}}
			var err error
			if ops, err = sim.Run(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		})
		if err := history.Check(ops, 30*time.Second).Err(fmt.Sprintf("seed %d", seed)); err != nil {
			t.Error(err)
		}
	}
}
