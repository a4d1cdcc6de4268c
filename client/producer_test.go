package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"durablestreams/client"
	"durablestreams/stream"
)

func produce(t *testing.T, s *client.Stream, opts *client.ProducerOptions) *client.Producer {
	t.Helper()
	p, err := s.Producer(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what the test has not flushed it does not want
		_ = p.Close(ctx)
	})
	return p
}

func TestProducer(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		ctx := t.Context()
		for _, contentType := range []string{"text/plain", "application/json"} {
			s := open(t, root, nil).Stream(contentType)
			create(t, s, &client.CreateOptions{ContentType: contentType})
			p := produce(t, s, &client.ProducerOptions{ID: "p", AutoClaim: true, MaxBatchCount: 7, MaxBuffered: 200})
			items, all := words(500)
			for _, item := range items[:499] {
				if contentType == "application/json" {
					if err := p.AppendJSON(ctx, string(item)); err != nil {
						t.Fatal(err)
					}
				} else if err := p.Append(ctx, item); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if info, err := s.Head(ctx); err != nil || info.Closed {
				t.Fatalf("flushed: %+v, %v", info, err)
			}
			final := items[499]
			if contentType == "application/json" {
				final, _ = json.Marshal(string(final))
			}
			if err := p.CloseStream(ctx, final); err != nil {
				t.Fatal(err)
			}
			if err := p.Append(ctx, []byte("1")); !errors.Is(err, client.ErrProducerClosed) {
				t.Errorf("append after the end: %v", err)
			}
			data, last := readAll(t, s, nil)
			if contentType == "application/json" {
				var messages []string
				for b, err := range client.ReadJSON[string](ctx, s, nil) {
					if err != nil {
						t.Fatal(err)
					}
					messages = append(messages, b.Messages...)
				}
				data = []byte(strings.Join(messages, ""))
			}
			if string(data) != string(all) || !last.Closed {
				t.Errorf("%s: %d bytes of %d, closed %v", contentType, len(data), len(all), last.Closed)
			}
		}
	})
}

func TestProducerRefusesItems(t *testing.T) {
	root := serve(t, memory)
	s := open(t, root, nil).Stream("a")
	create(t, s, &client.CreateOptions{ContentType: "application/json"})
	p := produce(t, s, &client.ProducerOptions{ID: "p"})
	for _, item := range []string{"", "{", "1 2", "\xff"} {
		if err := p.Append(t.Context(), []byte(item)); err == nil {
			t.Errorf("%q was taken", item)
		}
	}
	for _, item := range []string{`[1,2]`, `"x"`} {
		if err := p.Append(t.Context(), []byte(item)); err != nil {
			t.Error(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if data, _ := readAll(t, s, nil); strings.Join(strings.Fields(string(data)), "") != `[[1,2],"x"]` {
		t.Errorf("%s", data)
	}
	for _, o := range []client.ProducerOptions{{}, {ID: "p", AutoClaim: true, Epoch: 1}, {ID: "p", Epoch: 1 << 60}} {
		if _, err := s.Producer(t.Context(), &o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	if _, err := open(t, root, nil).Stream("none").Producer(t.Context(), &client.ProducerOptions{ID: "p"}); !errors.Is(err, stream.NotFound) {
		t.Errorf("a producer of no stream: %v", err)
	}
}

// Epochs: who comes later fences who came before; a run that is not a continuation
// is not taken for one.
func TestProducerEpochs(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		ctx := t.Context()
		s := open(t, root, nil).Stream("a")
		create(t, s, &client.CreateOptions{ContentType: "text/plain"})
		append1 := func(p *client.Producer, item string) error {
			if err := p.Append(ctx, []byte(item)); err != nil {
				return err
			}
			return p.Flush(ctx)
		}
		old := produce(t, s, &client.ProducerOptions{ID: "p", Epoch: 1 << 50})
		if err := append1(old, "a"); err != nil {
			t.Fatal(err)
		}
		claimed := produce(t, s, &client.ProducerOptions{ID: "p", AutoClaim: true})
		if err := append1(claimed, "b"); err != nil || claimed.Epoch() != 1<<50+1 {
			t.Fatalf("claim: %v, epoch %d", err, claimed.Epoch())
		}
		if err := append1(old, "x"); !errors.Is(err, stream.ProducerFenced) {
			t.Errorf("the old one: %v", err)
		}
		if err := old.Append(ctx, []byte("x")); !errors.Is(err, stream.ProducerFenced) {
			t.Errorf("the old one, later: %v", err)
		}
		// Once it has written, a producer that is fenced does not fight back.
		if err := append1(produce(t, s, &client.ProducerOptions{ID: "p", Epoch: 1<<50 + 2}), "c"); err != nil {
			t.Fatal(err)
		}
		if err := append1(claimed, "x"); !errors.Is(err, stream.ProducerFenced) {
			t.Errorf("the fenced one: %v", err)
		}
		again := produce(t, s, &client.ProducerOptions{ID: "p", Epoch: 1<<50 + 2})
		if err := append1(again, "x"); !errors.Is(err, client.ErrSequenceUsed) {
			t.Errorf("an epoch used twice: %v", err)
		}
		if err := append1(produce(t, s, &client.ProducerOptions{ID: "p", Epoch: 1<<50 + 2, Seq: 1}), "d"); err != nil {
			t.Errorf("a run that goes on: %v", err)
		}
		if err := append1(produce(t, s, &client.ProducerOptions{ID: "p", Epoch: 1<<50 + 2, Seq: 5}), "x"); !errors.Is(err, client.ErrAcknowledgedLost) || !errors.Is(err, stream.ProducerGap) {
			t.Errorf("a run with a gap: %v", err)
		}
		if data, _ := readAll(t, s, nil); string(data) != "abcd" {
			t.Errorf("%q", data)
		}
	})
}

func TestProducerContexts(t *testing.T) {
	c := open(t, "http://127.0.0.1:1/s", nil) // nobody there
	p := produce(t, c.Stream("a"), &client.ProducerOptions{ID: "p", ContentType: "text/plain", MaxBuffered: 10})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := p.Append(ctx, []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	if err := p.Append(ctx, []byte("more")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("append without room: %v", err)
	}
	if err := p.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush: %v", err)
	}
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if err := p.Close(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close again: %v", err)
	}

	short := open(t, "http://127.0.0.1:1/s", &client.Options{GiveUpAfter: -1})
	p = produce(t, short.Stream("a"), &client.ProducerOptions{ID: "p", ContentType: "text/plain"})
	if err := p.Append(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	err := p.Flush(t.Context())
	if _, ok := errors.AsType[*client.NetworkError](err); !ok {
		t.Errorf("a producer that does not try again: %v", err)
	}
	if fmt.Sprint(p.Close(t.Context())) != fmt.Sprint(err) {
		t.Error("the error is not kept")
	}
}
