package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"durablestreams/client"
	"durablestreams/internal/dstest/faultproxy"
)

// TestFaults lets producers and readers work through a proxy that drops, delays, cuts
// and repeats, and compares what was acknowledged with what is there and what was
// read: everything, once, in order. DS_SEED repeats a run, DS_ROUNDS adds more.
func TestFaults(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("DS_ROUNDS"))
	if err != nil {
		rounds = 1
	}
	seed, err := strconv.ParseUint(os.Getenv("DS_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	adapters(t, func(t *testing.T, root string) {
		for round := range rounds {
			for _, contentType := range []string{"text/plain", "application/octet-stream", "application/json"} {
				ledger(t, root, contentType, seed+uint64(round))
			}
		}
	})
}

func ledger(t *testing.T, root, contentType string, seed uint64) {
	t.Logf("%s: DS_SEED=%d go test ./client -run TestFaults", contentType, seed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	proxy := faultproxy.New(t, root, seed)
	_, path, _ := strings.Cut(strings.TrimPrefix(root, "http://"), "/")
	c := open(t, proxy.URL+"/"+path, nil)
	name := fmt.Sprintf("%s/%d", contentType, seed)
	s := c.Stream(name)
	create(t, s, &client.CreateOptions{ContentType: contentType})
	items, want := words(400)

	random := rand.New(rand.NewPCG(seed, 1))
	readers := make(chan error, len(lives))
	for kind, live := range lives {
		go func() {
			got, err := collect(ctx, s, live, contentType)
			if err == nil && !bytes.Equal(got, want) {
				err = fmt.Errorf("%d bytes of %d, the first difference at %d", len(got), len(want), difference(got, want))
			}
			if err != nil {
				err = fmt.Errorf("%s reader: %w", kind, err)
			}
			readers <- err
		}()
	}
	p, err := s.Producer(ctx, &client.ProducerOptions{ID: "p", AutoClaim: true, MaxBatchCount: 1 + random.IntN(20)})
	if err != nil {
		t.Fatal(err)
	}
	for i, item := range items {
		if contentType == "application/json" {
			item, _ = json.Marshal(string(item))
		}
		if err := p.Append(ctx, item); err != nil {
			t.Fatal(err)
		}
		if random.IntN(50) > 0 {
			continue
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		got, err := collect(ctx, open(t, root, nil).Stream(name), client.CatchUp, contentType)
		if err != nil || !bytes.Equal(got, bytes.Join(items[:i+1], nil)) {
			t.Fatalf("%d items are acknowledged, the stream has %q, %v", i+1, got, err)
		}
	}
	if err := p.CloseStream(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for range lives {
		if err := <-readers; err != nil {
			t.Error(err)
		}
	}
	t.Log(proxy)
}

// collect reads the items of a stream, as one text.
func collect(ctx context.Context, s *client.Stream, live client.Live, contentType string) (got []byte, err error) {
	for b, err := range s.Read(ctx, &client.ReadOptions{Live: live}) {
		if err != nil {
			return got, err
		}
		if contentType != "application/json" || len(b.Data) == 0 {
			got = append(got, b.Data...)
			continue
		}
		var messages []string
		if err := json.Unmarshal(b.Data, &messages); err != nil {
			return got, err
		}
		got = append(got, strings.Join(messages, "")...)
	}
	return got, nil
}

func difference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
