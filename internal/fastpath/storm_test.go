//go:build linux

package fastpath_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"durablestreams/internal/fastpath"
	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// moody is a store that is sometimes cold and sometimes fails.
type moody struct {
	protocol.Store
	mu  sync.Mutex
	rng *rand.Rand
}

func (m *moody) one(in int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rng.IntN(in) == 0
}

func (m *moody) InMemory(path stream.Path, from uint64) bool {
	return m.Store.InMemory(path, from) && !m.one(4)
}

func (m *moody) Stat(path stream.Path, touch bool) (stream.Snapshot, error) {
	if m.one(500) {
		panic("a bad mood")
	}
	return m.Store.Stat(path, touch)
}

func (m *moody) Read(snap stream.Snapshot, from, to uint64) stream.Blocks {
	b := m.Store.Read(snap, from, to)
	if m.one(200) {
		return failing{b}
	}
	return b
}

type failing struct{ stream.Blocks }

func (failing) Next() ([]byte, error) { return nil, io.ErrNoProgress }

// Clients that do anything, and leave in the middle of it, leave nothing behind.
func TestStorm(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		for loops := 1; loops <= 3; loops++ {
			t.Run(fmt.Sprintf("%d processors, %d loops", procs, loops), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				storm(t, uint64(procs*10+loops), loops, 1+loops%2)
			})
		}
	}
}

func storm(t *testing.T, seed uint64, loops, reads int) {
	opt := fastpath.Options{Loops: loops, StallTimeout: 300 * time.Millisecond, HeaderTimeout: 300 * time.Millisecond, IdleTimeout: 300 * time.Millisecond}
	rounds, _ := strconv.Atoi(os.Getenv("DS_ROUNDS"))
	s := start(t, config{fast: opt, store: &moody{Store: openEngine(t, nil), rng: rand.New(rand.NewPCG(seed, 1))},
		protocol: protocol.Options{MaxReads: reads, LongPollTimeout: 50 * time.Millisecond, SSEMaxAge: 100 * time.Millisecond, KeepAlive: 10 * time.Millisecond}})
	files := descriptors(t)
	var wg sync.WaitGroup
	for client := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(client)+2))
			for range max(rounds, 10) {
				s.visit(t, rng)
			}
		})
	}
	wg.Wait()
	for _, g := range []*gauge{s.open, s.slow, s.watches, s.reads, s.pending} {
		g.wait(t, 0)
	}
	if left := descriptors(t); left > files {
		t.Errorf("%d descriptors, %d before", left, files)
	}
	// The server is well.
	for range 20 {
		c := s.dial()
		c.put("well")
		if res, err := http.ReadResponse(c.r, nil); err == nil && (res.StatusCode == 200 || res.StatusCode == 201) {
			return
		}
	}
	t.Error("no answer any more")
}

// visit is one connection with a few requests, and a random end.
func (s *server) visit(t testing.TB, rng *rand.Rand) {
	c := s.dialFor(t)
	defer c.Close()
	data := make([]byte, 300)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	g := &grammar{chooser: chooser{data}, prefix: "storm/"}
	tk := g.talk()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		at := 0
		for _, cut := range append(tk.cuts, len(tk.raw)) {
			if _, err := io.WriteString(c.TCPConn, tk.raw[at:cut]); err != nil {
				return
			}
			at = cut
		}
	}()
	defer func() { <-sent }()
	defer c.Close()
	switch rng.IntN(5) {
	case 0: // gone at once
	case 1: // gone in the middle
		_, _ = c.r.Peek(rng.IntN(3000) + 1)
	case 2: // the hard way
		_, _ = c.r.Peek(1)
		_ = c.SetLinger(0)
	case 3:
		<-sent
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c.r)
	default:
		_, _ = io.Copy(io.Discard, c.r)
	}
}

// descriptors counts the process's open connections and event files.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && (strings.HasPrefix(to, "socket:") || strings.Contains(to, "event")) {
			n++
		}
	}
	return n
}

// After its end a server touches nothing: the numbers of its descriptors may be
// somebody else's by then. What still comes is net/http's.
func TestAfterShutdown(t *testing.T) {
	s := start(t, config{fast: fastpath.Options{Loops: 3}})
	s.do(201, "PUT", "a", "", text)
	if err := s.fast.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for range 50 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	if err := s.fast.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, err := f.Stat(); err != nil {
			t.Errorf("another's file is closed: %v", err)
		}
	}
	before := descriptors(t)
	for range 10 {
		c := s.dialFor(t)
		c.get("a").answer("GET", 200)
		c.Close()
	}
	s.slow.wait(t, 0)
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// Many writers and one worker: everybody gets an answer.
func TestOneWorkerUnderLoad(t *testing.T) {
	s := start(t, config{store: openEngine(t, nil), fast: fastpath.Options{Loops: 2}, protocol: protocol.Options{MaxReads: 1}})
	var wg sync.WaitGroup
	for i := range 40 {
		c := s.dial()
		wg.Go(func() {
			for n := range 10 {
				name := fmt.Sprintf("s%d-%d", i, n)
				c.put(name).answer("PUT", 201)
				c.post(name, strings.Repeat("x", 70_000)).answer("POST", 204)
				c.get(name).answer("GET", 200)
				c.send("DELETE %s%s HTTP/1.1\r\nHost: x\r\n\r\n", root, name).answer("DELETE", 204)
				c.get(name).answer("GET", 404)
			}
		})
	}
	wg.Wait()
}

// A stream that goes while its data are on their way to a client.
func TestDeleteUnderALargeAnswer(t *testing.T) {
	both(t, func(t *testing.T, cfg config) {
		cfg.store = openEngine(t, nil)
		cfg.protocol.PageSize = 64 << 20
		s := start(t, cfg)
		s.do(201, "PUT", "a", "", text)
		for range 12 {
			s.do(204, "POST", "a", strings.Repeat("x", 1<<20), text)
		}
		c := s.dial()
		c.get("a")
		res := c.head("GET", 200)
		s.do(204, "DELETE", "a", "")
		if n, err := io.Copy(io.Discard, res.Body); err == nil && n != 12<<20 {
			t.Errorf("ends well after %d bytes", n)
		}
		s.reads.wait(t, 0)
	})
}
