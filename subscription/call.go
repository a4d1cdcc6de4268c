package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"durablestreams/stream"
)

// call is one delivery of a wake that is under way.
type call struct {
	wakeID string
	cancel context.CancelFunc
	grace  *time.Timer
}

// letGo is called when the wake is over. With cut its lease has ended, so that
// nothing the receiver does counts any more; else the receiver itself has called
// back, and gets some time to answer.
func (c *call) letGo(cut bool, grace time.Duration) {
	if cut {
		c.cancel()
		return
	}
	c.grace = time.AfterFunc(grace, c.cancel)
}

// startCalls begins calls as long as there is room, with the lock held.
func (m *Manager) startCalls() {
	for !m.closing {
		s, t := m.gate.next()
		if s == nil {
			return
		}
		m.workers.Go(func() { m.deliver(s, t) })
	}
}

// deliver issues a wake of a webhook subscription, if it is due still, calls the
// receiver and takes its answer in (§7.1).
func (m *Manager) deliver(s *sub, t *target) {
	ctx, cancel := context.WithCancel(m.calls)
	defer cancel()
	c := &call{cancel: cancel}
	if n, due := m.issue(s, c); due {
		began := time.Now()
		done, err := m.send(ctx, s, n)
		m.stats.called(began, err)
		if err != nil {
			m.log.Warn("webhook was not delivered", "subscription", s.id, "err", err)
		}
		m.conclude(s, c, verdictOf(done, err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gate.leave(t)
	m.startCalls()
}

func verdictOf(done bool, err error) verdict {
	switch {
	case err != nil:
		return failed
	case done:
		return finished
	}
	return accepted
}

// notice is what a receiver is to be told.
type notice struct {
	wakeID     string
	generation uint64
	root       string
	links      []Link
	token      Token
	durable    <-chan error // it may leave then
}

// issue begins the wake. It gives false if there is nothing to be delivered any more.
func (m *Manager) issue(s *sub, c *call) (n notice, due bool) {
	m.waitReady()
	m.lockKnown(s)
	defer m.mu.Unlock()
	s.queued = false
	st := m.change(s, func(st *step) {
		if due = !m.closing && s.issue(st); !due {
			return
		}
		c.wakeID = s.wakeID
		n = notice{wakeID: s.wakeID, generation: s.generation, root: s.root, links: s.toldLinks(), token: s.token(st.now)}
	})
	if due {
		s.call = c
	}
	n.durable = m.commit(s, st)
	return n, due
}

// send tells the receiver.
func (m *Manager) send(ctx context.Context, s *sub, n notice) (done bool, err error) {
	token, err := m.Tokens.Mint(n.token)
	if err != nil {
		return false, err
	}
	if err := wait(ctx, n.durable); err != nil {
		return false, err
	}
	return m.Webhooks.Deliver(ctx, s.url, n.body(s.id, token))
}

// readyPause is how long something waits that the engine is not ready for.
const readyPause = time.Second

// waitReady waits until the engine takes changes, or the manager is being closed.
func (m *Manager) waitReady() {
	for m.Engine.Ready() != nil {
		select {
		case <-time.After(readyPause):
		case <-m.stopped:
			return
		}
	}
}

// conclude takes the outcome of a call in.
func (m *Manager) conclude(s *sub, c *call, v verdict) {
	m.waitReady()
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.grace != nil {
		c.grace.Stop()
	}
	if s.call == c {
		s.call = nil
	}
	st := m.change(s, func(st *step) { s.conclude(st, c.wakeID, v) })
	m.commit(s, st)
}

// body is what the receiver is sent (§7.1).
func (n *notice) body(id, token string) []byte {
	type told struct {
		Path    stream.Path `json:"path"`
		Link    string      `json:"link_type"`
		Acked   string      `json:"acked_offset"`
		Tail    string      `json:"tail_offset"`
		Pending bool        `json:"has_pending"`
	}
	streams := make([]told, len(n.links))
	for i, l := range n.links {
		streams[i] = told{l.Path, l.LinkType(), l.Acked.String(), l.Tail.String(), l.Pending}
	}
	return encode(struct {
		ID         string `json:"subscription_id"`
		WakeID     string `json:"wake_id"`
		Generation uint64 `json:"generation"`
		Streams    []told `json:"streams"`
		URL        string `json:"callback_url"`
		Token      string `json:"callback_token"`
	}{id, n.wakeID, n.generation, streams, n.root + "/__ds/subscriptions/" + url.PathEscape(id) + "/callback", token})
}

// encode gives the JSON of a value of strings, numbers and booleans.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // there is no such value that has none
	}
	return b
}

// lockKnown takes the lock at a moment when the tails of all streams that a wake
// of s would name are known.
func (m *Manager) lockKnown(s *sub) {
	for {
		m.mu.Lock()
		unknown := s.untold()
		if s.deleted || len(unknown) == 0 {
			return
		}
		m.mu.Unlock()
		found := make([]tail, len(unknown))
		for i, path := range unknown {
			found[i] = m.look(path)
		}
		m.mu.Lock()
		st := m.change(s, func(st *step) {
			for i, path := range unknown {
				s.learn(st, path, found[i])
			}
		})
		m.commit(s, st)
		m.mu.Unlock()
	}
}

// look asks the engine for a stream's tail.
func (m *Manager) look(path stream.Path) tail {
	snap, err := m.Engine.Stat(path, false)
	switch {
	case err == nil:
		return tail{found: true, Snapshot: snap}
	case errors.Is(err, stream.NotFound), errors.Is(err, stream.Gone):
		return tail{}
	}
	if !errors.Is(err, stream.ShuttingDown) {
		m.log.Error("stream cannot be looked up", "stream", path, "err", err)
	}
	return tail{err: err}
}
