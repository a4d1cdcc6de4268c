// Package manage is the API by which operators and tools look at streams and
// subscriptions: lists, single ones, totals, as JSON. All that it changes are streams
// that are deleted by the start of their paths. It knows neither the listener it is
// served on nor who may call it.
//
//	GET streams?prefix=&after=&limit=   a page of streams, in the order of their paths;
//	                                    with source=<path> only those forked from it
//	DELETE streams?prefix=&after=&limit= delete a page of streams
//	GET streams/<path>                  one stream; the path as it stands in stream URLs
//	GET totals?prefix=                  how many there are, and how much
//	GET subscriptions?after=&limit=     a page of subscriptions, in the order of their ids
//
// Answers, errors included, have the form of those about streams.
package manage

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"durablestreams/store"
	"durablestreams/stream"
	"durablestreams/subscription"
)

// Server is what the API looks at.
type Server interface {
	// List gives streams after a path; it looks at no more than max names.
	List(prefix string, after stream.Path, max int) (store.Page, error)

	// Inspect gives one stream, or stream.NotFound.
	Inspect(path stream.Path) (store.Info, error)

	// DeleteStep deletes streams as List gives them. While too much waits for the
	// disk it waits too, until ctx ends.
	DeleteStep(ctx context.Context, prefix string, after stream.Path, max int) (store.Deletion, error)

	// Totals counts streams, and those that end before a time by themselves.
	Totals(ctx context.Context, prefix string, before time.Time) (store.Totals, error)

	// Subscriptions gives subscriptions whose id comes after one, in order.
	Subscriptions(after string, max int) []subscription.Summary
}

// Pages: their usual and largest size.
const (
	defaultLimit = 100
	maxLimit     = 10_000
)

// soon is the time in which streams are counted as expiring.
const soon = time.Hour

// Handler serves the API below prefix, which ends with a slash. fail answers a request
// that cannot be answered otherwise. It must see paths as they were sent.
func Handler(prefix string, s Server, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	a := &api{server: s, totals: newTotals(s.Totals)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what, below := strings.CutPrefix(r.URL.EscapedPath(), prefix)
		if !below {
			what = ""
		}
		var answer any
		var err error
		switch {
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			answer, err = a.get(r, what)
		case r.Method == http.MethodDelete && what == "streams":
			answer, err = a.delete(r)
		default:
			notAllowed(w, what)
			return
		}
		if err != nil {
			fail(w, r, err)
			return
		}
		write(w, answer)
	})
}

func write(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer) // the client has gone, or it would marshal
}

func notAllowed(w http.ResponseWriter, what string) {
	allow := "GET, HEAD"
	if what == "streams" {
		allow += ", DELETE"
	}
	w.Header().Set("Allow", allow)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusMethodNotAllowed)
	_, _ = io.WriteString(w, `{"error":{"code":"method_not_allowed","message":"there is no such method here"}}`+"\n")
}

type api struct {
	server Server
	totals *totals
}

// get answers what stands behind the prefix.
func (a *api) get(r *http.Request, what string) (any, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse("the query is malformed")
	}
	if path, one := strings.CutPrefix(what, "streams/"); one {
		return a.stream(path)
	}
	switch what {
	case "streams":
		return a.streams(q)
	case "totals":
		return a.totals.get(r.Context(), q.Get("prefix"))
	case "subscriptions":
		return a.subscriptions(q)
	}
	return nil, &stream.Error{Kind: stream.NotFound, Message: "there are streams, totals and subscriptions here"}
}

func (a *api) stream(path string) (any, error) {
	p, err := stream.ParsePath(path)
	if err != nil {
		return nil, err
	}
	info, err := a.server.Inspect(p)
	if err != nil {
		return nil, err
	}
	return describe(&info), nil
}

func (a *api) streams(q url.Values) (any, error) {
	limit, err := limitOf(q, defaultLimit)
	if err != nil {
		return nil, err
	}
	page, err := a.server.List(q.Get("prefix"), stream.Path(q.Get("after")), limit)
	if err != nil {
		return nil, err
	}
	answer := StreamPage{Streams: make([]Stream, 0, len(page.Streams)), Next: string(page.Next)}
	for i := range page.Streams {
		if isFork(&page.Streams[i], q) {
			answer.Streams = append(answer.Streams, describe(&page.Streams[i]))
		}
	}
	return answer, nil
}

func (a *api) subscriptions(q url.Values) (any, error) {
	limit, err := limitOf(q, defaultLimit)
	if err != nil {
		return nil, err
	}
	found := a.server.Subscriptions(q.Get("after"), limit)
	answer := SubscriptionPage{Subscriptions: make([]Subscription, len(found))}
	for i, s := range found {
		answer.Subscriptions[i] = describeSubscription(s)
	}
	if len(found) == limit {
		answer.Next = found[limit-1].ID
	}
	return answer, nil
}

// isFork reports whether a stream is one that was asked for by its source, if that was
// said. There is no index of forks, so those who ask have to go through all pages.
func isFork(i *store.Info, q url.Values) bool {
	return !q.Has("source") || !i.Damaged && i.Fork != nil && string(i.Fork.SourcePath) == q.Get("source")
}

func limitOf(q url.Values, usual int) (int, error) {
	if !q.Has("limit") {
		return usual, nil
	}
	n, err := strconv.ParseUint(q.Get("limit"), 10, 32)
	if err != nil || n == 0 || n > maxLimit {
		return 0, refuse("limit is a number from 1 to 10000")
	}
	return int(n), nil
}

func refuse(message string) error {
	return &stream.Error{Kind: stream.InvalidParameter, Message: message}
}
