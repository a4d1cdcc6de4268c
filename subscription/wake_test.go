package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/stream"
	"durablestreams/subscription"
)

func (s *server) wantEvents(path stream.Path, want ...string) {
	s.t.Helper()
	settle()
	var got []string
	for _, e := range s.events(s.t, path) {
		got = append(got, e.String())
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("events %q, want %q", got, want)
	}
}

// TestEvents: one event a generation, over every way in which a wake can end.
func TestEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		must(t, s.create("wake/pool", 0))
		s.mustCreate("s", pull("*"))
		must(t, s.create("a", 3))
		must(t, s.append("a", 3))
		s.wantEvents("wake/pool", "s a g1")
		w := s.mustClaim("s")
		must(t, s.create("b", 3), s.append("a", 1))
		next, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), true)
		if err != nil || !next {
			t.Errorf("next wake %v, %v", next, err)
		}
		s.wantEvents("wake/pool", "s a g1", "s b g2")
		s.restart()
		s.wantEvents("wake/pool", "s a g1", "s b g2")
		w = s.mustClaim("s")
		must(t, s.Release(t.Context(), "s", ref(w)))
		wantCode(t, s.Release(t.Context(), "s", ref(w)), subscription.Fenced)
		s.wantEvents("wake/pool", "s a g1", "s b g2", "s a g3")
		w = s.mustClaim("s")
		time.Sleep(20 * time.Second)
		if next, err := s.Ack(t.Context(), "s", ref(w), nil, false); err != nil || next {
			t.Errorf("heartbeat: %v, %v", next, err)
		}
		s.restart()
		_, err = s.Claim(t.Context(), "s", "other")
		wantCode(t, err, subscription.AlreadyClaimed)
		time.Sleep(29 * time.Second)
		s.wantEvents("wake/pool", "s a g1", "s b g2", "s a g3")
		time.Sleep(2 * time.Second)
		s.wantEvents("wake/pool", "s a g1", "s b g2", "s a g3", "s a g4")
		_, err = s.Ack(t.Context(), "s", ref(w), nil, false)
		wantCode(t, err, subscription.Fenced)
		w = s.mustClaim("s")
		if next, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), true); err != nil || next {
			t.Errorf("at the end: %v, %v", next, err)
		}
		time.Sleep(time.Hour)
		s.wantEvents("wake/pool", "s a g1", "s b g2", "s a g3", "s a g4")
	})
}

// TestWakeStreamMissing: events wait for their stream, follow it, and the
// subscription says what is wrong.
func TestWakeStreamMissing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		problem := func(want string) {
			t.Helper()
			settle()
			v, err := s.Get(t.Context(), "s")
			must(t, err)
			if v.Problem != want || v.Failed != (want != "") {
				t.Errorf("problem %q, failed %v; want %q", v.Problem, v.Failed, want)
			}
		}
		s.mustCreate("s", pull("*"))
		problem("")
		must(t, s.create("a", 3))
		problem("the wake stream does not exist")
		time.Sleep(10 * time.Minute)
		must(t, s.create("wake/pool", 0))
		s.wantEvents("wake/pool", "s a g1")
		problem("")
		must(t, s.delete("wake/pool"))
		problem("the wake stream does not exist")
		must(t, s.create("wake/pool", 0))
		s.wantEvents("wake/pool", "s a g1")
		problem("")
		w := s.mustClaim("s")
		s.setClosed("wake/pool")
		must(t, s.Release(t.Context(), "s", ref(w)))
		problem("the wake stream does not take events: the stream is closed")
		s.restart()
		problem("the wake stream does not take events: the stream is closed")
		w = s.mustClaim("s")
		_, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), true)
		must(t, err)
		must(t, s.delete("wake/pool"))
		must(t, s.create("wake/pool", 0))
		s.wantEvents("wake/pool") // nobody waits for g2
		must(t, s.append("a", 3))
		s.wantEvents("wake/pool", "s a g3")
		problem("")
	})
}

