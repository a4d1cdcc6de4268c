package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/client"
	"durablestreams/stream"
)

// server answers requests in a bubble of virtual time, without a network.
type server struct {
	mu       sync.Mutex
	requests []string
	answer   func(n int, r *http.Request, body string) (*http.Response, error)
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	s.mu.Lock()
	n := len(s.requests)
	text := r.Method + " " + r.URL.RawQuery
	if seq := r.Header.Get("Producer-Seq"); seq != "" {
		text = r.Header.Get("Producer-Epoch") + "/" + seq + " " + string(body)
	}
	s.requests = append(s.requests, text)
	s.mu.Unlock()
	return s.answer(n, r, string(body))
}

func (s *server) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.requests, "\n")
}

// reply makes an answer; headers are "Name: value".
func reply(status int, body string, headers ...string) (*http.Response, error) {
	h := http.Header{}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func ok() (*http.Response, error) {
	return reply(200, "", "Stream-Next-Offset: 5", "Content-Type: text/plain")
}

// bubble makes a client in virtual time.
func bubble(t *testing.T, opts client.Options, answer func(n int, r *http.Request, body string) (*http.Response, error), test func(t *testing.T, c *client.Client, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: answer}
		opts.HTTPClient = &http.Client{Transport: s}
		c, err := client.New("http://server/s", &opts)
		if err != nil {
			t.Fatal(err)
		}
		test(t, c, s)
	})
}

var errDial = &net.OpError{Op: "dial", Err: errors.New("refused")}

// TestRetries: what is tried again, and what is not.
func TestRetries(t *testing.T) {
	network := func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	status := func(code int) func() (*http.Response, error) {
		return func() (*http.Response, error) { return reply(code, "") }
	}
	head := func(ctx context.Context, s *client.Stream) error { _, err := s.Head(ctx); return err }
	plain := func(ctx context.Context, s *client.Stream) error {
		_, err := s.Append(ctx, []byte("x"), &client.AppendOptions{ContentType: "text/plain"})
		return err
	}
	numbered := func(ctx context.Context, s *client.Stream) error {
		_, err := s.Append(ctx, []byte("x"), &client.AppendOptions{ContentType: "text/plain", Producer: &client.ProducerSeq{ID: "p"}})
		return err
	}
	closing := func(ctx context.Context, s *client.Stream) error { _, err := s.Close(ctx); return err }
	for _, tt := range []struct {
		name  string
		do    func(context.Context, *client.Stream) error
		first func() (*http.Response, error)
		again bool
	}{
		{"head, network", head, network, true},
		{"head, 408", head, status(408), true},
		{"head, 429", head, status(429), true},
		{"head, 500", head, status(500), true},
		{"head, 502", head, status(502), true},
		{"head, 503", head, status(503), true},
		{"head, 507", head, status(507), true},
		{"head, 501", head, status(501), false},
		{"head, 400", head, status(400), false},
		{"head, 401", head, status(401), false},
		{"head, 403", head, status(403), false},
		{"head, 404", head, status(404), false},
		{"head, 409", head, status(409), false},
		{"head, 410", head, status(410), false},
		{"head, damaged", head, func() (*http.Response, error) { return reply(500, `{"error":{"code":"damaged"}}`) }, false},
		{"append, network", plain, network, false},
		{"append, no connection", plain, func() (*http.Response, error) { return nil, errDial }, true},
		{"append, 429", plain, status(429), true},
		{"append, 408", plain, status(408), true},
		{"append, 503", plain, status(503), false},
		{"append, 500", plain, status(500), false},
		{"numbered, network", numbered, network, true},
		{"numbered, 500", numbered, status(500), true},
		{"close, network", closing, network, true},
		{"close, 500", closing, status(500), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			retries := 0
			opts := client.Options{OnRetry: func(error, time.Duration) { retries++ }}
			bubble(t, opts, func(n int, r *http.Request, _ string) (*http.Response, error) {
				if n == 0 {
					return tt.first()
				}
				return ok()
			}, func(t *testing.T, c *client.Client, s *server) {
				err := tt.do(t.Context(), c.Stream("a"))
				if tt.again != (err == nil) || tt.again != (len(s.requests) == 2) || tt.again != (retries == 1) {
					t.Errorf("%d requests, %d retries, %v", len(s.requests), retries, err)
				}
			})
		})
	}
}

