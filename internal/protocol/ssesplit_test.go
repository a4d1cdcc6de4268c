package protocol_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/protocol"
)

// followed gives the text that a live reader gets until it has everything, and
// checks that no data event is empty.
func followed(t *testing.T, l *live, got *strings.Builder) (last control) {
	t.Helper()
	for !last.UpToDate {
		frame := l.next().Frame
		if string(frame) == ":\n\n" {
			continue
		}
		if strings.HasPrefix(string(frame), "event: data\ndata:\n\n") {
			t.Errorf("an empty data event: %q", frame)
		}
		var data string
		data, last = sse(t, frame)
		got.WriteString(data)
	}
	return last
}

// Readers who were there all the time, who join at the end of any append and
// who come afterwards get the same text, however it was split.
func TestSSESplitLines(t *testing.T) {
	pieces := []string{"\r", "\n", "\r\n", "\r", "\n", "a", "ü", "😀", " "}
	newlines := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var text string
		for range 2 + rng.IntN(10) {
			text += pieces[rng.IntN(len(pieces))]
		}
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, &protocol.Options{SSEMaxAge: 24 * time.Hour})
			c.store.BlockSize = 1 + rng.IntN(4)
			c.do("PUT a", textType).want(201)
			type reader struct {
				*live
				from int
				got  strings.Builder
			}
			readers := []*reader{{live: c.open("GET a?offset=-1&live=sse")}}
			followed(t, readers[0].live, &readers[0].got)
			for at := 0; at < len(text); {
				n := min(1+rng.IntN(3), len(text)-at)
				next := c.do("POST a", textType, "="+text[at:at+n]).next()
				at += n
				readers = append(readers, &reader{live: c.open("GET a?live=sse&offset=" + next), from: at},
					&reader{live: c.open("GET a?live=sse&offset=now"), from: at})
				for i, r := range readers {
					if i < len(readers)-2 && rng.IntN(2) == 0 {
						continue // it hears of several appends at once
					}
					if frame := r.next().Frame; string(frame) != ":\n\n" {
						data, _ := sse(t, frame)
						r.got.WriteString(data)
					}
				}
			}
			c.do("POST a", closedTrue).want(204)
			for _, r := range readers {
				followed(t, r.live, &r.got)
				// What came before the reader decides whether an LF is a break.
				want := strings.TrimPrefix(newlines.Replace(text), newlines.Replace(text[:r.from]))
				if r.got.String() != want {
					t.Errorf("seed %d, %q from %d on: got %q, want %q", seed, text, r.from, r.got.String(), want)
				}
			}
			late := &strings.Builder{}
			l := c.open("GET a?offset=-1&live=sse")
			if followed(t, l, late); late.String() != newlines.Replace(text) {
				t.Errorf("seed %d: a late reader got %q of %q", seed, late, text)
			}
		})
	}
}

// The LF alone moves the reader on without a data event, and the frame is shared.
func TestSSESwallowedLF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		c.do("PUT a", textType, "=x\r").want(201)
		one, two := c.open("GET a?offset=-1&live=sse"), c.open("GET a?offset=now&live=sse")
		one.next()
		two.next()
		tail := c.do("POST a", textType, "=\n").next()
		a, b := one.next().Frame, two.next().Frame
		if data, ctl := sse(t, a); data != "" || strings.Contains(string(a), "event: data") || ctl.StreamNextOffset != tail || !ctl.UpToDate {
			t.Errorf("%q", a)
		}
		if !same(a, b) {
			t.Errorf("not shared: %q and %q", a, b)
		}
		c.do("POST a", textType, "=\n", closedTrue).want(204)
		if data, ctl := sse(t, one.next().Frame); data != "\n" || !ctl.StreamClosed {
			t.Errorf("the next LF: %q", data)
		}
	})
}
