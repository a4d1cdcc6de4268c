package conformance

import (
	"net/http"
	"regexp"
	"strings"
)

func subscriptionTests() []test {
	return []test{
		{"N59 the same configuration is confirmed, another one refused", confirmSubscription},
		{"what a subscription shows of itself", showSubscription},
		{"a configuration that makes no sense is refused", badSubscriptions},
		{"B101 N77 webhooks to the inside and odd URLs are refused", badWebhookURLs},
		{"ids are names of their own", subscriptionIDs},
		{"N61 existing streams are linked at their tails", linkedAtTail},
		{"a stream that appears is linked before its first data", linkedBeforeFirst},
		{"patterns link whole segments", patterns},
		{"explicit streams come and go, the pattern stays", explicitStreams},
		{"an encoded slash in a stream's path is kept", encodedStreamPaths},
		{"the deletion of a subscription is final", deleteSubscription},
		{"a deleted stream takes its work with it", deletedStreams},
		{"what is no data wakes nobody", noData},
		{"forks wake for what is theirs", forkedStreams},
		{"every subscription has a cursor of its own", ownCursors},
	}
}

func confirmSubscription(c *client) {
	to := c.receiver(says(200, "{}"))
	prefix, pattern := c.group("confirm")
	base := func() config {
		return config{"type": "webhook", "pattern": pattern, "streams": []string{prefix + "m/1", prefix + "m/2"}, "webhook": config{"url": to.URL}, "description": "d"}
	}
	s := c.subscription("confirm").create(base())
	created := s.show()
	for name, same := range map[string]func(config){
		"as it was":               func(config) {},
		"other order and doubles": func(o config) { o["streams"] = []string{prefix + "m/2", prefix + "m/1", prefix + "m/2"} },
		"slashes around": func(o config) {
			o["pattern"], o["streams"] = "/"+pattern, []string{"/" + prefix + "m/1/", prefix + "m/2"}
		},
		"the default said":         func(o config) { o["lease_ttl_ms"] = 30000 },
		"nulls":                    func(o config) { o["filter"], o["wake_stream"], o["lease_ttl_ms"] = nil, nil, nil },
		"unknown members":          func(o config) { o["more"] = config{"type": "pull-wake"} },
		"what the type has not":    func(o config) { o["wake_stream"] = "somewhere" },
		"what a webhook has extra": func(o config) { o["webhook"] = config{"url": to.URL, "signing": config{"alg": "none"}} },
	} {
		o := base()
		same(o)
		var v shown
		if s.put(o).is(200).header("Cache-Control", "no-store").decode(&v); v.CreatedAt != created.CreatedAt {
			c.Errorf("%s: made again", name)
		}
	}
	for name, other := range map[string]func(config){
		"type":        func(o config) { o["type"], o["wake_stream"] = "pull-wake", "w" },
		"pattern":     func(o config) { o["pattern"] = pattern + "/*" },
		"no pattern":  func(o config) { delete(o, "pattern") },
		"streams":     func(o config) { o["streams"] = []string{prefix + "m/1"} },
		"no streams":  func(o config) { delete(o, "streams") },
		"webhook":     func(o config) { o["webhook"] = config{"url": to.URL + "/other"} },
		"lease":       func(o config) { o["lease_ttl_ms"] = 30001 },
		"description": func(o config) { o["description"] = "D" },
		"none":        func(o config) { delete(o, "description") },
	} {
		o := base()
		other(o)
		if r := s.put(o); r.Status != 409 {
			c.Errorf("other %s: status %d %s", name, r.Status, short(r.Body))
		} else {
			r.code(409, "SUBSCRIPTION_ALREADY_EXISTS")
		}
	}
	// What was added later is no part of the configuration.
	c.control(http.MethodPost, s.path()+"/streams", config{"streams": []string{prefix + "later"}}).is(204)
	s.put(base()).is(200)
	if v := s.show(); v.CreatedAt != created.CreatedAt || v.Description != "d" || v.LeaseTTL != 30000 {
		c.Errorf("it has changed: %+v, was %+v", v, created)
	}
}

var millis = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