// A lost answer to a DELETE does not turn into "not found".
func TestDeleteLost(t *testing.T) {
	for _, tt := range []struct {
		first error
		fine  bool
	}{{io.ErrUnexpectedEOF, true}, {errDial, false}} {
		bubble(t, client.Options{}, func(n int, r *http.Request, _ string) (*http.Response, error) {
			if n == 0 {
				return nil, tt.first
			}
			return reply(404, "")
		}, func(t *testing.T, c *client.Client, s *server) {
			if err := c.Stream("a").Delete(t.Context()); tt.fine != (err == nil) {
				t.Errorf("after %v: %v", tt.first, err)
			}
		})
	}
}

// Pauses grow from MinDelay to MaxDelay, are spread, and heed Retry-After.
func TestPauses(t *testing.T) {
	var delays []time.Duration
	opts := client.Options{MinDelay: time.Second, MaxDelay: 8 * time.Second, GiveUpAfter: 10 * time.Minute,
		OnRetry: func(_ error, d time.Duration) { delays = append(delays, d) }}
	bubble(t, opts, func(n int, r *http.Request, _ string) (*http.Response, error) {
		switch {
		case n < 8:
			return reply(503, "")
		case n == 8:
			return reply(503, "", "Retry-After: 60")
		case n == 9:
			return reply(429, "", "Retry-After: "+time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
		}
		return reply(503, "", "Retry-After: 300")
	}, func(t *testing.T, c *client.Client, s *server) {
		began := time.Now()
		_, err := c.Stream("a").Head(t.Context())
		if !errors.Is(err, stream.Busy) || time.Since(began) > 10*time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		differ := false
		for i, d := range delays {
			low, high := time.Second/2, time.Second
			switch {
			case i < 8:
				high = min(high<<i, 8*time.Second)
				low = high / 2
			case i == 8:
				low, high = 60*time.Second, 66*time.Second
			case i == 9:
				low, high = 89*time.Second, 99*time.Second
			default:
				low, high = 300*time.Second, 330*time.Second
			}
			differ = differ || d != high
			if d < low || d > high {
				t.Errorf("pause %d is %v, want %v to %v", i, d, low, high)
			}
		}
		if len(delays) < 11 || !differ {
			t.Errorf("pauses %v", delays)
		}
	})
}

func TestGiveUp(t *testing.T) {
	refuse := func(int, *http.Request, string) (*http.Response, error) { return reply(503, "") }
	bubble(t, client.Options{GiveUpAfter: -1}, refuse, func(t *testing.T, c *client.Client, s *server) {
		for _, err := range c.Stream("a").Read(t.Context(), nil) {
			if !errors.Is(err, stream.Busy) {
				t.Error(err)
			}
		}
		if len(s.requests) != 1 {
			t.Errorf("%d requests", len(s.requests))
		}
	})
	bubble(t, client.Options{}, refuse, func(t *testing.T, c *client.Client, s *server) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := c.Stream("a").Head(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, stream.Busy) || len(s.requests) < 300 {
			t.Errorf("%d requests, %v", len(s.requests), err)
		}
	})
}

