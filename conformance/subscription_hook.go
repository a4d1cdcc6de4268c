package conformance

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

func webhookTests() []test {
	return []test{
		{"a delivery says what is to be done, and is signed", deliveryForm},
		{"done at once acks what the delivery named", doneAtOnce},
		{"N73 done while more came wakes again", doneWhileMoreCame},
		{"a callback acks, extends the lease and ends the wake", callbackSteps},
		{"a callback may come before the answer", callbackBeforeAnswer},
		{"N67 stale and wrong callbacks are fenced", fencedCallbacks},
		{"a callback token is good for its own wake only", callbackTokens},
		{"a receiver that never calls back is woken again", silentReceiver},
		{"a failed delivery is retried, and shows", retriedDelivery},
		{"B101 redirects are not followed", redirectedDelivery},
		{"receivers that misbehave", badReceivers},
		{"a slow receiver holds up nobody else", slowReceiver},
		{"no delivery after the deletion", deletedDuringDelivery},
		{"one delivery at a time, whatever is written", oneDeliveryAtATime},
	}
}

func deliveryForm(c *client) {
	prefix, pattern := c.group("form")
	to := c.receiver(says(200, `{"done":true}`))
	keys := c.publicKeys()
	s := c.subscription("form/ é")
	s.id += "/ é"
	s.create(config{"type": "webhook", "pattern": pattern, "webhook": config{"url": to.URL + "/hook?x=y"}, "lease_ttl_ms": 5000})
	tail := c.put(prefix+"a%20b", jsonType, `{"n":1}`).is(201).tail()
	d := to.next()
	d.verify(c, keys)
	if got := d.header.Get("Content-Type"); got != jsonType {
		c.Errorf("a delivery of type %q", got)
	}
	if d.SubscriptionID != s.id || !strings.HasPrefix(d.ID, "w_") || d.Generation != 1 || d.CallbackURL != s.url("/callback") || d.CallbackToken == "" {
		c.Errorf("delivery %s", d.raw)
	}
	l := d.stream(c, prefix+"a%20b")
	if len(d.Streams) != 1 || l.Type != "glob" || l.Tail != tail || l.Pending == nil || !*l.Pending {
		c.Errorf("delivery %s, the tail is %s", d.raw, tail)
	}
	c.same("messages behind the cursor", c.get(l.Path, from(l.Acked)).is(200).messages(), []string{`{"n":1}`})
}

func doneAtOnce(c *client) {
	prefix, pattern := c.group("done")
	to := c.receiver(says(200, " {\"more\":[], \"done\": true }\n"))
	s := c.hook(pattern, to, 5000)
	a := c.put(prefix+"a", text, "x").is(201).tail()
	first := to.next()
	c.eventually("it is acked", func() bool { l, _ := s.show().link(prefix + "a"); return l.Acked == a })
	b := c.put(prefix+"b", text, "x").is(201).tail()
	second := to.next()
	if len(second.Streams) != 1 || second.stream(c, prefix+"b").Tail != b || second.Generation != first.Generation+1 || second.ID == first.ID {
		c.Errorf("after %s comes %s", first.raw, second.raw)
	}
	c.eventually("it is acked", func() bool { l, _ := s.show().link(prefix + "b"); return l.Acked == b })
	c.callBack(first, true, first.tails()...).code(409, "FENCED")
	to.quiet(settle)
}

func doneWhileMoreCame(c *client) {
	prefix, pattern := c.group("more")
	let := make(chan struct{})
	to := c.receiver(func(w http.ResponseWriter, d delivery) {
		if d.Generation == 1 {
			<-let
		}
		says(200, `{"done":true}`)(w, d)
	})
	s := c.hook(pattern, to, 10_000)
	a1 := c.put(prefix+"a", text, "1").is(201).tail()
	d := to.next()
	a2 := c.add(prefix+"a", text, "2")
	b := c.put(prefix+"b", text, "3").is(201).tail()
	close(let)
	again := to.next()
	if l := again.stream(c, prefix+"a"); l.Acked != a1 || l.Tail != a2 || again.stream(c, prefix+"b").Tail != b || again.ID == d.ID || again.Generation != 2 {
		c.Errorf("after %s comes %s", d.raw, again.raw)
	}
	c.eventually("all is acked", func() bool {
		v := s.show()
		la, _ := v.link(prefix + "a")
		lb, _ := v.link(prefix + "b")
		return la.Acked == a2 && lb.Acked == b
	})
	to.quiet(settle)
}

