package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
)

// RandomOptions gives engine options under which everything happens often:
// segments roll, tails overflow, flushes and evictions come between requests.
func RandomOptions(seed uint64) store.Options {
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func(list ...int64) int64 { return list[rng.IntN(len(list))] }
	return store.Options{
		SegmentSize:   pick(4<<10, 8<<10, 16<<10, 64<<10),
		TailMemory:    pick(1<<10, 16<<10, 256<<10, 8<<20),
		CacheSize:     1 << 20,
		MaxQueued:     pick(1<<20, 64<<20),
		FlushInterval: time.Duration(pick(5, 50, 1000, 30_000)) * time.Millisecond,
		IdleAfter:     time.Duration(pick(80, 400, 2000, 60_000)) * time.Millisecond,
	}
}

// CheckStore runs the store's own check over a closed data directory.
func CheckStore(dir string) Checker {
	return func(fs vfs.FS) error {
		r, err := store.Check(fs, dir, nil)
		if err != nil {
			return err
		}
		if !r.OK() {
			return fmt.Errorf("%d problems: %+v", len(r.Problems), r.Problems)
		}
		return nil
	}
}