// TestWakeStreamReplacedUnderWrite: the event of a wake goes into the new wake stream
// also if it is only then known that it went into the old one.
func TestWakeStreamReplacedUnderWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		must(t, s.create("wake/pool", 0))
		s.mustCreate("s", pull("*"))
		s.slow = 5 * time.Second
		must(t, s.create("a", 3))
		settle()
		s.slow = 0
		must(t, s.delete("wake/pool"))
		must(t, s.create("wake/pool", 0))
		time.Sleep(10 * time.Second)
		s.wantEvents("wake/pool", "s a g1")
	})
}

// TestLateEvent: an event that could not be written in time never names no stream.
func TestLateEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", pull("*"))
		must(t, s.create("a", 3))
		w := s.mustClaim("s")
		_, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), false)
		must(t, err)
		must(t, s.create("wake/pool", 0))
		s.wantEvents("wake/pool")
		must(t, s.append("a", 3))
		s.wantEvents("wake/pool", "s a g1")
	})
}

// TestClockSetBack: what has a deadline does not wait until the clock has caught up.
func TestClockSetBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		must(t, s.create("wake/pool", 0))
		s.mustCreate("held", pull("*"))
		missing := pull("*")
		missing.WakeStream = "wake/missing"
		s.mustCreate("unwritten", missing)
		s.mustCreate("failing", hook("*"))
		s.setAnswer(func(context.Context, string, *wakeCall) (bool, error) { return false, errors.New("no") })
		must(t, s.create("a", 3))
		settle()
		s.mustClaim("held")
		s.ClockSetBack(24 * time.Hour)
		s.take()
		tries := s.appends.Load()
		time.Sleep(2 * time.Minute)
		s.wantEvents("wake/pool", "held a g1", "held a g2")
		if len(s.take()) == 0 {
			t.Error("a failed delivery waits for the old time")
		}
		if s.appends.Load() < tries+3 {
			t.Error("a wake event waits for the old time")
		}
	})
}

// TestOwnWakeStream: events do not wake their own subscription, but others.
func TestOwnWakeStream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		must(t, s.create("wake/pool", 0))
		must(t, s.create("wake/other", 0))
		s.mustCreate("s", pull("**"))
		c := pull("wake/pool")
		c.WakeStream = "wake/other"
		s.mustCreate("watch", c)
		must(t, s.create("a", 1))
		w := s.mustClaim("s")
		_, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), true)
		must(t, err)
		s.wantEvents("wake/pool", "s a g1", "s wake/other g2")
		s.wantEvents("wake/other", "watch wake/pool g1")
	})
}

// TestWebhookDone delivers once and acks what it told about (§7.1).
func TestWebhookDone(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("sub/1", hook("events/*"))
		must(t, s.create("events/a", 3))
		settle()
		calls := s.take()
		if len(calls) != 1 {
			t.Fatalf("%d calls", len(calls))
		}
		c := calls[0]
		want := toldStream{"events/a", "glob", (&stream.Meta{Incarnation: 1}).OffsetAt(0).String(), s.tailOf("events/a").String(), true}
		if c.ID != "sub/1" || !strings.HasPrefix(c.WakeID, "w_") || c.Generation != 1 || !slices.Equal(c.Streams, []toldStream{want}) ||
			c.URL != rootURL+"/__ds/subscriptions/sub%2F1/callback" {
			t.Errorf("called with %+v", c)
		}
		if got := s.cursor("sub/1", "events/a"); got != "glob "+want.Tail {
			t.Errorf("acked %s", got)
		}
		_, err := s.Callback(t.Context(), "sub/1", c.ref(), nil, true)
		wantCode(t, err, subscription.Fenced)
		time.Sleep(time.Hour)
		if calls := s.take(); len(calls) != 0 {
			t.Errorf("%d calls more", len(calls))
		}
	})
}

