package client_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"durablestreams/client"
)

// A subscription through its whole life, the way that ends in another wake included.
func TestSubscription(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		ctx := t.Context()
		c := open(t, root, nil)
		for _, path := range []string{"wake", "a/1", "b%2F1"} {
			create(t, c.Stream(path), &client.CreateOptions{ContentType: "text/plain"})
		}
		s := c.Subscription("one/two")
		config := &client.SubscriptionConfig{Pattern: "a/*", Streams: []string{"b%2F1"}, WakeStream: "wake", Lease: time.Minute, Description: "text"}
		for i, want := range []bool{true, false} {
			info, created, err := s.Create(ctx, config)
			if err != nil || created != want || info.ID != "one/two" || info.Type != "pull-wake" || info.LeaseMS != 60_000 || len(info.Streams) == 0 {
				t.Fatalf("create %d: %+v, %v, %v", i, info, created, err)
			}
		}
		if _, _, err := s.Create(ctx, &client.SubscriptionConfig{Pattern: "c/*", WakeStream: "wake"}); code(err) != "SUBSCRIPTION_ALREADY_EXISTS" {
			t.Errorf("another configuration: %v", err)
		}
		if _, err := s.Claim(ctx, "w"); code(err) != "NO_PENDING_WORK" {
			t.Errorf("claim without work: %v", err)
		}
		if _, err := c.Stream("b%2F1").Append(ctx, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
		claim, err := s.Claim(ctx, "w")
		if err != nil || len(claim.Streams) == 0 {
			t.Fatalf("claim: %+v, %v", claim, err)
		}
		if _, err := s.Ack(ctx, claim, nil, false); err != nil {
			t.Errorf("heartbeat: %v", err)
		}
		if err := s.Release(ctx, claim); err != nil {
			t.Errorf("release: %v", err)
		}
		if _, err := s.Ack(ctx, claim, nil, true); code(err) != "FENCED" {
			t.Errorf("a stale ack: %v", err)
		}
		if err := s.Add(ctx, "d"); err != nil {
			t.Error(err)
		}
		if err := s.Remove(ctx, "b%2F1"); err != nil {
			t.Error(err)
		}
		info, err := s.Get(ctx)
		paths := ""
		for _, linked := range info.Streams {
			paths += linked.Path + " "
		}
		if err != nil || strings.Contains(paths, "b%2F1") || !strings.Contains(paths, "d ") {
			t.Errorf("linked: %s, %v", paths, err)
		}
		if err := s.Delete(ctx); err != nil {
			t.Error(err)
		}
		if _, err := s.Get(ctx); code(err) != "SUBSCRIPTION_NOT_FOUND" {
			t.Errorf("deleted: %v", err)
		}
		if _, _, err := s.Create(ctx, &client.SubscriptionConfig{Pattern: "a/*", WebhookURL: "http://10.0.0.1/"}); code(err) != "WEBHOOK_URL_REJECTED" {
			t.Errorf("an inner webhook: %v", err)
		}
		keys, err := c.Keys(ctx)
		if err != nil || !bytes.Contains(keys, []byte(`"kid"`)) {
			t.Errorf("keys: %s, %v", keys, err)
		}
	})
}

func code(err error) string {
	e, _ := errors.AsType[*client.Error](err)
	if e == nil {
		return ""
	}
	return e.Code
}
