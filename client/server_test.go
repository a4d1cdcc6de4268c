package client_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/client"
)

// adapters runs a test over both HTTP adapters of the server, with its root URL.
func adapters(t *testing.T, test func(t *testing.T, root string)) {
	t.Helper()
	for _, a := range []struct {
		name       string
		noFastPath bool
	}{{"fast", false}, {"net-http", true}} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			test(t, serve(t, &durablestreams.Options{InMemory: true, NoFastPath: a.noFastPath, PageSize: 64 << 10, LongPollTimeout: 100 * time.Millisecond, SSEMaxAge: 200 * time.Millisecond}))
		})
	}
}

var memory = &durablestreams.Options{InMemory: true}

// serve runs a server until the test ends and gives the URL of its streams.
func serve(t *testing.T, opts *durablestreams.Options) (root string) {
	t.Helper()
	s, err := durablestreams.Open("", opts)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "http://" + ln.Addr().String() + s.Root()
}

// open makes a client that is in a hurry.
func open(t *testing.T, root string, opts *client.Options) *client.Client {
	t.Helper()
	if opts == nil {
		opts = &client.Options{}
	}
	if opts.MinDelay == 0 {
		opts.MinDelay, opts.MaxDelay = time.Millisecond, 20*time.Millisecond
	}
	c, err := client.New(root, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, s *client.Stream, opts *client.CreateOptions) {
	t.Helper()
	if _, _, err := s.Create(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
}

// readAll reads to the end, of an open stream to its present end.
func readAll(t *testing.T, s *client.Stream, opts *client.ReadOptions) (data []byte, last client.Batch) {
	t.Helper()
	for b, err := range s.Read(t.Context(), opts) {
		if err != nil {
			t.Fatal(err)
		}
		data, last = append(data, b.Data...), b
	}
	return data, last
}

// words are n different items.
func words(n int) (items [][]byte, all []byte) {
	for i := range n {
		items = append(items, fmt.Appendf(nil, "<%d%s>", i, strings.Repeat("·", i%7)))
	}
	return items, bytes.Join(items, nil)
}
