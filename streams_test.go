package durablestreams_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/stream"
)

// A deletion by prefix goes on where it was ended, tells how far it is, and leaves
// what has another prefix.
func TestDeletePrefix(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	const n = 2500 // some steps
	mustDo(t, s, http.StatusCreated, http.MethodPut, streamA, "stays")
	for i := range n {
		mustDo(t, s, http.StatusCreated, http.MethodPut, fmt.Sprintf("%s/%04d", streamA, i), "12")
	}
	totals := func() durablestreams.Totals {
		t.Helper()
		sum, err := s.Totals(t.Context(), "", time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	if got, want := totals(), (durablestreams.Totals{Streams: n + 1, Bytes: 2*n + 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, err := s.DeletePrefix(ctx, "a/", func(durablestreams.Deletion) { cancel() })
	if !errors.Is(err, context.Canceled) || first.Streams == 0 || first.Streams >= n || first.Bytes != 2*uint64(first.Streams) {
		t.Errorf("a deletion that is ended after its first step: %+v, %v", first, err)
	}
	var steps []durablestreams.Deletion
	rest, err := s.DeletePrefix(t.Context(), "a/", func(d durablestreams.Deletion) { steps = append(steps, d) })
	if err != nil || first.Streams+rest.Streams != n || len(steps) < 2 || steps[len(steps)-1] != rest {
		t.Errorf("the rest: %+v, %v, after %+v; steps %+v", rest, err, first, steps)
	}
	if got, want := totals(), (durablestreams.Totals{Streams: 1, Bytes: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := s.Inspect("a/0000"); !errors.Is(err, stream.NotFound) {
		t.Errorf("a deleted stream: %v", err)
	}
}

// Every stream counts where it belongs.
func TestTotals(t *testing.T) {
	s := open(t, "", &durablestreams.Options{InMemory: true})
	put := func(path string, headers ...string) {
		t.Helper()
		if code, answer := do(s.Handler(), http.MethodPut, streamA+path, nil, append(headers, "Content-Type", "text/plain")...); code != http.StatusCreated {
			t.Fatal(code, answer)
		}
	}
	put("")
	put("/closed", "Stream-Closed", "true")
	put("/source")
	put("/fork", "Stream-Forked-From", streamA+"/source")
	put("/soon", "Stream-TTL", "3000")
	put("/later", "Stream-TTL", "4000")
	mustDo(t, s, http.StatusNoContent, http.MethodDelete, streamA+"/source", "")
	got, err := s.Totals(t.Context(), "a/", time.Now().Add(time.Hour))
	want := durablestreams.Totals{Streams: 5, Closed: 1, Forks: 1, Gone: 1, Mortal: 2, Expiring: 1}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	page, err := s.List("a/", "a/fork", 2)
	if err != nil || len(page.Streams) != 2 || page.Streams[0].Path != "a/later" || page.Next != "a/soon" {
		t.Errorf("%+v, %v", page, err)
	}
}
