package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/stream"
	"durablestreams/subscription"
)

// inBubble runs a test on a fresh server in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		defer func() { s.stop() }()
		f(t, s)
	})
}

// settle lets everything happen that needs no more than a moment.
func settle() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

func TestConfirm(t *testing.T) {
	ttl := int64(5000)
	base := subscription.Config{Type: subscription.Webhook, Pattern: "events/*", Streams: []string{"b", "a"},
		WebhookURL: "https://worker.example/hooks", LeaseTTL: &ttl, Description: "d"}
	other := int64(6000)
	changed := func(f func(*subscription.Config)) subscription.Config { c := base; f(&c); return c }
	inBubble(t, func(t *testing.T, s *server) {
		v := s.mustCreate("s", base)
		if v.Type != subscription.Webhook || v.Pattern != "events/*" || v.WebhookURL != base.WebhookURL || v.LeaseTTL != 5*time.Second ||
			v.Description != "d" || v.Failed || v.Root != rootURL || len(v.Streams) != 2 || v.WakeStream != "" {
			t.Errorf("created %+v", v)
		}
		for name, c := range map[string]subscription.Config{
			"same":          base,
			"other order":   changed(func(c *subscription.Config) { c.Streams = []string{"a", "/b/", "a"} }),
			"not a pull":    changed(func(c *subscription.Config) { c.WakeStream = "wake/pool" }),
			"null filter":   changed(func(c *subscription.Config) { c.Filter = []byte("null") }),
			"slash pattern": changed(func(c *subscription.Config) { c.Pattern = "/events/*" }),
		} {
			if _, created, err := s.Manager.Create(t.Context(), "s", rootURL, c); err != nil || created {
				t.Errorf("%s: created %v, %v", name, created, err)
			}
		}
		for name, c := range map[string]subscription.Config{
			"type":        changed(func(c *subscription.Config) { c.Type = subscription.PullWake; c.WakeStream = "w" }),
			"pattern":     changed(func(c *subscription.Config) { c.Pattern = "events/**" }),
			"no pattern":  changed(func(c *subscription.Config) { c.Pattern = "" }),
			"streams":     changed(func(c *subscription.Config) { c.Streams = []string{"a"} }),
			"url":         changed(func(c *subscription.Config) { c.WebhookURL = "https://worker.example/hook" }),
			"lease":       changed(func(c *subscription.Config) { c.LeaseTTL = &other }),
			"description": changed(func(c *subscription.Config) { c.Description = "" }),
		} {
			_, _, err := s.Manager.Create(t.Context(), "s", rootURL, c)
			if !errors.Is(err, &subscription.Refusal{Code: subscription.AlreadyExists}) {
				t.Errorf("%s: %v", name, err)
			}
		}
		s.strict = true // only new ones are judged
		must(t, s.RemoveStream(t.Context(), "s", "a"))
		if _, created, err := s.Manager.Create(t.Context(), "s", "https://other", base); err != nil || created {
			t.Errorf("after a link has gone: created %v, %v", created, err)
		}
		s.restart()
		v, err := s.Get(t.Context(), "s")
		must(t, err)
		if v.Root != "https://other" || len(v.Streams) != 1 || v.LeaseTTL != 5*time.Second || v.Description != "d" || v.Pattern != "events/*" {
			t.Errorf("after a restart %+v", v)
		}
	})
}

