package process_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// given is what a worker gets with a wake, by a claim or a delivery.
type given struct {
	WakeID        string `json:"wake_id"`
	Generation    int    `json:"generation"`
	Token         string `json:"token"`
	CallbackToken string `json:"callback_token"`
	Streams       []struct {
		Path string `json:"path"`
		Tail string `json:"tail_offset"`
	} `json:"streams"`
}

// work is the body with which a worker speaks for it.
func (g *given) work(t *testing.T, done bool) string {
	t.Helper()
	type ack struct {
		Stream string `json:"stream"`
		Offset string `json:"offset"`
	}
	var acks []ack
	for _, s := range g.Streams {
		acks = append(acks, ack{s.Path, s.Tail})
	}
	b, err := json.Marshal(map[string]any{"wake_id": g.WakeID, "generation": g.Generation, "acks": acks, "done": done})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// accepting is a receiver that takes deliveries and works on them later.
func accepting(t *testing.T) (url string, deliveries chan *given) {
	t.Helper()
	deliveries = make(chan *given, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		g := &given{}
		if err != nil || json.Unmarshal(body, g) != nil {
			t.Errorf("delivery %q, %v", body, err)
		}
		deliveries <- g
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(receiver.Close)
	return receiver.URL, deliveries
}

func delivered(t *testing.T, deliveries chan *given, s *process.Server) *given {
	t.Helper()
	select {
	case g := <-deliveries:
		return g
	case <-time.After(20 * time.Second):
		t.Fatalf("no delivery\n%s", s.Stderr)
		return nil
	}
}

// A full disk refuses what would change a subscription and leaves no trace of it. What
// workers hold is good again when there is space, and nothing is delivered less.
func TestSubscriptionsOnFullDisk(t *testing.T) {
	disk := smallDisk(t, "24m")
	command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", filepath.Join(disk, "data"), "--webhook-allow-local"}}
	s := process.Start(t, command)
	c := process.NewClient(s.Streams)
	jsonType := []string{"Content-Type", "application/json"}
	must := func(status int, a *process.Answer) *process.Answer {
		t.Helper()
		if a.Status != status {
			t.Fatalf("%.300v, want %d\n%s", a, status, s.Stderr)
		}
		return a
	}
	url, deliveries := accepting(t)
	const pull, hook = "__ds/subscriptions/pull", "__ds/subscriptions/hook"
	must(201, c.Do(http.MethodPut, "wakes", "", jsonType...))
	must(201, c.Do(http.MethodPut, pull, `{"type":"pull-wake","pattern":"e/*","streams":["other"],"wake_stream":"wakes","lease_ttl_ms":600000}`))
	must(201, c.Do(http.MethodPut, hook, `{"type":"webhook","pattern":"e/*","webhook":{"url":"`+url+`"},"lease_ttl_ms":600000}`))
	must(201, c.Do(http.MethodPut, "e/1", "[1]", jsonType...))
	must(201, c.Do(http.MethodPut, "e/2", "[1]", jsonType...))
	claim := &given{}
	if err := json.Unmarshal([]byte(must(200, c.Do(http.MethodPost, pull+"/claim", `{"worker":"w"}`)).Body), claim); err != nil {
		t.Fatal(err)
	}
	delivery := delivered(t, deliveries, s)

	free := fillUp(t, disk)
	refuse := func() {
		t.Helper()
		// Small changes go on for as long as there is some of the reserve.
		stale := &given{}
		resumes(t, s, func() bool {
			a := c.Do(http.MethodPost, pull+"/release", stale.work(t, false), "Authorization", "Bearer "+claim.Token)
			return a.Status == http.StatusInsufficientStorage
		})
		before := must(200, c.Do(http.MethodGet, pull, "")).Body + must(200, c.Do(http.MethodGet, hook, "")).Body
		for what, a := range map[string]*process.Answer{
			"ack":      c.Do(http.MethodPost, pull+"/ack", claim.work(t, false), "Authorization", "Bearer "+claim.Token),
			"done":     c.Do(http.MethodPost, pull+"/ack", claim.work(t, true), "Authorization", "Bearer "+claim.Token),
			"release":  c.Do(http.MethodPost, pull+"/release", claim.work(t, false), "Authorization", "Bearer "+claim.Token),
			"callback": c.Do(http.MethodPost, hook+"/callback", delivery.work(t, true), "Authorization", "Bearer "+delivery.CallbackToken),
			"claim":    c.Do(http.MethodPost, pull+"/claim", `{"worker":"v"}`),
			"create":   c.Do(http.MethodPut, "__ds/subscriptions/more", `{"type":"pull-wake","pattern":"e/*","wake_stream":"wakes"}`),
			"add":      c.Do(http.MethodPost, pull+"/streams", `{"streams":["more"]}`),
			"remove":   c.Do(http.MethodDelete, pull+"/streams/other", ""),
			"delete":   c.Do(http.MethodDelete, hook, ""),
		} {
			if a.Status != http.StatusInsufficientStorage || !strings.Contains(a.Body, `"disk_full"`) || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %.300v", what, a)
			}
		}
		if after := must(200, c.Do(http.MethodGet, pull, "")).Body + must(200, c.Do(http.MethodGet, hook, "")).Body; after != before {
			t.Errorf("refused, and yet\n%s\nwas\n%s", after, before)
		}
		must(404, c.Do(http.MethodGet, "__ds/subscriptions/more", ""))
		must(200, c.Do(http.MethodGet, "__ds/jwks.json", ""))
	}
	refuse()
	s.Kill()
	s = process.Start(t, command)
	c = process.NewClient(s.Streams)
	refuse()
	free()

	resumes(t, s, func() bool { return c.Do(http.MethodPost, "e/1", "[2]", jsonType...).Status == http.StatusNoContent })
	a := must(200, c.Do(http.MethodPost, pull+"/ack", claim.work(t, true), "Authorization", "Bearer "+claim.Token))
	if a.Body != `{"ok":true,"next_wake":true}`+"\n" {
		t.Errorf("the claim of before: %s", a.Body)
	}
	must(200, c.Do(http.MethodPost, hook+"/callback", delivery.work(t, true), "Authorization", "Bearer "+delivery.CallbackToken))
	if next := delivered(t, deliveries, s); next.Generation != delivery.Generation+1 || !strings.Contains(next.work(t, true), `"stream":"e/1"`) {
		t.Errorf("the next delivery is %+v", next)
	}
	for generation := 1; generation <= 2; generation++ {
		event := fmt.Sprintf(`"stream":"e/1","generation":%d`, generation)
		resumes(t, s, func() bool { return strings.Contains(c.ReadAll("wakes", "-1").Body, event) })
	}
}

// What a receiver sends unasked is nobody's log.
func TestReceiverDoesNotWriteTheLog(t *testing.T) {
	s := process.Start(t, process.Command{Binary: process.Build(t), Args: []string{"--in-memory", "--webhook-allow-local"}})
	c := process.NewClient(s.Streams)
	asked := make(chan bool, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\nlevel=ERROR msg=\"not true\"")
		_, _ = io.Copy(io.Discard, conn) // until the server has seen it
		asked <- true
	}))
	defer receiver.Close()
	for _, stream := range []string{"a", "b"} {
		if a := c.Do(http.MethodPut, "__ds/subscriptions/"+stream, `{"type":"webhook","streams":["`+stream+`"],"webhook":{"url":"`+receiver.URL+`"}}`); a.Status != 201 {
			t.Fatal(a)
		}
		if a := c.Do(http.MethodPut, stream, "x", "Content-Type", "text/plain"); a.Status != 201 {
			t.Fatal(a)
		}
		select {
		case <-asked:
		case <-time.After(20 * time.Second):
			t.Fatalf("no delivery\n%s", s.Stderr)
		}
	}
	if err := s.Stop(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	if log := s.Stderr.String(); strings.Contains(log, "not true") {
		t.Errorf("the log says\n%s", log)
	}
}