func showSubscription(c *client) {
	prefix, pattern := c.group("show")
	tail := c.put(prefix+"a", text, "x").is(201).tail()
	to := c.receiver(says(200, "{}"))
	s := c.hook(pattern, to, 1500)
	var v shown
	r := c.control(http.MethodGet, s.path(), nil).is(200).decode(&v)
	if v.ID != s.id || v.SameID != s.id || v.Type != "webhook" || v.Status != "active" || v.LeaseTTL != 1500 || v.WakeStream != nil || v.Pattern == nil || *v.Pattern != pattern {
		c.Errorf("webhook subscription: %s", r.Body)
	}
	if !millis.MatchString(v.CreatedAt) {
		c.Errorf("created at %q", v.CreatedAt)
	}
	if v.Webhook == nil || v.Webhook.URL != to.URL || v.Webhook.Signing.Alg != "ed25519" || v.Webhook.Signing.JWKS != c.BaseURL+c.full("__ds/jwks.json") {
		c.Errorf("webhook: %s", r.Body)
	} else if c.publicKeys()[v.Webhook.Signing.Kid] == nil {
		c.Errorf("the key %q is not published", v.Webhook.Signing.Kid)
	}
	if l, ok := v.link(prefix + "a"); !ok || len(v.Streams) != 1 || l.Type != "glob" || l.Acked != tail {
		c.Errorf("streams: %s", r.Body)
	}
	if strings.Contains(r.Body, "secret") {
		c.Errorf("a secret is shown: %s", r.Body)
	}
	c.control(http.MethodHead, s.path(), nil).is(200).body("").header("Content-Type", jsonType)

	p, wakes := c.pull(pattern, 1000)
	if v := p.show(); v.Type != "pull-wake" || v.Webhook != nil || v.WakeStream == nil || *v.WakeStream != wakes {
		c.Errorf("pull-wake subscription: %+v", v)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		c.control(method, c.subscription("none").path(), nil).refused(404)
	}
	c.control(http.MethodGet, c.subscription("none").path(), nil).code(404, "SUBSCRIPTION_NOT_FOUND")
}

func badSubscriptions(c *client) {
	s := c.subscription("bad")
	hook, pull := config{"url": "https://worker.example/"}, "w"
	for _, o := range []config{
		{},
		{"type": "webhook"},
		{"type": "webhook", "pattern": "a"},
		{"type": "webhook", "pattern": "a", "webhook": config{}},
		{"type": "webhook", "pattern": "a", "webhook": config{"url": ""}},
		{"type": "webhook", "pattern": "a", "webhook": "https://worker.example/"},
		{"type": "webhook", "webhook": hook},
		{"type": "webhook", "webhook": hook, "pattern": ""},
		{"type": "webhook", "webhook": hook, "pattern": "", "streams": []string{}},
		{"type": "pull-wake", "pattern": "a"},
		{"type": "pull-wake", "pattern": "a", "wake_stream": ""},
		{"type": "pull-wake", "pattern": "a", "wake_stream": "a//b"},
		{"type": "pull-wake", "pattern": "a", "wake_stream": "__ds/w"},
		{"type": "pull-wake", "wake_stream": pull, "streams": []string{pull}},
		{"type": "poll", "pattern": "a", "wake_stream": pull},
		{"type": 1, "pattern": "a", "wake_stream": pull},
		{"type": "pull-wake", "pattern": 1, "wake_stream": pull},
		{"type": "pull-wake", "pattern": "a//b", "wake_stream": pull},
		{"type": "pull-wake", "pattern": "a*", "wake_stream": pull},
		{"type": "pull-wake", "pattern": strings.Repeat("x", 5000), "wake_stream": pull},
		{"type": "pull-wake", "streams": "a", "wake_stream": pull},
		{"type": "pull-wake", "streams": []any{"a", nil}, "wake_stream": pull},
		{"type": "pull-wake", "streams": []string{""}, "wake_stream": pull},
		{"type": "pull-wake", "streams": []string{"a/../b"}, "wake_stream": pull},
		{"type": "pull-wake", "streams": []string{"__ds/x"}, "wake_stream": pull},
		{"type": "pull-wake", "streams": []string{"%5f_ds/x"}, "wake_stream": pull},
		{"type": "pull-wake", "pattern": "a", "wake_stream": pull, "lease_ttl_ms": 999},
		{"type": "pull-wake", "pattern": "a", "wake_stream": pull, "lease_ttl_ms": 600_001},
		{"type": "pull-wake", "pattern": "a", "wake_stream": pull, "lease_ttl_ms": 1000.5},
		{"type": "pull-wake", "pattern": "a", "wake_stream": pull, "lease_ttl_ms": "1000"},
		{"type": "pull-wake", "pattern": "a", "wake_stream": pull, "lease_ttl_ms": -1},
		{"type": "pull-wake", "pattern": "a", "wake_stream": pull, "description": 1},
		{"type": "pull-wake", "pattern": "a", "wake_stream": pull, "description": strings.Repeat("x", 100_000)},
	} {
		if r := s.put(o); r.Status != 400 {
			c.Errorf("%v: status %d %s", o, r.Status, short(r.Body))
		} else {
			r.code(400, "INVALID_REQUEST")
		}
	}
	filter := config{"language": "cel", "expression": "true"}
	s.put(config{"type": "pull-wake", "pattern": "a", "wake_stream": pull, "filter": filter}).code(400, "FILTER_UNSUPPORTED")
	for _, body := range []string{"", "x", "[]", "null", `"s"`, "{", `{"type":"pull-wake","pattern":"a","wake_stream":"w"}}`, "\xff"} {
		c.control(http.MethodPut, s.path(), body).code(400, "INVALID_REQUEST")
	}
	c.control(http.MethodGet, s.path(), nil).code(404, "SUBSCRIPTION_NOT_FOUND")
	for _, ms := range []int{1000, 600_000} {
		c.subscription("lease").create(config{"type": "pull-wake", "pattern": "a", "wake_stream": pull, "lease_ttl_ms": ms})
	}
}

