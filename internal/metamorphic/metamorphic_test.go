package metamorphic_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"durablestreams/internal/dstest"
	"durablestreams/internal/metamorphic"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run only this seed")
	stepsFlag = flag.Int("steps", 400, "steps of a history")
)

// rounds is how many seeds to run: quick by default, DS_ROUNDS for a hunt.
func rounds(t *testing.T, quick int) (first uint64, n int) {
	t.Helper()
	if *seedFlag != 0 {
		return *seedFlag, 1
	}
	if s := os.Getenv("DS_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return uint64(os.Getpid())*1_000_000 + 1, n
	}
	return 1, quick
}

func history(seed uint64) *metamorphic.History {
	return &metamorphic.History{
		Seed:   seed,
		Steps:  *stepsFlag,
		Open:   metamorphic.Observed(dstest.Dir, metamorphic.RandomOptions(seed)),
		Check:  metamorphic.CheckStore(dstest.Dir),
		Settle: synctest.Wait,
	}
}

// One client, exact answers, power cuts at any moment.
func TestHistories(t *testing.T) {
	first, n := rounds(t, 12)
	var sum metamorphic.Stats
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stats, err := history(seed).Run()
				if err != nil {
					t.Fatalf("options %+v\n%v\nagain with: go test ./internal/metamorphic -run TestHistories -seed %d",
						metamorphic.RandomOptions(seed), err, seed)
				}
				sum.Add(stats)
			})
		})
	}
	t.Logf("%d histories from seed %d: %+v", n, first, sum)
}

// The same seed gives the same history, so that a failure can be looked at again.
func TestSameSeedSameTrace(t *testing.T) {
	for seed := uint64(1); seed <= 2; seed++ {
		var lines [2][]string
		for i := range lines {
			synctest.Test(t, func(t *testing.T) {
				h := history(seed)
				h.Calm = true
				if _, err := h.Run(); err != nil {
					t.Fatal(err)
				}
				lines[i] = h.Lines()
			})
		}
		for i, line := range lines[0] {
			if i >= len(lines[1]) || lines[1][i] != line {
				t.Fatalf("seed %d, line %d differs:\n%s\n%s", seed, i, line, lines[1][min(i, len(lines[1])-1)])
			}
		}
	}
}

// Many clients at once, audited after every round.
func TestCrowds(t *testing.T) {
	first, n := rounds(t, 12)
	var sum metamorphic.Stats
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := metamorphic.RandomOptions(seed)
				if seed%3 == 0 {
					o.MaxQueued = 8 << 10 // many are told to come back later
				}
				crowd := &metamorphic.Crowd{
					Seed:   seed,
					Open:   metamorphic.Observed(dstest.Dir, o),
					Check:  metamorphic.CheckStore(dstest.Dir),
					Settle: synctest.Wait,
				}
				stats, err := crowd.Run()
				if err != nil {
					t.Fatalf("options %+v\n%v\nagain with: go test ./internal/metamorphic -run TestCrowds -seed %d",
						metamorphic.RandomOptions(seed), err, seed)
				}
				sum.Add(stats)
			})
		})
	}
	t.Logf("%d crowds from seed %d: %+v", n, first, sum)
}
