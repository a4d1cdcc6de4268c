package client_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"durablestreams/client"
	"durablestreams/internal/dstest/node"
	"durablestreams/stream"
)

// TestReferenceServer lets the client work with the protocol's reference server, directly
// and through the bad network.
func TestReferenceServer(t *testing.T) {
	if testing.Short() {
		t.Skip("installs packages")
	}
	root := node.Reference(t, "../conformance/reference")
	t.Run("kinds", func(t *testing.T) { referenceKinds(t, open(t, root, nil)) })
	for _, contentType := range []string{"text/plain", "application/octet-stream", "application/json"} {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			ledger(t, root, contentType, rand.Uint64())
		})
	}
}

// referenceKinds: what a refusal means is read from statuses and headers, whatever
// the server's texts are.
func referenceKinds(t *testing.T, c *client.Client) {
	ctx := t.Context()
	s := c.Stream("kinds")
	if _, err := s.Head(ctx); !errors.Is(err, stream.NotFound) {
		t.Errorf("head of nothing: %v", err)
	}
	create(t, s, &client.CreateOptions{ContentType: "application/json"})
	put := func(seq, epoch uint64) error {
		_, err := s.Append(ctx, []byte(`["x"]`), &client.AppendOptions{Producer: &client.ProducerSeq{ID: "p", Epoch: epoch, Seq: seq}})
		return err
	}
	if err := put(0, 4); err != nil {
		t.Fatal(err)
	}
	refused, _ := errors.AsType[*client.Error](put(2, 4))
	if refused == nil || refused.Kind != stream.ProducerGap || refused.Expected != 1 || refused.Received != 2 {
		t.Errorf("a gap: %+v", refused)
	}
	refused, _ = errors.AsType[*client.Error](put(0, 3))
	if refused == nil || refused.Kind != stream.ProducerFenced || refused.Epoch != 4 {
		t.Errorf("an old epoch: %+v", refused)
	}
	fork := c.Stream("kinds-2")
	if _, created, err := fork.Fork(ctx, s, &client.ForkOptions{Data: []byte(`["y"]`)}); err != nil || !created {
		t.Errorf("fork: %v, %v", created, err)
	}
	var got []string
	for b, err := range client.ReadJSON[string](ctx, fork, nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.Messages...)
	}
	if strings.Join(got, "") != "xy" {
		t.Errorf("the fork has %q", got)
	}
	end, err := s.Close(ctx)
	if err != nil || !end.Closed {
		t.Fatalf("close: %+v, %v", end, err)
	}
	_, err = s.Append(ctx, []byte("1"), nil)
	if refused, _ = errors.AsType[*client.Error](err); refused == nil || refused.Kind != stream.Closed || refused.Tail != end.Tail {
		t.Errorf("append behind the end: %v", err)
	}
}
