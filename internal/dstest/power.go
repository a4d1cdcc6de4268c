package dstest

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// PowerCut takes the picture that a power cut leaves, at the n-th change of a disk
// from now on. The disk goes on meanwhile; whatever is answered after the cut is
// not to be believed.
type PowerCut struct {
	disk  *Disk
	rng   *rand.Rand
	loss  Loss
	take  func() *Disk
	left  atomic.Int64
	fired atomic.Bool

	// At is when it was taken, After what it left. They are there once Fired is true
	// and nothing moves any more.
	At    int64
	After *Disk
}

// NewPowerCut gives a cut after so many changes. Its Op has to be called by the
// disk's hook.
func NewPowerCut(disk *Disk, rng *rand.Rand, loss Loss, changes int) *PowerCut {
	p := &PowerCut{disk: disk, rng: rng, loss: loss}
	p.left.Store(int64(changes))
	return p
}

// ArmPowerCut makes a cut the disk's hook.
func ArmPowerCut(disk *Disk, rng *rand.Rand, loss Loss, changes int) *PowerCut {
	p := NewPowerCut(disk, rng, loss, changes)
	disk.OnOp(p.Op)
	return p
}

// ArmPicture makes the disk's hook a cut after which not what a power cut leaves goes on,
// but what take gives, which is called beside everything else.
func ArmPicture(disk *Disk, changes int, take func() *Disk) *PowerCut {
	p := &PowerCut{disk: disk, take: take}
	p.left.Store(int64(changes))
	disk.OnOp(p.Op)
	return p
}

// Op counts a call on the disk.
func (p *PowerCut) Op(op Op) error {
	if op.Changes() && p.left.Add(-1) == -1 {
		p.At = time.Now().UnixNano()
		p.fired.Store(true) // first: what is acknowledged during the picture is unknown
		if p.take != nil {
			go func() { p.After = p.take() }() // here the caller may hold anything
			return nil
		}
		p.After = p.disk.Crash(p.rng, p.loss)
	}
	return nil
}

// Fired reports whether the power is gone.
func (p *PowerCut) Fired() bool { return p != nil && p.fired.Load() }

// RandomLoss is what one power cut does to unsynced data.
func RandomLoss(rng *rand.Rand) Loss {
	keep := []int{0, 0, 20, 50, 80, 100}
	return Loss{Keep: keep[rng.IntN(len(keep))], Tear: rng.IntN(3) == 0}
}
