package protocol_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/protocol"
)

// after runs f that much later, in virtual time.
func after(d time.Duration, f func()) {
	go func() {
		time.Sleep(d)
		f()
	}()
}

func TestLongPoll(t *testing.T) {
	for _, tt := range []struct {
		name   string
		setup  func(c *client)
		query  string
		change func(c *client) // one second later
		wait   time.Duration
		status int
		body   string
		fields []string
	}{
		{name: "data is there", query: "-1", setup: func(c *client) { c.do("POST a", textType, "=x") },
			status: 200, body: "x", fields: []string{upToDate, cacheData, "Stream-Closed:"}},
		{name: "data and closed", query: "-1", setup: func(c *client) { c.do("POST a", textType, "=x", closedTrue) },
			status: 200, body: "x", fields: []string{upToDate, cacheData, closedTrue, "Stream-Cursor:"}},
		{name: "timeout", query: "-1", wait: 30 * time.Second, status: 204, fields: []string{upToDate, noStore, "ETag:", "Content-Type:", "Stream-Closed:"}},
		{name: "now times out", query: "now", setup: func(c *client) { c.do("POST a", textType, "=x") },
			wait: 30 * time.Second, status: 204, fields: []string{upToDate, noStore}},
		{name: "data comes", query: "-1", change: func(c *client) { c.do("POST a", textType, "=x") },
			wait: time.Second, status: 200, body: "x", fields: []string{upToDate, cacheData}},
		{name: "data comes after now", query: "now", setup: func(c *client) { c.do("POST a", textType, "=old") },
			change: func(c *client) { c.do("POST a", textType, "=x") },
			wait:   time.Second, status: 200, body: "x", fields: []string{upToDate, noStore, "ETag:"}},
		{name: "last data and close come", query: "-1", change: func(c *client) { c.do("POST a", textType, "=x", closedTrue) },
			wait: time.Second, status: 200, body: "x", fields: []string{upToDate, closedTrue}},
		{name: "close comes", query: "-1", change: func(c *client) { c.do("POST a", closedTrue) },
			wait: time.Second, status: 204, fields: []string{upToDate, closedTrue, noStore, "Stream-Cursor:"}},
		{name: "closed at the tail", query: "now", setup: func(c *client) { c.do("POST a", textType, "=x", closedTrue) },
			status: 204, fields: []string{upToDate, closedTrue, noStore, "Stream-Cursor:"}},
		{name: "delete", query: "-1", change: func(c *client) { c.do("DELETE a") }, wait: time.Second, status: 404, fields: []string{noStore}},
		{name: "delete with forks", query: "-1", setup: func(c *client) { c.do("PUT f", from("a")) },
			change: func(c *client) { c.do("DELETE a") }, wait: time.Second, status: 410},
		{name: "delete and create", query: "-1", change: func(c *client) { c.do("DELETE a"); c.do("PUT a", textType, "=new") },
			wait: time.Second, status: 404},
		{name: "drain", query: "-1", change: func(c *client) { c.core.Drain() }, wait: time.Second, status: 204, fields: []string{upToDate, "Stream-Closed:"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, nil)
				c.do("PUT a", textType).want(201)
				if tt.setup != nil {
					tt.setup(c)
				}
				if tt.change != nil {
					after(time.Second, func() { tt.change(c) })
				}
				begin := time.Now()
				a := c.do("GET a?live=long-poll&offset=" + tt.query)
				a.want(tt.status, tt.fields...)
				if time.Since(begin) != tt.wait {
					t.Errorf("answered after %v, want %v", time.Since(begin), tt.wait)
				}
				if tt.status < 400 {
					a.text(tt.body).want(tt.status, "Stream-Next-Offset: "+c.do("HEAD a").next())
				}
				if open := a.field("Stream-Closed") == ""; tt.status < 400 && open != (a.field("Stream-Cursor") != "") {
					t.Error("a cursor on a closed stream, or none on an open one")
				}
				if c.store.Watches() != 0 {
					t.Error("the watch goes on")
				}
			})
		})
	}
}

// Data that come in the last moment of a wait are answered, not a 204.
func TestLongPollDataAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.do("PUT a", textType, "=x").want(201)
		req, _ := c.request("GET a?offset=now&live=long-poll", nil)
		op, _ := c.core.Begin(req)
		feed := op.Open(func() {})
		act, err := feed.Step(time.Now())
		if err != nil || act.Response != nil {
			t.Fatalf("the first step gives %+v, %v", act, err)
		}
		time.Sleep(time.Until(act.Wait))
		c.do("POST a", textType, "=late").want(204)
		if act, err = feed.Step(time.Now()); err != nil || act.Response == nil {
			t.Fatalf("the last step gives %+v, %v", act, err)
		}
		if a := c.read("GET a", act.Response).want(200); a.body != "late" {
			t.Errorf("body %q", a.body)
		}
	})
}

func TestLongPollCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.do("PUT a", textType, "=x").want(201)
		cursor := func(sent string) string {
			return c.do("GET a?offset=-1&live=long-poll&cursor=" + sent).want(200).field("Stream-Cursor")
		}
		now := strconv.FormatInt((time.Now().Unix()-1728432000)/20, 10)
		for _, absent := range []string{"", "-5", "abc", "1e3", "9223372036854775807", "99999999999999999999999", "0"} {
			if time.Now().Unix() > 1728432000 && cursor(absent) != now {
				t.Errorf("cursor=%s gives %s, want %s", absent, cursor(absent), now)
			}
		}
		ahead := "1000000000"
		a, err := strconv.Atoi(cursor(ahead))
		if err != nil || a <= 1000000000 || a > 1000000000+3600 {
			t.Errorf("cursor %d after %s", a, ahead)
		}
	})
}

func TestSSE(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		tail := c.do("PUT a", textType, "=x").next()
		l := c.open("GET a?offset=-1&live=sse")
		act := l.next()
		head := c.read("head", act.Response)
		head.want(200, "Content-Type: text/event-stream", "Cache-Control: no-cache, no-transform", "X-Accel-Buffering: no",
			"Stream-SSE-Data-Encoding:", "Content-Encoding:", "ETag:", "Stream-Closed:")
		if act.Response.Length != -1 || act.Done {
			t.Errorf("Length %d, done %v", act.Response.Length, act.Done)
		}
		data, ctl := sse(t, act.Frame)
		if data != "x" || ctl.StreamNextOffset != tail || !ctl.UpToDate || ctl.StreamClosed || ctl.StreamCursor == "" {
			t.Errorf("first frame: %q %+v", data, ctl)
		}
		begin := time.Now()
		after(time.Second, func() { c.do("POST a", textType, "=y") })
		if data, ctl = sse(t, l.next().Frame); data != "y" || !ctl.UpToDate || time.Since(begin) != time.Second {
			t.Errorf("second frame after %v: %q %+v", time.Since(begin), data, ctl)
		}
		after(time.Second, func() { c.do("POST a", textType, "=final", closedTrue) })
		act = l.next()
		data, ctl = sse(t, act.Frame)
		if data != "final" || !ctl.StreamClosed || !ctl.UpToDate || ctl.StreamCursor != "" || !act.Done {
			t.Errorf("last frame: %q %+v, done %v", data, ctl, act.Done)
		}
		if act = l.next(); !act.Done || act.Response != nil || len(act.Frame) > 0 || c.store.Watches() != 0 {
			t.Errorf("after the end: %+v, %d watches", act, c.store.Watches())
		}
	})
}

// What a client gets at once, in one frame with the head.
func TestSSEFirstFrame(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT open", textType).want(201)
	c.do("PUT shut", textType, "=x", closedTrue).want(201)
	c.do("PUT json", jsonType, "=[1,[2]]").want(201)
	c.do("PUT bin", "=\x00\xff").want(201)
	for _, tt := range []struct {
		target, data, encoding string
		closed                 bool
		head                   string // Stream-Closed in the head
	}{
		{"open?offset=-1", "", "", false, ""},
		{"open?offset=now", "", "", false, ""},
		{"shut?offset=-1", "x", "", true, ""},
		{"shut?offset=now", "", "", true, "true"},
		{"json?offset=-1", "[1,[2]]", "", false, ""},
		{"json?offset=now", "", "", false, ""},
		{"bin?offset=-1", "AP8=", "base64", false, ""},
	} {
		l := c.open("GET " + tt.target + "&live=sse")
		act := l.next()
		data, ctl := sse(t, act.Frame)
		name, _, _ := strings.Cut(tt.target, "?")
		if data != tt.data || ctl.StreamClosed != tt.closed || !ctl.UpToDate || ctl.StreamNextOffset != c.do("HEAD "+name).next() || act.Done != tt.closed {
			t.Errorf("%s: %q %+v, done %v", tt.target, data, ctl, act.Done)
		}
		c.read(tt.target, act.Response).want(200, "Stream-SSE-Data-Encoding: "+tt.encoding, "Stream-Closed: "+tt.head)
		l.feed.Close()
		l.feed.Close()
	}
	if c.store.Watches() != 0 {
		t.Errorf("%d watches go on", c.store.Watches())
	}
}

func TestSSEQuietAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		tail := c.do("PUT a", textType, "=x").next()
		lives := map[time.Duration]bool{}
		for range 5 {
			l := c.open("GET a?offset=-1&live=sse")
			begin := time.Now()
			l.next()
			comments := 0
			for {
				last := time.Now()
				act := l.next()
				if time.Since(last) > 15*time.Second {
					t.Errorf("silent for %v", time.Since(last))
				}
				if act.Done {
					_, ctl := sse(t, act.Frame)
					if !ctl.UpToDate || ctl.StreamClosed || ctl.StreamNextOffset != tail || ctl.StreamCursor == "" {
						t.Errorf("last control: %+v", ctl)
					}
					break
				}
				if string(act.Frame) != ":\n\n" {
					t.Errorf("frame %q", act.Frame)
				}
				comments++
			}
			life := time.Since(begin)
			if lives[life] = true; life < 54*time.Second || life > 66*time.Second || comments < 3 {
				t.Errorf("ended after %v and %d comments", life, comments)
			}
		}
		if len(lives) < 2 {
			t.Error("all answers end at the same age")
		}
	})
}

