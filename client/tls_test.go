package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"durablestreams"
	"durablestreams/client"
)

// Over TLS and HTTP/2, where all requests share a connection, the same holds.
func TestHTTP2(t *testing.T) {
	streams, err := durablestreams.Open("", &durablestreams.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	var other atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			other.Add(1)
		}
		streams.Handler().ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.Close()
		_ = streams.Shutdown(context.Background())
	})
	c := open(t, server.URL+streams.Root(), &client.Options{HTTPClient: server.Client()})
	for name, live := range lives {
		follow(t, c.Stream("json-"+name), "application/json", live)
	}
	s := c.Stream("a")
	create(t, s, &client.CreateOptions{ContentType: "text/plain"})
	p := produce(t, s, &client.ProducerOptions{ID: "p", AutoClaim: true, MaxBatchCount: 3, MaxInFlight: 20})
	items, all := words(300)
	for _, item := range items {
		if err := p.Append(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if data, _ := readAll(t, s, nil); string(data) != string(all) {
		t.Errorf("%d bytes of %d", len(data), len(all))
	}
	if n := other.Load(); n > 0 {
		t.Errorf("%d requests were not HTTP/2", n)
	}

	// A certificate that is not trusted is final.
	c = open(t, server.URL+streams.Root(), &client.Options{})
	if _, err := c.Stream("a").Head(t.Context()); err == nil {
		t.Error("an unknown certificate was trusted")
	}
}
