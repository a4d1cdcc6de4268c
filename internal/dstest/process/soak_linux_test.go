package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// soakTime is how long the normal run has everything at once. It is short enough to
// wait for, and nearly all of it is waiting, so that other packages run beside it.
const soakTime = 40 * time.Second

// TestSoak has everything at once on one data directory: writers with and without
// producers, owners of streams that they fork, close and delete, streams with a
// lifetime, readers of every kind, some of which take nothing, subscriptions of both
// types, over kills and stops. Nothing may be lost or come twice, and the last
// process, which lives the longest, may use no more at its end than at its beginning.
// DS_SOAK is how long, DS_SOAK_PAUSE by how much clients wait between two requests at
// most.
func TestSoak(t *testing.T) {
	s := newSoak(t)
	for left := s.length; left > s.length*2/5; {
		d := s.length/12 + time.Duration(s.rng.Int64N(int64(s.length/8)))
		s.life(min(d, time.Minute), s.rng.IntN(3) > 0)
		left -= min(d, time.Minute)
	}
	s.last(s.length * 2 / 5)
	t.Logf("%d lives, %d requests, %d tokens on the shared streams, %d deliveries by webhook, %d lifetimes ended, %d stuck readers dropped, %d reads of %d bytes",
		s.lives, s.requests.Load(), s.tokens(), s.deliveries(), s.ended(), s.stuck.dropped.Load(), s.greedy.reads, len(s.greedy.content))
}

// soak is a data directory and everybody who works on it.
type soak struct {
	t       *testing.T
	rng     *rand.Rand
	length  time.Duration
	pause   time.Duration
	command process.Command
	log     *soakLog

	actors    []actor // wait between their requests
	hasty     []actor // do not
	ledgers   []*ledger
	feed      *writer
	followers []*follower
	hooks     []*hooked
	mortals   []*mortal
	stuck     *stuckReaders
	greedy    *greedy

	lives    int
	over     atomic.Bool // the server is being stopped, or the end has come
	requests atomic.Int64
}

func newSoak(t *testing.T) *soak {
	seed := uint64(envInt(t, "DS_SEED", time.Now().UnixNano()))
	s := &soak{t: t, rng: rand.New(rand.NewPCG(seed, 1<<33)), length: envTime(t, "DS_SOAK", soakTime), pause: envTime(t, "DS_SOAK_PAUSE", 100*time.Millisecond), log: &soakLog{}}
	t.Logf("%v, DS_SEED=%d", s.length, seed)
	s.command = process.Command{Binary: process.Build(t), Log: s.log, Env: []string{"GOTRACEBACK=all"},
		Args: []string{"--data-dir", filepath.Join(t.TempDir(), "data"), "--segment-size", "1MiB", "--tail-memory", "4MiB", "--cache-size", "8MiB",
			"--webhook-allow-local", "--long-poll-timeout", "2s", "--sse-max-age", "4s", "--stall-timeout", "2s"}}
	s.actors, s.ledgers = crowd(seed)
	feed := newLedger("shared/feed", false)
	s.feed = &writer{ledger: feed, name: "f", producer: true}
	s.ledgers = append(s.ledgers, feed)
	s.actors = append(s.actors, s.feed, feed)
	for i := range 3 {
		m := newMortal(i, rand.New(rand.NewPCG(seed, uint64(200+i))))
		s.mortals, s.actors = append(s.mortals, m), append(s.actors, m)
		h := newHooked(i)
		t.Cleanup(h.to.Close)
		s.hooks, s.actors = append(s.hooks, h), append(s.actors, h)
	}
	for i := range 60 {
		f := &follower{path: feed.path, producer: "f", poll: i%3 == 0}
		s.followers, s.hasty = append(s.followers, f), append(s.hasty, f)
	}
	s.greedy = &greedy{path: "large", content: strings.Repeat("0123456789abcde\n", 8<<16)}
	s.stuck = &stuckReaders{t: t, path: s.greedy.path, over: &s.over}
	s.actors, s.hasty = append(s.actors, s.greedy), append(s.hasty, s.stuck)
	return s
}

