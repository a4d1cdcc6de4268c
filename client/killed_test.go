package client_test

import (
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"durablestreams/client"
	"durablestreams/internal/dstest/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// TestKilledServer kills the server again and again while a producer writes and
// readers follow: everything is there once, in order.
func TestKilledServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", filepath.Join(t.TempDir(), "data")}}
	running := launch(t, command)
	u, err := url.Parse(running.Streams)
	if err != nil {
		t.Fatal(err)
	}
	command.Listen = u.Host
	c := open(t, running.Streams, nil)
	s := c.Stream("a")
	create(t, s, &client.CreateOptions{ContentType: "text/plain"})
	items, all := words(6000)
	p := produce(t, s, &client.ProducerOptions{ID: "p", AutoClaim: true, MaxBatchCount: 10})
	type result struct {
		kind string
		got  []byte
		err  error
	}
	results := make(chan result, len(lives))
	for kind, live := range lives {
		go func() {
			got, err := collect(ctx, s, live, "text/plain")
			results <- result{kind, got, err}
		}()
	}
	for i, item := range items {
		if err := p.Append(ctx, item); err != nil {
			t.Fatal(err)
		}
		if i%1500 == 1000 {
			running.Kill()
			running = launch(t, command)
		}
	}
	if err := p.CloseStream(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for range lives {
		if r := <-results; r.err != nil || string(r.got) != string(all) {
			t.Errorf("%s: %d bytes of %d, the first difference at %d, %v", r.kind, len(r.got), len(all), difference(r.got, all), r.err)
		}
	}
}

func launch(t *testing.T, command process.Command) *process.Server {
	t.Helper()
	var s *process.Server
	var stdout io.ReadCloser
	var err error
	if s, stdout, err = process.Launch(command); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	if _, err := s.Await(stdout); err != nil {
		t.Fatal(err)
	}
	return s
}
