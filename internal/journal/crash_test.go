package journal_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"durablestreams/internal/journal"
)

// TestCrashes runs random histories with crashes at random changes of the file
// system, also during recovery, against a model. Set JOURNAL_SEED to the seed
// of a failure to run it again, JOURNAL_ROUNDS for more histories, both for so many
// from that seed on.
func TestCrashes(t *testing.T) {
	rounds := envInt("JOURNAL_ROUNDS", 250)
	seed := uint64(envInt("JOURNAL_SEED", 0))
	if seed != 0 {
		rounds = envInt("JOURNAL_ROUNDS", 1)
	}
	var lives, crashes int
	for i := range rounds {
		s := seed + uint64(i)
		if seed == 0 {
			s = rand.Uint64() >> 1
		}
		h := newHistory(t, s)
		if !t.Run("seed="+strconv.FormatUint(s, 10), func(t *testing.T) { h.run(t) }) {
			t.FailNow()
		}
		lives, crashes = lives+h.lives, crashes+h.crashes
	}
	t.Logf("%d histories, %d opens, %d crashes", rounds, lives, crashes)
}

func envInt(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}

// history is a journal on a failing file system and what it must hold.
type history struct {
	rng     *rand.Rand
	fs      *powerFS
	opts    *journal.Options
	percent int  // of unsynced blocks and entries that survive
	tear    bool // unsynced sectors are torn as well

	acked     []record // all acknowledged records, from LSN 1
	inFlight  []record // the batch whose Append did not return nil
	elsewhere uint64   // records up to here are durable elsewhere

	lives, crashes int
}

func newHistory(t *testing.T, seed uint64) *history {
	rng := rand.New(rand.NewPCG(seed, 1))
	sizes := []int64{4 << 10, 8 << 10, 16 << 10, 64 << 10}
	percents := []int{0, 10, 50, 90, 100}
	return &history{
		rng:     rng,
		fs:      newPowerFS(newMem(t), rng),
		opts:    &journal.Options{SegmentSize: sizes[rng.IntN(len(sizes))], MaxFree: rng.IntN(4) - 1},
		percent: percents[rng.IntN(len(percents))],
		tear:    rng.IntN(2) == 0,
	}
}

// run lives several lives, each ended by a crash.
func (h *history) run(t *testing.T) {
	for range 12 {
		h.fs.countdown = h.rng.IntN(1 + h.rng.IntN(120))
		if h.rng.IntN(8) == 0 {
			h.fs.failSync = h.rng.IntN(20)
		}
		j := h.open(t)
		if j != nil {
			h.live(t, j)
		}
		h.crash()
	}
	h.fs.countdown, h.fs.failSync = -1, -1
	j := h.open(t)
	if j == nil {
		t.Fatal("open failed on a sound disk")
	}
	closeSound(t, j, h.fs, h.elsewhere)
}

// crash replaces the file system by what a crash leaves of it.
func (h *history) crash() {
	h.crashes++
	if h.rng.IntN(3) == 0 {
		h.fs = h.fs.kill()
	} else {
		h.fs = h.fs.cut(h.percent, h.tear)
	}
}

// open opens the journal and checks what it replays; nil after a crash.
func (h *history) open(t *testing.T) *journal.Journal {
	j, got, err := open(h.fs, h.opts, h.elsewhere)
	if err != nil {
		if !errors.Is(err, errPower) && !errors.Is(err, errDisk) {
			t.Fatalf("open: %v", err)
		}
		return nil
	}
	h.lives++
	want := h.acked
	if j.LastLSN() > uint64(len(h.acked)) {
		want = append(want, h.inFlight...)
	}
	if j.LastLSN() != uint64(len(want)) {
		t.Fatalf("last LSN is %d after %d acknowledged and %d in flight", j.LastLSN(), len(h.acked), len(h.inFlight))
	}
	wantRecords(t, got, want[h.elsewhere:])
	h.acked, h.inFlight = want, nil
	return j
}

