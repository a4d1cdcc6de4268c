package subscription

import (
	"context"
	"maps"
	"slices"
	"time"

	"durablestreams/stream"
)

// Link is one stream of a subscription (§6.1).
type Link struct {
	Path     stream.Path
	Explicit bool
	Acked    stream.Offset
	Tail     stream.Offset // zero where only the cursor was asked for
	Pending  bool
}

// LinkType is the link's link_type.
func (l Link) LinkType() string {
	if l.Explicit {
		return "explicit"
	}
	return "glob"
}

// View is a subscription as clients see it (§6.3).
type View struct {
	ID          string
	Type        Type
	Pattern     string // "": none
	Streams     []Link // explicit ones, pending ones, and some of the others
	Truncated   bool   // there are more streams than are listed
	WebhookURL  string // "" unless it is a webhook subscription
	WakeStream  string // "" unless it is a pull-wake subscription
	LeaseTTL    time.Duration
	CreatedAt   time.Time
	Failed      bool   // status: a retry is scheduled
	Problem     string // why wake events cannot be written; "": they can
	Description string
	Root        string // of the stream root, for the URL of the signing keys
	Generation  uint64 // of the last wake
}

// How much a view lists and how far it looks for it.
const (
	maxResting  = 1000    // glob links at rest
	maxPending  = 10_000  // pending links
	maxExamined = 200_000 // streams looked at for those that match
)

// Get gives a subscription (§6.3).
func (m *Manager) Get(ctx context.Context, id string) (View, error) {
	s, err := m.find(ctx, id)
	if err != nil {
		return View{}, err
	}
	return m.view(ctx, s)
}

// view shows s. What has been decided before it looks at the streams must be visible
// to it: it would show one that has just ended as acked.
func (m *Manager) view(ctx context.Context, s *sub) (View, error) {
	for try := 1; ; try++ {
		m.mu.Lock()
		ended := s.ended
		explicit := slices.Collect(maps.Keys(s.state.explicit))
		decided := m.commit(s, &step{})
		m.mu.Unlock()
		if err := wait(ctx, decided); err != nil {
			return View{}, err
		}
		slices.Sort(explicit)
		resting, truncated, err := m.resting(s, explicit)
		if err != nil {
			return View{}, err
		}
		m.mu.Lock()
		if s.ended != ended && try < maxTries {
			m.mu.Unlock()
			continue
		}
		return m.viewWith(ctx, s, resting, truncated)
	}
}

// maxTries is how often a view is begun again because a pending stream has ended
// meanwhile, which would be shown as acked.
const maxTries = 5

// viewWith completes a view with the lock held, which it lets go. Streams at rest were
// looked up before, so that one which has become pending is shown with its cursor.
func (m *Manager) viewWith(ctx context.Context, s *sub, resting []Link, truncated bool) (View, error) {
	v := s.describe()
	v.Truncated = truncated
	for _, l := range resting {
		if s.marks.get(l.Path) == nil && s.aside[l.Path] == nil && s.links(l.Path) {
			_, l.Explicit = s.state.explicit[l.Path]
			v.Streams = append(v.Streams, l)
		}
	}
	v.addPending(s)
	deleted := s.deleted
	durable := m.commit(s, &step{})
	m.mu.Unlock()
	if err := wait(ctx, durable); err != nil {
		return View{}, err
	}
	if deleted {
		return View{}, notFound()
	}
	return v, nil
}

// resting looks explicit links and some of the pattern's up, as if all were at rest.
func (m *Manager) resting(s *sub, explicit []stream.Path) (_ []Link, truncated bool, err error) {
	links := make([]Link, 0, len(explicit))
	for _, path := range explicit {
		l := Link{Path: path, Explicit: true}
		if t := m.look(path); t.found {
			l.Acked = t.TailOffset()
		}
		links = append(links, l)
	}
	if s.pattern.String() == "" {
		return links, false, nil
	}
	room, examined := maxResting, 0
	err = m.Engine.List(s.pattern.Prefix(), "", func(snap stream.Snapshot) bool {
		examined++
		truncated = examined > maxExamined
		if truncated || !s.matches(snap.Path) {
			return !truncated
		}
		if _, found := slices.BinarySearch(explicit, snap.Path); found {
			return true
		}
		truncated = room == 0
		room--
		if !truncated {
			links = append(links, Link{Path: snap.Path, Acked: snap.TailOffset()})
		}
		return !truncated
	})
	return links, truncated, err
}

// describe gives all but the streams.
func (s *sub) describe() View {
	return View{ID: s.id, Type: s.typ, Pattern: s.pattern.String(), WebhookURL: s.url, WakeStream: string(s.wakeStream),
		LeaseTTL: s.ttl, CreatedAt: time.Unix(0, s.created), Description: s.description, Root: s.root,
		Failed: s.retries > 0 && s.pending() || s.event.problem != "", Problem: s.event.problem, Generation: s.generation}
}

// addPending adds the streams with work, the one that waits the longest first.
func (v *View) addPending(s *sub) {
	n := 0
	add := func(mk *mark) {
		if n++; n > maxPending {
			v.Truncated = true
			return
		}
		_, explicit := s.state.explicit[mk.path]
		v.Streams = append(v.Streams, Link{Path: mk.path, Explicit: explicit, Acked: mk.acked, Pending: true})
	}
	for mk := s.marks.first; mk != nil && n <= maxPending; mk = mk.after {
		add(mk)
	}
	for _, mk := range s.aside {
		add(mk)
	}
}

// toldLinks gives the streams of the current wake, as they were when it was issued
// or claimed.
func (s *state) toldLinks() []Link {
	var links []Link
	for mk := range s.told {
		_, explicit := s.explicit[mk.path]
		links = append(links, Link{Path: mk.path, Explicit: explicit, Acked: mk.acked, Tail: mk.told, Pending: true})
	}
	return links
}
