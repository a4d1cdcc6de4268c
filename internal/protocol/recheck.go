package protocol

import (
	"sync"
	"time"

	"durablestreams/stream"
)

// waiting knows the live reads of callers whose rights may change, so that they can
// be asked again. It has none where everybody may do everything.
type waiting struct {
	mu    sync.Mutex
	feeds map[*Feed]struct{}
}

func (w *waiting) add(f *Feed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.feeds == nil {
		w.feeds = map[*Feed]struct{}{}
	}
	w.feeds[f] = struct{}{}
}

func (w *waiting) remove(f *Feed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.feeds, f)
}

func (w *waiting) all() []*Feed {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*Feed, 0, len(w.feeds))
	for f := range w.feeds {
		all = append(all, f)
	}
	return all
}

// RecheckAccess has all live reads look whether their callers may still read, after
// the rules have changed. Those that may not end with their next step, and give no
// more data.
func (c *Core) RecheckAccess() {
	for _, f := range c.waiting.all() {
		f.recheck.Store(true)
		f.wake()
	}
}

// await makes a feed known to RecheckAccess. The rules may have changed after the
// caller was let in and before that.
func (f *Feed) await() {
	if f.op.caller != nil { // which it stays
		f.op.core.waiting.add(f)
		f.recheck.Store(true)
	}
}

// revoked gives the refusal if the caller may not read any more. If it only may not
// as long as before, the read ends earlier.
func (f *Feed) revoked() error {
	o := f.op
	if o.caller == nil || !f.recheck.CompareAndSwap(true, false) {
		return nil
	}
	c, err := o.caller.Renew()
	if err == nil {
		err = c.Allow(stream.MayRead, o.path)
	}
	if err == nil {
		o.caller = c
		f.deadline = o.until(f.deadline)
	}
	return err
}

// revoke ends a read whose caller may not go on: a long-poll with the refusal, an SSE
// answer that has begun as if its time was up. The client comes back, and is told then.
func (f *Feed) revoke(now time.Time, why error) Action {
	if !f.op.sse || !f.spoken {
		return f.finish(f.op.core.Refuse(f.op.req, why))
	}
	last := f.appendControl(nil, now)
	f.op.core.stats.frames.Add(1)
	f.op.core.stats.bytes.Add(int64(len(last)))
	f.end()
	return Action{Frame: last, Done: true}
}
