package subscription

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"durablestreams/stream"
)

// Start reads the subscriptions back and goes on where the last run of the server
// ended: leases and retry times hold as they were, and wake events that may not
// have been written are written (again, which their producer tuple makes harmless).
func (m *Manager) Start(p Ports) error {
	found, err := load(p.Engine)
	if err != nil {
		return fmt.Errorf("read subscriptions: %w", err)
	}
	m.mu.Lock()
	m.Ports = p
	m.started = true
	for _, s := range found.subs {
		m.install(s)
		s.event.durable = s.generation
	}
	for _, s := range found.subs {
		st := m.change(s, func(st *step) {
			for path := range s.marks.byPath {
				if _, gone := m.early[path]; gone {
					s.arrive(st, stream.Change{Path: path, Gone: true})
				}
			}
		})
		if len(st.rows) > 0 {
			m.commit(s, st)
		}
	}
	m.early = nil
	m.bump()
	m.mu.Unlock()
	for _, err := range found.damage {
		m.log.Error("subscription is damaged and set aside", "err", err)
	}
	m.log.Info("subscriptions are open", "subscriptions", len(found.subs), "leftovers", len(found.leftovers))
	m.workers.Go(m.run)
	m.workers.Go(func() { m.sweep(found.leftovers) })
	return nil
}

// loaded is what the rows said.
type loaded struct {
	subs      []*sub
	leftovers [][]byte // keys of subscriptions that were deleted
	damage    []error  // rows that cannot be read; they stay where they are
}

// load reads all rows. A main row comes before the others of its subscription.
func load(e Engine) (*loaded, error) {
	found := &loaded{}
	var s *sub
	own, damaged := uint64(0), false
	err := e.Rows([]byte(rowPrefix), func(row stream.Row) error {
		if err := checkVersion(row.Value); err != nil {
			return fmt.Errorf("row %q: %w", row.Key, err)
		}
		id, kind, path, err := parseKey(row.Key)
		if err == nil && id != own {
			own, s, damaged = id, nil, false
		}
		switch {
		case err != nil || damaged:
		case kind == mainRow:
			var main *state
			if main, err = decodeMain(own, row.Value); err == nil {
				s = &sub{state: *main}
				found.subs = append(found.subs, s)
			}
		case s == nil:
			found.leftovers = append(found.leftovers, slices.Clone(row.Key))
		default:
			err = s.restore(kind, path, row.Value)
		}
		if err != nil {
			damaged = true
			found.damage = append(found.damage, fmt.Errorf("row %q: %w", row.Key, err))
			found.forget(s)
			s = nil
		}
		return nil
	})
	return found, err
}

// forget takes back a subscription of which a row turns out to be unreadable:
// what it would do without that row nobody has asked for.
func (l *loaded) forget(s *sub) {
	if s != nil {
		l.subs = l.subs[:len(l.subs)-1]
	}
}

// restore takes one more row in.
func (s *state) restore(kind rowKind, path stream.Path, value []byte) error {
	switch kind {
	case linkRows:
		if len(value) != 1 || value[0] != rowVersion {
			return errRow
		}
		if s.explicit == nil {
			s.explicit = map[stream.Path]struct{}{}
		}
		s.explicit[path] = struct{}{}
	case markRows:
		acked, err := decodeMark(value)
		if err != nil {
			return err
		}
		s.marks.add(&mark{path: path, acked: acked})
	case runRows:
		var err error
		s.run, err = decodeRun(value)
		return err
	}
	return nil
}

// sweepChunk is how many leftover rows go at once.
const sweepChunk = 1000

// leftovers lists the keys of the rows of a deleted subscription.
func (s *state) leftovers() [][]byte {
	keys := [][]byte{s.key(runRows, "")}
	for path := range s.explicit {
		keys = append(keys, s.key(linkRows, path))
	}
	for _, pending := range []map[stream.Path]*mark{s.marks.byPath, s.aside} {
		for path := range maps.Keys(pending) {
			keys = append(keys, s.key(markRows, path))
		}
	}
	return keys
}

// sweep takes leftovers away, bit by bit so that nobody has to wait for it. What it
// does not get done the next start finds.
func (m *Manager) sweep(keys [][]byte) {
	for chunk := range slices.Chunk(keys, sweepChunk) {
		rows := make([]stream.Row, len(chunk))
		for i, key := range chunk {
			rows[i].Key = key
		}
		swept := make(chan error, 1)
		m.Engine.PutRows(rows, func(err error) { swept <- err })
		select {
		case err := <-swept:
			if err != nil {
				return
			}
		case <-m.stopped:
			return
		}
	}
}

// Close ends the manager: requests are refused, calls that are under way may end
// until ctx does and count as failed if they have not. Then nothing of it runs any
// more. Changes of streams are still marked, so the engine closes behind it.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	if m.closing {
		m.mu.Unlock()
		m.workers.Wait()
		return nil
	}
	m.closing = true
	close(m.stopped)
	m.mu.Unlock()
	stop := context.AfterFunc(ctx, m.cutCalls)
	defer stop()
	m.workers.Wait()
	m.cutCalls()
	return nil
}
