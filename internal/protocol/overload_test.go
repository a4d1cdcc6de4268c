package protocol_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/dstest/fakestore"
	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// busy checks a refusal that says when to come again.
func (a *answer) busy() *answer {
	a.t.Helper()
	return a.want(503, "Retry-After: 1", "Cache-Control: no-store").code("busy")
}

// idle checks that everything was given back.
func (c *client) idle() {
	c.t.Helper()
	if use := c.core.Use(); use != (protocol.Use{}) {
		c.t.Errorf("in use: %+v", use)
	}
}

func TestMaxLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &protocol.Options{MaxLive: 2})
		c.do("PUT a", textType, "=x").want(201)
		poll, sse := c.open("GET a?offset=now&live=long-poll"), c.open("GET a?offset=-1&live=sse")
		if act, err := poll.feed.Step(time.Now()); err != nil || act.Wait.IsZero() {
			t.Fatalf("%+v, %v", act, err)
		}
		sse.next()
		if n := c.core.Use().Live; n != 2 {
			t.Errorf("%d live reads", n)
		}
		for _, q := range []string{"now&live=sse", "now&live=long-poll"} {
			if res := c.do("GET a?offset=" + q).busy(); !res.Last {
				t.Errorf("%s: who is refused keeps its connection", q)
			}
		}
		// A long-poll that need not wait takes nobody's place.
		c.do("GET a?offset=-1&live=long-poll").want(200).text("x")
		sse.feed.Close()
		sse.feed.Close()
		again := c.open("GET a?offset=now&live=sse")
		if act := again.next(); act.Response.Status != 200 {
			t.Errorf("status %d with a place free", act.Response.Status)
		}
		c.do("POST a", textType, "=y").want(204)
		if act := poll.next(); act.Response.Status != 200 || c.core.Use().Live != 1 {
			t.Errorf("a long-poll that has its answer keeps its place: %+v", c.core.Use())
		}
		again.feed.Close()
		c.idle()
	})
}

func TestMaxSends(t *testing.T) {
	c := newClient(t, &protocol.Options{MaxSends: 2})
	c.do("PUT a", textType, "="+strings.Repeat("x", 100<<10)).want(201)
	first, second := beginRead(c, "GET a"), beginRead(c, "GET a?offset=-1&live=long-poll")
	c.do("GET a").busy()
	c.do("GET a?offset=-1&live=long-poll").busy()
	c.do("GET a?offset=now").want(200)
	first.Close()
	first.Close()
	c.do("GET a").want(200)
	second.Close()
	c.idle()
}

// What clients have not taken yet is bounded, for pages and frames together.
func TestMaxUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &protocol.Options{MaxUnsent: 1 << 20, KeepAlive: time.Hour, SSEMaxAge: time.Hour})
		c.store.BlockSize = 1 << 20
		c.do("PUT a", textType, "=").want(201)
		idle := c.open("GET a?offset=now&live=sse")
		idle.next()
		c.do("POST a", textType, "="+strings.Repeat("x", 60<<10)).want(204)
		var held []*protocol.Response
		for res := beginRead(c, "GET a"); res.Status == 200; res = beginRead(c, "GET a") {
			held = append(held, res)
		}
		if n := c.core.Use().Unsent; len(held) != (1<<20)/(60<<10) || n != int64(len(held)*60<<10) {
			t.Errorf("%d answers hold %d bytes", len(held), n)
		}
		c.do("GET a?offset=-1&live=long-poll").busy()
		c.do("GET a?offset=-1&live=sse").busy()
		c.do("HEAD a").want(200)
		c.do("GET a?offset=now").want(200)

		// A reader that was there before waits, and not for ever.
		begin := time.Now()
		if act := idle.next(); !act.Done || len(act.Frame) > 0 || time.Since(begin) < 5*time.Second || time.Since(begin) > 6*time.Second {
			t.Errorf("%+v after %v", act, time.Since(begin))
		}
		idle.feed.Close()
		if n := c.store.Watches(); n != 0 {
			t.Errorf("%d watches", n)
		}
		for _, res := range held {
			res.Close()
		}
		c.idle()
	})
}

