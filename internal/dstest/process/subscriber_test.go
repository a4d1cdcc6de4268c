package process_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"durablestreams/internal/dstest/process"
)

// subscriber writes to a stream and works it off by a pull-wake subscription. It
// knows at any time what the server may say of the cursor, of the lease and of
// pending work.
type subscriber struct {
	root string
	rng  *rand.Rand

	path, wakes string
	made        bool
	life        int // number of the subscription, which is made anew when a claim got lost

	seq  int    // of the next append
	tail string // after the last append that was acknowledged

	cursor string   // acked
	maybe  []string // what else may be acked: acks without an answer

	claim      *claim
	generation int64 // of the last claim
	maybeClaim bool  // a claim without an answer
	maybeEnd   bool  // an ack with done, or a release, without an answer
	claims     int
}

// claim is what a worker gets.
type claim struct {
	WakeID     string `json:"wake_id"`
	Generation int64
	Token      string
	Streams    []struct {
		Path  string
		Acked string `json:"acked_offset"`
		Tail  string `json:"tail_offset"`
	}
}

func newSubscriber(i int, rng *rand.Rand) *subscriber {
	return &subscriber{rng: rng, root: fmt.Sprintf("worked/%d/", i), path: fmt.Sprintf("worked/%d/log", i), wakes: fmt.Sprintf("wakes/%d", i)}
}

func (s *subscriber) id() string {
	return fmt.Sprintf("__ds/subscriptions/%d-of-%s", s.life, s.wakes[len("wakes/"):])
}

// put makes streams and subscription, as often as it takes. Where the cursor of a new
// subscription is depends on which of the requests has made it.
func (s *subscriber) put(c *process.Client) error {
	for _, path := range []string{s.path, s.wakes} {
		a := c.Do(http.MethodPut, path, "", "Content-Type", "application/json")
		if a.Err != nil || a.Status != http.StatusCreated && a.Status != http.StatusOK {
			return fmt.Errorf("put %s: %v", path, a)
		}
		if path == s.path && s.tail == "" {
			s.tail = a.Tail()
			s.cursor = s.tail
		}
	}
	a := c.Do(http.MethodPut, s.id(), fmt.Sprintf(`{"type":"pull-wake","pattern":"%s*","wake_stream":"%s","lease_ttl_ms":600000}`, s.root, s.wakes))
	if a.Err != nil || a.Status != http.StatusCreated && a.Status != http.StatusOK {
		return fmt.Errorf("put %s: %v", s.id(), a)
	}
	if err := s.look(c, true); err != nil {
		return err
	}
	s.made = true
	return nil
}

// run works until the server is gone.
func (s *subscriber) run(c *process.Client) error {
	if !s.made {
		if err := s.put(c); err != nil {
			return nil // the server has gone, or the verification after the start says why
		}
	}
	for {
		var gone bool
		var err error
		switch n := s.rng.IntN(10); {
		case n < 4:
			gone, err = s.write(c)
		case s.claim == nil:
			gone, err = s.take(c)
		case n < 6:
			gone, err = s.ack(c, false)
		case n < 9:
			gone, err = s.ack(c, true)
		default:
			gone, err = s.release(c)
		}
		if gone || err != nil {
			return err
		}
	}
}

func (s *subscriber) write(c *process.Client) (gone bool, err error) {
	a := c.Do(http.MethodPost, s.path, fmt.Sprintf(`{"n":%d}`, s.seq), append([]string{"Content-Type", "application/json"}, process.Producer("w", 0, s.seq)...)...)
	switch {
	case a.Err != nil:
		return true, nil
	case a.Status != http.StatusOK && a.Status != http.StatusNoContent:
		return false, fmt.Errorf("append %d to %s: %v", s.seq, s.path, a)
	}
	s.seq++
	s.tail = a.Tail()
	return false, nil
}

func (s *subscriber) take(c *process.Client) (gone bool, err error) {
	a := c.Do(http.MethodPost, s.id()+"/claim", `{"worker":"w"}`)
	if a.Err != nil {
		s.maybeClaim = true
		return true, nil
	}
	switch code := codeOf(a); {
	case code == "NO_PENDING_WORK":
		if s.cursor != s.tail && !s.mayBe(s.tail) {
			return false, fmt.Errorf("%s has no work, acked up to %s (or %q) of %s", s.id(), s.cursor, s.maybe, s.tail)
		}
		s.cursor, s.maybe = s.tail, nil
		s.maybeClaim = false
		return false, nil
	case code == "ALREADY_CLAIMED" && s.maybeClaim:
		return s.anew(c)
	case a.Status != http.StatusOK:
		return false, fmt.Errorf("claim %s: %v", s.id(), a)
	}
	s.maybeClaim = false
	s.claim = &claim{}
	if err := json.Unmarshal([]byte(a.Body), s.claim); err != nil {
		return false, fmt.Errorf("claim %s: %w", s.id(), err)
	}
	return false, s.judge()
}

// judge looks at a claim.
func (s *subscriber) judge() error {
	w := s.claim
	s.claims++
	if w.Generation <= s.generation || len(w.Streams) != 1 || w.Streams[0].Path != s.path {
		return fmt.Errorf("claim of %s after generation %d: %+v", s.id(), s.generation, *w)
	}
	s.generation = w.Generation
	if l := w.Streams[0]; l.Tail < s.tail || l.Acked != s.cursor && !s.mayBe(l.Acked) {
		return fmt.Errorf("claim of %s: %+v, acked is %s (or %q), written up to %s", s.id(), *w, s.cursor, s.maybe, s.tail)
	}
	s.cursor, s.maybe = w.Streams[0].Acked, nil
	return nil
}

