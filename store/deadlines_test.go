package store_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// idle are options under which flushes and evictions follow quickly.
func idle() *store.Options {
	return &store.Options{SegmentSize: 16 << 10, CacheSize: 1 << 20, FlushInterval: 10 * time.Millisecond, IdleAfter: 100 * time.Millisecond}
}

func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Deadlines of streams that left memory stand in the archive's index only; the
// sweeper must come back for them, however late it last looked there.
func TestEvictedStreamsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := dstest.NewDisk()
		e := dstest.OpenEngine(t, disk, idle())
		pause(15 * time.Second) // the sweeper has seen an empty index
		dstest.MustApply(t, e, &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(30), Data: []byte("x")})
		pause(40 * time.Second)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := store.Check(disk, dstest.Dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Streams != 0 || r.Chunks != 0 {
			t.Errorf("an expired stream is still there: %+v", r)
		}
	})
}

// A live reader counts as reading all the time: a crash while it is there costs
// the stream no more than a tenth of its window.
func TestWatchedStreamOutlivesCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := dstest.NewDisk()
		e := dstest.OpenEngine(t, disk, idle())
		dstest.MustApply(t, e, &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(60)})
		snap, err := e.Stat("a", false)
		if err != nil {
			t.Fatal(err)
		}
		stop := e.Watch(snap, func() {})
		defer stop()
		pause(239 * time.Second) // a second before the fourth window ends
		left := disk.Crash(rand.New(rand.NewPCG(1, 1)), dstest.Loss{})
		after := dstest.OpenEngine(t, left, idle())
		pause(53 * time.Second)
		if _, err := after.Stat("a", false); err != nil {
			t.Errorf("53 s after a crash under a live reader: %v", err)
		}
		pause(8 * time.Second)
		if _, err := after.Stat("a", false); !errors.Is(err, stream.NotFound) {
			t.Errorf("61 s after: %v, want not found", err)
		}
	})
}

// Reads renew a window; a crash may take back a tenth of it, not more.
func TestRenewalSurvivesCrash(t *testing.T) {
	for _, window := range []uint64{1, 2, 5, 19, 60, 300} {
		synctest.Test(t, func(t *testing.T) {
			disk := dstest.NewDisk()
			e := dstest.OpenEngine(t, disk, idle())
			dstest.MustApply(t, e, &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(window)})
			w := time.Duration(window) * time.Second
			for range 25 {
				pause(w / 13)
				if _, err := e.Stat("a", true); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			after := dstest.OpenEngine(t, disk.Crash(nil, dstest.Loss{}), idle())
			pause(w - max(w/10, 100*time.Millisecond))
			if _, err := after.Stat("a", false); err != nil {
				t.Errorf("window %v: %v after a crash", w, err)
			}
			pause(w)
			if _, err := after.Stat("a", false); !errors.Is(err, stream.NotFound) {
				t.Errorf("window %v: %v, want not found", w, err)
			}
		})
	}
}

// A renewal that the journal has no place for at the moment still outlives an
// eviction and a restart.
func TestRefusedRenewalIsKept(t *testing.T) {
	for name, restart := range map[string]bool{"eviction": false, "restart": true} {
		synctest.Test(t, func(t *testing.T) {
			disk := dstest.NewDisk()
			disk.SetCapacity(64 << 20)
			e := dstest.OpenEngine(t, disk, idle())
			dstest.MustApply(t, e, &stream.Create{Path: "a", ContentType: "text/plain", Lifetime: stream.Sliding(60)})
			disk.SetCapacity(1 << 20) // full
			pause(50 * time.Second)
			if _, err := dstest.Apply(e, dstest.CreateText("b", "")); !errors.Is(err, stream.DiskFull) {
				t.Fatalf("the disk is not full: %v", err)
			}
			if _, err := e.Stat("a", true); err != nil {
				t.Fatal(err)
			}
			pause(time.Second)
			disk.SetCapacity(0)
			if restart {
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				e = dstest.OpenEngine(t, disk, idle())
			}
			pause(20 * time.Second)
			if _, err := e.Stat("a", false); err != nil {
				t.Errorf("%s: 21 s after a read of a stream with 60 s: %v", name, err)
			}
		})
	}
}