// Readers who share a frame may each have a copy of it waiting in their adapter.
func TestSharedFramesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &protocol.Options{MaxUnsent: 1 << 20, KeepAlive: time.Hour, SSEMaxAge: time.Hour})
		c.do("PUT a", textType, "=").want(201)
		var all []*live
		for range 30 {
			all = append(all, c.open("GET a?offset=now&live=sse"))
			all[len(all)-1].next()
		}
		c.do("POST a", textType, "="+strings.Repeat("x", 60<<10)).want(204)
		sent := 0
		for _, l := range all {
			if act, err := l.feed.Step(time.Now()); err == nil && len(act.Frame) > 0 {
				sent++
			}
		}
		if n := c.core.Use().Unsent; sent < 10 || sent > 17 || n < int64(sent*60<<10) || n > 1<<20 {
			t.Errorf("%d frames count %d bytes", sent, n)
		}
		for _, l := range all {
			l.feed.Close()
		}
		c.idle()
	})
}

// Who reads a large answer needs a place for each of its blocks.
func TestBlocksNeedAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cold := newCold()
		cold.BlockSize = 80 << 10
		c := newClientOn(t, &protocol.Options{MaxReads: 1}, cold, cold.Store)
		c.do("PUT a", textType, "="+strings.Repeat("x", 100<<10)).want(201)
		large := beginRead(c, "GET a")
		if _, err := large.Rest.Next(); err != nil { // which was read before
			t.Fatal(err)
		}
		stalled := cold.stall()
		go c.do("HEAD a")
		synctest.Wait()
		read := false
		go func() {
			if _, err := large.Rest.Next(); err != nil {
				t.Error(err)
			}
			read = true
		}()
		synctest.Wait()
		if read {
			t.Error("a block was read without a place")
		}
		close(stalled)
		synctest.Wait()
		if !read {
			t.Error("the block does not come")
		}
		large.Close()
		c.idle()
	})
}

// A reader that finds room in time goes on as if nothing had been.
func TestRoomComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &protocol.Options{MaxUnsent: 1 << 20})
		c.store.BlockSize = 1 << 20
		c.do("PUT a", textType, "=").want(201)
		idle := c.open("GET a?offset=now&live=sse")
		idle.next()
		c.do("POST a", textType, "="+strings.Repeat("x", 60<<10)).want(204)
		var held []*protocol.Response
		for res := beginRead(c, "GET a"); res.Status == 200; res = beginRead(c, "GET a") {
			held = append(held, res)
		}
		for range 3 { // one pause does not count for the next
			go func() {
				time.Sleep(3 * time.Second)
				for _, res := range held {
					res.Close()
				}
			}()
			data, control := sse(t, idle.next().Frame)
			if len(data) != 60<<10 || !control.UpToDate {
				t.Errorf("%d bytes, %+v", len(data), control)
			}
			c.do("POST a", textType, "="+strings.Repeat("y", 60<<10)).want(204)
			held = held[:0]
			for res := beginRead(c, "GET a?offset="+control.StreamNextOffset); res.Status == 200; res = beginRead(c, "GET a?offset="+control.StreamNextOffset) {
				held = append(held, res)
			}
		}
		idle.feed.Close()
		for _, res := range held {
			res.Close()
		}
		c.idle()
	})
}

// A message that is larger than all there is to share comes through alone.
func TestLargeFrameAlone(t *testing.T) {
	c := newClient(t, &protocol.Options{MaxUnsent: 1 << 20})
	c.store.BlockSize = 1 << 20
	c.do("PUT a", jsonType, `="`+strings.Repeat("x", 3<<20)+`"`).want(201)
	first := c.open("GET a?offset=-1&live=sse")
	if act := first.next(); len(act.Frame) < 3<<20 || c.core.Use().Unsent < 3<<20 {
		t.Fatalf("a frame of %d bytes, %+v", len(act.Frame), c.core.Use())
	}
	c.do("GET a?offset=-1&live=sse").busy()
	first.feed.Close()
	second := c.open("GET a?offset=-1&live=sse")
	if act := second.next(); len(act.Frame) < 3<<20 {
		t.Errorf("a frame of %d bytes", len(act.Frame))
	}
	if act, err := second.feed.Step(time.Now()); err != nil || act.Wait.IsZero() || c.core.Use().Unsent != 0 {
		t.Errorf("what has been sent still counts: %+v, %v, %+v", act, err, c.core.Use())
	}
	second.feed.Close()
	c.idle()
}