// Each attempt asks for a token; a 401 asks once more.
func TestToken(t *testing.T) {
	n := 0
	opts := client.Options{Header: http.Header{"X-Tenant": {"7"}}, Token: func(context.Context) (string, error) {
		n++
		if n == 5 {
			return "", errors.New("no more")
		}
		return fmt.Sprint("token-", min(n, 3)), nil
	}}
	bubble(t, opts, func(_ int, r *http.Request, _ string) (*http.Response, error) {
		if r.Header.Get("X-Tenant") != "7" {
			t.Errorf("headers %v", r.Header)
		}
		if r.Header.Get("Authorization") != "Bearer token-2" {
			return reply(401, "")
		}
		return ok()
	}, func(t *testing.T, c *client.Client, s *server) {
		if _, err := c.Stream("a").Head(t.Context()); err != nil || n != 2 {
			t.Errorf("%v after %d tokens", err, n)
		}
		_, err := c.Stream("a").Head(t.Context())
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 401 || n != 4 || len(s.requests) != 3 {
			t.Errorf("%v after %d tokens, %d requests", err, n, len(s.requests))
		}
		if _, err := c.Stream("a").Head(t.Context()); err == nil || !strings.Contains(err.Error(), "no more") || strings.Contains(err.Error(), "token-") {
			t.Error(err)
		}
	})
}

// stalling never gives a byte.
type stalling struct{ ctx context.Context }

func (b stalling) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }
func (stalling) Close() error               { return nil }

// An attempt without a byte for long is ended and made again, before and within an
// answer.
func TestStall(t *testing.T) {
	opts := client.Options{StallTimeout: time.Minute, MinDelay: time.Second}
	bubble(t, opts, func(n int, r *http.Request, _ string) (*http.Response, error) {
		switch n {
		case 0:
			<-r.Context().Done()
			return nil, r.Context().Err()
		case 1:
			res, _ := ok()
			res.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(strings.NewReader("half"), stalling{r.Context()}), stalling{}}
			return res, nil
		}
		return reply(200, "whole", "Stream-Next-Offset: 5", "Stream-Closed: true")
	}, func(t *testing.T, c *client.Client, s *server) {
		began := time.Now()
		var got string
		for b, err := range c.Stream("a").Read(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			got += string(b.Data)
		}
		if took := time.Since(began); got != "whole" || took < 2*time.Minute || took > 2*time.Minute+5*time.Second {
			t.Errorf("%q after %v", got, took)
		}
	})
}

// A reader that takes its time over a batch loses no connection by that.
func TestSlowReader(t *testing.T) {
	bubble(t, client.Options{StallTimeout: time.Minute}, func(n int, r *http.Request, _ string) (*http.Response, error) {
		if n == 0 {
			return reply(200, "", "Stream-Next-Offset: 1", "Stream-Up-To-Date: true", "Content-Type: text/plain")
		}
		const event = "event: data\ndata: x\n\nevent: control\ndata: {\"streamNextOffset\":\"%d\"%s}\n\n"
		body := []io.Reader{strings.NewReader(fmt.Sprintf(event, 2, "")), strings.NewReader(fmt.Sprintf(event, 3, "")), strings.NewReader(fmt.Sprintf(event, 4, `,"streamClosed":true`))}
		res, _ := reply(200, "", "Content-Type: text/event-stream")
		res.Body = io.NopCloser(&cancelled{io.MultiReader(body...), r.Context()})
		return res, nil
	}, func(t *testing.T, c *client.Client, s *server) {
		n := 0
		for b, err := range c.Stream("a").Read(t.Context(), &client.ReadOptions{Live: client.SSE}) {
			if err != nil {
				t.Fatal(err)
			}
			n += len(b.Data)
			time.Sleep(time.Hour)
		}
		if n != 3 || len(s.requests) != 2 {
			t.Errorf("%d bytes by %d requests", n, len(s.requests))
		}
	})
}

// cancelled is a body that ends with its request, as those of net/http do.
type cancelled struct {
	io.Reader
	ctx context.Context
}

func (b *cancelled) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

