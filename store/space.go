package store

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spaceGuard watches the free space of the disk. Changes are refused while it
// is too small to archive what is in memory, so that the archive never meets a
// full disk; deletions and reads go on, and service resumes by itself.
type spaceGuard struct {
	fs      vfs.FS
	dir     string
	isFull  atomic.Bool
	isSpent atomic.Bool   // half of the reserve is gone
	ready   chan struct{} // capacity 1: look now
}

// The free space, in bytes, that is left for the archive's own work, above all to
// rewrite what lies beside deleted data: a quarter of a small disk, no more than
// maxReserve of a large one.
const (
	minReserve = 2 << 20
	maxReserve = 64 << 20
)

func (g *spaceGuard) init(fs vfs.FS, dir string) {
	g.fs, g.dir = fs, dir
	g.ready = make(chan struct{}, 1)
}

func (g *spaceGuard) full() bool { return g.isFull.Load() }

// spent is full for small changes, which go on for as long as they leave room for
// those that free space.
func (g *spaceGuard) spent() bool { return g.isSpent.Load() }

// kick asks for a look soon.
func (g *spaceGuard) kick() {
	select {
	case g.ready <- struct{}{}:
	default:
	}
}

// tight reports whether the free space is below what archiving so many bytes
// takes and the reserve, and below half of the reserve. A file system that cannot
// tell has space.
func (g *spaceGuard) tight(unarchived int64) (tight, spent bool) {
	usage, err := g.fs.GetDiskUsage(g.dir)
	if err != nil {
		return false, false
	}
	reserve := min(max(usage.TotalBytes/4, minReserve), maxReserve)
	need := uint64(unarchived + unarchived/4)
	return usage.AvailBytes < need+reserve, usage.AvailBytes < need+reserve/2
}

// ranOut notes that the disk had no space for the journal.
func (g *spaceGuard) ranOut() {
	g.isFull.Store(true)
	g.isSpent.Store(true)
}

// checkSpace looks at the disk, prepares the journal's next segment while there
// is space, and lets changes in or keeps them out accordingly.
func (e *Engine) checkSpace() {
	if err := e.anchor.holds(); err != nil {
		e.fail(err)
		return
	}
	if err := makeBallast(e.fs, e.dir); err != nil && e.failed() == nil {
		e.log.Error("no space can be held for the next start", "err", err)
	}
	full, spent := e.space.tight(e.flush.tails.Load())
	if !full {
		err := e.journal.Prepare(recordOverhead)
		full = err != nil && noSpace(err)
		spent = full
		if err != nil && !full && e.failed() == nil {
			e.log.Error("next journal segment cannot be prepared", "err", err)
		}
	}
	e.space.isSpent.Store(spent)
	if full != e.space.isFull.Swap(full) {
		if full {
			e.log.Error("the disk is full: changes are refused until there is space again")
			e.flush.kick()
		} else {
			e.log.Info("the disk has space again")
		}
	}
}

// spaceInterval is how often the disk is looked at while nothing is written.
const spaceInterval = time.Second

// runSpace looks at the disk now and then and when asked to.
func (e *Engine) runSpace() {
	tick := time.NewTicker(spaceInterval)
	defer tick.Stop()
	for {
		select {
		case <-e.space.ready:
		case <-tick.C:
		case <-e.stopped:
			return
		}
		if e.failed() != nil {
			continue
		}
		e.checkSpace()
		if err := e.journal.Note(); err != nil && e.failed() == nil {
			e.fail(err)
		}
		if e.space.full() {
			e.flush.kick() // deletions give space only once the archive has them
		}
	}
}
