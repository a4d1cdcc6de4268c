package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"durablestreams/client"
	"durablestreams/stream"
)

var lives = map[string]client.Live{"follow": client.Follow, "long-poll": client.LongPoll, "sse": client.SSE}

// Live readers get everything once and in order, over pages, waits and the ends
// that the server makes of live reads, and end where the stream ends.
func TestFollow(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		for _, contentType := range []string{"text/plain", "application/octet-stream", "application/json"} {
			for name, live := range lives {
				t.Run(contentType+" "+name, func(t *testing.T) {
					t.Parallel()
					follow(t, open(t, root, nil).Stream(contentType+name), contentType, live)
				})
			}
		}
	})
}

func follow(t *testing.T, s *client.Stream, contentType string, live client.Live) {
	ctx := t.Context()
	isJSON := contentType == "application/json"
	create(t, s, &client.CreateOptions{ContentType: contentType})
	items, all := words(150)
	items[0] = bytes.Repeat([]byte("long "), 20_000) // more than a page
	all = append(bytes.Clone(items[0]), all[len("<0>"):]...)
	send := func(item []byte, end bool) {
		if isJSON {
			item, _ = json.Marshal(string(item))
		}
		if _, err := s.Append(ctx, item, &client.AppendOptions{ContentType: contentType, Close: end}); err != nil {
			t.Error(err)
		}
	}
	for _, item := range items[:100] {
		send(item, false)
	}
	var got []byte
	caughtUp, closed := make(chan struct{}), false
	var once sync.Once
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		<-caughtUp
		for i, item := range items[100:] {
			send(item, i == 49)
		}
	})
	for b, err := range s.Read(ctx, &client.ReadOptions{Live: live}) {
		if err != nil {
			t.Fatal(err)
		}
		if isJSON && len(b.Data) > 0 {
			var messages []string
			if err := json.Unmarshal(b.Data, &messages); err != nil {
				t.Fatalf("%q: %v", b.Data, err)
			}
			b.Data = []byte(strings.Join(messages, ""))
		}
		got = append(got, b.Data...)
		closed = b.Closed
		if b.UpToDate {
			once.Do(func() { close(caughtUp) })
		}
	}
	if string(got) != string(all) || !closed {
		t.Errorf("read %d of %d bytes, closed %v", len(got), len(all), closed)
	}
}

// In text, line breaks come as they are unless SSE is asked for.
func TestFollowKeepsLineBreaks(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		s := open(t, root, nil).Stream("text")
		create(t, s, &client.CreateOptions{ContentType: "text/plain"})
		const text = "a\r\nb\rc\n\n"
		var got string
		for b, err := range s.Read(t.Context(), &client.ReadOptions{Live: client.Follow}) {
			if err != nil {
				t.Fatal(err)
			}
			got += string(b.Data)
			if b.UpToDate && got == "" {
				if _, err := s.Append(t.Context(), []byte(text), &client.AppendOptions{Close: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got != text {
			t.Errorf("read %q", got)
		}
	})
}

// A reader from now on has its place before anything is appended.
func TestReadNow(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		for name, live := range lives {
			s := open(t, root, nil).Stream("now" + name)
			create(t, s, &client.CreateOptions{ContentType: "text/plain", Data: []byte("old")})
			var got []string
			for b, err := range s.Read(t.Context(), &client.ReadOptions{Offset: client.Now, Live: live}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(b.Data))
				if len(got) == 1 {
					if b.Offset == client.Now || !b.UpToDate {
						t.Errorf("begins with %+v", b)
					}
					if _, err := s.Append(t.Context(), []byte("new"), &client.AppendOptions{Close: true}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if strings.Join(got, "|") != "|new" {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

// An iterator ends when its loop or its context does, and begins anew.
func TestReadEnds(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		s := open(t, root, nil).Stream("a")
		create(t, s, &client.CreateOptions{ContentType: "text/plain", Data: []byte(strings.Repeat("x", 100_000))})
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		seq := s.Read(ctx, &client.ReadOptions{Live: client.SSE})
		for range 2 {
			for b, err := range seq {
				if err != nil || b.UpToDate || len(b.Data) == 0 {
					t.Fatalf("the first page: %+v, %v", b, err)
				}
				break
			}
		}
		reason := errors.New("enough")
		var last error
		for b, err := range seq {
			if b.UpToDate {
				cancel(reason)
			}
			last = err
		}
		if !errors.Is(last, reason) {
			t.Errorf("ends with %v", last)
		}
	})
}

// What the server refuses ends a reader.
func TestReadRefused(t *testing.T) {
	adapters(t, func(t *testing.T, root string) {
		s := open(t, root, nil).Stream("a")
		for _, live := range []client.Live{client.CatchUp, client.Follow, client.LongPoll, client.SSE} {
			for _, err := range s.Read(t.Context(), &client.ReadOptions{Live: live}) {
				if !errors.Is(err, stream.NotFound) {
					t.Errorf("live %d: %v", live, err)
				}
			}
		}
		create(t, s, &client.CreateOptions{ContentType: "application/json", Data: []byte(`[1]`)})
		for _, err := range s.Read(t.Context(), &client.ReadOptions{Offset: "made-up&live=sse"}) {
			if !errors.Is(err, stream.InvalidOffset) {
				t.Errorf("a made-up offset: %v", err)
			}
		}
		n := 0
		for b, err := range client.ReadJSON[string](t.Context(), s, nil) {
			if n++; err == nil || n > 1 {
				t.Errorf("a number as a string: %v, %v", b, err)
			}
		}
		// A stream that goes ends its readers.
		for b, err := range s.Read(t.Context(), &client.ReadOptions{Live: client.SSE}) {
			switch {
			case err == nil && b.UpToDate:
				if err := s.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			case !errors.Is(err, stream.NotFound):
				t.Errorf("deleted below a reader: %v", fmt.Sprint(b, err))
			}
		}
	})
}
