package history_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
	"durablestreams/internal/history"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// livesInBook is how many lives of a server make one history. Then the clients turn
// to other streams, so that the search for an order stays short.
const livesInBook = 6

const longPoll = 150 * time.Millisecond

// Histories on the real binary over sockets: kill -9, stops, frozen and thawed. By
// default one history an adapter; DS_CRASH_ROUNDS is the number of lives, DS_SEED
// chooses what the clients do.
func TestKilledHistories(t *testing.T) {
	seed := envInt(t, "DS_SEED", uint64(time.Now().UnixNano()))
	lives := envInt(t, "DS_CRASH_ROUNDS", livesInBook)
	for name, flag := range map[string]string{"fast path": "--fast-path", "net-http": "--no-fast-path"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("DS_SEED=%d", seed)
			r := &real{t: t, rng: rand.New(rand.NewPCG(seed, 7)), command: process.Command{Binary: process.Build(t),
				Args: []string{"--data-dir", filepath.Join(t.TempDir(), "data"), flag, "--segment-size", "256KiB", "--tail-memory", "1MiB",
					"--page-size", "64KiB", "--long-poll-timeout", longPoll.String(), "--sse-max-age", "1s"}}}
			for book := range int((lives + livesInBook - 1) / livesInBook) {
				r.book(seed+uint64(book)*1000, fmt.Sprintf("h%d/", book))
			}
			t.Logf("%d lives, %d operations on %d families, %d not decided", r.lives, r.ops, r.families, r.undecided)
		})
	}
}

func envInt(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, v, err)
	}
	return n
}

// real is a server's data directory and what is done to its processes.
type real struct {
	t       *testing.T
	rng     *rand.Rand
	command process.Command

	lives, ops, families, undecided int
}

// book is one history.
func (r *real) book(seed uint64, prefix string) {
	r.t.Helper()
	rec := history.NewRecorder()
	cast := history.NewCast(rec, 8, prefix, seed)
	cast.Idle = 300 * time.Millisecond
	for range livesInBook {
		r.life(rec, cast)
	}
	r.look(rec, cast)
	v := history.Check(rec.Ops(), searchTime)
	r.ops, r.families, r.undecided = r.ops+v.Ops, r.families+v.Families, r.undecided+len(v.Undecided)
	if err := v.Err(fmt.Sprintf("DS_SEED=%d", seed)); err != nil {
		r.t.Fatal(err)
	}
}

// start starts a process; some are killed while they start.
func (r *real) start() *process.Server {
	r.t.Helper()
	for r.rng.IntN(4) == 0 {
		s, stdout, err := process.Launch(r.command)
		if err != nil {
			r.t.Fatal(err)
		}
		select {
		case <-s.Ended():
			r.t.Fatalf("the server ended at its start: %v\n%s", s.Err(), s.Stderr)
		case <-time.After(time.Duration(r.rng.IntN(80)) * time.Millisecond):
		}
		s.Kill()
		stdout.Close()
	}
	return process.Start(r.t, r.command)
}

// life is one process, from its start to its end.
func (r *real) life(rec *history.Recorder, cast *history.Cast) {
	r.t.Helper()
	s := r.start()
	var over atomic.Bool
	conn, done := r.conn(s, &over)
	defer done()
	cast.Audit(conn)
	ended := make(chan struct{})
	dice, after := r.rng.IntN(6), time.Duration(30+r.rng.IntN(350))*time.Millisecond
	frozen := time.Duration(r.rng.IntN(200)) * time.Millisecond
	go func() {
		defer close(ended)
		select {
		case <-s.Ended():
			r.t.Errorf("the server ended by itself: %v\n%s", s.Err(), s.Stderr)
			return
		case <-time.After(after):
		}
		switch dice {
		case 0, 1: // the answers to what is under way come late, to some clients too late
			_ = s.Signal(syscall.SIGSTOP)
			<-time.After(frozen)
			_ = s.Signal(syscall.SIGCONT)
			<-time.After(after / 2)
		case 2:
			over.Store(true)
			if err := s.Stop(20 * time.Second); err != nil {
				r.t.Errorf("stop: %v\n%s", err, s.Stderr)
			}
			return
		}
		over.Store(true)
		s.Kill()
	}()
	most := int64(1 + r.rng.IntN(4))
	cast.Perform(conn, 80, over.Load, func(rng *rand.Rand) { <-time.After(time.Duration(rng.Int64N(most * int64(time.Millisecond)))) })
	<-ended
	rec.Died(conn.Life)
	if r.t.Failed() {
		r.t.FailNow()
	}
}

// look reads everything once more, before and after a clean stop.
func (r *real) look(rec *history.Recorder, cast *history.Cast) {
	r.t.Helper()
	for range 2 {
		s := process.Start(r.t, r.command)
		var over atomic.Bool
		conn, done := r.conn(s, &over)
		cast.Audit(conn)
		done()
		if err := s.Stop(20 * time.Second); err != nil {
			r.t.Fatalf("stop: %v\n%s", err, s.Stderr)
		}
		rec.Died(conn.Life)
	}
}

func (r *real) conn(s *process.Server, over *atomic.Bool) (conn *history.Conn, done func()) {
	r.lives++
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	return &history.Conn{Life: r.lives, Streams: s.Streams, HTTP: transport, LongPoll: func() time.Duration {
		if over.Load() {
			return 0
		}
		return longPoll
	}}, transport.CloseIdleConnections
}
