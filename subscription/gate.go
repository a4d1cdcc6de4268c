package subscription

import "net/url"

// gate bounds how many webhook calls are under way, in all and to one target.
// The subscriptions that wait are served in order, target by target. The
// manager's lock guards it.
type gate struct {
	max, maxTarget int
	running        int
	targets        map[string]*target
	ready          []*target // have somebody waiting and may run one more, in turn
}

// target is one host and port.
type target struct {
	name    string
	running int
	waiting []*sub
	ready   bool // in gate.ready
}

func (g *gate) init(max, maxTarget int) {
	g.max, g.maxTarget, g.targets = max, maxTarget, map[string]*target{}
}

// enter lets a subscription wait for its turn.
func (g *gate) enter(s *sub) {
	name := targetOf(s.url)
	t := g.targets[name]
	if t == nil {
		t = &target{name: name}
		g.targets[name] = t
	}
	t.waiting = append(t.waiting, s)
	g.line(t)
}

func (g *gate) line(t *target) {
	if !t.ready && len(t.waiting) > 0 && t.running < g.maxTarget {
		t.ready = true
		g.ready = append(g.ready, t)
	}
}

// next gives the subscription whose turn it is, nil if there is none or no room.
func (g *gate) next() (*sub, *target) {
	if len(g.ready) == 0 || g.running >= g.max {
		return nil, nil
	}
	t := g.ready[0]
	g.ready[0] = nil
	g.ready = g.ready[1:]
	t.ready = false
	s := t.waiting[0]
	t.waiting[0] = nil
	t.waiting = t.waiting[1:]
	t.running++
	g.running++
	g.line(t)
	return s, t
}

// leave is the end of what next began.
func (g *gate) leave(t *target) {
	t.running--
	g.running--
	g.line(t)
	if t.running == 0 && len(t.waiting) == 0 {
		delete(g.targets, t.name)
	}
}

// targetOf is the host and port of a URL.
func targetOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Host
}