// TestWebhookSnapshot: what is appended during a call is not acked by it.
func TestWebhookSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", hook("*"))
		s.setAnswer(func(_ context.Context, _ string, c *wakeCall) (bool, error) {
			if c.Generation == 1 {
				must(t, s.append("a", 2))
				must(t, s.create("b", 1))
			}
			return true, nil
		})
		must(t, s.create("a", 3))
		settle()
		calls := s.take()
		if len(calls) != 2 || len(calls[0].Streams) != 1 || len(calls[1].Streams) != 2 || calls[1].Generation != 2 || calls[1].WakeID == calls[0].WakeID {
			t.Fatalf("calls %+v", calls)
		}
		for _, l := range calls[1].Streams {
			if l.Path == "a" && l.Acked != calls[0].Streams[0].Tail {
				t.Errorf("a was acked to %s, told about %s", l.Acked, calls[0].Streams[0].Tail)
			}
		}
	})
}

// TestCallback: a receiver that works on its own keeps its lease by calling back.
func TestCallback(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", hook("*"))
		s.setAnswer(func(context.Context, string, *wakeCall) (bool, error) { return false, nil })
		must(t, s.create("a", 3))
		settle()
		c := s.take()[0]
		for range 10 {
			time.Sleep(20 * time.Second)
			next, err := s.Callback(t.Context(), "s", c.ref(), nil, false)
			if err != nil || next {
				t.Fatalf("next %v, %v", next, err)
			}
		}
		must(t, s.append("a", 3))
		s.restart()
		_, err := s.Ack(t.Context(), "s", c.ref(), nil, true)
		wantCode(t, err, subscription.InvalidRequest)
		next, err := s.Callback(t.Context(), "s", c.ref(), []subscription.Ack{{Stream: "a", Offset: c.Streams[0].Tail}}, true)
		if err != nil || !next {
			t.Fatalf("next %v, %v", next, err)
		}
		settle()
		c = s.take()[0]
		if c.Generation != 2 || c.Streams[0].Tail != s.tailOf("a").String() {
			t.Errorf("called with %+v", c)
		}
		time.Sleep(30 * time.Second) // the worker is lost
		settle()
		if c = s.take()[0]; c.Generation != 3 {
			t.Errorf("called with %+v", c)
		}
	})
}

// TestRetries: the pauses grow, the wake stays the same while its lease lasts, and
// the status tells (§6.3, §7.1).
func TestRetries(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", hook("*"))
		broken := errors.New("broken")
		s.setAnswer(func(context.Context, string, *wakeCall) (bool, error) { return false, broken })
		must(t, s.create("a", 3))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		calls := s.take()
		for i := 1; i < len(calls); i++ {
			pause, want := calls[i].at.Sub(calls[i-1].at), min(time.Second<<(i-1), time.Minute)
			if pause < want*79/100 || pause > want*121/100 {
				t.Errorf("pause %d is %v", i, pause)
			}
			if same := calls[i].WakeID == calls[i-1].WakeID; same != (calls[i].Generation == calls[i-1].Generation) || same != (pause < 30*time.Second) {
				t.Errorf("after %v the wake is the same: %v", pause, same)
			}
		}
		if len(calls) < 10 {
			t.Errorf("%d calls", len(calls))
		}
		if v, _ := s.Get(t.Context(), "s"); !v.Failed {
			t.Error("the status is active")
		}
		s.setAnswer(nil)
		time.Sleep(2 * time.Minute)
		if v, _ := s.Get(t.Context(), "s"); v.Failed || v.Streams[0].Acked != s.tailOf("a") {
			t.Errorf("at last %+v", v)
		}
	})
}