func badWebhookURLs(c *client) {
	s := c.subscription("inside")
	for _, target := range []string{
		"http://worker.example/", "http://10.0.0.1/hook", "https://10.0.0.1/", "https://172.16.3.4/", "https://172.31.255.255/", "https://192.168.1.1/", "https://100.64.0.1/",
		"https://169.254.169.254/latest/meta-data/", "https://[fd00:ec2::254]/", "https://[fe80::1]/", "https://[fc00::1]/", "https://0.0.0.0/", "https://[::]/", "https://224.0.0.1/",
		"https://255.255.255.255/", "https://[::ffff:169.254.169.254]/", "https://[::ffff:10.0.0.1]/", "https://[64:ff9b::a00:1]/", "https://2130706433/", "https://0x7f000001/",
		"https://0177.0.0.1/", "https://127.1/", "https://10.1/", "https://1.2.3.4.5/", "https://localhost.localdomain/", "https://router/", "https://printer.local/",
		"https://metadata.google.internal/", "https://user:secret@worker.example/", "https://worker.example:22/", "https://worker.example:99999/", "https://worker.example:/",
		"ftp://worker.example/", "file:///etc/passwd", "gopher://worker.example/", "//worker.example/", "worker.example", "https:///x", "https://", "https://worker..example/",
		"https://worker.example/#f", "https://worker.example/a b", "https://wörker.example/", "https://worker.example\\@10.0.0.1/", "https://worker.example/\r\nX: y", "javascript:alert(1)",
		"http://[::1%25eth0]/", "https://[::1", "http://127.0.0.1.nip.io/", "http://localhost.example/",
	} {
		r := s.put(config{"type": "webhook", "pattern": "x/*", "webhook": config{"url": target}})
		if r.Status != 400 {
			c.Errorf("%q: status %d", target, r.Status)
			continue
		}
		if r.code(400, "WEBHOOK_URL_REJECTED"); strings.Contains(r.Body, "secret") {
			c.Errorf("%q: the answer repeats it: %s", target, r.Body)
		}
	}
	c.control(http.MethodGet, s.path(), nil).code(404, "SUBSCRIPTION_NOT_FOUND")
	for _, target := range []string{"https://worker.example/hooks?a=b&c=%20", "https://worker.example:8443/", "https://8.8.8.8/", "http://localhost:8080/", "http://127.0.0.1/x", "http://127.200.0.9:9999/"} {
		c.subscription("fine").create(config{"type": "webhook", "pattern": c.path("none"), "webhook": config{"url": target}})
	}
	s.put(config{"type": "webhook", "pattern": "a", "webhook": config{"url": "https://worker.example/" + strings.Repeat("x", 3000)}}).refused(400)
}

