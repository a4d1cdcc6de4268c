package conformance

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// subscription is one on the server, by the URL that it has there.
type subscription struct {
	c  *client
	id string
}

// config is what a subscription is created with.
type config map[string]any

// linked is one stream as answers and wakes list it.
type linked struct {
	Path    string `json:"path"`
	Type    string `json:"link_type"`
	Acked   string `json:"acked_offset"`
	Tail    string `json:"tail_offset"`
	Pending *bool  `json:"has_pending"`
}

// shown is a subscription as the server shows it.
type shown struct {
	ID, Type, Status, Description string
	SameID                        string `json:"subscription_id"`
	Pattern                       *string
	Streams                       []linked
	Webhook                       *struct {
		URL     string
		Signing struct {
			Alg, Kid string
			JWKS     string `json:"jwks_url"`
		}
	}
	WakeStream *string `json:"wake_stream"`
	LeaseTTL   int64   `json:"lease_ttl_ms"`
	CreatedAt  string  `json:"created_at"`
}

// wake is what a worker holds, from a claim or from a webhook.
type wake struct {
	SubscriptionID string `json:"subscription_id"`
	ID             string `json:"wake_id"`
	Generation     int64  `json:"generation"`
	Token          string `json:"token"`
	Streams        []linked
	LeaseTTL       int64  `json:"lease_ttl_ms"`
	CallbackURL    string `json:"callback_url"`
	CallbackToken  string `json:"callback_token"`
}

// offset is one ack.
type offset struct {
	Stream string `json:"stream"`
	Offset string `json:"offset"`
}

// tails acks everything that a wake names.
func (w wake) tails() (acks []offset) {
	for _, s := range w.Streams {
		acks = append(acks, offset{s.Path, s.Tail})
	}
	return acks
}

// stream gives what a wake says of a stream that it has to name.
func (w wake) stream(c *client, path string) linked {
	c.Helper()
	for _, s := range w.Streams {
		if s.Path == path {
			return s
		}
	}
	c.Fatalf("wake %s of %s does not name %s: %+v", w.ID, w.SubscriptionID, path, w.Streams)
	return linked{}
}

// work is the body of an ack, a callback or a release.
func (w wake) work(done bool, acks ...offset) config {
	return config{"wake_id": w.ID, "generation": w.Generation, "acks": acks, "done": done}
}

// control sends a JSON body, if there is one, to a path behind the reserved segment.
func (c *client) control(method, path string, body any, headers ...string) *reply {
	content, headers := "", headers
	switch body := body.(type) {
	case nil:
	case string:
		content = body
	default:
		b, err := json.Marshal(body)
		if err != nil {
			c.Error(err)
		}
		content = string(b)
	}
	if body != nil {
		headers = withType(jsonType, headers)
	}
	return c.send(method, "__ds/"+path, "", content, headers...)
}

// decode reads the body of an answer.
func (r *reply) decode(v any) *reply {
	r.c.Helper()
	if err := json.Unmarshal([]byte(r.Body), v); err != nil {
		r.c.Fatalf("%s: %v in %s", r.what, err, short(r.Body))
	}
	return r
}

// code demands an error of that code.
func (r *reply) code(status int, code string) *reply {
	r.c.Helper()
	r.refused(status)
	var e struct{ Error struct{ Code string } }
	if r.decode(&e); e.Error.Code != code {
		r.c.Errorf("%s: status %d with %s, want the code %s", r.what, status, short(r.Body), code)
	}
	return r
}

// group is a prefix for paths that only one test uses, and a pattern for its streams.
func (c *client) group(name string) (prefix, pattern string) {
	prefix = c.path(name) + "/"
	return prefix, prefix + "*"
}

// subscription names one that does not exist yet. It goes with the test.
func (c *client) subscription(name string) *subscription {
	s := &subscription{c, c.path(name)}
	c.Cleanup(func() {
		req, err := http.NewRequest(http.MethodDelete, s.url(""), nil)
		if err != nil {
			return
		}
		if resp, err := c.http.Do(req); err == nil {
			resp.Body.Close()
		}
	})
	return s
}

func (s *subscription) url(action string) string {
	return s.c.BaseURL + s.c.full("__ds/subscriptions/"+url.PathEscape(s.id)+action)
}