func callbackSteps(c *client) {
	prefix, pattern := c.group("callback")
	to := c.receiver(says(202, ""))
	s := c.hook(pattern, to, 3000)
	a1 := c.put(prefix+"a", text, "1").is(201).tail()
	a2 := c.add(prefix+"a", text, "2")
	d := to.next()
	if d.stream(c, prefix+"a").Tail == a1 { // it left before the second append
		c.callBack(d, false, offset{prefix + "a", a2}).next(false)
	} else {
		c.callBack(d, false, offset{prefix + "a", a1}).next(false)
	}
	for range 5 { // longer than the lease
		c.pause(800 * time.Millisecond)
		c.callBack(d, false).next(false)
	}
	to.quiet(settle)
	a3 := c.add(prefix+"a", text, "3")
	c.callBack(d, false, offset{prefix + "a", a2}).next(false)
	s.acked(prefix+"a", a2)
	c.callBack(d, true).next(true)
	again := to.next()
	if l := again.stream(c, prefix+"a"); l.Acked != a2 || l.Tail != a3 || again.Generation != d.Generation+1 {
		c.Errorf("after %s comes %s", d.raw, again.raw)
	}
	c.callBack(d, true, offset{prefix + "a", a3}).code(409, "FENCED")
	c.callBack(again, true, again.tails()...).next(false)
	s.acked(prefix+"a", a3)
	c.callBack(again, true, again.tails()...).code(409, "FENCED")
	c.callBack(again, true, offset{prefix + "a", "x"}).code(409, "FENCED")
}

func callbackBeforeAnswer(c *client) {
	prefix, pattern := c.group("early")
	for _, status := range []int{200, 500} {
		var answers atomic.Int32
		to := c.receiver(func(w http.ResponseWriter, d delivery) {
			if r := c.callBack(d, true, d.tails()...); r.Status == 200 {
				answers.Add(1)
			} else {
				c.Errorf("the callback is answered %d %s (%v)", r.Status, short(r.Body), r.Err)
			}
			says(status, "{}")(w, d)
		})
		s := c.hook(pattern, to, 2000)
		c.put(prefix+"a", text, "").is(201, 200)
		tail := c.add(prefix+"a", text, "x")
		to.next()
		c.eventually("it is acked", func() bool { l, _ := s.show().link(prefix + "a"); return l.Acked == tail })
		// What the receiver answers afterwards means nothing.
		to.quiet(2500 * time.Millisecond)
		if v := s.show(); v.Status != "active" || answers.Load() != 1 {
			c.Errorf("after %d callbacks it is %s", answers.Load(), v.Status)
		}
		c.control(http.MethodDelete, s.path(), nil).is(204)
	}
}