func subscriptionIDs(c *client) {
	base := c.path("id")
	ids := []string{base, base + "/x", base + "%", base + " é", base + "?a#b", base + "%2Fx", strings.ToUpper(base), base + "...", base + strings.Repeat("x", 200)}
	for i, id := range ids {
		s := c.subscription("")
		s.id = id
		s.create(config{"type": "pull-wake", "pattern": c.path("none"), "wake_stream": c.path("w"), "description": ids[len(ids)-1-i]})
	}
	for i, id := range ids {
		s := &subscription{c, id}
		if v := s.show(); v.ID != id || v.Description != ids[len(ids)-1-i] {
			c.Errorf("%q is %q of %q", id, v.ID, v.Description)
		}
	}
	for _, id := range []string{strings.Repeat("x", 257), "a\nb", "a\x00b", "\xff\xfe"} {
		(&subscription{c, id}).put(config{"type": "pull-wake", "pattern": "a", "wake_stream": "w"}).code(400, "INVALID_REQUEST")
	}
	for _, path := range []string{"subscriptions", "subscriptions/", "subscriptions/.", "subscriptions/..", "subscriptions/%2e%2E", "subscriptions//x"} {
		k := c.dial()
		k.exchange("PUT", c.rawHead("PUT", "__ds/"+path, plainType(jsonType), "Content-Length: 2")+"{}").is(400, 404)
	}
}

func linkedAtTail(c *client) {
	prefix, pattern := c.group("tail")
	tail := c.put(prefix+"old", text, "history").is(201).tail()
	empty := c.put(prefix+"empty", text, "").is(201).tail()
	manual := c.create("manual", text, "more history")
	s, wakes := c.pull(pattern, 1000)
	c.control(http.MethodPost, s.path()+"/streams", config{"streams": []string{manual}}).is(204)
	s.acked(prefix+"old", tail)
	s.acked(prefix+"empty", empty)
	s.acked(manual, c.head(manual).tail())
	s.atRest()
	c.same("wake events", c.messages(wakes), []string{})

	news := c.add(prefix+"old", text, "news")
	w := s.claim()
	if l := w.stream(c, prefix+"old"); len(w.Streams) != 1 || l.Acked != tail || l.Tail != news || l.Type != "glob" || l.Pending == nil || !*l.Pending {
		c.Errorf("the wake names %+v, want what is between %s and %s", w.Streams, tail, news)
	}
	c.get(prefix+"old", from(w.Streams[0].Acked)).is(200).body("news")
}

func linkedBeforeFirst(c *client) {
	prefix, pattern := c.group("first")
	s, _ := c.pull(pattern, 1000)
	c.put(prefix+"body", text, "first").is(201)
	w := s.claim()
	c.get(prefix+"body", from(w.stream(c, prefix+"body").Acked)).is(200).body("first")
	s.ack(w, true, w.tails()...).next(false)

	c.put(prefix+"empty", text, "").is(201)
	s.atRest()
	tail := c.add(prefix+"empty", text, "later")
	w = s.claim()
	if l := w.stream(c, prefix+"empty"); l.Tail != tail || len(w.Streams) != 1 {
		c.Errorf("the wake names %+v", w.Streams)
	}
	c.get(prefix+"empty", from(w.Streams[0].Acked)).is(200).body("later")
}

func patterns(c *client) {
	root := c.path("glob")
	paths := []string{root, root + "/a", root + "/a/b", root + "/a/b/c", root + "/x/b", root + "/a%2Fb", root + "x/a"}
	for _, p := range paths {
		c.put(p, text, "").is(201)
	}
	for pattern, want := range map[string][]string{
		root + "/*":      {root + "/a", root + "/a%2Fb"},
		root + "/**":     {root, root + "/a", root + "/a/b", root + "/a/b/c", root + "/x/b", root + "/a%2Fb"},
		root + "/*/b":    {root + "/a/b", root + "/x/b"},
		root + "/**/b":   {root + "/a/b", root + "/x/b"},
		root + "/a/**/c": {root + "/a/b/c"},
		root + "/a":      {root + "/a"},
		root + "/A":      nil,
	} {
		s, _ := c.pull(pattern, 1000)
		v := s.show()
		for _, p := range paths {
			_, linked := v.link(p)
			matches := false
			for _, w := range want {
				matches = matches || w == p
			}
			if linked != matches {
				c.Errorf("%s links %s: %v", pattern, p, linked)
			}
		}
		if len(v.Streams) != len(want) {
			c.Errorf("%s links %+v", pattern, v.Streams)
		}
	}
}