func (s *subscription) path() string { return "subscriptions/" + url.PathEscape(s.id) }

func (s *subscription) put(o config) *reply {
	return s.c.control(http.MethodPut, s.path(), o)
}

// create makes it.
func (s *subscription) create(o config) *subscription {
	s.c.Helper()
	s.put(o).is(201)
	return s
}

// pull makes a pull-wake subscription with a wake stream of its own.
func (c *client) pull(pattern string, lease int) (s *subscription, wakes string) {
	c.Helper()
	wakes = c.create("wakes", jsonType, "")
	return c.subscription("pull").create(config{"type": "pull-wake", "pattern": pattern, "wake_stream": wakes, "lease_ttl_ms": lease}), wakes
}

// hook makes a webhook subscription.
func (c *client) hook(pattern string, to *receiver, lease int) *subscription {
	c.Helper()
	return c.subscription("hook").create(config{"type": "webhook", "pattern": pattern, "webhook": config{"url": to.URL}, "lease_ttl_ms": lease})
}

func (s *subscription) show() (v shown) {
	s.c.Helper()
	s.c.control(http.MethodGet, s.path(), nil).is(200).header("Cache-Control", "no-store").header("Content-Type", jsonType).decode(&v)
	return v
}

// link gives what the server shows of one of its streams.
func (v shown) link(path string) (linked, bool) {
	for _, l := range v.Streams {
		if l.Path == path {
			return l, true
		}
	}
	return linked{}, false
}

// acked demands a cursor.
func (s *subscription) acked(path, want string) {
	s.c.Helper()
	if l, _ := s.show().link(path); l.Acked != want {
		s.c.Errorf("%s is acked up to %q, want %q", path, l.Acked, want)
	}
}

func (s *subscription) claimAs(worker string) *reply {
	return s.c.control(http.MethodPost, s.path()+"/claim", config{"worker": worker})
}

func (s *subscription) claim() (w wake) {
	s.c.Helper()
	s.claimAs("worker").is(200).decode(&w)
	return w
}

// does sends work for a wake to an endpoint.
func (s *subscription) does(action, token string, body any) *reply {
	var headers []string
	if token != "" {
		headers = []string{"Authorization", "Bearer " + token}
	}
	return s.c.control(http.MethodPost, s.path()+"/"+action, body, headers...)
}

func (s *subscription) ack(w wake, done bool, acks ...offset) *reply {
	return s.does("ack", w.Token, w.work(done, acks...))
}

func (s *subscription) release(w wake) *reply { return s.does("release", w.Token, w.work(false)) }

// next demands what an ack answers.
func (r *reply) next(wake bool) *reply {
	r.c.Helper()
	var a struct {
		OK   *bool
		Next *bool `json:"next_wake"`
	}
	r.is(200).header("Cache-Control", "no-store").decode(&a)
	if a.OK == nil || !*a.OK || a.Next == nil || *a.Next != wake {
		r.c.Errorf("%s: %s, want ok and next_wake %v", r.what, short(r.Body), wake)
	}
	return r
}

// atRest demands that there is nothing to be claimed.
func (s *subscription) atRest() {
	s.c.Helper()
	s.claimAs("nosy").code(409, "NO_PENDING_WORK")
}

// wakeEvent is a message of a wake stream.
type wakeEvent struct {
	Type           string
	SubscriptionID string `json:"subscription_id"`
	Stream         string
	Generation     int64
	TS             int64
}

// events waits until a wake stream has n events, and gives them.
func (c *client) events(wakes string, n int) (events []wakeEvent) {
	c.Helper()
	deadline := time.Now().Add(patience)
	for {
		events = nil
		for _, m := range c.messages(wakes) {
			var e wakeEvent
			if err := json.Unmarshal([]byte(m), &e); err != nil {
				c.Fatalf("wake event %s: %v", m, err)
			}
			events = append(events, e)
		}
		if len(events) >= n {
			return events
		}
		if time.Now().After(deadline) {
			c.Fatalf("%d wake events, want %d: %+v", len(events), n, events)
		}
		c.pause(20 * time.Millisecond)
	}
}

// eventually waits until something holds.
func (c *client) eventually(what string, holds func() bool) {
	c.Helper()
	for deadline := time.Now().Add(patience); !holds(); c.pause(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("it does not come to that %s", what)
		}
	}
}