// TestRetryAfterCrash: the schedule is kept, neither earlier nor forgotten.
func TestRetryAfterCrash(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", hook("*"))
		s.setAnswer(func(context.Context, string, *wakeCall) (bool, error) { return false, errors.New("broken") })
		must(t, s.create("a", 3))
		time.Sleep(20 * time.Second) // 1 + 2 + 4 + 8 s: the next pause is 16 s
		synctest.Wait()
		calls := s.take()
		last := calls[len(calls)-1]
		s.setAnswer(nil)
		s.restart()
		time.Sleep(time.Minute)
		synctest.Wait()
		calls = s.take()
		if len(calls) != 1 {
			t.Fatalf("%d calls", len(calls))
		}
		if pause := calls[0].at.Sub(last.at); pause < 12*time.Second || pause > 20*time.Second {
			t.Errorf("after %v", pause)
		}
	})
}

// TestCrashUnderCall: it is made again when its lease has run out.
func TestCrashUnderCall(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", hook("*"))
		s.setAnswer(func(ctx context.Context, _ string, _ *wakeCall) (bool, error) { <-ctx.Done(); return false, ctx.Err() })
		must(t, s.create("a", 3))
		settle()
		first := s.take()[0]
		s.restart()
		time.Sleep(29 * time.Second)
		if calls := s.take(); len(calls) != 0 {
			t.Fatalf("%d calls within the lease", len(calls))
		}
		s.setAnswer(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		calls := s.take()
		if len(calls) != 1 || calls[0].Generation != 2 || calls[0].WakeID == first.WakeID {
			t.Errorf("calls %+v", calls)
		}
	})
}

// TestSilentReceiver: a call ends with its lease, and its late answer is nothing.
func TestSilentReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", hook("*"))
		var cut time.Duration
		began := time.Now()
		s.setAnswer(func(ctx context.Context, _ string, c *wakeCall) (bool, error) {
			if c.Generation > 1 {
				return false, nil
			}
			<-ctx.Done()
			cut = time.Since(began)
			return true, nil // what it says counts no more
		})
		must(t, s.create("a", 3))
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if cut < 30*time.Second || cut > 31*time.Second {
			t.Errorf("cut after %v", cut)
		}
		calls := s.take()
		if len(calls) != 2 || calls[1].Streams[0].Acked != calls[0].Streams[0].Acked {
			t.Errorf("calls %+v", calls)
		}
	})
}

// TestAnswerAfterCallback: the receiver ends the wake by a callback and answers
// later. Meanwhile the next wake is called; a receiver that never answers is cut.
func TestAnswerAfterCallback(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", hook("*"))
		var cut time.Duration
		began := time.Now()
		s.setAnswer(func(ctx context.Context, _ string, c *wakeCall) (bool, error) {
			if c.Generation > 1 {
				return true, nil
			}
			_, err := s.Callback(ctx, "s", c.ref(), nil, true)
			must(t, err)
			<-ctx.Done()
			cut = time.Since(began)
			return true, nil
		})
		must(t, s.create("a", 3))
		settle()
		if calls := s.take(); len(calls) != 2 || calls[1].Generation != 2 {
			t.Errorf("calls %+v", calls)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if cut < 30*time.Second || cut > 31*time.Second {
			t.Errorf("cut after %v", cut)
		}
	})
}

// TestDeleteUnderCall cuts the call; its answer moves no cursor of the next
// subscription of that name.
func TestDeleteUnderCall(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", hook("*"))
		s.setAnswer(func(ctx context.Context, _ string, _ *wakeCall) (bool, error) { <-ctx.Done(); return true, nil })
		must(t, s.create("a", 3))
		settle()
		c := s.take()[0]
		must(t, s.Manager.Delete(t.Context(), "s"))
		_, err := s.Callback(t.Context(), "s", c.ref(), nil, true)
		wantCode(t, err, subscription.NotFound)
		s.mustCreate("s", hook("*"))
		must(t, s.append("a", 3))
		settle()
		if calls := s.take(); len(calls) != 1 || calls[0].Generation != 1 {
			t.Errorf("calls %+v", calls)
		}
		_, err = s.Callback(t.Context(), "s", c.ref(), nil, true)
		wantCode(t, err, subscription.TokenInvalid)
		if got := s.cursor("s", "a"); !strings.Contains(got, "0000000000000003_") {
			t.Errorf("cursor %s", got)
		}
	})
}