func fencedCallbacks(c *client) {
	prefix, pattern := c.group("fence")
	to := c.receiver(says(200, "{}"))
	s := c.hook(pattern, to, 10_000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	d := to.next()
	for name, body := range map[string]config{
		"other wake":       {"wake_id": "w_other", "generation": d.Generation},
		"no wake":          {"generation": d.Generation},
		"other generation": {"wake_id": d.ID, "generation": d.Generation + 1},
		"no generation":    {"wake_id": d.ID},
	} {
		body["acks"], body["done"] = d.tails(), true
		if r := s.does("callback", d.CallbackToken, body); r.Status != 409 {
			c.Errorf("%s: status %d %s", name, r.Status, short(r.Body))
		} else {
			r.code(409, "FENCED")
		}
	}
	if l, _ := s.show().link(prefix + "a"); l.Acked == tail {
		c.Errorf("a fenced callback has moved the cursor")
	}
	c.callBack(d, false, offset{prefix + "a", "9" + tail[1:]}).code(400, "INVALID_OFFSET")
	c.callBack(d, true, d.tails()...).next(false)
}

func callbackTokens(c *client) {
	prefix, pattern := c.group("token")
	to, toOther := c.receiver(says(200, "{}")), c.receiver(says(200, "{}"))
	s := c.hook(pattern, to, 10_000)
	c.hook(pattern, toOther, 10_000)
	p, _ := c.pull(pattern, 10_000)
	c.put(prefix+"a", text, "x").is(201)
	d, other, w := to.next(), toOther.next(), p.claim()
	for _, token := range []string{"", "x", other.CallbackToken, w.Token, d.CallbackToken + "x"} {
		s.does("callback", token, d.work(true, d.tails()...)).code(401, "TOKEN_INVALID")
	}
	p.does("ack", d.CallbackToken, w.work(true, w.tails()...)).code(401, "TOKEN_INVALID")
	s.does("callback", d.CallbackToken, d.work(true, d.tails()...)).next(false)
}

func silentReceiver(c *client) {
	prefix, pattern := c.group("silent")
	for name, answer := range map[string]respond{
		"no content": says(204, ""), "not done": says(200, `{"done":false}`), "as text": says(200, `{"done":"true"}`), "a list": says(200, `[{"done":true}]`),
		"other case": says(200, `{"Done":true}`), "no JSON": says(200, `done: true`), "accepted": says(202, ""),
	} {
		to := c.receiver(answer)
		s := c.hook(pattern, to, 1000)
		c.put(prefix+"a", text, "").is(201, 200)
		c.add(prefix+"a", text, "x")
		d, again := to.next(), to.next()
		if again.Generation != d.Generation+1 || again.ID == d.ID || again.stream(c, prefix+"a").Acked != d.stream(c, prefix+"a").Acked {
			c.Errorf("%s: after %s comes %s", name, d.raw, again.raw)
		}
		if pause := again.at.Sub(d.at); pause < 900*time.Millisecond {
			c.Errorf("%s: it is woken again after %s, before its lease is over", name, pause)
		}
		c.callBack(d, true, d.tails()...).code(409, "FENCED")
		if v := s.show(); v.Status != "active" {
			c.Errorf("%s: status %s", name, v.Status)
		}
		c.callBack(again, true, again.tails()...).next(false)
		c.control(http.MethodDelete, s.path(), nil).is(204)
	}
}

func retriedDelivery(c *client) {
	prefix, pattern := c.group("retry")
	var fails atomic.Int32
	fails.Store(2)
	to := c.receiver(func(w http.ResponseWriter, d delivery) {
		if fails.Add(-1) >= 0 {
			says(503, `{"done":true}`)(w, d)
			return
		}
		says(200, `{"done":true}`)(w, d)
	})
	s := c.hook(pattern, to, 10_000)
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	first := to.next()
	c.eventually("the failure shows", func() bool { return s.show().Status == "failed" })
	if l, _ := s.show().link(prefix + "a"); l.Acked == tail {
		c.Errorf("a failed delivery is acked")
	}
	second, third := to.next(), to.next()
	for i, d := range []delivery{second, third} {
		d.verify(c, c.publicKeys())
		if d.stream(c, prefix+"a").Acked != first.stream(c, prefix+"a").Acked {
			c.Errorf("retry %d names other work: %s", i, d.raw)
		}
	}
	// 1 s and 2 s, less 20 %.
	if a, b := second.at.Sub(first.at), third.at.Sub(second.at); a < 790*time.Millisecond || b < 1590*time.Millisecond {
		c.Errorf("retried after %s and %s", a, b)
	}
	c.eventually("it works again", func() bool { return s.show().Status == "active" })
	c.eventually("it is acked", func() bool { l, _ := s.show().link(prefix + "a"); return l.Acked == tail })
	to.quiet(settle)
}

func redirectedDelivery(c *client) {
	prefix, pattern := c.group("redirect")
	inside := c.receiver(says(200, `{"done":true}`))
	for _, status := range []int{301, 302, 303, 307, 308} {
		to := c.receiver(func(w http.ResponseWriter, d delivery) {
			w.Header().Set("Location", inside.URL)
			says(status, `{"done":true}`)(w, d)
		})
		s := c.hook(pattern, to, 5000)
		c.put(prefix+"a", text, "").is(201, 200)
		c.add(prefix+"a", text, "x")
		to.next()
		c.eventually("the failure shows", func() bool { return s.show().Status == "failed" })
		c.control(http.MethodDelete, s.path(), nil).is(204)
	}
	inside.quiet(settle)
}

func badReceivers(c *client) {
	prefix, pattern := c.group("misbehave")
	raw := func(answer string) respond {
		return func(w http.ResponseWriter, _ delivery) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				c.Error(err)
				return
			}
			_, _ = io.WriteString(conn, answer)
			conn.Close()
		}
	}
	for name, answer := range map[string]respond{
		"hangs up":         raw(""),
		"garbage":          raw("\x00\x01garbage\r\n\r\n"),
		"half a head":      raw("HTTP/1.1 200 OK\r\nContent-"),
		"half a body":      raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"done\":true}"),
		"broken chunks":    raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{\"done\":true}\r\n0\r\n\r\n"),
		"an endless head":  raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 200)),
		"only a continue":  raw("HTTP/1.1 100 Continue\r\n\r\n"),
		"switches":         raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
		"not found":        says(404, `{"done":true}`),
		"gone":             says(410, ""),
		"too many":         says(429, ""),
		"a teapot":         says(418, `{"done":true}`),
		"a server's fault": says(500, ""),
	} {
		to := c.receiver(answer)
		s := c.hook(pattern, to, 5000)
		c.put(prefix+"a", text, "").is(201, 200)
		tail := c.add(prefix+"a", text, "x")
		to.next()
		c.eventually(name+" shows as a failure", func() bool { return s.show().Status == "failed" })
		if l, _ := s.show().link(prefix + "a"); l.Acked == tail {
			c.Errorf("%s is taken for done", name)
		}
		c.control(http.MethodDelete, s.path(), nil).is(204)
	}
	nobody := c.subscription("nobody").create(config{"type": "webhook", "pattern": pattern, "webhook": config{"url": "http://" + c.closedPort()}})
	c.add(prefix+"a", text, "x")
	c.eventually("nobody shows as a failure", func() bool { return nobody.show().Status == "failed" })

	huge := c.receiver(func(w http.ResponseWriter, _ delivery) {
		_, _ = io.WriteString(w, `{"done":true,"x":"`+strings.Repeat("x", 8<<20)+`"}`)
	})
	s := c.hook(pattern, huge, 1000)
	c.add(prefix+"a", text, "x")
	d := huge.next()
	if again := huge.next(); again.Generation != d.Generation+1 { // a success, but not done
		c.Errorf("after %s comes %s", d.raw, again.raw)
	}
	if v := s.show(); v.Status != "active" {
		c.Errorf("a long answer counts as %s", v.Status)
	}
}

