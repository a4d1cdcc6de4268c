package due_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"durablestreams/internal/due"
)

type waiter struct{ entry due.Entry[waiter] }

// Whatever is queued, moved and removed, the queue answers as a list does that is
// searched from end to end.
func TestLikeAList(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var q due.Queue[waiter]
		all := make([]waiter, 20)
		model := map[*waiter]int64{}
		for step := range 300 {
			w, at := &all[r.IntN(len(all))], r.Int64N(50)
			switch r.IntN(4) {
			case 0, 1:
				model[w] = at
				first := q.Set(w, &w.entry, at)
				if earliest := slices.Min(slices.Collect(maps.Values(model))); first && at != earliest {
					t.Fatalf("seed %d, step %d: %d is called the first, %d is", seed, step, at, earliest)
				}
			case 2:
				delete(model, w)
				q.Remove(&w.entry)
			case 3:
				got := q.Pop(at)
				want, waits := int64(0), false
				for _, t := range model {
					if t <= at && (!waits || t < want) {
						want, waits = t, true
					}
				}
				if waits != (got != nil) || waits && (model[got] != want || got.entry.At() != want) {
					t.Fatalf("seed %d, step %d: pop at %d gives %v, want one of %d (%v)", seed, step, at, got, want, waits)
				}
				delete(model, got)
			}
			if _, in := model[w]; in != w.entry.Queued() {
				t.Fatalf("seed %d, step %d: queued %v, want %v", seed, step, w.entry.Queued(), in)
			}
			at, ok := q.Next()
			if ok != (len(model) > 0) || ok && at != slices.Min(slices.Collect(maps.Values(model))) {
				t.Fatalf("seed %d, step %d: next %d %v among %v", seed, step, at, ok, model)
			}
		}
	}
}

// Only what changes when the first one is due wakes the queue's user.
func TestFirst(t *testing.T) {
	var q due.Queue[waiter]
	a, b := new(waiter), new(waiter)
	for i, step := range []struct {
		w     *waiter
		at    int64
		first bool
	}{{a, 10, true}, {b, 20, false}, {b, 5, true}, {a, 6, false}, {a, 5, false}, {b, 7, false}, {a, 5, false}, {a, 4, true}} {
		if first := q.Set(step.w, &step.w.entry, step.at); first != step.first {
			t.Errorf("step %d: first %v, want %v", i, first, step.first)
		}
	}
}
