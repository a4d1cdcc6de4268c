package auth

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is how often the files are looked at. A change is taken when it has looked
// the same twice: an editor may empty a file before it writes it, and to take that would
// end every live read.
const lookEvery = 500 * time.Millisecond

// files knows which versions of the files the rules are from. They are looked at now
// and then, not watched by the kernel: that would miss files of other machines, and
// directories that are replaced as a whole.
type files struct {
	names []string

	mu   sync.Mutex // held while they are read
	seen versions   // of the last attempt

	taken, refused atomic.Uint64
	stale          atomic.Bool
}

// versions are those of several files; nil for one that is not there.
type versions []os.FileInfo

func (f *files) now() versions {
	v := make(versions, len(f.names))
	for i, name := range f.names {
		if info, err := os.Stat(name); err == nil {
			v[i] = info
		}
	}
	return v
}

func (v versions) same(w versions) bool {
	if len(v) != len(w) {
		return false
	}
	for i, a := range v {
		b := w[i]
		if (a == nil) != (b == nil) {
			return false
		}
		if a != nil && !(os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())) {
			return false
		}
	}
	return true
}

// read lets load read the files, if they are others than the last time or force says
// so. It reports whether it did. If load fails the rules are stale.
func (f *files) read(force bool, load func() error) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now() // before they are read: a change meanwhile is seen the next time
	if !force && now.same(f.seen) {
		return false, nil
	}
	f.seen = now
	err := load()
	f.stale.Store(err != nil)
	if err != nil {
		f.refused.Add(1)
	} else {
		f.taken.Add(1)
	}
	return true, err
}

// Watch takes changes of the access file and of an issuer's key file until ctx ends, and
// calls changed after each. Files that are wrong leave everything as it was, which is
// told once.
func (a *Authorizer) Watch(ctx context.Context, changed func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for last := a.files.now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := a.files.now()
		if now.same(last) && a.follow() {
			changed()
		}
		last = now
	}
}

// follow reports whether there are new rules.
func (a *Authorizer) follow() bool {
	read, err := a.files.read(false, func() error { return a.load(false) })
	switch {
	case !read:
		return false
	case err != nil:
		a.opt.Logger.Warn("the access rules have changed and are wrong, the old ones stay", "err", err)
		return false
	}
	a.opt.Logger.Info("access rules replaced", "files", a.files.names, "keys", len(a.table.Load().keys))
	return true
}

// Stats tell how changes of the files went.
type Stats struct {
	Taken, Refused uint64 // how often they were read: without and with a fault
	Stale          bool   // they are wrong now, and older rules count
}

// Stats gives the figures of now.
func (a *Authorizer) Stats() Stats {
	f := &a.files
	return Stats{Taken: f.taken.Load(), Refused: f.refused.Load(), Stale: f.stale.Load()}
}
