package process_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"durablestreams/internal/dstest/process"
)

// mortal makes streams with a sliding lifetime, keeps them alive or forgets them,
// and knows within which time each has to end.
type mortal struct {
	rng     *rand.Rand
	streams []*lifetime
	life    int // of the server
	ended   int // streams that were seen to be gone
}

// lifetime is what is known of one path.
type lifetime struct {
	path  string
	there bool // if it has not ended by itself
	doubt bool // a request without an answer may have made or renewed it

	// It ends neither before first nor after latest. What a read has renewed need
	// not outlive the server; what an append has, does (firm).
	first, firm, latest time.Time
	life                int
}

const (
	window = 2 * time.Second
	grain  = window / 10 // a read need not renew more finely than that
	slack  = 5 * time.Millisecond
)

func newMortal(i int, rng *rand.Rand) *mortal {
	m := &mortal{rng: rng}
	for k := range 30 {
		m.streams = append(m.streams, &lifetime{path: fmt.Sprintf("mortal%d/%d", i, k)})
	}
	return m
}

// verify begins another life of the server.
func (m *mortal) verify(*process.Client) error {
	m.life++
	return nil
}

func (m *mortal) run(c *process.Client) error {
	for {
		l := m.streams[m.rng.IntN(len(m.streams))]
		if l.life != m.life {
			l.life, l.first = m.life, l.firm
		}
		gone, err := l.request(c, m)
		if gone || err != nil {
			return err
		}
	}
}

func (l *lifetime) request(c *process.Client, m *mortal) (gone bool, err error) {
	method, body, headers := http.MethodGet, "", []string(nil)
	switch dice := m.rng.IntN(10); {
	case !l.there || dice < 2:
		method, headers = http.MethodPut, []string{"Content-Type", "text/plain", "Stream-TTL", fmt.Sprint(int(window.Seconds()))}
	case dice < 4:
		method, body, headers = http.MethodPost, "x", []string{"Content-Type", "text/plain"}
	case dice < 8:
		method = http.MethodHead
	}
	begin := time.Now()
	a := c.Do(method, l.path, body, headers...)
	end := time.Now()
	switch {
	case a.Err != nil:
		l.doubt, l.there = true, true
		l.latest = later(l.latest, end.Add(window))
		return true, nil
	case a.Status == http.StatusNotFound:
		if l.there && !l.doubt && end.Add(slack).Before(l.first) {
			return false, fmt.Errorf("%s %s: gone %v before its time", method, l.path, l.first.Sub(end))
		}
		m.ended++
		l.there, l.doubt = false, false
		return false, nil
	case a.Status >= 300:
		return false, fmt.Errorf("%s %s: %v", method, l.path, a)
	case a.Status == http.StatusCreated:
		if l.there && !l.doubt && end.Add(slack).Before(l.first) {
			return false, fmt.Errorf("%s %s: made anew %v before its end", method, l.path, l.first.Sub(end))
		}
		*l = lifetime{path: l.path, there: true, life: l.life, first: begin.Add(window), firm: begin.Add(window), latest: end.Add(window)}
		return false, nil
	case !l.latest.IsZero() && begin.Add(-slack).After(l.latest):
		return false, fmt.Errorf("%s %s: %v, %v after its end", method, l.path, a, begin.Sub(l.latest))
	}
	l.there = true
	if method != http.MethodHead {
		l.first = later(l.first, begin.Add(window-grain))
		l.latest = later(l.latest, end.Add(window))
	}
	if method == http.MethodPost {
		l.first, l.firm = later(l.first, begin.Add(window)), later(l.firm, begin.Add(window))
	}
	if l.doubt && method != http.MethodHead {
		l.doubt = false
	}
	return false, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
