package conformance

import "net/http"

func ackSteps(c *client) {
	prefix, pattern := c.group("ack")
	s, _ := c.pull(pattern, 5000)
	a1 := c.put(prefix+"a", text, "1").is(201).tail()
	a2 := c.add(prefix+"a", text, "2")
	b1 := c.put(prefix+"b", text, "1").is(201).tail()
	w := s.claim()
	// Without done the claim goes on; the names of streams may have slashes around.
	s.ack(w, false, offset{"/" + prefix + "a/", a1}).next(false)
	s.acked(prefix+"a", a1)
	s.claimAs("other").code(409, "ALREADY_CLAIMED")
	s.ack(w, false, offset{prefix + "b", b1}).next(false)
	s.ack(w, false).next(false)
	s.acked(prefix+"b", b1)
	// Done with some work left is woken again.
	s.ack(w, true).next(true)
	again := s.claim()
	if l := again.stream(c, prefix+"a"); len(again.Streams) != 1 || l.Acked != a1 || l.Tail != a2 || again.ID == w.ID || again.Generation != w.Generation+1 {
		c.Errorf("after %+v comes %+v", w, again)
	}
	s.ack(again, true, offset{prefix + "a", a2}).next(false)
	s.acked(prefix+"a", a2)
	s.atRest()
}

func badAcks(c *client) {
	prefix, pattern := c.group("bad")
	s, _ := c.pull(pattern, 10_000)
	a1 := c.put(prefix+"a", jsonType, "[1]").is(201).tail()
	a2 := c.add(prefix+"a", jsonType, "[2]")
	b1 := c.put(prefix+"b", text, "x").is(201).tail()
	outside := c.create("outside", text, "x")
	w := s.claim()
	s.ack(w, false, offset{prefix + "a", a1}).next(false)
	beyond := "9" + a2[1:]
	for name, acks := range map[string][]offset{
		"beyond the tail":         {{prefix + "a", beyond}},
		"of another stream":       {{prefix + "a", b1}},
		"no offset":               {{prefix + "a", "x"}},
		"the start":               {{prefix + "a", "-1"}},
		"now":                     {{prefix + "a", "now"}},
		"nothing of its streams":  {{"none" + prefix, a1}},
		"a stream of others":      {{outside, c.head(outside).tail()}},
		"no path":                 {{prefix + "//a", a1}},
		"control":                 {{"__ds/x", a1}},
		"one good and one bad":    {{prefix + "a", a2}, {prefix + "b", beyond}},
		"one bad and one good":    {{prefix + "b", beyond}, {prefix + "a", a2}},
		"the same, good then bad": {{prefix + "a", a2}, {prefix + "a", beyond}},
	} {
		for _, done := range []bool{false, true} {
			if r := s.ack(w, done, acks...); r.Status != 400 {
				c.Errorf("%s: status %d %s", name, r.Status, short(r.Body))
			} else {
				r.code(400, "INVALID_OFFSET")
			}
		}
	}
	s.acked(prefix+"a", a1)
	if l, _ := s.show().link(prefix + "b"); l.Acked == b1 {
		c.Errorf("a refused ack has moved %+v", l)
	}
	for _, body := range []string{"x", "[]", `{"acks":{}}`, `{"acks":[1]}`, `{"acks":[{"stream":"a"}]}`, `{"acks":[{"offset":"1"}]}`, `{"done":"yes"}`, `{"generation":"1"}`} {
		s.does("ack", w.Token, body).code(400, "INVALID_REQUEST")
	}
	// A stream that has ended meanwhile spoils nothing, nor does one that never was.
	gone := c.put(prefix+"gone", text, "x").is(201).tail()
	c.delete(prefix + "gone").is(204)
	s.ack(w, false, offset{prefix + "gone", gone}, offset{prefix + "none", a1}).next(false)
	// The lease is still held, and going back changes nothing.
	s.ack(w, false, offset{prefix + "a", a2}, offset{prefix + "a", a1}).next(false)
	s.ack(w, false, offset{prefix + "a", a1}).next(false)
	s.acked(prefix+"a", a2)
	s.ack(w, true, offset{prefix + "b", b1}).next(false)
}

// lateAcks: what a worker acks may have been deleted, made again or unlinked while it
// was busy. That must not cost it what it says of the others.
func lateAcks(c *client) {
	prefix, pattern := c.group("late")
	s, _ := c.pull(pattern, 10_000)
	linked := c.create("late-linked", text, "")
	link := config{"streams": []string{linked}}
	c.control(http.MethodPost, s.path()+"/streams", link).is(204)
	for _, name := range []string{"again", "gone", "acked", "stays"} {
		c.put(prefix+name, text, "1").is(201)
	}
	c.add(linked, text, "1")
	w := s.claim()
	s.ack(w, false, offset{prefix + "acked", w.stream(c, prefix+"acked").Tail}).next(false)
	for _, name := range []string{"again", "gone", "acked"} {
		c.delete(prefix + name).is(204)
	}
	c.put(prefix+"again", text, "new").is(201)
	c.put(prefix+"acked", text, "new").is(201)
	c.control(http.MethodDelete, s.path()+"/streams/"+linked, nil).is(204)
	s.ack(w, true, w.tails()...).next(true)
	next := s.claim()
	if len(next.Streams) != 2 {
		c.Errorf("the next wake is %+v", next)
	}
	for _, l := range next.Streams {
		c.get(l.Path, from(l.Acked)).is(200).body("new")
	}
	// What no wake has named stays an error.
	s.ack(next, true, w.tails()...).code(400, "INVALID_OFFSET")
	s.ack(next, true, next.tails()...).next(false)
	s.atRest()
}
