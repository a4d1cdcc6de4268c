package metamorphic

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"durablestreams/internal/dstest"
	"durablestreams/stream"
)

// cutRand is a source of its own for each cut, so that how much randomness a
// picture takes does not change the rest of the history.
func (h *History) cutRand() *rand.Rand {
	return rand.New(rand.NewPCG(h.Seed, h.rng.Uint64()))
}

// armCut makes the power go during one of the next steps.
func (h *History) armCut() {
	rng, loss, n := h.cutRand(), dstest.RandomLoss(h.rng), h.rng.IntN(40)
	if h.Calm || h.cut != nil {
		return
	}
	h.note("power goes in %d changes, %+v", n, loss)
	h.cut = dstest.ArmPowerCut(h.disk, rng, loss, n)
}

// crash cuts the power while nothing moves.
func (h *History) crash() error {
	rng, loss := h.cutRand(), dstest.RandomLoss(h.rng)
	if h.Calm {
		loss = dstest.Loss{}
	}
	h.Settle()
	h.note("crash, %+v", loss)
	h.stats.Crashes++
	h.disk.OnOp(nil)
	h.cut = nil
	return h.reopen(h.disk.Crash(rng, loss), nil)
}

// afterCut goes on after a power cut in the middle of something; unknown is the
// command that was under way, if any.
func (h *History) afterCut(unknown stream.Command) error {
	h.Settle() // the picture is complete
	cut := h.cut
	h.cut = nil
	h.disk.OnOp(nil)
	h.stats.MidCrashes++
	h.dropWatches()
	for _, e := range h.model.at {
		e.sure = min(e.sure, cut.At-slack(e.state.Lifetime)) // what was watched was renewed in vain since
	}
	return h.reopen(cut.After, unknown)
}

// reopen drops the target and opens another one on what is left of the disk.
func (h *History) reopen(left *dstest.Disk, unknown stream.Command) error {
	at := h.now()
	h.dropWatches()
	_ = h.target.Close() // of a world that is no more
	h.target = nil
	h.disk = left
	for !h.Calm && h.rng.IntN(3) == 0 {
		h.note("power goes during recovery")
		cut := dstest.ArmPowerCut(h.disk, h.cutRand(), dstest.RandomLoss(h.rng), h.rng.IntN(60))
		t, err := h.Open(h.disk)
		h.Settle()
		if err == nil {
			err = t.Close()
		}
		if err != nil {
			return fmt.Errorf("open after crash: %w", err)
		}
		h.disk.OnOp(nil)
		if !cut.Fired() {
			h.note("it did not")
			break
		}
		h.stats.RecoveryCrashes++
		h.disk = cut.After
	}
	var err error
	if h.target, err = h.Open(h.disk); err != nil {
		return fmt.Errorf("open after crash: %w", err)
	}
	if h.model.eased > h.opened {
		h.model.eased = h.now() // what had ended by itself may have to end again
	}
	h.opened = h.now()
	return h.settleUnknown(unknown, at)
}

// settleUnknown finds out whether the command that the crash met has happened.
func (h *History) settleUnknown(unknown stream.Command, at int64) error {
	without := h.model.clone()
	lost := h.verify(without, true)
	if lost == nil {
		h.model = without
		if unknown != nil {
			h.stats.Lost++
		}
		return nil
	}
	if unknown == nil {
		return fmt.Errorf("after crash: %w", lost)
	}
	with := h.model.clone()
	if _, refusal := with.apply(unknown, at); refusal != nil {
		return fmt.Errorf("after crash: %w", lost)
	}
	if kept := h.verify(with, true); kept != nil {
		return fmt.Errorf("after crash in %s: it happened in part: if not: %w; if so: %w", describe(unknown), lost, kept)
	}
	h.note("it had happened")
	h.stats.Kept++
	h.model = with
	if c, ok := unknown.(*stream.Create); ok {
		h.recent[c.Path] = c
	}
	return nil
}

// restart stops and starts the target.
func (h *History) restart() error {
	h.note("restart")
	h.stats.Restarts++
	h.dropWatches()
	cut := h.cut
	err := h.target.Close()
	h.target = nil
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if cut.Fired() {
		h.cut = nil
		h.disk.OnOp(nil)
		h.stats.MidCrashes++
		h.disk = cut.After
		for _, e := range h.model.at {
			e.sure = min(e.sure, cut.At-slack(e.state.Lifetime))
		}
	} else if cut == nil {
		if err := h.check(); err != nil {
			return err
		}
	}
	if h.target, err = h.Open(h.disk); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return h.verify(h.model, false)
}

func (h *History) check() error {
	if h.Check == nil {
		return nil
	}
	if err := h.Check(h.disk); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

// dropWatches forgets the watchers, whose target goes away. What they saw as
// the last use of a stream may be lost.
func (h *History) dropWatches() {
	for _, w := range h.watch {
		if w.e.watchers > 0 {
			w.e.state.Touch(h.now())
		}
		w.e.watchers = 0
	}
	h.watch = nil
}

// verify compares all that can be seen with a model.
func (h *History) verify(m *model, crashed bool) error {
	for i := range names {
		p := stream.Path(names[i : i+1])
		h.calm(m)
		if err := compareMark(h.target, p, h.pause); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		h.calm(m)
		e, want := m.stat(p, h.now())
		data, snap, err := readUntouched(h.target, p)
		if want != nil {
			if !errors.Is(err, want.(*stream.Error).Kind) {
				return fmt.Errorf("%s: %w (tail %d), want %w", p, orNil(err), snap.Tail, want)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w, want tail %d", p, err, e.state.Tail)
		}
		if err := e.compareSnapshot(snap); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if err := compareData(data, e.data, 0); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if !crashed {
		h.note("verified")
	}
	return nil
}

var errNone = errors.New("no error")

func orNil(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

func readUntouched(t Target, p stream.Path) ([]byte, stream.Snapshot, error) {
	snap, err := t.Stat(p, false)
	if err != nil {
		return nil, snap, err
	}
	data, err := dstest.ReadRange(t, snap, 0, snap.Tail)
	return data, snap, err
}