func explicitStreams(c *client) {
	prefix, pattern := c.group("explicit")
	s, _ := c.pull(pattern, 1000)
	add := func(paths ...string) *reply {
		return c.control(http.MethodPost, s.path()+"/streams", config{"streams": paths})
	}
	remove := func(path string) *reply { return c.control(http.MethodDelete, s.path()+"/streams/"+path, nil) }
	other := c.create("other", text, "x")
	absent := c.path("absent")
	c.put(prefix+"both", text, "x").is(201)
	for range 2 {
		add(other, prefix+"both", absent).is(204).body("").header("Cache-Control", "no-store")
	}
	v := s.show()
	for _, p := range []string{other, prefix + "both", absent} {
		if l, ok := v.link(p); !ok || l.Type != "explicit" {
			c.Errorf("%s is linked as %+v", p, l)
		}
	}
	// A stream that is not there yet is linked before its first data.
	c.put(absent, text, "first").is(201)
	w := s.claim()
	if l := w.stream(c, absent); l.Type != "explicit" {
		c.Errorf("linked as %s", l.Type)
	}
	s.ack(w, true, w.tails()...).next(false)

	for range 2 {
		remove(other).is(204).body("")
		remove(prefix + "both").is(204)
	}
	v = s.show()
	if l, ok := v.link(prefix + "both"); !ok || l.Type != "glob" {
		c.Errorf("without its explicit link the pattern's is %+v", l)
	}
	if l, ok := v.link(other); ok {
		c.Errorf("%+v is linked still", l)
	}
	c.add(other, text, "y")
	s.atRest()
	c.add(prefix+"both", text, "y")
	s.claim().stream(c, prefix+"both")

	none := c.subscription("none")
	c.control(http.MethodPost, none.path()+"/streams", config{"streams": []string{"a"}}).code(404, "SUBSCRIPTION_NOT_FOUND")
	c.control(http.MethodDelete, none.path()+"/streams/a", nil).code(404, "SUBSCRIPTION_NOT_FOUND")
	for _, body := range []any{nil, "", "{}", config{"streams": "a"}, config{"streams": []any{1}}, config{"streams": []string{"a", ""}}, config{"streams": []string{"a//b"}}} {
		c.control(http.MethodPost, s.path()+"/streams", body).code(400, "INVALID_REQUEST")
	}
}

func encodedStreamPaths(c *client) {
	root := c.path("enc")
	s, _ := c.pull(root+"/none", 1000)
	c.control(http.MethodPost, s.path()+"/streams", config{"streams": []string{root + "/a/b", root + "/a%2Fb", root + "/c%20d"}}).is(204)
	for _, step := range []struct {
		path string
		left int
	}{
		{strings.ReplaceAll(root+"/a/b", "/", "%2F"), 2}, // as encodeURIComponent writes it
		{strings.ReplaceAll(root+"/a%252Fb", "/", "%2f"), 1},
		{root + "/c%2520d", 0},
	} {
		k := c.dial()
		k.exchange("DELETE", c.rawHead("DELETE", "__ds/"+s.path()+"/streams/"+step.path)).is(204)
		if v := s.show(); len(v.Streams) != step.left {
			c.Errorf("after DELETE of %s there are %+v", step.path, v.Streams)
		}
	}
	for _, path := range []string{"", "%", "%2", "a//b", "a/../b", "a%2F%2Fb", "%5f%5fds%2Fx"} {
		k := c.dial()
		k.exchange("DELETE", c.rawHead("DELETE", "__ds/"+s.path()+"/streams/"+path)).is(400, 404)
	}
}

func deleteSubscription(c *client) {
	prefix, pattern := c.group("deleted")
	s, wakes := c.pull(pattern, 5000)
	o := config{"type": "pull-wake", "pattern": pattern, "wake_stream": wakes, "lease_ttl_ms": 5000}
	c.put(prefix+"a", text, "x").is(201)
	w := s.claim()
	c.control(http.MethodDelete, s.path(), nil).is(204).body("").header("Cache-Control", "no-store")
	gone := func() {
		c.Helper()
		c.control(http.MethodGet, s.path(), nil).code(404, "SUBSCRIPTION_NOT_FOUND")
		s.claimAs("w").code(404, "SUBSCRIPTION_NOT_FOUND")
		s.ack(w, true, w.tails()...).code(404, "SUBSCRIPTION_NOT_FOUND")
		s.release(w).code(404, "SUBSCRIPTION_NOT_FOUND")
		s.does("callback", w.Token, w.work(true)).code(404, "SUBSCRIPTION_NOT_FOUND")
		c.control(http.MethodDelete, s.path(), nil).is(204)
	}
	gone()
	c.add(prefix+"a", text, "y")
	events := len(c.messages(wakes))

	// Another one of the same id knows nothing of it.
	s.create(o)
	s.atRest()
	s.acked(prefix+"a", c.head(prefix+"a").tail())
	s.ack(w, true, w.tails()...).code(401, "TOKEN_INVALID")
	c.add(prefix+"a", text, "z")
	again := s.claim()
	if again.ID == w.ID {
		c.Errorf("the wake has the name %s again", w.ID)
	}
	s.ack(w, true, w.tails()...).code(401, "TOKEN_INVALID")
	s.does("ack", w.Token, again.work(true, again.tails()...)).code(401, "TOKEN_INVALID")
	s.release(w).code(401, "TOKEN_INVALID")
	s.ack(again, true, again.tails()...).next(false)
	c.events(wakes, events+1)
}