// coldStore has nothing in memory and counts who is inside.
type coldStore struct {
	*fakestore.Store
	mu           sync.Mutex
	inside, most int
	slow         chan struct{} // closed: the disk is well
}

func (s *coldStore) InMemory(stream.Path, uint64) bool { return false }

func (s *coldStore) wait() {
	s.mu.Lock()
	s.inside++
	s.most = max(s.most, s.inside)
	slow := s.slow
	s.mu.Unlock()
	<-slow
	s.mu.Lock()
	s.inside--
	s.mu.Unlock()
}

// stall makes the disk slow until the channel that it gives is closed.
func (s *coldStore) stall() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most, s.slow = 0, make(chan struct{})
	return s.slow
}

// peak is how many were inside at once since.
func (s *coldStore) peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func newCold() *coldStore {
	s := &coldStore{Store: &fakestore.Store{}}
	close(s.stall())
	return s
}

func (s *coldStore) Stat(path stream.Path, touch bool) (stream.Snapshot, error) {
	s.wait()
	return s.Store.Stat(path, touch)
}

func (s *coldStore) Apply(cmd stream.Command, done stream.Completion) {
	s.wait()
	s.Store.Apply(cmd, done)
}

// Only so many wait for the disk at once, reads and changes apart, and who gets no
// place is told so.
func TestMaxReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cold := newCold()
		c := newClientOn(t, &protocol.Options{MaxReads: 2, MaxBody: 1 << 20}, cold, cold.Store)
		c.do("PUT a", textType, "="+strings.Repeat("x", 100<<10)).want(201)
		large := beginRead(c, "GET a") // holds no place between its blocks
		defer large.Close()
		for name, tt := range map[string]struct {
			line string
			args []string
			ok   int
		}{
			"read":      {"GET a?offset=now", nil, 200},
			"head":      {"HEAD a", nil, 200},
			"long-poll": {"GET a?offset=-1&live=long-poll", nil, 200},
			"SSE":       {"GET a?offset=-1&live=sse", nil, 200},
			"append":    {"POST a", []string{textType, "=y"}, 204},
			"create":    {"PUT a", []string{textType}, 200},
			"fork":      {"PUT f", []string{"Stream-Forked-From: " + c.core.Root() + "a"}, 201},
			"delete":    {"DELETE none", nil, 404},
		} {
			stalled := cold.stall()
			statuses := make(chan int, 6)
			var wg sync.WaitGroup
			begin := time.Now()
			for range cap(statuses) {
				wg.Go(func() { statuses <- c.do(tt.line, tt.args...).Status })
			}
			for range cap(statuses) - 2 {
				if status := <-statuses; status != 503 {
					t.Errorf("%s: status %d without a place", name, status)
				}
			}
			if waited := time.Since(begin); cold.peak() != 2 || waited != 10*time.Second {
				t.Errorf("%s: %d at once, refused after %v", name, cold.peak(), waited)
			}
			close(stalled)
			wg.Wait()
			for range 2 {
				if status := <-statuses; status != tt.ok && status != 200 {
					t.Errorf("%s: status %d", name, status)
				}
			}
		}
		large.Close()
		c.idle()
	})
}

// A live read that has begun and gets no place ends where the client knows it.
func TestNoPlaceForLiveReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cold := newCold()
		c := newClientOn(t, &protocol.Options{MaxReads: 1, LongPollTimeout: time.Hour, KeepAlive: time.Hour, SSEMaxAge: time.Hour}, cold, cold.Store)
		c.do("PUT a", textType, "=x").want(201)
		poll, events := c.open("GET a?offset=now&live=long-poll"), c.open("GET a?offset=-1&live=sse")
		if act, err := poll.feed.Step(time.Now()); err != nil || act.Wait.IsZero() {
			t.Fatalf("%+v, %v", act, err)
		}
		events.next()
		stalled := cold.stall()
		go c.do("HEAD a")
		synctest.Wait()
		if act := poll.next(); act.Response == nil || act.Response.Status != 503 || !act.Done {
			t.Errorf("long-poll: %+v", act)
		}
		if act := events.next(); act.Response != nil || len(act.Frame) > 0 || !act.Done {
			t.Errorf("SSE: %+v", act)
		}
		close(stalled)
		synctest.Wait()
		if n := cold.Watches(); n != 0 {
			t.Errorf("%d watches", n)
		}
		c.idle()
	})
}