// What a live reader asks for, one request after the other; every server of the
// protocol gets the same.
func TestReaderRequests(t *testing.T) {
	const event = "event: data\ndata: %s\n\nevent: control\ndata: {\"streamNextOffset\":\"%s\",\"streamCursor\":\"%s\"}\n\n"
	answers := []func() (*http.Response, error){
		func() (*http.Response, error) {
			return reply(200, "a", "Stream-Next-Offset: 1", "Content-Type: application/octet-stream")
		},
		func() (*http.Response, error) {
			return reply(200, "b", "Stream-Next-Offset: 2", "Stream-Up-To-Date: true", "Content-Type: application/octet-stream")
		},
		func() (*http.Response, error) {
			return reply(200, fmt.Sprintf(event, "Yw==", "3", "c1")+"event: data\ndata: eHh4\n\nevent: contr", "Content-Type: text/event-stream", "Stream-Sse-Data-Encoding: base64")
		},
		func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		func() (*http.Response, error) {
			return reply(200, "event: data\ndata: ZA==\n\nevent: data\ndata: ZQ==\n\nevent: control\ndata: {\"streamNextOffset\":\"4\",\"streamClosed\":true}\n\n", "Content-Type: text/event-stream", "Stream-Sse-Data-Encoding: base64")
		},
	}
	bubble(t, client.Options{}, func(n int, r *http.Request, _ string) (*http.Response, error) { return answers[n]() },
		func(t *testing.T, c *client.Client, s *server) {
			var got []string
			for b, err := range c.Stream("a").Read(t.Context(), &client.ReadOptions{Live: client.Follow}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s@%s %v %v", b.Data, b.Offset, b.UpToDate, b.Closed))
			}
			if text := strings.Join(got, ", "); text != "a@1 false false, b@2 true false, c@3 false false, de@4 true true" {
				t.Error(text)
			}
			want := "GET offset=-1\nGET offset=1\nGET live=sse&offset=2\nGET cursor=c1&live=sse&offset=3\nGET cursor=c1&live=sse&offset=3"
			if s.seen() != want {
				t.Errorf("requests\n%s\nwant\n%s", s.seen(), want)
			}
		})
}

// Long-polls that end without news are no trouble, unless they end at once.
func TestIdle(t *testing.T) {
	for _, wait := range []time.Duration{0, 20 * time.Second} {
		retries := 0
		opts := client.Options{MinDelay: time.Second, MaxDelay: time.Minute, OnRetry: func(error, time.Duration) { retries++ }}
		bubble(t, opts, func(n int, r *http.Request, _ string) (*http.Response, error) {
			if n == 0 {
				return reply(200, "", "Stream-Next-Offset: 1", "Stream-Up-To-Date: true", "Content-Type: text/plain")
			}
			time.Sleep(wait)
			if time.Since(start) > time.Hour {
				return reply(204, "", "Stream-Next-Offset: 1", "Stream-Closed: true")
			}
			return reply(204, "", "Stream-Next-Offset: 1", "Stream-Up-To-Date: true", "Stream-Cursor: c")
		}, func(t *testing.T, c *client.Client, s *server) {
			batches := 0
			for _, err := range c.Stream("a").Read(t.Context(), &client.ReadOptions{Live: client.Follow}) {
				if err != nil {
					t.Fatal(err)
				}
				batches++
			}
			if n := len(s.requests); batches != 2 || wait == 0 && (n > 200 || retries == 0) || wait > 0 && (n < 170 || retries > 0) {
				t.Errorf("%v long-polls: %d requests, %d retries, %d batches", wait, n, retries, batches)
			}
		})
	}
}