func slowReceiver(c *client) {
	prefix, pattern := c.group("slow")
	let := make(chan struct{})
	slow := c.receiver(func(w http.ResponseWriter, d delivery) {
		select {
		case <-let:
		case <-c.Context().Done():
		}
		says(200, `{"done":true}`)(w, d)
	})
	defer close(let)
	quick := c.receiver(says(200, `{"done":true}`))
	var stuck []*subscription
	for range 20 { // more than may be under way to one receiver
		stuck = append(stuck, c.hook(pattern, slow, 1000))
	}
	s := c.hook(pattern, quick, 5000)
	for range 3 {
		c.put(prefix+"a", text, "").is(201, 200)
		tail := c.add(prefix+"a", text, "x")
		quick.next()
		c.eventually("it is acked", func() bool { l, _ := s.show().link(prefix + "a"); return l.Acked == tail })
	}
	// A receiver that outlasts its lease has failed.
	c.eventually("the slow ones show as failed", func() bool {
		for _, s := range stuck {
			if s.show().Status == "failed" {
				return true
			}
		}
		return false
	})
}

func deletedDuringDelivery(c *client) {
	prefix, pattern := c.group("deleted")
	let := make(chan struct{})
	to := c.receiver(func(w http.ResponseWriter, d delivery) {
		<-let
		says(500, "")(w, d)
	})
	s := c.hook(pattern, to, 2000)
	c.put(prefix+"a", text, "x").is(201)
	d := to.next()
	c.control(http.MethodDelete, s.path(), nil).is(204)
	c.callBack(d, true, d.tails()...).code(404, "SUBSCRIPTION_NOT_FOUND")
	close(let)
	c.add(prefix+"a", text, "y")
	to.quiet(2500 * time.Millisecond)
}

func oneDeliveryAtATime(c *client) {
	prefix, pattern := c.group("single")
	var inside, most atomic.Int32
	to := c.receiver(func(w http.ResponseWriter, d delivery) {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(20 * time.Millisecond)
		inside.Add(-1)
		says(200, `{"done":true}`)(w, d)
	})
	s := c.hook(pattern, to, 5000)
	var last string
	for range 50 {
		c.put(prefix+"a", text, "").is(201, 200)
		last = c.add(prefix+"a", text, "x")
	}
	c.eventually("all is acked", func() bool { l, _ := s.show().link(prefix + "a"); return l.Acked == last })
	if most.Load() != 1 {
		c.Errorf("%d deliveries at a time", most.Load())
	}
	acked, generation := "", int64(0)
	for len(to.got) > 0 {
		d := to.next()
		l := d.stream(c, prefix+"a")
		if d.Generation != generation+1 || acked != "" && l.Acked != acked {
			c.Errorf("generation %d from %s follows %d up to %s", d.Generation, l.Acked, generation, acked)
		}
		acked, generation = l.Tail, d.Generation
	}
	if acked != last {
		c.Errorf("the last delivery is up to %s, the tail is %s", acked, last)
	}
}