func TestRefusedConfigs(t *testing.T) {
	lease := func(ms int64) *int64 { return &ms }
	with := func(c subscription.Config, f func(*subscription.Config)) subscription.Config { f(&c); return c }
	long := strings.Repeat("x", 5000)
	inBubble(t, func(t *testing.T, s *server) {
		for name, tt := range map[string]struct {
			c    subscription.Config
			code subscription.Code
		}{
			"no type":            {subscription.Config{Pattern: "*"}, subscription.InvalidRequest},
			"no streams":         {with(pull("*"), func(c *subscription.Config) { c.Pattern = "" }), subscription.InvalidRequest},
			"no url":             {subscription.Config{Type: subscription.Webhook, Pattern: "*"}, subscription.InvalidRequest},
			"no wake stream":     {subscription.Config{Type: subscription.PullWake, Pattern: "*"}, subscription.InvalidRequest},
			"bad pattern":        {pull("a*/b"), subscription.InvalidRequest},
			"control pattern":    {pull("__ds/*"), subscription.InvalidRequest},
			"bad stream":         {with(pull("*"), func(c *subscription.Config) { c.Streams = []string{"a//b"} }), subscription.InvalidRequest},
			"control stream":     {with(pull("*"), func(c *subscription.Config) { c.Streams = []string{"__ds/x"} }), subscription.InvalidRequest},
			"bad wake stream":    {with(pull("*"), func(c *subscription.Config) { c.WakeStream = "__ds/x" }), subscription.InvalidRequest},
			"wakes itself":       {with(pull("*"), func(c *subscription.Config) { c.Streams = []string{"wake/pool"} }), subscription.InvalidRequest},
			"short lease":        {with(pull("*"), func(c *subscription.Config) { c.LeaseTTL = lease(999) }), subscription.InvalidRequest},
			"long lease":         {with(pull("*"), func(c *subscription.Config) { c.LeaseTTL = lease(600_001) }), subscription.InvalidRequest},
			"long description":   {with(pull("*"), func(c *subscription.Config) { c.Description = long }), subscription.InvalidRequest},
			"broken description": {with(pull("*"), func(c *subscription.Config) { c.Description = "\xff" }), subscription.InvalidRequest},
			"long url":           {with(hook("*"), func(c *subscription.Config) { c.WebhookURL = "https://x/" + long }), subscription.InvalidRequest},
			"unsafe url":         {with(hook("*"), func(c *subscription.Config) { c.WebhookURL = "http://10.0.0.1/hook" }), subscription.URLRejected},
			"filter":             {with(pull("*"), func(c *subscription.Config) { c.Filter = []byte(`{}`) }), subscription.FilterUnsupported},
			"many links":         {with(pull("*"), func(c *subscription.Config) { c.Streams = make([]string, subscription.MaxLinks+1) }), subscription.LimitExceeded},
		} {
			_, _, err := s.Manager.Create(t.Context(), "s", rootURL, tt.c)
			if !errors.Is(err, &subscription.Refusal{Code: tt.code}) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, id := range []string{"", strings.Repeat("x", 257), "a\nb", "\xff"} {
			_, _, err := s.Manager.Create(t.Context(), id, rootURL, pull("*"))
			wantCode(t, err, subscription.InvalidRequest)
		}
		_, err := s.Get(t.Context(), "s")
		wantCode(t, err, subscription.NotFound)
		if len(s.disk.rows) != 0 || s.Version() != 0 {
			t.Errorf("%d rows, version %d", len(s.disk.rows), s.Version())
		}
	})
}

// TestLinks: existing streams are linked at their tails, new ones at their
// beginnings, and an empty one has no work (§6.2).
func TestLinks(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		must(t, s.create("wake/pool", 0))
		must(t, s.create("events/old", 10))
		must(t, s.create("other/old", 10))
		c := pull("events/*")
		c.Streams = []string{"other/old", "other/none"}
		s.mustCreate("s", c)
		settle()
		for path, want := range map[stream.Path]string{
			"events/old": "glob " + s.tailOf("events/old").String(),
			"other/old":  "explicit " + s.tailOf("other/old").String(),
			"other/none": "explicit " + stream.StartLiteral,
			"wake/pool":  "not linked",
		} {
			if got := s.cursor("s", path); got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
		must(t, s.create("events/empty", 0))
		settle()
		if events := s.events(t, "wake/pool"); len(events) != 0 {
			t.Errorf("woken by %v", events)
		}
		must(t, s.create("events/new", 4))
		must(t, s.append("events/old", 3))
		must(t, s.append("other/old", 5))
		must(t, s.create("other/none", 2))
		settle()
		if events := s.events(t, "wake/pool"); len(events) != 1 || events[0].String() != "s events/new g1" ||
			events[0].Type != "wake" || events[0].Time != time.Now().UnixMilli()/1000*1000 && time.Now().UnixMilli()-events[0].Time > 1000 {
			t.Errorf("woken by %v", events)
		}
		w := s.mustClaim("s")
		want := map[stream.Path]string{"events/new": "glob 0 4", "events/old": "glob 10 13", "other/old": "explicit 10 15", "other/none": "explicit 0 2"}
		for _, l := range w.Streams {
			if got := fmt.Sprintf("%s %d %d", l.LinkType(), l.Acked.Pos, l.Tail.Pos); got != want[l.Path] || !l.Pending || l.Tail != s.tailOf(l.Path) {
				t.Errorf("%s: %s, want %s", l.Path, got, want[l.Path])
			}
		}
		if len(w.Streams) != len(want) {
			t.Errorf("claimed %v", w.Streams)
		}
		if got := s.cursor("s", "events/old"); !strings.HasPrefix(got, "glob 0000000000000010_") {
			t.Errorf("pending: %s", got)
		}
		next, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), true)
		if err != nil || next {
			t.Errorf("next wake %v, %v", next, err)
		}
		if got := s.cursor("s", "events/old"); got != "glob "+s.tailOf("events/old").String() {
			t.Errorf("acked: %s", got)
		}
	})
}

