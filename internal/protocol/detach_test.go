package protocol

import (
	"testing"
	"time"

	"durablestreams/internal/dstest/fakestore"
	"durablestreams/stream"
)

type ignored struct{}

func (ignored) Complete(stream.Result, error) {}

type headerMap map[string][]string

func (h headerMap) Values(name string) []string { return h[name] }

// A detached feed needs nothing of the request's memory, and answers as before.
func TestDetachedFeed(t *testing.T) {
	store := &fakestore.Store{}
	c, err := New(store, &Options{AllowedOrigins: []string{"https://a.example"}})
	if err != nil {
		t.Fatal(err)
	}
	store.Apply(&stream.Create{Path: "a%2Fb", ContentType: "text/plain"}, ignored{})
	h := headerMap{"Origin": {"https://a.example"}, "If-None-Match": {"*"}}
	req := &Request{Method: "GET", Path: c.Root() + "a%2Fb", Query: "offset=now&live=long-poll&cursor=12345678901", Host: "x", Header: h}
	op, res := c.Begin(req)
	if op == nil {
		t.Fatalf("%+v", res)
	}
	feed := op.Open(func() {})
	defer feed.Close()
	if act, err := feed.Step(time.Now()); err != nil || act.Wait.IsZero() {
		t.Fatalf("%+v %v", act, err)
	}
	feed.Detach()
	h["Origin"][0], h["If-None-Match"] = "https://evil.example", nil
	store.Apply(&stream.Append{Path: "a%2Fb", ContentType: "text/plain", HasBody: true, Data: []byte("x")}, ignored{})
	act, err := feed.Step(time.Now())
	if err != nil || act.Response == nil || act.Response.Status != 200 || string(act.Response.Body) != "x" {
		t.Fatalf("%+v %v", act.Response, err)
	}
	if got := act.Response.Get("Access-Control-Allow-Origin"); got != "https://a.example" {
		t.Errorf("origin %q", got)
	}
	if got := act.Response.Get("Stream-Cursor"); len(got) < 11 || got < "12345678901" {
		t.Errorf("cursor %q", got)
	}
	if req.Path != c.Root()+"a%2Fb" || req.Query != "" || req.Header.Values("If-None-Match") != nil {
		t.Errorf("request %+v", req)
	}
}
