package conformance

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

func longPollTests() []test {
	return []test{
		{"B01 an append-and-close wakes a long-poll with the data", pollFinal},
		{"a waiting long-poll wakes on an append with just that", pollAppend},
		{"a close wakes a long-poll at the tail", pollClose},
		{"data that is there comes at once, with a cursor", pollAtOnce},
		{"N01 at the end of a closed stream the answer comes at once", pollClosed},
		{"B08 a delete wakes a long-poll with 404", pollDelete},
		{"N09 B22 an idle long-poll waits, then says so", pollIdle},
		{"B16 N03 cursors move forward and never overflow", pollCursors},
		{"B17 the same question gets the same cursor", pollCollapse},
		{"every waiting reader is woken", pollMany},
		{"a chain of long-polls loses and doubles nothing", pollChain},
	}
}

// settle gives a request in the background time to arrive and wait. Tests that
// use it are right whatever the time; it only makes them meet the waiting.
const settle = 150 * time.Millisecond

func pollFinal(c *client) {
	c.waitPoll(settle)
	for round := range 20 {
		p := c.create("final", text, "")
		start := c.head(p).tail()
		offset := fromNow
		if round%2 == 1 {
			offset = from(start)
		}
		wait := c.later(func() *reply { return c.get(p, offset+longPoll) })
		c.pause(settle)
		tail := c.post(p, text, "final", closing()...).is(204).tail()
		wait().is(200).body("final").header("Stream-Closed", "true").header("Stream-Next-Offset", tail).header("Stream-Up-To-Date", "true")
		c.get(p, from(tail)+longPoll).is(204).header("Stream-Closed", "true").header("Stream-Next-Offset", tail)
	}
}

// waitPoll leaves a test out if the server's long-poll is shorter than its waits.
func (c *client) waitPoll(wait time.Duration) {
	c.Helper()
	if c.LongPollTimeout < 4*wait {
		c.Skipf("needs a long-poll timeout of at least %s", 4*wait)
	}
}

func pollAppend(c *client) {
	for _, ctype := range []string{text, jsonType} {
		p := c.create("append", ctype, `"old"`)
		tail := c.head(p).tail()
		for _, offset := range []string{fromNow, from(tail)} {
			if offset == from(tail) {
				offset = from(c.head(p).tail())
			}
			wait := c.later(func() *reply { return c.get(p, offset+longPoll) })
			c.pause(settle)
			next := c.add(p, ctype, `"new"`)
			r := wait().is(200).header("Stream-Next-Offset", next).header("Stream-Up-To-Date", "true").header("Content-Type", ctype).
				with("Stream-Cursor", "Cache-Control").without("Stream-Closed")
			if offset == fromNow {
				r.header("Cache-Control", "no-store").without("ETag") // another answer for everyone who asks
			} else {
				r.with("ETag")
			}
			if ctype == jsonType {
				c.same("messages", r.messages(), []string{`"new"`})
			} else {
				r.body(`"new"`)
			}
			if r.Took > settle+5*time.Second {
				c.Errorf("the append took %s to arrive", r.Took)
			}
		}
	}
}

func pollClose(c *client) {
	p := c.create("close", text, "x")
	wait := c.later(func() *reply { return c.get(p, fromNow+longPoll) })
	c.pause(settle)
	tail := c.closes(p)
	wait().is(204).header("Stream-Closed", "true").header("Stream-Up-To-Date", "true").header("Stream-Next-Offset", tail)
}

func pollAtOnce(c *client) {
	p := c.create("data", text, "history")
	tail := c.head(p).tail()
	r := c.get(p, fromStart+longPoll).is(200).body("history").header("Stream-Next-Offset", tail).header("Stream-Up-To-Date", "true").with("Stream-Cursor", "ETag")
	if r.Took > 5*time.Second {
		c.Errorf("existing data took %s", r.Took)
	}
	c.closes(p)
	c.get(p, fromStart+longPoll).is(200).body("history").header("Stream-Closed", "true")
}

func pollClosed(c *client) {
	p := c.create("closed", text, "x")
	tail := c.closes(p)
	for _, offset := range []string{fromNow, from(tail)} {
		for _, cursor := range []string{"", "&cursor=5", "&cursor=99999999999"} {
			r := c.get(p, offset+longPoll+cursor).is(204).body("").header("Stream-Closed", "true").header("Stream-Up-To-Date", "true").header("Stream-Next-Offset", tail)
			if r.Took > min(5*time.Second, c.LongPollTimeout) {
				c.Errorf("a closed stream let the reader wait %s", r.Took)
			}
		}
	}
}

func pollDelete(c *client) {
	c.waitPoll(settle)
	p := c.create("delete", text, "x")
	var waits []func() *reply
	for _, offset := range []string{fromNow, from(c.head(p).tail())} {
		waits = append(waits, c.later(func() *reply { return c.get(p, offset+longPoll) }))
	}
	c.pause(settle)
	c.delete(p).is(204)
	for _, wait := range waits {
		if r := wait().refused(404); r.Took > 5*time.Second {
			c.Errorf("the delete took %s to arrive", r.Took)
		}
	}
	c.get(p, fromNow+longPoll).refused(404)
	// A new stream at the path does not wake the readers of the old one with data.
	c.put(p, text, "new").is(201)
	c.get(p, fromStart+longPoll).is(200).body("new")
}