func (s *subscriber) mayBe(offset string) bool {
	for _, m := range s.maybe {
		if m == offset {
			return true
		}
	}
	return false
}

// anew gives a subscription up of which nobody has the token.
func (s *subscriber) anew(c *process.Client) (gone bool, err error) {
	if a := c.Do(http.MethodDelete, s.id(), ""); a.Err != nil {
		return true, nil
	} else if a.Status != http.StatusNoContent {
		return false, fmt.Errorf("delete %s: %v", s.id(), a)
	}
	s.life++
	s.made, s.claim, s.maybe, s.generation = false, nil, nil, 0
	s.maybeClaim, s.maybeEnd = false, false
	return s.put(c) != nil, nil // the verification after the start says why
}

func (s *subscriber) ack(c *process.Client, done bool) (gone bool, err error) {
	to := s.claim.Streams[0].Tail
	if s.rng.IntN(4) == 0 {
		to = s.tail // later than what the wake named
	}
	if to < s.cursor {
		to = s.cursor
	}
	a := s.speak(c, "ack", fmt.Sprintf(`{"wake_id":%q,"generation":%d,"done":%v,"acks":[{"stream":%q,"offset":%q}]}`, s.claim.WakeID, s.claim.Generation, done, s.path, to))
	switch {
	case a.Err != nil:
		s.maybe, s.maybeEnd = append(s.maybe, to), s.maybeEnd || done
		return true, nil
	case a.Status != http.StatusOK:
		return false, fmt.Errorf("ack %s: %v", s.id(), a)
	}
	s.cursor, s.maybe = to, nil
	if done {
		s.claim = nil
	}
	return false, nil
}

func (s *subscriber) release(c *process.Client) (gone bool, err error) {
	a := s.speak(c, "release", fmt.Sprintf(`{"wake_id":%q,"generation":%d}`, s.claim.WakeID, s.claim.Generation))
	switch {
	case a.Err != nil:
		s.maybeEnd = true
		return true, nil
	case a.Status != http.StatusNoContent:
		return false, fmt.Errorf("release %s: %v", s.id(), a)
	}
	s.claim = nil
	return false, nil
}

func (s *subscriber) speak(c *process.Client, action, body string) *process.Answer {
	return c.Do(http.MethodPost, s.id()+"/"+action, body, "Authorization", "Bearer "+s.claim.Token)
}

// verify compares what is known with what the server says after a start.
func (s *subscriber) verify(c *process.Client) error {
	if !s.made {
		return s.put(c)
	}
	// An append without an answer is made sure of first: it decides what is pending.
	if gone, err := s.write(c); gone || err != nil {
		return fmt.Errorf("append to %s after the start: %v, %w", s.path, gone, err)
	}
	if err := s.look(c, false); err != nil {
		return err
	}
	if s.claim != nil {
		a := s.speak(c, "ack", fmt.Sprintf(`{"wake_id":%q,"generation":%d}`, s.claim.WakeID, s.claim.Generation))
		switch {
		case a.Status == http.StatusOK:
		case codeOf(a) == "FENCED" && s.maybeEnd:
			s.claim = nil
		default:
			return fmt.Errorf("heartbeat of %s after the start: %v", s.id(), a)
		}
		s.maybeEnd = false
	}
	return s.events(c)
}

// look takes over the cursor that the server has.
func (s *subscriber) look(c *process.Client, fresh bool) error {
	a := c.Do(http.MethodGet, s.id(), "")
	var v struct {
		Streams []struct {
			Path  string
			Acked string `json:"acked_offset"`
		}
	}
	if a.Status != http.StatusOK || json.Unmarshal([]byte(a.Body), &v) != nil || len(v.Streams) != 1 || v.Streams[0].Path != s.path {
		return fmt.Errorf("get %s: %v", s.id(), a)
	}
	acked := v.Streams[0].Acked
	if !fresh && acked != s.cursor && !s.mayBe(acked) {
		return fmt.Errorf("%s is acked up to %s, want %s (or %q)", s.id(), acked, s.cursor, s.maybe)
	}
	s.cursor, s.maybe = acked, nil
	return nil
}

// events looks for doubles in the wake stream.
func (s *subscriber) events(c *process.Client) error {
	a := c.ReadAll(s.wakes, "-1")
	if a.Err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("read %s: %v", s.wakes, a)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(a.Body) {
		var e struct {
			ID         string `json:"subscription_id"`
			Generation int64
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return fmt.Errorf("event %s in %s: %w", line, s.wakes, err)
		}
		key := fmt.Sprint(e.ID, "/", e.Generation)
		if seen[key] {
			return fmt.Errorf("%s has two events of %s", s.wakes, key)
		}
		seen[key] = true
	}
	return nil
}

// codeOf is the error code of an answer.
func codeOf(a *process.Answer) string {
	var e struct{ Error struct{ Code string } }
	if json.Unmarshal([]byte(a.Body), &e) != nil {
		return ""
	}
	return e.Error.Code
}
