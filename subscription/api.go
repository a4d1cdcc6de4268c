package subscription

import (
	"context"
	"errors"
	mathrand "math/rand/v2"

	"durablestreams/stream"
)

// Every method here answers when all that the answer tells is durable, also a
// refusal. If ctx ends before, what was asked for may still happen.

// find looks a subscription up.
func (m *Manager) find(ctx context.Context, id string) (*sub, error) {
	m.mu.Lock()
	s, err := m.lookup(id)
	if s != nil || m.closing || !m.started {
		m.mu.Unlock()
		return s, err
	}
	durable := m.commit(nil, &step{})
	m.mu.Unlock()
	if err := wait(ctx, durable); err != nil {
		return nil, err
	}
	return nil, err
}

// lookup needs the lock.
func (m *Manager) lookup(id string) (*sub, error) {
	if m.closing || !m.started {
		return nil, closing()
	}
	if s := m.subs[id]; s != nil {
		return s, nil
	}
	return nil, notFound()
}

func notFound() *Refusal { return refuse(NotFound, "there is no subscription with this id") }

// ready says why nothing can be decided now. It needs the lock.
func (m *Manager) ready() error {
	if m.closing || !m.started {
		return closing()
	}
	return m.Engine.Ready()
}

func closing() error {
	return &stream.Error{Kind: stream.ShuttingDown, Message: "the server is not serving subscriptions now"}
}