// start is when a bubble of virtual time begins.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// An answer that is none of the protocol's ends a reader.
func TestNoStream(t *testing.T) {
	for _, answer := range []func() (*http.Response, error){
		func() (*http.Response, error) { return reply(200, "<html>") },
		func() (*http.Response, error) { return reply(302, "") },
		func() (*http.Response, error) {
			return reply(200, strings.Repeat("x", 200), "Stream-Next-Offset: 1")
		},
	} {
		bubble(t, client.Options{MaxAnswer: 100}, func(int, *http.Request, string) (*http.Response, error) { return answer() }, func(t *testing.T, c *client.Client, s *server) {
			for _, err := range c.Stream("a").Read(t.Context(), nil) {
				if err == nil {
					t.Error("taken")
				}
			}
			if len(s.requests) != 1 {
				t.Errorf("%d requests", len(s.requests))
			}
		})
	}
	// Captive portals and the like do so in the middle of a stream, too.
	for _, text := range []string{"event: control\ndata: {}\n\n", "event: data\ndata: ?\n\n", "event: data\ndata: " + strings.Repeat("YQ==", 100)} {
		bubble(t, client.Options{MaxAnswer: 100}, func(n int, r *http.Request, _ string) (*http.Response, error) {
			if n == 0 {
				return reply(200, "", "Stream-Next-Offset: 1", "Stream-Up-To-Date: true")
			}
			return reply(200, text, "Content-Type: text/event-stream", "Stream-Sse-Data-Encoding: base64")
		}, func(t *testing.T, c *client.Client, s *server) {
			var last error
			for _, err := range c.Stream("a").Read(t.Context(), &client.ReadOptions{Live: client.SSE}) {
				last = err
			}
			if last == nil || len(s.requests) != 2 {
				t.Errorf("%q: %v", text, last)
			}
		})
	}
}

// The login page of a network is no acknowledgement.
func TestNoAcknowledgement(t *testing.T) {
	for name, answer := range map[string]func(r *http.Request) (*http.Response, error){
		"page": func(*http.Request) (*http.Response, error) { return reply(200, "<html>") },
		"redirect": func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return reply(200, "<html>", "Stream-Next-Offset: 1")
			}
			return reply(302, "", "Location: http://login/")
		},
	} {
		bubble(t, client.Options{}, func(_ int, r *http.Request, _ string) (*http.Response, error) {
			res, err := answer(r)
			if res != nil {
				res.Request = r
			}
			return res, err
		}, func(t *testing.T, c *client.Client, s *server) {
			ctx := t.Context()
			a := c.Stream("a")
			if _, err := a.Append(ctx, []byte("x"), &client.AppendOptions{ContentType: "text/plain"}); err == nil {
				t.Errorf("%s: append is acknowledged", name)
			}
			p := produce(t, a, &client.ProducerOptions{ID: "p", ContentType: "text/plain"})
			if err := p.Append(ctx, []byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := p.Flush(ctx); err == nil {
				t.Errorf("%s: a flush is acknowledged", name)
			}
			if _, _, err := a.Create(ctx, nil); err == nil {
				t.Errorf("%s: create is acknowledged", name)
			}
			if err := a.Delete(ctx); name == "redirect" && err == nil {
				t.Errorf("%s: delete is acknowledged", name)
			}
		})
	}
}

func taken(r *http.Request) (*http.Response, error) {
	return reply(200, "", "Stream-Next-Offset: 9", "Producer-Seq: "+r.Header.Get("Producer-Seq"), "Producer-Epoch: "+r.Header.Get("Producer-Epoch"))
}