func envTime(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// start starts a process and compares what everybody knows with what is there.
func (s *soak) start() (*process.Server, *process.Client) {
	s.t.Helper()
	command := s.command
	command.Args = append(slices.Clone(command.Args), []string{"--fast-path", "--no-fast-path"}[s.lives%2])
	s.lives++
	s.over.Store(false)
	p := process.Start(s.t, command)
	c := process.NewClient(p.Streams)
	s.t.Cleanup(c.Close)
	if s.lives == 1 {
		for _, l := range s.ledgers {
			if err := l.create(c); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.verify(p, c)
	return p, c
}

func (s *soak) verify(p *process.Server, c *process.Client) {
	s.t.Helper()
	together(s.t, slices.Concat(s.actors, s.hasty), func(a actor) error { return a.verify(c) })
	s.must(p)
}

// must ends the test if something was wrong.
func (s *soak) must(p *process.Server) {
	s.t.Helper()
	if wrong := s.log.wrong(); wrong != "" {
		s.t.Error(wrong)
	}
	if s.t.Failed() {
		s.t.Fatalf("life %d\n%s", s.lives, p.Stderr)
	}
}

// work lets everybody work until the server is gone or over is set.
func (s *soak) work(p *process.Server, c *process.Client) {
	var wg sync.WaitGroup
	work := func(list []actor, pause time.Duration) {
		mine := *c
		mine.HTTP = &http.Client{Transport: &paced{soak: s, base: c.HTTP.Transport, pause: pause}}
		together(s.t, list, func(a actor) error {
			err := a.run(&mine)
			if err != nil {
				s.over.Store(true) // there is no use in going on
			}
			return err
		})
	}
	wg.Go(func() { work(s.actors, s.pause) })
	wg.Go(func() { work(s.hasty, 0) })
	wg.Wait()
	s.must(p)
}

// life is one process, which a signal ends.
func (s *soak) life(d time.Duration, kill bool) {
	s.t.Helper()
	p, c := s.start()
	ended := make(chan error, 1)
	go func() {
		time.Sleep(d)
		s.over.Store(true)
		if kill {
			p.Kill()
			ended <- nil
		} else {
			ended <- p.Stop(20 * time.Second)
		}
	}()
	s.work(p, c)
	if err := <-ended; err != nil {
		s.t.Fatalf("stop: %v\n%s", err, p.Stderr)
	}
	c.Close()
}

// last is the process whose memory, files and goroutines are looked at. It is
// compared with itself, and at rest with one that has just begun.
func (s *soak) last(d time.Duration) {
	s.t.Helper()
	s.command.Env = append(s.command.Env, "GODEBUG=gctrace=1") // says in the log what is alive
	p, c := s.start()
	s.log.alive = nil
	var memory []int
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for begin := time.Now(); time.Since(begin) < d && !s.over.Load(); time.Sleep(200 * time.Millisecond) {
			memory = append(memory, residentMiB(s.t, p.Pid()))
		}
		s.over.Store(true)
	}()
	s.work(p, c)
	<-ended
	s.flat("resident memory", memory)
	s.flat("live heap", s.log.heap())
	s.verify(p, c)
	s.finish(c)
	used := s.rest(p, c)

	p, c = s.start()
	s.finish(c)
	if err := p.Stop(20 * time.Second); err != nil {
		s.t.Fatalf("stop: %v\n%s", err, p.Stderr)
	}
	p, c = s.start() // over the same adapter as before
	fresh := s.rest(p, c)
	s.t.Logf("at rest %+v, a new process %+v", used, fresh)
	if used.sockets > fresh.sockets || used.goroutines > fresh.goroutines+5 || used.files > fresh.files+20 {
		s.t.Errorf("at rest %+v, a new process %+v", used, fresh)
	}
}

// flat compares the last third of a process's life with the second, in MiB. Single
// values go up and down with what happens to be under way.
func (s *soak) flat(what string, mib []int) {
	s.t.Helper()
	if len(mib) < 12 {
		s.t.Fatalf("%s was looked at %d times", what, len(mib))
	}
	var twelfths []int
	for i := range 12 {
		part := slices.Sorted(slices.Values(mib[i*len(mib)/12 : (i+1)*len(mib)/12]))
		twelfths = append(twelfths, part[len(part)/2])
	}
	third := len(twelfths) / 3
	before, after := slices.Max(twelfths[third:2*third]), slices.Max(twelfths[2*third:])
	s.t.Logf("%s of the last process, MiB, medians along its life: %v", what, twelfths)
	if after > before+before/5+8 {
		s.t.Errorf("%s grows: %d MiB in the second third, %d in the last", what, before, after)
	}
}

// finish waits until everybody has got what is there for them.
func (s *soak) finish(c *process.Client) {
	s.t.Helper()
	// A last token, or the one before again, which may not have been answered.
	if status, _ := s.feed.send(c, s.feed.token(s.feed.next), s.feed.headers()...); status != http.StatusOK && status != http.StatusNoContent {
		s.t.Fatalf("append to %s: status %d", s.feed.path, status)
	}
	s.feed.next++
	for _, f := range s.followers {
		if err := f.finish(c, s.feed.next); err != nil {
			s.t.Error(err)
		}
	}
	for _, h := range s.hooks {
		if err := h.finish(c); err != nil {
			s.t.Error(err)
		}
	}
}

// atRest is what a process holds when nobody wants anything.
type atRest struct{ goroutines, sockets, files, threads int }

// rest waits until the process has come to rest, looks at it and ends it.
func (s *soak) rest(p *process.Server, c *process.Client) (r atRest) {
	s.t.Helper()
	c.Close()
	for _, h := range s.hooks {
		h.to.CloseClientConnections()
	}
	const interval = time.Second
	for begin, last := time.Now(), cpuTime(s.t, p.Pid()); ; {
		time.Sleep(interval)
		now := cpuTime(s.t, p.Pid())
		idle := now-last < interval/20
		last = now
		if r.sockets = sockets(s.t, p.Pid()); idle && r.sockets <= 2 {
			break
		}
		if time.Since(begin) > 40*time.Second {
			s.t.Fatalf("nobody wants anything, and the process is busy (idle: %v) with %d sockets\n%s", idle, r.sockets, p.Stderr)
		}
	}
	r.files, r.threads = files(s.t, p.Pid()), statusOf(s.t, p.Pid(), "Threads:")
	s.log.goroutines.Store(0)
	if err := p.Signal(syscall.SIGQUIT); err != nil {
		s.t.Fatal(err)
	}
	_ = p.Err()
	if r.goroutines = int(s.log.goroutines.Load()); r.goroutines < 5 {
		s.t.Errorf("%d goroutines are in the dump", r.goroutines)
	}
	return r
}

func (s *soak) tokens() (n int) {
	for _, l := range s.ledgers {
		n += len(l.acked)
	}
	return n
}

func (s *soak) deliveries() (n int) {
	for _, h := range s.hooks {
		n += h.deliveries
	}
	return n
}

func (s *soak) ended() (n int) {
	for _, m := range s.mortals {
		n += m.ended
	}
	return n
}

// paced waits a little before each request. Nothing is sent once the server is being
// stopped, and a refusal for that reason is as good as no answer.
type paced struct {
	*soak
	base  http.RoundTripper
	pause time.Duration
}

var errOver = errors.New("it is over")

func (p *paced) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.pause > 0 {
		time.Sleep(rand.N(p.pause))
	}
	if p.over.Load() {
		return nil, errOver
	}
	p.requests.Add(1)
	res, err := p.base.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusServiceUnavailable && p.over.Load() {
		res.Body.Close()
		return nil, errOver
	}
	return res, err
}

// soakLog looks at what the processes log.
type soakLog struct {
	mu         sync.Mutex
	rest       []byte
	lines      int
	errors     []string
	goroutines atomic.Int64 // in dumps
	alive      []int        // MiB that each garbage collection has left
}

func (l *soakLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l.rest = rest
		switch {
		case bytes.HasPrefix(line, []byte("goroutine ")):
			l.goroutines.Add(1)
		case bytes.HasPrefix(line, []byte("gc ")):
			if m := collected.FindSubmatch(line); m != nil {
				n, _ := strconv.Atoi(string(m[1]))
				l.alive = append(l.alive, n)
			}
		case bytes.HasPrefix(line, []byte("time=")):
			l.lines++
			if bytes.Contains(line, []byte("level=ERROR")) || bytes.Contains(line, []byte("panic")) {
				l.errors = append(l.errors, string(line))
			}
		}
	}
}

var collected = regexp.MustCompile(`->(\d+) MB, `)

func (l *soakLog) heap() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.alive)
}

// wrong says what should not have been logged.
func (l *soakLog) wrong() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines > 2000 {
		return fmt.Sprintf("%d lines of log", l.lines)
	}
	return strings.Join(l.errors, "\n")
}