func deletedStreams(c *client) {
	prefix, pattern := c.group("gone")
	s, _ := c.pull(pattern, 1000)
	c.put(prefix+"a", text, "x").is(201)
	c.put(prefix+"ttl", text, "x", "Stream-TTL", "1").is(201)
	c.delete(prefix + "a").is(204)
	c.eventually("both are forgotten", func() bool { return len(s.show().Streams) == 0 })
	s.atRest()
	// Deleted while it is claimed, and made again.
	c.put(prefix+"a", text, "old").is(201)
	w := s.claim()
	c.delete(prefix + "a").is(204)
	c.put(prefix+"a", text, "new").is(201)
	s.ack(w, false, w.tails()...).next(false) // moves nothing of the new one
	s.ack(w, true).next(true)
	w = s.claim()
	c.get(prefix+"a", from(w.stream(c, prefix+"a").Acked)).is(200).body("new")
}

func noData(c *client) {
	prefix, pattern := c.group("nothing")
	s, _ := c.pull(pattern, 1000)
	c.put(prefix+"a", text, "").is(201)
	c.put(prefix+"a", text, "ignored").is(200)
	c.put(prefix+"json", jsonType, "[]").is(201)
	c.closes(prefix + "a")
	c.put(prefix+"b", text, "").is(201)
	c.post(prefix+"b", text, "").is(400)
	c.post(prefix+"b", jsonType, "{}").is(409)
	c.post(prefix+"b", text, "x", producer("p", 0, 5)...).is(409)
	c.get(prefix+"b", fromStart).is(200)
	s.atRest()
	c.post(prefix+"b", text, "x", closing(producer("p", 0, 0)...)...).is(200)
	w := s.claim()
	s.ack(w, true, w.tails()...).next(false)
	c.post(prefix+"b", text, "x", closing(producer("p", 0, 0)...)...).is(204)
	s.atRest()
}

func forkedStreams(c *client) {
	prefix, pattern := c.group("fork")
	source := c.create("source", text, "inherited")
	s, _ := c.pull(pattern, 1000)
	c.put(prefix+"f", text, "", "Stream-Forked-From", c.full(source)).is(201)
	s.atRest()
	c.add(source, text, "not theirs")
	s.atRest()
	c.add(prefix+"f", text, "own")
	w := s.claim()
	c.get(prefix+"f", from(w.stream(c, prefix+"f").Acked)).is(200).body("own")
	s.ack(w, true, w.tails()...).next(false)
	c.put(prefix+"g", text, "body", "Stream-Forked-From", c.full(prefix+"f")).is(201)
	w = s.claim()
	c.get(prefix+"g", from(w.stream(c, prefix+"g").Acked)).is(200).body("body")
}

func ownCursors(c *client) {
	prefix, pattern := c.group("own")
	s, _ := c.pull(pattern, 5000)
	o, _ := c.pull(pattern, 5000)
	first := c.put(prefix+"a", text, "1").is(201).tail()
	ws, wo := s.claim(), o.claim()
	o.ack(ws, true, ws.tails()...).code(401, "TOKEN_INVALID")
	s.ack(ws, true, ws.tails()...).next(false)
	s.acked(prefix+"a", first)
	if l := wo.stream(c, prefix+"a"); l.Tail != first {
		c.Errorf("the other one has %+v", l)
	}
	if l, _ := o.show().link(prefix + "a"); l.Acked == first {
		c.Errorf("the other one is acked, too: %+v", l)
	}
	o.ack(wo, true, wo.tails()...).next(false)
	o.acked(prefix+"a", first)
}