// A comment breaks silence, and data are no silence.
func TestCommentsComeAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.do("PUT a", textType).want(201)
		l := c.open("GET a?offset=-1&live=sse")
		l.next()
		time.Sleep(10 * time.Second)
		c.do("POST a", textType, "=x").want(204)
		l.next()
		begin := time.Now()
		if act := l.next(); string(act.Frame) != ":\n\n" || time.Since(begin) != 15*time.Second {
			t.Errorf("%q after %v", act.Frame, time.Since(begin))
		}
		l.feed.Close()
	})
}

// A reader that is always busy ends too.
func TestBusySSEEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.do("PUT a", textType, "=x").want(201)
		begin := time.Now()
		l := c.open("GET a?offset=-1&live=sse")
		for act := l.next(); !act.Done; act = l.next() {
			time.Sleep(time.Second)
			c.do("POST a", textType, "=x").want(204)
			if time.Since(begin) > 70*time.Second {
				t.Fatal("goes on for ever")
			}
		}
	})
}

func TestSSECursorNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		c := newClient(t, &protocol.Options{SSEMaxAge: 6 * time.Hour})
		c.do("PUT a", textType).want(201)
		now := (time.Now().Unix() - 1728432000) / 20
		l := c.open("GET a?offset=-1&live=sse&cursor=" + strconv.FormatInt(now+1, 10))
		last, moved := now+1, 0
		for i := range 1000 {
			_, ctl := sse(t, l.next().Frame)
			cursor, err := strconv.ParseInt(ctl.StreamCursor, 10, 64)
			if err != nil || cursor < last || i == 0 && cursor <= now+1 {
				t.Fatalf("cursor %q after %d", ctl.StreamCursor, last)
			}
			if cursor > last {
				last, moved = cursor, moved+1
			}
			time.Sleep(14 * time.Second)
			c.do("POST a", textType, "=x").want(204)
		}
		if moved < 5 {
			t.Errorf("the cursor moved %d times in four hours", moved)
		}
		l.feed.Close()
	})
}

func TestSSEEndsWithTheStream(t *testing.T) {
	for name, change := range map[string]func(c *client){
		"deleted":  func(c *client) { c.do("DELETE a") },
		"soft":     func(c *client) { c.do("PUT f", from("a")); c.do("DELETE a") },
		"replaced": func(c *client) { c.do("DELETE a"); c.do("PUT a", textType, "=new") },
		"drained":  func(c *client) { c.core.Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, nil)
				c.do("PUT a", textType, "=x").want(201)
				l := c.open("GET a?offset=-1&live=sse")
				l.next()
				begin := time.Now()
				after(time.Second, func() { change(c) })
				act := l.next()
				if !act.Done || time.Since(begin) != time.Second || c.store.Watches() != 0 {
					t.Errorf("after %v: %+v", time.Since(begin), act)
				}
				if name == "drained" {
					if _, ctl := sse(t, act.Frame); !ctl.UpToDate {
						t.Errorf("last control %+v", ctl)
					}
				} else if len(act.Frame) > 0 {
					t.Errorf("last frame %q", act.Frame)
				}
			})
		})
	}
}

// A reader that comes while the server stops gets what there is.
func TestDrainedBeforeTheStart(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT a", textType, "=x").want(201)
	c.core.Drain()
	c.core.Drain()
	l := c.open("GET a?offset=-1&live=sse")
	if data, _ := sse(t, l.next().Frame); data != "x" || !l.next().Done {
		t.Error("no data, or no end")
	}
	c.do("GET a?offset=now&live=long-poll").want(204)
	c.do("GET a?offset=-1&live=long-poll").want(200)
	c.do("POST a", textType, "=y").want(204)
}

func TestLiveReadersKeepAStreamAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.do("PUT a", textType, "Stream-TTL: 2", "=x").want(201)
		l := c.open("GET a?offset=-1&live=sse")
		l.next()
		time.Sleep(5 * time.Second)
		c.do("HEAD a").want(200)
		c.do("POST a", textType, "=late").want(204)
		if data, _ := sse(t, l.next().Frame); data != "late" {
			t.Errorf("the reader sees %q", data)
		}
		l.feed.Close()
		time.Sleep(3 * time.Second)
		c.do("HEAD a").want(404)
	})
}

func TestLiveReadsOfAFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.do("PUT s", textType, "=old").want(201)
		c.do("PUT f", from("s")).want(201)
		c.do("GET f?offset=-1&live=long-poll").want(200).text("old")
		after(time.Second, func() { c.do("POST s", textType, "=no") })
		after(2*time.Second, func() { c.do("POST f", textType, "=yes") })
		begin := time.Now()
		c.do("GET f?offset=now&live=long-poll").want(200).text("yes")
		if time.Since(begin) != 2*time.Second {
			t.Errorf("answered after %v", time.Since(begin))
		}
	})
}
