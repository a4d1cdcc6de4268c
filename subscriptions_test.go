package durablestreams_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams"
)

const subscriptionS = "/durable-streams/v1/stream/__ds/subscriptions/s"

// hooked is a receiver that is told how to answer, call by call.
func hooked(t *testing.T, answer func(w http.ResponseWriter, call int)) (url string, calls chan map[string]any) {
	t.Helper()
	calls = make(chan map[string]any, 100)
	var n atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var call map[string]any
		if err != nil || json.Unmarshal(body, &call) != nil {
			t.Errorf("delivery %q, %v", body, err)
		}
		calls <- call
		answer(w, int(n.Add(1)))
	}))
	t.Cleanup(receiver.Close)
	return receiver.URL, calls
}

func await(t *testing.T, calls chan map[string]any) map[string]any {
	t.Helper()
	select {
	case call := <-calls:
		return call
	case <-time.After(20 * time.Second):
		t.Fatal("no delivery")
		return nil
	}
}

// Shutdown gives a receiver the grace time and no more, and what it has not said by
// then is asked again after the next start.
func TestShutdownDuringDelivery(t *testing.T) {
	let := make(chan struct{})
	url, calls := hooked(t, func(w http.ResponseWriter, call int) {
		if call == 1 {
			<-let
		}
		_, _ = io.WriteString(w, `{"done":true}`)
	})
	defer close(let)
	fs, opts := vfs.NewMem(), &durablestreams.Options{WebhookAllowLocal: true, SegmentSize: 256 << 10, PublicURL: "https://public.example"}
	start := func() *durablestreams.Server {
		s, err := durablestreams.OpenFS(fs, "data", opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
		return s
	}
	s := start()
	mustDo(t, s, http.StatusCreated, http.MethodPut, subscriptionS, `{"type":"webhook","pattern":"*","webhook":{"url":"`+url+`"},"lease_ttl_ms":600000}`)
	mustDo(t, s, http.StatusCreated, http.MethodPut, streamA, "x")
	first := await(t, calls)
	if got := first["callback_url"]; got != "https://public.example"+subscriptionS+"/callback" {
		t.Errorf("callback_url %v", got)
	}
	grace, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(grace); err != nil {
		t.Fatal(err)
	}
	if grace.Err() == nil {
		t.Error("it did not wait for the receiver")
	}
	if status, body := do(s.Handler(), http.MethodGet, subscriptionS, nil); status != http.StatusServiceUnavailable {
		t.Errorf("after the end: %d %s", status, body)
	}

	s = start()
	again := await(t, calls)
	if again["subscription_id"] != "s" {
		t.Errorf("after %v comes %v", first, again)
	}
	// And without anything under way there is nothing to wait for.
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWebhookRules(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true, WebhookAllow: []string{"*.internal", "10.1.0.0/16"}, WebhookOnlyAllowed: true, MaxSubscriptions: 2})
	for url, want := range map[string]int{
		"https://a.internal/": 201, "https://10.1.2.3/": 201, "https://10.2.0.1/": 400, "https://8.8.8.8/": 400, "http://127.0.0.1/": 400, "http://localhost:8080/": 400,
	} {
		status, body := do(s.Handler(), http.MethodPut, subscriptionS, strings.NewReader(`{"type":"webhook","pattern":"none","webhook":{"url":"`+url+`"}}`))
		if status != want {
			t.Errorf("%s: %d %s, want %d", url, status, body, want)
		}
		mustDo(t, s, http.StatusNoContent, http.MethodDelete, subscriptionS, "")
	}
	const pull = `{"type":"pull-wake","pattern":"none","wake_stream":"w"}`
	mustDo(t, s, http.StatusCreated, http.MethodPut, subscriptionS+"1", pull)
	mustDo(t, s, http.StatusCreated, http.MethodPut, subscriptionS+"2", pull)
	mustDo(t, s, http.StatusTooManyRequests, http.MethodPut, subscriptionS+"3", pull)
	mustDo(t, s, http.StatusOK, http.MethodPut, subscriptionS+"2", pull)

	err := (&durablestreams.Options{WebhookAllow: []string{"10.0.0.1/8", "a b"}, MaxSubscriptions: -1}).Validate()
	for _, want := range []string{`"10.0.0.1/8"`, `"a b"`, "max subscriptions -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %s", err, want)
		}
	}
}

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	if _, err := durablestreams.PublicKeys(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("keys of nobody: %v", err)
	}
	if _, err := durablestreams.RotateKeys(dir, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("keys of nobody are replaced: %v", err)
	}
	s := open(t, dir, nil)
	const keySet = "/durable-streams/v1/stream/__ds/jwks.json"
	published := mustDo(t, s, http.StatusOK, http.MethodGet, keySet, "")
	if got, err := durablestreams.PublicKeys(dir); err != nil || string(got) != published {
		t.Errorf("%s, %v, and the server says %s", got, err, published)
	}
	kid, err := durablestreams.RotateKeys(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := durablestreams.PublicKeys(dir); err != nil || !strings.Contains(string(got), kid) || strings.Contains(published, kid) {
		t.Errorf("after the rotation: %s, %v", got, err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := mustDo(t, open(t, dir, nil), http.StatusOK, http.MethodGet, keySet, ""); !strings.Contains(got, kid) {
		t.Errorf("the next server publishes %s", got)
	}

	other := t.TempDir()
	file := filepath.Join(other, "keys", "webhook")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("ds webhook keys 1\nno more"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := durablestreams.Open(other, nil); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged keys: %v", err)
	}
}
