package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/store"
)

// A flush leaves time to others, but not for ever, nor when memory gets short.
func TestFlushGivesWay(t *testing.T) {
	for _, c := range []struct {
		worked time.Duration
		tails  int64
		want   time.Duration
	}{
		{10 * time.Millisecond, 0, 70 * time.Millisecond},
		{10 * time.Millisecond, 1 << 20, 70 * time.Millisecond},
		{10 * time.Millisecond, 1<<20 + 1<<18, 0},
		{time.Second, 0, 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := dstest.OpenEngine(t, dstest.NewDisk(), &store.Options{TailMemory: 1 << 20})
			if got := e.GiveWay(c.worked, c.tails); got != c.want {
				t.Errorf("after %v with %d bytes in the tails: %v, want %v", c.worked, c.tails, got, c.want)
			}
		})
	}
}
