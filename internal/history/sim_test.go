package history_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/history"
)

var seedFlag = flag.Uint64("seed", 0, "run only this seed")

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

// searchTime bounds the search for one family's order. What takes longer counts as
// not decided.
const searchTime = 30 * time.Second

// Histories on simulated disks in virtual time, each of which one server that does
// one thing at a time could have made.
func TestSimulated(t *testing.T) {
	first, n := rounds(t, 10)
	var sum history.Stats
	var ops, families, undecided int
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			again := fmt.Sprintf("again with: go test ./internal/history -run TestSimulated -seed %d", seed)
			var list []*history.Op
			synctest.Test(t, func(t *testing.T) {
				sim := &history.Sim{Seed: seed, Open: history.Small(seed), Settle: synctest.Wait}
				var err error
				if list, err = sim.Run(); err != nil {
					t.Fatalf("%v\n%s", err, again)
				}
				sum.Add(sim.Stats)
			})
			v := history.Check(list, searchTime)
			if err := v.Err(again); err != nil {
				t.Fatal(err)
			}
			ops, families, undecided = ops+v.Ops, families+v.Families, undecided+len(v.Undecided)
			if len(v.Undecided) > 0 {
				t.Logf("not decided: %q", v.Undecided)
			}
		})
	}
	t.Logf("%d operations on %d families, %d not decided; %+v", ops, families, undecided, sum)
}

// What a failure has written down is checked again, from the file in DS_HISTORY.
func TestAgain(t *testing.T) {
	file := os.Getenv("DS_HISTORY")
	if file == "" {
		t.Skip("DS_HISTORY names no file")
	}
	how, ops, err := history.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	v := history.Check(ops, 10*searchTime)
	t.Logf("%d operations, %d undecided", v.Ops, len(v.Undecided))
	if err := v.Err(how); err != nil {
		t.Fatal(err)
	}
}
