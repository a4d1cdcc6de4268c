package history

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"durablestreams/internal/dstest"
)

// trouble is what happens to a server in one life.
type trouble struct {
	name  string
	cut   *dstest.PowerCut // in the middle of something; nil: none
	quiet bool             // the power goes when the clients are done
	stop  time.Duration    // asked to stop so much later, in the middle; 0: not

	full func(done <-chan struct{}) // nil: the disk does not get full
	fail *failing                   // nil: the disk does not fail

	delay func(dstest.Op) time.Duration // of a call on the disk
	pause func(*rand.Rand)              // of a client before a step
}

// op is the disk's hook.
func (t *trouble) op(op dstest.Op) error {
	if d := t.delay(op); d > 0 {
		wait(d)
	}
	if t.cut != nil {
		if err := t.cut.Op(op); err != nil {
			return err
		}
	}
	if t.fail != nil {
		return t.fail.op(op)
	}
	return nil
}

func wait(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// failing is a disk that fails for a while in one kind of call.
type failing struct {
	call
	err   error
	left  atomic.Int64 // calls before it begins
	times int64        // calls that fail
}

// call is a kind of call on a disk.
type call struct{ name, dir, suffix string }

func (f *failing) op(op dstest.Op) error {
	if op.Name != f.name || !strings.Contains(op.Path, f.dir) || !strings.HasSuffix(op.Path, f.suffix) {
		return nil
	}
	if n := f.left.Add(-1); n < 0 && n >= -f.times {
		return f.err
	}
	return nil
}

// failures are calls that may fail. Left out is the archive's manifest: when that
// fails Pebble parks its goroutines for ever, which a process survives by ending
// and a simulation does not.
var failures = []call{
	{name: "write", dir: "journal/"}, {name: "sync", dir: "journal/"}, {name: "sync", dir: "journal"},
	{name: "create", dir: "journal/"}, {name: "rename", dir: "journal/"}, {name: "remove", dir: "journal/"},
	{name: "read", suffix: ".sst"}, {name: "open", suffix: ".sst"},
	{name: "write", suffix: ".sst"}, {name: "sync", suffix: ".sst"}, {name: "create", suffix: ".sst"},
}

// trouble thinks of something.
func (s *Sim) trouble() *trouble {
	t := &trouble{delay: s.delays(), pause: s.pauses(4 * time.Millisecond)}
	switch dice := s.rng.IntN(20); {
	case dice < 7:
		n := s.rng.IntN(30 * s.Clients)
		t.cut = dstest.NewPowerCut(s.disk, s.split(), dstest.RandomLoss(s.rng), n)
		t.name = fmt.Sprintf("power cut at change %d", n)
	case dice < 9:
		t.name, t.quiet = "power cut", true
	case dice < 11:
		t.name, t.stop = "stop under way", time.Duration(1+s.rng.IntN(60))*time.Millisecond
	case dice < 15:
		f := failures[s.rng.IntN(len(failures))]
		t.fail = &failing{call: f, err: syscall.EIO, times: 1 + int64(s.rng.IntN(3))}
		if f.name == "write" || f.name == "create" {
			t.fail.err = []error{syscall.EIO, syscall.ENOSPC}[s.rng.IntN(2)]
		}
		if f.name == "sync" && f.suffix == "" && s.rng.IntN(2) == 0 {
			t.fail.times = 1000 // for good
		}
		t.quiet = s.rng.IntN(2) == 0
		t.fail.left.Store(int64(s.rng.IntN(20)))
		t.name = fmt.Sprintf("%s of %s%s fails: %v", f.name, f.dir, f.suffix, t.fail.err)
	case dice < 18:
		t.full, t.pause = s.fills(), s.pauses(100*time.Millisecond)
		t.name = "full disk"
		s.Stats.Full++
	default:
		t.name = "stop"
	}
	return t
}

// delays makes syncs of the journal take their time in some lives, so that there
// is something between a decision and its being durable.
func (s *Sim) delays() func(dstest.Op) time.Duration {
	most := []int{0, 1000, 5000, 30000}[s.rng.IntN(4)] // microseconds
	rng := s.split()
	var mu sync.Mutex
	return func(op dstest.Op) time.Duration {
		if most == 0 || op.Name != "sync" || !strings.Contains(op.Path, "journal/") {
			return 0
		}
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rng.IntN(most)) * time.Microsecond
	}
}

// pauses spreads the clients over time, or lets them all come at once.
func (s *Sim) pauses(most time.Duration) func(*rand.Rand) {
	if s.Seed%3 == 0 && most < 10*time.Millisecond {
		return func(*rand.Rand) {}
	}
	return func(rng *rand.Rand) { wait(time.Duration(rng.Int64N(int64(most)))) }
}

// fills makes the disk full after a moment, and large again after another.
func (s *Sim) fills() func(done <-chan struct{}) {
	disk := s.disk
	after := time.Duration(s.rng.IntN(200)) * time.Millisecond
	lasts := time.Duration(s.rng.IntN(2000)) * time.Millisecond
	room := []int64{0, 0, 64 << 10, 2200 << 10, 3 << 20}[s.rng.IntN(5)]
	return func(done <-chan struct{}) {
		defer disk.SetCapacity(0)
		for _, d := range []time.Duration{after, lasts} {
			select {
			case <-time.After(d):
			case <-done:
				return
			}
			disk.SetCapacity(disk.Used() + room)
		}
	}
}
