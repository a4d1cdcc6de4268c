package client_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"durablestreams/client"
	"durablestreams/stream"
)

func TestStreamLife(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		ctx := t.Context()
		s := open(t, root, nil).Stream("a/b c%2Fd")
		if !strings.HasSuffix(s.URL(), "/a/b%20c%2Fd") {
			t.Errorf("URL %s", s.URL())
		}
		if _, err := s.Head(ctx); !errors.Is(err, stream.NotFound) {
			t.Fatalf("head of nothing: %v", err)
		}
		opts := &client.CreateOptions{ContentType: "text/plain", TTL: time.Hour, Data: []byte("one ")}
		for i, want := range []bool{true, false} {
			info, created, err := s.Create(ctx, opts)
			if err != nil || created != want || info.ContentType != "text/plain" || info.Tail == "" {
				t.Fatalf("create %d: %+v, %v, %v", i, info, created, err)
			}
		}
		if _, _, err := s.Create(ctx, &client.CreateOptions{ContentType: "text/html"}); !errors.Is(err, stream.ConfigMismatch) {
			t.Errorf("create another: %v", err)
		}
		if _, err := s.Append(ctx, nil, nil); !errors.Is(err, stream.EmptyBody) {
			t.Errorf("append nothing: %v", err)
		}
		first, err := s.Append(ctx, []byte("two "), &client.AppendOptions{Seq: "b"})
		if err != nil || first.Tail == "" || first.Closed || first.Duplicate {
			t.Fatalf("append: %+v, %v", first, err)
		}
		if _, err := s.Append(ctx, []byte("x"), &client.AppendOptions{Seq: "a"}); !errors.Is(err, stream.SeqRegression) {
			t.Errorf("append out of order: %v", err)
		}
		last, err := s.Append(ctx, []byte("three"), &client.AppendOptions{Close: true})
		if err != nil || !last.Closed || last.Tail <= first.Tail {
			t.Fatalf("append and close: %+v, %v", last, err)
		}
		_, err = s.Append(ctx, []byte("x"), nil)
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Kind != stream.Closed || e.Tail != last.Tail || e.Status != 409 {
			t.Errorf("append behind the end: %v", err)
		}
		if _, err := s.Close(ctx); err != nil {
			t.Errorf("close again: %v", err)
		}
		info, err := s.Head(ctx)
		if err != nil || !info.Closed || info.Tail != last.Tail || info.TTL != time.Hour || info.ContentType != "text/plain" {
			t.Errorf("head: %+v, %v", info, err)
		}
		data, end := readAll(t, s, nil)
		if string(data) != "one two three" || !end.Closed || !end.UpToDate || end.Offset != last.Tail {
			t.Errorf("read %q, %+v", data, end)
		}
		if data, _ := readAll(t, s, &client.ReadOptions{Offset: first.Tail}); string(data) != "three" {
			t.Errorf("read from an offset: %q", data)
		}
		if err := s.Delete(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(ctx); !errors.Is(err, stream.NotFound) {
			t.Errorf("delete again: %v", err)
		}
	})
}

func TestFork(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		ctx := t.Context()
		c := open(t, root, nil)
		source, fork := c.Stream("source"), c.Stream("fork")
		create(t, source, &client.CreateOptions{ContentType: "application/json"})
		first, err := client.AppendJSON(ctx, source, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.AppendJSON(ctx, source, 3, 4); err != nil {
			t.Fatal(err)
		}
		opts := &client.ForkOptions{Offset: first.Tail, SubOffset: 1, Data: []byte("[9]")}
		for i, want := range []bool{true, false} {
			info, created, err := fork.Fork(ctx, source, opts)
			if err != nil || created != want || info.ContentType != "application/json" {
				t.Fatalf("fork %d: %+v, %v, %v", i, info, created, err)
			}
		}
		var got []int
		for b, err := range client.ReadJSON[int](ctx, fork, nil) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b.Messages...)
		}
		if text, _ := json.Marshal(got); string(text) != "[1,2,3,9]" {
			t.Errorf("the fork has %s", text)
		}
		if _, _, err := c.Stream("g").Fork(ctx, c.Stream("nothing"), nil); !errors.Is(err, stream.ForkSourceNotFound) {
			t.Errorf("fork of nothing: %v", err)
		}
	})
}

func TestBadUse(t *testing.T) {
	for _, root := range []string{"", "127.0.0.1:8642", "ftp://host/x", "http://", "http://h/?q=1", "http://h/#f", "http://a:secret%zz@h/"} {
		_, err := client.New(root, nil)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%q): %v", root, err)
		}
	}
	c := open(t, "http://user:secret@127.0.0.1:1/s", nil)
	if got := c.URL() + c.Stream("a").URL(); strings.Contains(got, "secret") {
		t.Errorf("a URL shows the password: %s", got)
	}
	for _, path := range []string{"", "a%zz", "http://elsewhere/s/a", "http://127.0.0.1:1/s/a?offset=1"} {
		if _, err := c.Stream(path).Head(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Stream(%q): %v", path, err)
		}
		for _, err := range c.Stream(path).Read(t.Context(), nil) {
			if err == nil {
				t.Errorf("Stream(%q) can be read", path)
			}
		}
	}
	if _, _, err := c.Stream("a").Create(t.Context(), &client.CreateOptions{TTL: 1500 * time.Millisecond}); err == nil {
		t.Error("a TTL with a fraction of a second was taken")
	}
}
