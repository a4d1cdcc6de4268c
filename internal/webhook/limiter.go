package webhook

import (
	"context"
	"sync"
)

// limiter bounds how many calls are under way, for each host and in all. A call takes
// its host's place first and the common one last: a slow host holds up its own calls,
// and only as many common places as it may have calls.
type limiter struct {
	perHost int
	all     chan struct{}

	mu    sync.Mutex
	hosts map[string]*hostPlaces
}

type hostPlaces struct {
	places chan struct{}
	users  int // calls that hold or wait for a place
}

func newLimiter(perHost, all int) *limiter {
	return &limiter{perHost: perHost, all: make(chan struct{}, all), hosts: map[string]*hostPlaces{}}
}

// enter waits for a place until ctx ends. Whoever got in has to leave.
func (l *limiter) enter(ctx context.Context, host string) error {
	h := l.use(host)
	select {
	case h.places <- struct{}{}:
	case <-ctx.Done():
		l.unuse(host, h)
		return context.Cause(ctx)
	}
	select {
	case l.all <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-h.places
		l.unuse(host, h)
		return context.Cause(ctx)
	}
}

func (l *limiter) leave(host string) {
	l.mu.Lock()
	h := l.hosts[host]
	l.mu.Unlock()
	<-l.all
	<-h.places
	l.unuse(host, h)
}

func (l *limiter) use(host string) *hostPlaces {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hosts[host]
	if h == nil {
		h = &hostPlaces{places: make(chan struct{}, l.perHost)}
		l.hosts[host] = h
	}
	h.users++
	return h
}

func (l *limiter) unuse(host string, h *hostPlaces) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(l.hosts, host)
	}
}