// delivery is one request that a receiver got.
type delivery struct {
	wake
	raw    []byte
	header http.Header
	at     time.Time
}

// receiver is a webhook receiver on this machine.
type receiver struct {
	*httptest.Server
	c   *client
	got chan delivery
}

// respond answers a delivery.
type respond func(w http.ResponseWriter, d delivery)

// says gives a receiver's answer.
func says(status int, body string) respond {
	return func(w http.ResponseWriter, _ delivery) {
		w.Header().Set("Content-Type", jsonType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// receiver starts one. It stays to the end of the test.
func (c *client) receiver(answer respond) *receiver {
	r := &receiver{c: c, got: make(chan delivery, 1000)}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, err := io.ReadAll(req.Body)
		d := delivery{raw: raw, header: req.Header, at: time.Now()}
		if err != nil || json.Unmarshal(raw, &d.wake) != nil || req.Method != http.MethodPost {
			c.Errorf("a delivery is %s with %q (%v)", req.Method, raw, err)
		}
		r.got <- d
		answer(w, d)
	}))
	r.Config.ErrorLog = nil
	r.Start()
	c.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// next waits for a delivery.
func (r *receiver) next() delivery {
	r.c.Helper()
	select {
	case d := <-r.got:
		return d
	case <-time.After(patience):
		r.c.Fatal("no delivery comes")
		return delivery{}
	}
}

// quiet demands that no delivery comes for a while.
func (r *receiver) quiet(d time.Duration) {
	r.c.Helper()
	select {
	case d := <-r.got:
		r.c.Errorf("a delivery that should not be: %s", d.raw)
	case <-time.After(d):
	}
}

// callBack speaks for a delivered wake.
func (c *client) callBack(d delivery, done bool, acks ...offset) *reply {
	b, err := json.Marshal(d.work(done, acks...))
	if err != nil {
		c.Error(err)
	}
	return c.sendURL(http.MethodPost, d.CallbackURL, string(b), "Authorization", "Bearer "+d.CallbackToken, "Content-Type", jsonType)
}

// publicKeys reads the key set.
func (c *client) publicKeys() map[string]ed25519.PublicKey {
	c.Helper()
	var set struct {
		Keys []struct{ Kty, Crv, Kid, Use, Alg, X string }
	}
	c.control(http.MethodGet, "jwks.json", nil).is(200).header("Content-Type", "application/jwk-set+json").header("Cache-Control", "public, max-age=300").decode(&set)
	keys := map[string]ed25519.PublicKey{}
	for _, k := range set.Keys {
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize || k.Kty != "OKP" || k.Crv != "Ed25519" || k.Use != "sig" || k.Alg != "EdDSA" || !strings.HasPrefix(k.Kid, "ds_") {
			c.Errorf("key %+v", k)
		}
		keys[k.Kid] = x
	}
	if len(keys) == 0 || len(keys) != len(set.Keys) {
		c.Fatalf("the key set has %d keys of %d names", len(set.Keys), len(keys))
	}
	return keys
}

var signatureForm = regexp.MustCompile(`^t=(\d+),kid=(ds_[\w-]+),ed25519=([\w-]+)$`)

// verify checks a delivery's signature (§7.1).
func (d delivery) verify(c *client, keys map[string]ed25519.PublicKey) {
	c.Helper()
	m := signatureForm.FindStringSubmatch(d.header.Get("Webhook-Signature"))
	if m == nil {
		c.Fatalf("signature %q", d.header.Get("Webhook-Signature"))
	}
	sig, err := base64.RawURLEncoding.DecodeString(m[3])
	if key := keys[m[2]]; err != nil || key == nil || !ed25519.Verify(key, append([]byte(m[1]+"."), d.raw...), sig) {
		c.Errorf("signature %s does not fit %s (%v)", m[0], d.raw, err)
	}
	var sec int64
	if err := json.Unmarshal([]byte(m[1]), &sec); err != nil || d.at.Sub(time.Unix(sec, 0)).Abs() > time.Minute {
		c.Errorf("signed at %s, received at %s (%v)", m[1], d.at, err)
	}
}

// closedPort is a port of this machine on which nobody listens.
func (c *client) closedPort() string {
	c.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
