package process_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// actor is a client that works until the server is gone, and can compare what it
// knows with what the server has.
type actor interface {
	run(c *process.Client) error
	verify(c *process.Client) error
}

const streamsRoot = "/durable-streams/v1/stream"

// crowd is everybody who works in the kill loop.
func crowd(seed uint64) (actors []actor, ledgers []*ledger) {
	for i := range 6 {
		actors = append(actors, newOwner(i, streamsRoot, rand.New(rand.NewPCG(seed, uint64(i)))))
	}
	ledgers = []*ledger{newLedger("shared/text", false), newLedger("shared/json", true)}
	for _, l := range ledgers {
		for i := range 6 {
			actors = append(actors, &writer{ledger: l, name: fmt.Sprintf("w%d", i), producer: i%2 == 0})
		}
		actors = append(actors, &reader{ledger: l}, l)
	}
	for i := range 4 {
		actors = append(actors, newSubscriber(i, rand.New(rand.NewPCG(seed, uint64(100+i)))))
	}
	return append(actors, &reader{ledger: ledgers[0], sse: true}), ledgers
}

// run and verify of parts that only do the other.
func (l *ledger) run(*process.Client) error    { return nil }
func (w *writer) verify(*process.Client) error { return nil }

// together calls do for all actors at once and reports what is wrong.
func together(t *testing.T, actors []actor, do func(actor) error) {
	t.Helper()
	var wg sync.WaitGroup
	for _, a := range actors {
		wg.Go(func() {
			if err := do(a); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func envInt(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, v, err)
	}
	return n
}

// TestKillLoop kills the server again and again while many clients write, read,
// fork, close and delete, and compares after each start what they know with what
// is there. DS_CRASH_ROUNDS and DS_SEED choose how often and which history.
func TestKillLoop(t *testing.T) {
	rounds := envInt(t, "DS_CRASH_ROUNDS", 30)
	seed := uint64(envInt(t, "DS_SEED", time.Now().UnixNano()))
	t.Logf("%d rounds, DS_SEED=%d", rounds, seed)
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	dir := filepath.Join(t.TempDir(), "data")
	command := process.Command{Binary: process.Build(t),
		Args: []string{"--data-dir", dir, "--segment-size", "256KiB", "--tail-memory", "1MiB", "--long-poll-timeout", "2s"}}
	actors, ledgers := crowd(seed)
	for round := range rounds {
		if round > 0 && rng.IntN(3) == 0 {
			killEarly(t, command, rng)
		}
		s := process.Start(t, command)
		c := process.NewClient(s.Streams)
		if round == 0 {
			for _, l := range ledgers {
				if err := l.create(c); err != nil {
					t.Fatal(err)
				}
			}
		}
		together(t, actors, func(a actor) error { return a.verify(c) })
		kill := time.AfterFunc(time.Duration(20+rng.IntN(250))*time.Millisecond, s.Kill)
		together(t, actors, func(a actor) error { return a.run(c) })
		kill.Stop()
		s.Kill()
		c.Close()
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, s.Stderr)
		}
	}
	verifyEnd(t, command, actors)
	if n := len(ledgers[0].acked) + len(ledgers[1].acked); n < int(rounds)*20 {
		t.Errorf("only %d appends were acknowledged in %d rounds", n, rounds)
	}
	for _, a := range actors {
		if s, ok := a.(*subscriber); ok && s.claims < int(rounds) {
			t.Errorf("only %d claims of %s in %d rounds", s.claims, s.path, rounds)
		}
	}
	t.Logf("%d and %d appends acknowledged on the shared streams", len(ledgers[0].acked), len(ledgers[1].acked))
}

// killEarly kills the server while it starts.
func killEarly(t *testing.T, command process.Command, rng *rand.Rand) {
	t.Helper()
	s, stdout, err := process.Launch(command)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	select {
	case <-s.Ended():
		t.Fatalf("the server ended at its start: %v\n%s", s.Err(), s.Stderr)
	case <-time.After(time.Duration(rng.IntN(80)) * time.Millisecond):
	}
	s.Kill()
}

// verifyEnd looks at everything once more, before and after a clean stop.
func verifyEnd(t *testing.T, command process.Command, actors []actor) {
	t.Helper()
	for range 2 {
		s := process.Start(t, command)
		c := process.NewClient(s.Streams)
		together(t, actors, func(a actor) error { return a.verify(c) })
		if a := c.Do(http.MethodGet, "no/such/stream", ""); a.Status != http.StatusNotFound {
			t.Errorf("a stream that never was: %v", a)
		}
		c.Close()
		if err := s.Stop(20 * time.Second); err != nil {
			t.Fatalf("stop: %v\n%s", err, s.Stderr)
		}
	}
}