// within carries a transition of s out and waits for it. The lock is held and
// let go.
func (m *Manager) within(ctx context.Context, s *sub, transition func(*step) *Refusal) error {
	if err := m.ready(); err != nil {
		m.mu.Unlock()
		return err
	}
	var refusal *Refusal
	st := &step{}
	if s.deleted {
		refusal = notFound()
	} else {
		st = m.change(s, func(st *step) { refusal = transition(st) })
	}
	durable := m.commit(s, st)
	m.mu.Unlock()
	if err := wait(ctx, durable); err != nil {
		return err
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// MaxRootLen bounds the URL of the stream root, in bytes.
const MaxRootLen = 2048

// Create makes a subscription or confirms that it is there (§6.2). root is the
// absolute URL of the stream root as the client sees it, without a slash at the
// end; callback URLs are made from the one of the last confirmation.
func (m *Manager) Create(ctx context.Context, id, root string, c Config) (v View, created bool, err error) {
	if r := checkName("the subscription id", id, MaxIDLen); r != nil {
		return View{}, false, r
	}
	if len(root) > MaxRootLen {
		return View{}, false, refuse(InvalidRequest, "the URL is too long")
	}
	set, links, refusal := c.normalise()
	if refusal != nil {
		return View{}, false, refusal
	}
	fresh := &sub{state: state{id: id, own: mathrand.Uint64(), root: root, created: now(), hash: set.hash(links), settings: set}}

	var unfit *Refusal
	if set.typ == Webhook {
		if err := m.Webhooks.CheckURL(set.url); err != nil {
			unfit = refuse(URLRejected, err.Error())
		}
	}
	s, created, err := m.create(ctx, fresh, links, unfit)
	if err != nil {
		return View{}, false, err
	}
	v, err = m.view(ctx, s)
	return v, created, err
}

// create installs fresh, unless it is unfit, or confirms the subscription that has
// its name.
func (m *Manager) create(ctx context.Context, fresh *sub, links []stream.Path, unfit *Refusal) (s *sub, created bool, err error) {
	m.mu.Lock()
	if s := m.subs[fresh.id]; s != nil {
		return s, false, m.within(ctx, s, func(st *step) *Refusal { return s.confirm(st, &fresh.state) })
	}
	return fresh, true, m.within(ctx, fresh, func(st *step) *Refusal {
		switch {
		case unfit != nil:
			return unfit
		case len(m.subs) >= m.opts.MaxSubscriptions:
			return refuse(LimitExceeded, "there are too many subscriptions")
		}
		if r := fresh.link(st, links); r != nil {
			return r
		}
		st.rows = append(st.rows, fresh.mainRow())
		m.install(fresh)
		m.bump()
		return nil
	})
}

// confirm compares a configuration with what is there (§6.2).
func (s *state) confirm(st *step, with *state) *Refusal {
	if s.hash != with.hash {
		return refuse(AlreadyExists, "there is a subscription with this id and another configuration")
	}
	if s.root != with.root {
		s.root = with.root
		st.rows = append(st.rows, s.mainRow())
	}
	return nil
}

// Delete ends a subscription (§6.3). That it is not there is no error.
func (m *Manager) Delete(ctx context.Context, id string) error {
	s, err := m.find(ctx, id)
	if err == nil {
		m.mu.Lock()
		err = m.within(ctx, s, func(st *step) *Refusal {
			m.uninstall(s)
			s.remove(st)
			m.bump()
			return nil
		})
	}
	if errors.Is(err, notFound()) {
		return nil
	}
	return err
}

// AddStreams adds explicit links (§6.4).
func (m *Manager) AddStreams(ctx context.Context, id string, paths []string) error {
	links, refusal := parsePaths(paths)
	if refusal != nil {
		return refusal
	}
	s, err := m.find(ctx, id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	return m.within(ctx, s, func(st *step) *Refusal {
		if r := s.link(st, links); r != nil {
			return r
		}
		for _, path := range links {
			m.explicit.add(path, s)
		}
		m.bump()
		return nil
	})
}

// RemoveStream takes one explicit link away (§6.4).
func (m *Manager) RemoveStream(ctx context.Context, id, path string) error {
	link, err := parsePath(path)
	if err != nil {
		return refuse(InvalidRequest, reason(err))
	}
	s, err := m.find(ctx, id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	return m.within(ctx, s, func(st *step) *Refusal {
		s.unlink(st, link)
		m.explicit.remove(link, s)
		m.bump()
		return nil
	})
}

// Wake is what a worker gets with a claim (§7.2).
type Wake struct {
	ID         string // wake_id
	Generation uint64
	Token      string
	Streams    []Link // pending ones only; of more than 1,000 those that have waited the longest
	LeaseTTL   int64  // milliseconds
}

// Claim gives a worker the lease (§7.2). It works as soon as there is work,
// whether or not the wake event is written yet.
func (m *Manager) Claim(ctx context.Context, id, worker string) (Wake, error) {
	if r := checkName("worker", worker, MaxWorkerLen); r != nil {
		return Wake{}, r
	}
	s, err := m.find(ctx, id)
	if err != nil {
		return Wake{}, err
	}
	var w Wake
	var token Token
	m.lockKnown(s)
	err = m.within(ctx, s, func(st *step) *Refusal {
		if r := s.claim(st, worker); r != nil {
			return r
		}
		w = Wake{ID: s.wakeID, Generation: s.generation, Streams: s.toldLinks(), LeaseTTL: s.ttl.Milliseconds()}
		token = s.token(st.now)
		return nil
	})
	if err == nil {
		w.Token, err = m.Tokens.Mint(token)
	}
	if err != nil {
		return Wake{}, err
	}
	return w, nil
}

// WakeRef is how a worker names the wake that it works on (§7.3).
type WakeRef struct {
	Token      string // from the Authorization header
	WakeID     string
	Generation uint64
}

// Ack is one stream's last processed offset, inclusive.
type Ack struct{ Stream, Offset string }

// Ack applies acks of a pull-wake worker and extends its lease, or with done gives
// it back (§7.2). nextWake tells that there is more work.
func (m *Manager) Ack(ctx context.Context, id string, ref WakeRef, acks []Ack, done bool) (nextWake bool, err error) {
	return m.ack(ctx, PullWake, id, ref, acks, done)
}

// Callback is Ack for the receivers of webhooks (§7.1).
func (m *Manager) Callback(ctx context.Context, id string, ref WakeRef, acks []Ack, done bool) (nextWake bool, err error) {
	return m.ack(ctx, Webhook, id, ref, acks, done)
}

func (m *Manager) ack(ctx context.Context, typ Type, id string, ref WakeRef, acks []Ack, done bool) (nextWake bool, err error) {
	f, refusal := m.fence(ref) // first: who has no token of ours learns nothing
	if refusal != nil {
		return false, refusal
	}
	s, err := m.find(ctx, id)
	if err != nil {
		return false, err
	}
	if s.typ != typ {
		return false, refuse(InvalidRequest, "pull-wake subscriptions are acked, webhook subscriptions called back")
	}
	found, unfit, err := m.lookUp(acks)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	err = m.within(ctx, s, func(st *step) *Refusal {
		r := s.ack(st, f, found, unfit, done)
		nextWake = r == nil && done && s.pending()
		return r
	})
	return nextWake, err
}

// Release gives a claim back without acking (§7.2).
func (m *Manager) Release(ctx context.Context, id string, ref WakeRef) error {
	f, refusal := m.fence(ref)
	if refusal != nil {
		return refusal
	}
	s, err := m.find(ctx, id)
	if err != nil {
		return err
	}
	if s.typ != PullWake {
		return refuse(InvalidRequest, "only pull-wake subscriptions are released")
	}
	m.mu.Lock()
	return m.within(ctx, s, func(st *step) *Refusal { return s.release(st, f) })
}

// fence verifies a token and gives what the transitions look at.
func (m *Manager) fence(ref WakeRef) (fence, *Refusal) {
	token, err := m.Tokens.Verify(ref.Token)
	if err != nil {
		return fence{}, refuse(TokenInvalid, "the bearer token is not one of this server's")
	}
	return fence{token: token, generation: ref.Generation, wakeID: ref.WakeID}, nil
}

// lookUp finds the places that acks name. One that names none spoils them all (§7),
// but a stream may end, or be another one, while a worker is busy with it.
func (m *Manager) lookUp(acks []Ack) (found []ack, unfit *Refusal, err error) {
	for _, a := range acks {
		path, err := parsePath(a.Stream)
		if err != nil {
			return nil, refuse(InvalidOffset, "an ack names no stream: "+reason(err)), nil
		}
		offset, err := stream.ParseOffset(a.Offset)
		if err != nil {
			return nil, refuse(InvalidOffset, reason(err)), nil
		}
		t := m.look(path)
		switch {
		case t.err != nil:
			return nil, nil, t.err
		case !t.found:
			found = append(found, ack{path: path})
			continue
		}
		_, err = t.Locate(offset, t.Tail)
		former := errors.Is(err, stream.OffsetGone)
		if err != nil && !former {
			return nil, refuse(InvalidOffset, reason(err)), nil
		}
		found = append(found, ack{path: path, offset: offset, tail: t, former: former})
	}
	return found, nil, nil
}