// TestMembership: explicit links come and go, the pattern's stay (§6.1, §6.4).
func TestMembership(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		must(t, s.create("wake/pool", 0))
		must(t, s.create("a", 1))
		must(t, s.create("events/a", 1))
		s.mustCreate("s", pull("events/*"))
		must(t, s.AddStreams(t.Context(), "s", []string{"a", "events/a"}))
		must(t, s.AddStreams(t.Context(), "s", []string{"a"}))
		if a, b := s.cursor("s", "a"), s.cursor("s", "events/a"); !strings.HasPrefix(a, "explicit ") || !strings.HasPrefix(b, "explicit ") {
			t.Errorf("added: %s, %s", a, b)
		}
		must(t, s.append("a", 1))
		must(t, s.append("events/a", 1))
		must(t, s.RemoveStream(t.Context(), "s", "a"))
		must(t, s.RemoveStream(t.Context(), "s", "events/a"))
		must(t, s.RemoveStream(t.Context(), "s", "never/there"))
		if a, b := s.cursor("s", "a"), s.cursor("s", "events/a"); a != "not linked" || !strings.HasPrefix(b, "glob ") {
			t.Errorf("removed: %s, %s", a, b)
		}
		s.restart()
		w := s.mustClaim("s")
		if len(w.Streams) != 1 || w.Streams[0].Path != "events/a" {
			t.Errorf("claimed %v", w.Streams)
		}
		wantCode(t, s.AddStreams(t.Context(), "s", []string{"__ds/x"}), subscription.InvalidRequest)
		wantCode(t, s.AddStreams(t.Context(), "s", []string{"wake/pool"}), subscription.InvalidRequest)
		wantCode(t, s.AddStreams(t.Context(), "t", []string{"x"}), subscription.NotFound)
		wantCode(t, s.RemoveStream(t.Context(), "t", "x"), subscription.NotFound)
	})
}