// live uses the journal until it fails, or ends it with all well.
func (h *history) live(t *testing.T, j *journal.Journal) {
	for range h.rng.IntN(80) {
		var err error
		switch h.rng.IntN(12) {
		case 0:
			err = j.Prepare(int64(h.rng.IntN(6000)))
		case 1:
			err = h.release(j)
		case 2, 3:
			err = j.Note()
		default:
			err = h.append(t, j)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, errPower) && !errors.Is(err, errDisk) {
			t.Fatalf("live: %v", err)
		}
		if errors.Is(err, journal.ErrFailed) {
			h.mustRefuse(t, j)
			break
		}
	}
	if err := j.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// mustRefuse checks that a failed journal stays failed.
func (h *history) mustRefuse(t *testing.T, j *journal.Journal) {
	if _, err := j.Append(batchOf("more")); !errors.Is(err, journal.ErrFailed) {
		t.Fatalf("append after failure: %v", err)
	}
	if err := j.Prepare(0); !errors.Is(err, journal.ErrFailed) {
		t.Fatalf("prepare after failure: %v", err)
	}
	if err := j.Release(0); !errors.Is(err, journal.ErrFailed) {
		t.Fatalf("release after failure: %v", err)
	}
	if err := j.Note(); !errors.Is(err, journal.ErrFailed) {
		t.Fatalf("note after failure: %v", err)
	}
	if j.Room() != 0 {
		t.Fatalf("room after failure: %d", j.Room())
	}
}

// release makes some records durable elsewhere, and mostly tells the journal.
func (h *history) release(j *journal.Journal) error {
	h.elsewhere += uint64(h.rng.IntN(len(h.acked) - int(h.elsewhere) + 1))
	if h.rng.IntN(4) == 0 {
		return nil
	}
	return j.Release(h.elsewhere)
}

// append appends a batch of random size.
func (h *history) append(t *testing.T, j *journal.Journal) error {
	room := j.Room()
	b := journal.NewBatch(h.rng.IntN(1000))
	h.inFlight = nil
	for i := range 1 + h.rng.IntN(4) {
		content := make([]byte, h.size())
		for k := range content {
			content[k] = byte(h.rng.Uint32())
		}
		r := record{uint64(len(h.acked) + i + 1), byte(h.rng.IntN(5)), string(content)}
		b.AddBytes(r.kind, content)
		h.inFlight = append(h.inFlight, r)
	}
	spares := j.Stats().Spares
	lsn, err := j.Append(b)
	if err != nil {
		if !errors.Is(err, journal.ErrFailed) {
			h.inFlight = nil // nothing has happened
		}
		return err
	}
	if lsn != h.inFlight[0].lsn {
		t.Fatalf("append gave LSN %d, want %d", lsn, h.inFlight[0].lsn)
	}
	if b.Len() <= room && j.Stats().Rolls > 0 && j.Stats().Spares < spares-1 {
		t.Fatalf("append of %d bytes used %d spares", b.Len(), spares-j.Stats().Spares)
	}
	h.acked, h.inFlight = append(h.acked, h.inFlight...), nil
	return nil
}

// size is a body size: mostly small, sometimes empty, sometimes more than a
// small segment.
func (h *history) size() int {
	switch h.rng.IntN(20) {
	case 0:
		return 0
	case 1:
		return h.rng.IntN(9000)
	}
	return h.rng.IntN(300)
}

// TestCrashAfterCrash kills the process at each change of a Release or an Open,
// cuts the power at each change of the Open after it, and opens again.
func TestCrashAfterCrash(t *testing.T) {
	for _, tt := range []struct {
		name  string
		from  int
		opens int // without an append: leaves a segment whose frames are all repeated
		first func(fs *powerFS, j *journal.Journal) error
	}{
		{"release", 60, 1, func(_ *powerFS, j *journal.Journal) error { return j.Release(60) }},
		{"open", 0, 2, func(fs *powerFS, _ *journal.Journal) error { _, _, err := open(fs, smallSegments, 0); return err }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for at := 0; ; at++ {
				fs := newPowerFS(newMem(t), rand.New(rand.NewPCG(uint64(at), 3)))
				j, _ := mustOpen(t, fs, smallSegments, 0)
				fill(t, j, 1, 100)
				for range tt.opens {
					j, _ = mustOpen(t, fs, smallSegments, 0)
				}
				fs.countdown = at
				if err := tt.first(fs, j); err == nil {
					return
				}
				crashInOpen(t, fs, tt.from)
			}
		})
	}
}

// crashInOpen kills the process, cuts the power at each change of the next Open
// and checks that the journal opens with the records from+1 to 100.
func crashInOpen(t *testing.T, killed *powerFS, from int) {
	for at := 0; ; at++ {
		fs := killed.kill()
		fs.countdown = at
		if _, _, err := open(fs, smallSegments, uint64(from)); err == nil {
			return
		}
		fs = fs.cut(25*(at%5), false)
		j, got := mustOpen(t, fs, smallSegments, uint64(from))
		wantRecords(t, got, numbered(from+1, 100))
		closeSound(t, j, fs, uint64(from))
	}
}