func pollIdle(c *client) {
	c.waitLong()
	p := c.create("idle", text, "x")
	tail := c.head(p).tail()
	for _, offset := range []string{from(tail), fromNow} {
		r := c.get(p, offset+longPoll).is(204).body("").header("Stream-Next-Offset", tail).header("Stream-Up-To-Date", "true").
			with("Stream-Cursor").header("Cache-Control", "no-store").without("Stream-Closed", "ETag")
		if r.Took < c.LongPollTimeout*9/10 || r.Took > c.LongPollTimeout+10*time.Second {
			c.Errorf("an idle long-poll took %s, want about %s", r.Took, c.LongPollTimeout)
		}
	}
}

// interval is the cursor of now: 20 s steps since 2024-10-09.
func interval() int64 {
	return int64(time.Since(time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)) / (20 * time.Second))
}

func pollCursors(c *client) {
	p := c.create("cursor", text, "x")
	cursor := func(sent string) string {
		c.Helper()
		q := fromStart + longPoll
		if sent != "none" {
			q += "&cursor=" + sent
		}
		r := c.get(p, q).is(200, 400)
		if r.Status == 400 {
			return ""
		}
		return r.with("Stream-Cursor").Header.Get("Stream-Cursor")
	}
	number := func(what, s string) int64 {
		c.Helper()
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != s {
			c.Fatalf("cursor %q for %s is no plain number", s, what)
		}
		return n
	}
	for _, sent := range []string{"none", "0", "1", "1000", strconv.FormatInt(interval()-5, 10)} {
		before := interval()
		if n := number(sent, cursor(sent)); n < before || n > interval()+1 {
			c.Errorf("cursor %d for %s, want the interval %d", n, sent, before)
		}
	}
	for _, ahead := range []int64{0, 1, 2, 100, 5000, 1_000_000} {
		sent := interval() + 1 + ahead
		n := number("one ahead", cursor(strconv.FormatInt(sent, 10)))
		if n <= sent || n > sent+3600 {
			c.Errorf("cursor %d after %d, want 1 to 3600 more", n, sent)
		}
	}
	for _, bad := range []string{
		"9223372036854775807", "9223372036854775806", "18446744073709551615", "99999999999999999999999", "-5", "-0", "abc", "1e3", "1.5", "", "+5", "%20", "0x10", "NaN", strings.Repeat("9", 400),
	} {
		if s := cursor(bad); s != "" {
			number(bad, s)
		}
	}
	f := c.sse(p, fromStart, "Accept", "*/*")
	_, ctl := f.pair()
	number("SSE", *ctl.StreamCursor)
	sent := interval() + 7
	f = c.sse(p, fromStart+"&cursor="+strconv.FormatInt(sent, 10))
	if _, ctl = f.pair(); number("SSE", *ctl.StreamCursor) <= sent {
		c.Errorf("SSE cursor %s after %d does not move", *ctl.StreamCursor, sent)
	}
	f = c.sse(p, fromStart+"&cursor=9223372036854775807")
	_, ctl = f.pair()
	number("SSE", *ctl.StreamCursor)
}

func pollCollapse(c *client) {
	p := c.create("collapse", text, "x")
	tail := c.head(p).tail()
	for range 5 {
		before := interval()
		var waits []func() *reply
		for range 20 {
			waits = append(waits, c.later(func() *reply { return c.get(p, from(tail)+longPoll) }))
		}
		c.pause(settle)
		next := c.add(p, text, "y")
		cursors := map[string]int{}
		for _, wait := range waits {
			cursors[wait().is(200).body("y").Header.Get("Stream-Cursor")]++
		}
		tail = next
		if interval() != before {
			continue // the interval changed below our hands
		}
		if len(cursors) != 1 {
			c.Errorf("20 equal requests got the cursors %v", cursors)
		}
		return
	}
}

func pollMany(c *client) {
	p := c.create("many", text, "")
	const readers = 60
	var waits []func() *reply
	for range readers {
		waits = append(waits, c.later(func() *reply { return c.get(p, fromNow+longPoll) }))
	}
	c.pause(2 * settle)
	tail := c.add(p, text, "all")
	for _, wait := range waits {
		r := wait().is(200, 204)
		if r.Status == 200 {
			r.body("all").header("Stream-Next-Offset", tail)
		} else if c.LongPollTimeout > 2*time.Second {
			c.Errorf("a reader was not woken")
		}
	}
}

func pollChain(c *client) {
	p := c.create("chain", text, "")
	const total = 100
	var want strings.Builder
	for i := range total {
		want.WriteString(strconv.Itoa(i) + ";")
	}
	var running sync.WaitGroup
	got := make([]string, 4)
	for i := range got {
		running.Go(func() {
			offset, cursor := "-1", ""
			for c.Context().Err() == nil {
				r := c.get(p, from(offset)+longPoll+cursor)
				if r.Err != nil || r.Status != 200 && r.Status != 204 {
					got[i] += "(" + strconv.Itoa(r.Status) + ")"
					return
				}
				got[i] += r.Body
				offset, cursor = r.Header.Get("Stream-Next-Offset"), "&cursor="+r.Header.Get("Stream-Cursor")
				if r.Header.Get("Stream-Closed") == "true" {
					return
				}
			}
		})
	}
	for i := range total - 1 {
		c.add(p, text, strconv.Itoa(i)+";")
	}
	c.post(p, text, strconv.Itoa(total-1)+";", closing()...).is(204)
	running.Wait()
	for i := range got {
		if got[i] != want.String() {
			c.Errorf("reader %d got %s", i, short(got[i]))
		}
	}
}