// TestClaimAtOnce: a claim needs no wake event (§7.2, and the official suite).
func TestClaimAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", pull("*"))
		_, err := s.Claim(t.Context(), "s", "w")
		wantCode(t, err, subscription.NoPendingWork)
		must(t, s.create("a", 3))
		w := s.mustClaim("s")
		if w.Generation != 1 || !strings.HasPrefix(w.ID, "w_") || w.LeaseTTL != 30_000 || w.Token == "" {
			t.Errorf("claimed %+v", w)
		}
		_, err = s.Claim(t.Context(), "s", "other")
		if r := wantCode(t, err, subscription.AlreadyClaimed); r.Holder != "worker" || r.Generation != 1 {
			t.Errorf("held by %s, generation %d", r.Holder, r.Generation)
		}
		_, err = s.Claim(t.Context(), "s", "")
		wantCode(t, err, subscription.InvalidRequest)
		_, err = s.Claim(t.Context(), "t", "w")
		wantCode(t, err, subscription.NotFound)
	})
}

// TestAckRefusals: what names no place of a linked stream spoils the whole request.
func TestAckRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		must(t, s.create("b/x", 9))
		s.mustCreate("s", pull("a/*"))
		must(t, s.create("a/x", 3))
		must(t, s.create("a/y", 3))
		w := s.mustClaim("s")
		good := subscription.Ack{Stream: "a/x", Offset: w.Streams[0].Tail.String()}
		beyond := w.Streams[1].Tail
		beyond.Pos++
		for name, bad := range map[string]subscription.Ack{
			"beyond the tail":  {Stream: "a/y", Offset: beyond.String()},
			"not an offset":    {Stream: "a/y", Offset: "-1"},
			"other stream's":   {Stream: "a/y", Offset: w.Streams[0].Tail.String()},
			"not linked":       {Stream: "b/x", Offset: s.tailOf("b/x").String()},
			"nothing there":    {Stream: "b/z", Offset: stream.StartLiteral},
			"no path":          {Stream: "", Offset: stream.StartLiteral},
			"a control stream": {Stream: "__ds/x", Offset: stream.StartLiteral},
		} {
			_, err := s.Ack(t.Context(), "s", ref(w), []subscription.Ack{good, bad}, true)
			if !errors.Is(err, &subscription.Refusal{Code: subscription.InvalidOffset}) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := s.cursor("s", "a/x"); !strings.Contains(got, " 0000000000000000_") {
			t.Errorf("acked all the same: %s", got)
		}
		if _, err := s.Ack(t.Context(), "s", ref(w), []subscription.Ack{good, {Stream: "a/y", Offset: stream.StartLiteral}}, false); err != nil {
			t.Error(err)
		}
		stale := ref(w)
		stale.Generation++
		_, err := s.Ack(t.Context(), "s", stale, ackAll(w), true)
		wantCode(t, err, subscription.Fenced) // comes first
		stale.Token = "x"
		_, err = s.Ack(t.Context(), "s", stale, nil, true)
		wantCode(t, err, subscription.TokenInvalid)
		_, err = s.Callback(t.Context(), "s", ref(w), nil, true)
		wantCode(t, err, subscription.InvalidRequest)
		_, err = s.Ack(t.Context(), "t", ref(w), nil, true)
		wantCode(t, err, subscription.NotFound)
	})
}

