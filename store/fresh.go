package store

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"durablestreams/stream"
)

// freshTable holds the streams that the archive does not have, by path, for
// listings: what a flush leaves behind, and so few of all that are in memory.
type freshTable struct {
	seed   maphash.Seed
	shards [tableShards]freshShard
}

type freshShard struct {
	sync.Mutex
	m map[stream.Path]*live
}

func (t *freshTable) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].m = map[stream.Path]*live{}
	}
}

func (t *freshTable) shard(p stream.Path) *freshShard {
	return &t.shards[maphash.String(t.seed, string(p))%tableShards]
}

// add lists a stream, with its slot held.
func (t *freshTable) add(l *live) {
	shard := t.shard(l.slot.path)
	shard.Lock()
	defer shard.Unlock()
	shard.m[l.slot.path] = l
}

// remove takes a stream off, unless another one has taken its path, with the
// slot held.
func (t *freshTable) remove(l *live) {
	shard := t.shard(l.slot.path)
	shard.Lock()
	defer shard.Unlock()
	if shard.m[l.slot.path] == l {
		delete(shard.m, l.slot.path)
	}
}

// after gives in order the first paths, at most max (0: all), that begin with
// prefix and come after a path. It needs memory for twice as many.
func (t *freshTable) after(prefix string, after stream.Path, max int) (paths []stream.Path) {
	for i := range t.shards {
		shard := &t.shards[i]
		shard.Lock()
		for p := range shard.m {
			if p <= after || !strings.HasPrefix(string(p), prefix) {
				continue
			}
			if paths = append(paths, p); max > 0 && len(paths) == 2*max {
				slices.Sort(paths)
				paths = paths[:max]
			}
		}
		shard.Unlock()
	}
	slices.Sort(paths)
	if max > 0 && len(paths) > max {
		paths = paths[:max]
	}
	return paths
}