// TestCallsBounded: no more calls at once than allowed, in all and to one target;
// who waits for a call waits once, and is called in the end.
func TestCallsBounded(t *testing.T) {
	for _, tt := range []struct{ targets, most int }{{1, 4}, {2, 6}, {20, 6}} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			s.stop()
			s.opts.MaxCalls, s.opts.MaxCallsPerTarget = 6, 4
			s.start()
			s.setAnswer(func(context.Context, string, *wakeCall) (bool, error) {
				time.Sleep(20 * time.Second)
				return true, nil
			})
			for i := range 20 {
				c := hook("*")
				c.WebhookURL = fmt.Sprintf("https://host%d.example/%d", i%tt.targets, i)
				s.mustCreate(fmt.Sprint(i), c)
			}
			must(t, s.create("a", 3))
			must(t, s.append("a", 3))
			settle()
			if s.most != tt.most || s.Waiting() != 20-tt.most {
				t.Errorf("%d targets: %d calls at once, %d wait", tt.targets, s.most, s.Waiting())
			}
			time.Sleep(4 * time.Minute)
			synctest.Wait()
			for i := range 20 {
				if got := s.cursor(fmt.Sprint(i), "a"); got != "glob "+s.tailOf("a").String() {
					t.Errorf("%d targets, subscription %d: %s", tt.targets, i, got)
				}
			}
			if s.most != tt.most {
				t.Errorf("%d targets: later %d calls at once", tt.targets, s.most)
			}
			s.stop()
		})
	}
}

// TestCloseUnderCall: a call that does not end is cut and counts as failed, so that
// the next run of the server tries again soon.
func TestCloseUnderCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := hook("*")
		lease := int64(600_000)
		c.LeaseTTL = &lease
		s.mustCreate("s", c)
		s.setAnswer(func(ctx context.Context, _ string, _ *wakeCall) (bool, error) { <-ctx.Done(); return false, ctx.Err() })
		must(t, s.create("a", 3))
		settle()
		began := time.Now()
		s.stop()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		s.take()
		s.setAnswer(nil)
		s.start()
		time.Sleep(2 * time.Second)
		if calls := s.take(); len(calls) != 1 {
			t.Errorf("%d calls", len(calls))
		}
		s.stop()
	})
}

// TestUnreadableStream does not keep the others from being told about.
func TestUnreadableStream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.mustCreate("s", pull("*"))
		must(t, s.create("a", 3))
		must(t, s.create("b", 3))
		s.crash()
		s.Manager = subscription.New(nil)
		s.engine = newEngine(s.disk, s.Manager, s.rnd)
		s.damaged["a"] = true
		s.begin()
		w := s.mustClaim("s")
		if len(w.Streams) != 1 || w.Streams[0].Path != "b" {
			t.Errorf("claimed %v", w.Streams)
		}
		if got := s.cursor("s", "a"); !strings.Contains(got, " 0000000000000000_") {
			t.Errorf("cursor %s", got)
		}
		_, err := s.Ack(t.Context(), "s", ref(w), []subscription.Ack{{Stream: "a", Offset: stream.StartLiteral}}, false)
		if !errors.Is(err, stream.Damaged) {
			t.Errorf("got %v", err)
		}
		if next, err := s.Ack(t.Context(), "s", ref(w), ackAll(w), true); err != nil || next {
			t.Errorf("next %v, %v", next, err)
		}
		s.damaged["a"] = false
		time.Sleep(2 * time.Minute)
		if w := s.mustClaim("s"); len(w.Streams) != 1 || w.Streams[0].Path != "a" {
			t.Errorf("claimed %v", w.Streams)
		}
	})
}