// TestAckOfEndedStream: a stream that ends while a worker is busy with it does not
// spoil what the worker says of the others.
func TestAckOfEndedStream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", pull("a/*"))
		must(t, s.create("a/x", 3))
		must(t, s.create("a/y", 3))
		w := s.mustClaim("s")
		must(t, s.delete("a/y"))
		more, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), true)
		if err != nil || more {
			t.Errorf("%v, more %v", err, more)
		}
	})
}

// TestAckOfAnotherStream: nor does one that is another stream now, or none of the
// subscription's any more. Only what the wake has named is known to be right.
func TestAckOfAnotherStream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		c := pull("a/*")
		c.Streams = []string{"x"}
		s.mustCreate("s", c)
		for _, path := range []stream.Path{"x", "a/x", "a/y", "a/z"} {
			must(t, s.create(path, 3))
		}
		w := s.mustClaim("s")
		if _, err := s.Ack(t.Context(), "s", ref(w), ackAll(w)[2:3], false); err != nil {
			t.Error(err)
		}
		for _, path := range []stream.Path{"a/x", "a/y"} {
			must(t, s.delete(path))
			must(t, s.create(path, 5))
		}
		must(t, s.RemoveStream(t.Context(), "s", "x"))
		_, err := s.Ack(t.Context(), "s", ref(w), []subscription.Ack{{Stream: "a/x", Offset: s.tailOf("a/z").String()}}, true)
		wantCode(t, err, subscription.InvalidOffset) // it never was one of a/x
		more, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), true)
		if err != nil || !more {
			t.Errorf("%v, more %v", err, more)
		}
		next := s.mustClaim("s")
		if len(next.Streams) != 2 || next.Streams[0].Acked.Pos != 0 || next.Streams[1].Acked.Pos != 0 {
			t.Errorf("next: %+v", next.Streams)
		}
		_, err = s.Ack(t.Context(), "s", ref(next), ackAll(w), true)
		wantCode(t, err, subscription.InvalidOffset)
	})
}

// TestDelete: a deleted subscription leaves nothing, and nothing of it works for
// the next one of its name (§6.3).
func TestDelete(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		c := pull("*")
		for i := range 2500 {
			c.Streams = append(c.Streams, fmt.Sprintf("x/%d", i))
		}
		s.mustCreate("s", c)
		must(t, s.create("a", 3))
		must(t, s.create("x/1", 3))
		w := s.mustClaim("s")
		must(t, s.Manager.Delete(t.Context(), "s"))
		must(t, s.Manager.Delete(t.Context(), "s"))
		_, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), true)
		wantCode(t, err, subscription.NotFound)
		settle()
		if n := len(s.disk.rows); n != 0 || s.Version() != 0 {
			t.Errorf("%d rows are left, version %d", n, s.Version())
		}
		s.mustCreate("s", pull("*"))
		must(t, s.append("a", 3))
		again := s.mustClaim("s")
		if again.Generation != w.Generation {
			t.Errorf("generation %d", again.Generation)
		}
		mixed := ref(again)
		mixed.Token = w.Token
		_, err = s.Ack(t.Context(), "s", mixed, nil, true)
		wantCode(t, err, subscription.TokenInvalid)
	})
}

// TestDeleteCutShort crashes behind the tombstone: the next start takes the rest away.
func TestDeleteCutShort(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		c := pull("*")
		c.Streams = []string{"x/1", "x/2"}
		s.mustCreate("s", c)
		s.mustCreate("t", pull("y/*"))
		must(t, s.create("a", 3))
		rows := map[string][]byte{}
		for k, v := range s.disk.rows {
			rows[k] = v
		}
		must(t, s.Manager.Delete(t.Context(), "s"))
		s.crash()
		for k, v := range rows {
			if !strings.HasSuffix(k, "/a") {
				s.disk.rows[k] = v
			}
		}
		s.start()
		settle()
		if len(s.disk.rows) != 1 {
			t.Errorf("%d rows are left", len(s.disk.rows))
		}
		_, err := s.Get(t.Context(), "t")
		must(t, err)
	})
}

// TestNothingBeforeDurable holds the disk: no answer and no effect leaves before.
func TestNothingBeforeDurable(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		must(t, s.create("wake/pool", 0))
		s.mustCreate("pull", pull("*"))
		s.mustCreate("hook", hook("*"))
		s.hold(true)
		answers := make(chan error, 10)
		ask := func(f func() error) {
			go func() { answers <- f() }()
			synctest.Wait()
		}
		ask(func() error { return s.create("a", 3) })
		settle()
		ask(func() error { _, err := s.Claim(t.Context(), "pull", "w"); return err })
		ask(func() error { _, err := s.Claim(t.Context(), "pull", "v"); return err }) // refused
		ask(func() error { _, err := s.Get(t.Context(), "pull"); return err })
		ask(func() error { return s.Manager.Delete(t.Context(), "pull") })
		ask(func() error { _, err := s.Get(t.Context(), "pull"); return err }) // not found
		ask(func() error { _, _, err := s.Manager.Create(t.Context(), "new", rootURL, pull("*")); return err })
		settle()
		if n := len(answers); n != 0 {
			t.Errorf("%d answers before anything was durable", n)
		}
		if calls := s.take(); len(calls) != 0 {
			t.Errorf("called %v", calls)
		}
		if events := s.appends.Load(); events != 0 {
			t.Errorf("%d wake events", events)
		}
		s.hold(false)
		settle()
		if n := len(answers); n != 7 {
			t.Errorf("%d answers", n)
		}
		if calls := s.take(); len(calls) != 1 {
			t.Errorf("%d calls", len(calls))
		}
	})
}

// TestAnswerGivenUp: a client that goes away gets an error, what it asked for happens.
func TestAnswerGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", pull("*"))
		s.hold(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Manager.Delete(ctx, "s"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		s.hold(false)
		_, err := s.Get(t.Context(), "s")
		wantCode(t, err, subscription.NotFound)
	})
}

// TestBusy: a request that the engine has no room for leaves no trace; what the
// server does by itself waits.
func TestBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		must(t, s.create("wake/pool", 0))
		s.mustCreate("pull", pull("*"))
		s.mustCreate("hook", hook("*"))
		must(t, s.create("a", 3))
		w := s.mustClaim("pull")
		settle()
		s.take()
		s.setBusy(true)
		must(t, s.append("a", 2)) // admitted before
		_, err := s.Ack(t.Context(), "pull", ref(w), ackAll(w), true)
		if !errors.Is(err, stream.Busy) {
			t.Errorf("ack: %v", err)
		}
		if _, _, err := s.Manager.Create(t.Context(), "new", rootURL, pull("*")); !errors.Is(err, stream.Busy) {
			t.Errorf("create: %v", err)
		}
		time.Sleep(time.Minute) // the lease runs out
		if calls := s.take(); len(calls) != 0 {
			t.Errorf("%d calls", len(calls))
		}
		s.setBusy(false)
		_, err = s.Get(t.Context(), "new")
		wantCode(t, err, subscription.NotFound)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if events := s.events(t, "wake/pool"); len(events) != 2 {
			t.Errorf("events %v", events)
		}
		if calls := s.take(); len(calls) != 1 || calls[0].Generation != 2 {
			t.Errorf("%d calls", len(calls))
		}
		if got := s.cursor("pull", "a"); !strings.Contains(got, " 0000000000000000_") {
			t.Errorf("acked: %s", got)
		}
	})
}

func TestTooManySubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.stop()
		s.opts.MaxSubscriptions = 2
		s.start()
		s.mustCreate("a", pull("*"))
		s.mustCreate("b", pull("*"))
		_, _, err := s.Manager.Create(t.Context(), "c", rootURL, pull("*"))
		wantCode(t, err, subscription.LimitExceeded)
		must(t, s.Manager.Delete(t.Context(), "a"))
		s.mustCreate("c", pull("*"))
		s.stop()
	})
}

// TestLongLists bounds what a view shows and a wake tells.
func TestLongLists(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		for i := range 1001 {
			must(t, s.create(stream.Path(fmt.Sprintf("a/%04d", i)), 1))
		}
		s.mustCreate("s", pull("a/*"))
		v, err := s.Get(t.Context(), "s")
		must(t, err)
		if len(v.Streams) != 1000 || !v.Truncated {
			t.Errorf("%d streams, truncated %v", len(v.Streams), v.Truncated)
		}
		must(t, s.append("a/1000", 1))
		v, err = s.Get(t.Context(), "s")
		must(t, err)
		if last := v.Streams[len(v.Streams)-1]; len(v.Streams) != 1001 || last.Path != "a/1000" || !last.Pending {
			t.Errorf("%d streams, the last is %v", len(v.Streams), last)
		}
		must(t, s.delete("a/0000"))
		v, err = s.Get(t.Context(), "s")
		must(t, err)
		if len(v.Streams) != 1000 || v.Truncated {
			t.Errorf("%d streams, truncated %v", len(v.Streams), v.Truncated)
		}
	})
}

// TestViewOfEnding: a pending stream that ends while somebody looks is not shown as
// acked.
func TestViewOfEnding(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", pull("*"))
		must(t, s.create("a", 3))
		must(t, s.create("b", 3))
		s.listing = func() {
			s.listing = nil
			go s.delete("a")
			synctest.Wait()
		}
		if got := s.cursor("s", "a"); got != "not linked" {
			t.Errorf("ends meanwhile: %s", got)
		}
		s.hold(true)
		go s.delete("b")
		synctest.Wait()
		shown := make(chan string)
		go func() { shown <- s.cursor("s", "b") }()
		synctest.Wait()
		s.hold(false)
		if got := <-shown; got != "not linked" {
			t.Errorf("has ended, but not on the disk: %s", got)
		}
	})
}

// TestClosed: a manager that was closed refuses, but still marks.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		must(t, s.create("wake/pool", 0))
		s.mustCreate("s", pull("*"))
		must(t, s.Close(t.Context()))
		must(t, s.Close(t.Context()))
		if _, err := s.Get(t.Context(), "s"); !errors.Is(err, stream.ShuttingDown) {
			t.Errorf("got %v", err)
		}
		must(t, s.create("a", 3))
		s.engine.close()
		s.start()
		settle()
		if events := s.events(t, "wake/pool"); len(events) != 1 {
			t.Errorf("events %v", events)
		}
		s.stop()
	})
}

// TestEarly: a stream that ends between the opening of the engine and the start of
// the manager has no work left.
func TestEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		must(t, s.create("wake/pool", 0))
		s.mustCreate("s", pull("*"))
		must(t, s.create("a", 3))
		settle()
		s.crash()
		s.Manager = subscription.New(nil)
		s.engine = newEngine(s.disk, s.Manager, s.rnd)
		if _, err := s.Get(t.Context(), "s"); !errors.Is(err, stream.ShuttingDown) {
			t.Errorf("before the start: %v", err)
		}
		s.hold(true) // the engine still shows it
		go s.delete("a")
		synctest.Wait()
		s.begin()
		claimed := make(chan error, 1)
		go func() { _, err := s.Claim(t.Context(), "s", "w"); claimed <- err }()
		synctest.Wait()
		s.hold(false)
		wantCode(t, <-claimed, subscription.NoPendingWork)
		s.stop()
	})
}

// TestDamagedRow sets one subscription aside and keeps its rows.
func TestDamagedRow(t *testing.T) {
	for _, kind := range []string{"/a", "/l", "/m", "/r"} {
		inBubble(t, func(t *testing.T, s *server) {
			c := pull("*")
			c.Streams = []string{"x/y"}
			s.mustCreate("bad", c)
			must(t, s.create("a", 3))
			before := len(s.disk.rows)
			for key, value := range s.disk.rows {
				if strings.Contains(key[20:], kind) {
					s.disk.rows[key] = append(value, 0)
				}
			}
			s.mustCreate("good", hook("b"))
			s.restart()
			settle()
			if _, err := s.Get(t.Context(), "good"); err != nil {
				t.Error(err)
			}
			_, err := s.Get(t.Context(), "bad")
			wantCode(t, err, subscription.NotFound)
			if len(s.disk.rows) != before+1 {
				t.Errorf("%s: %d rows, there were %d", kind, len(s.disk.rows), before+1)
			}
		})
	}
}
