package store_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// Many streams: an idle one costs no memory, a start looks at the
// journal and not at them, and when they are gone nothing is left.
func TestManyStreams(t *testing.T) {
	n := 5_000
	if os.Getenv("DS_ROUNDS") != "" { // make stress
		n = 200_000
	}
	disk := dstest.NewDisk()
	o := &store.Options{SegmentSize: 4 << 20, CacheSize: 1 << 20, FlushInterval: 50 * time.Millisecond, IdleAfter: 100 * time.Millisecond}
	e, err := store.Open(disk, dstest.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	name := func(i int) stream.Path { return stream.Path(fmt.Sprintf("streams/of/some/length/%06d", i)) }
	all := func(what func(i int) stream.Command) {
		t.Helper()
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				for i := w; i < n; i += 64 {
					if _, err := dstest.Apply(e, what(i)); err != nil {
						t.Errorf("%d: %v", i, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	start := time.Now()
	all(func(i int) stream.Command { return dstest.CreateText(name(i), fmt.Sprint(i)) })
	t.Logf("%d streams made in %v", n, time.Since(start))
	deadline := time.Now().Add(30 * time.Second)
	for e.Loaded() > 0 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if left := e.Loaded(); left > 0 {
		t.Errorf("%d idle streams stay in memory", left)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	if e, err = store.Open(disk, dstest.Dir, o); err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(start))
	if in := e.Loaded(); in > 0 {
		t.Errorf("a start loads %d streams", in)
	}
	for i := 0; i < n; i += n / 100 {
		if got := dstest.MustRead(t, e, name(i)); got != fmt.Sprint(i) {
			t.Errorf("stream %d reads %q", i, got)
		}
	}
	all(func(i int) stream.Command { return &stream.Delete{Path: name(i)} })
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Check(disk, dstest.Dir, nil); err != nil || !r.OK() || r.Streams != 0 || r.Chunks != 0 {
		t.Errorf("all was deleted: %+v, %v", r, err)
	}
}