// Items gather while they linger, up to a batch's bytes and count.
func TestLinger(t *testing.T) {
	bubble(t, client.Options{}, func(_ int, r *http.Request, _ string) (*http.Response, error) { return taken(r) },
		func(t *testing.T, c *client.Client, s *server) {
			p := produce(t, c.Stream("a"), &client.ProducerOptions{ID: "p", ContentType: "text/plain", Linger: time.Second, MaxBatchBytes: 10, MaxBatchCount: 3})
			put := func(items ...string) {
				for _, item := range items {
					if err := p.Append(t.Context(), []byte(item)); err != nil {
						t.Fatal(err)
					}
				}
			}
			check := func(when string, want ...string) {
				t.Helper()
				synctest.Wait()
				if s.seen() != strings.Join(want, "\n") {
					t.Errorf("%s: requests\n%s", when, s.seen())
				}
			}
			put("a", "b")
			time.Sleep(999 * time.Millisecond)
			check("lingering")
			time.Sleep(time.Millisecond)
			check("lingered", "0/0 ab")
			put("c", "d", "e")
			check("three", "0/0 ab", "0/1 cde")
			put("0123", "4567", "89ab")
			check("too many bytes", "0/0 ab", "0/1 cde", "0/2 01234567")
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			check("flushed", "0/0 ab", "0/1 cde", "0/2 01234567", "0/3 89ab")
			put("much more than ten bytes", "z")
			check("one that is large", "0/0 ab", "0/1 cde", "0/2 01234567", "0/3 89ab", "0/4 much more than ten bytes")
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
}

// The first batch goes alone, then MaxInFlight are on their way; one that overtakes
// another waits for it and goes again.
func TestPipeline(t *testing.T) {
	var release chan struct{} // of the bubble
	var mu sync.Mutex
	expected, held := 0, false
	bubble(t, client.Options{MinDelay: time.Second}, func(n int, r *http.Request, _ string) (*http.Response, error) {
		seq := r.Header.Get("Producer-Seq")
		if n == 0 {
			time.Sleep(time.Minute)
		}
		mu.Lock()
		hold := seq == "1" && !held
		held = held || hold
		mu.Unlock()
		if hold {
			<-release
			return nil, io.ErrUnexpectedEOF
		}
		mu.Lock()
		defer mu.Unlock()
		if seq != fmt.Sprint(expected) {
			return reply(409, "", "Producer-Expected-Seq: "+fmt.Sprint(expected), "Producer-Received-Seq: "+seq)
		}
		expected++
		return taken(r)
	}, func(t *testing.T, c *client.Client, s *server) {
		release = make(chan struct{})
		p := produce(t, c.Stream("a"), &client.ProducerOptions{ID: "p", ContentType: "text/plain", MaxBatchCount: 1, MaxInFlight: 3})
		for i := range 5 {
			if err := p.Append(t.Context(), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s.seen() != "0/0 0" {
			t.Errorf("before the first answer: %s", s.seen())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(s.requests); n != 4 {
			t.Errorf("%d requests under way:\n%s", n, s.seen())
		}
		close(release)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if expected != 5 {
			t.Errorf("%d batches taken:\n%s", expected, s.seen())
		}
	})
}

// A claim moves on only while nothing of the producer can be in the stream.
func TestClaimUnsure(t *testing.T) {
	for _, lost := range []bool{false, true} {
		bubble(t, client.Options{}, func(n int, r *http.Request, _ string) (*http.Response, error) {
			switch {
			case lost && n == 0:
				return nil, io.ErrUnexpectedEOF
			case r.Header.Get("Producer-Epoch") != "2000000000001":
				return reply(403, "", "Producer-Epoch: 2000000000000")
			}
			return taken(r)
		}, func(t *testing.T, c *client.Client, s *server) {
			p := produce(t, c.Stream("a"), &client.ProducerOptions{ID: "p", ContentType: "text/plain", AutoClaim: true})
			if err := p.Append(t.Context(), []byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := p.Flush(t.Context()); lost != errors.Is(err, stream.ProducerFenced) || !lost && err != nil {
				t.Errorf("lost answer %v: %v\n%s", lost, err, s.seen())
			}
		})
	}
}

// A body is sent whole again, also when the transport itself goes back to it.
func TestBodyAgain(t *testing.T) {
	body := bytes.Repeat([]byte("body "), 100)
	bubble(t, client.Options{}, func(n int, r *http.Request, got string) (*http.Response, error) {
		if got != string(body) || r.ContentLength != int64(len(body)) {
			t.Errorf("request %d has %d bytes", n, len(got))
		}
		if n == 0 {
			return reply(307, "", "Location: http://server/other")
		}
		if n < 3 {
			return reply(503, "")
		}
		return taken(r)
	}, func(t *testing.T, c *client.Client, s *server) {
		_, err := c.Stream("a").Append(t.Context(), body, &client.AppendOptions{ContentType: "text/plain", Producer: &client.ProducerSeq{ID: "p"}})
		if err != nil {
			t.Error(err)
		}
	})
}
