package manage

import (
	"time"

	"durablestreams/store"
	"durablestreams/stream"
	"durablestreams/subscription"
)

// Stream is a stream as the API shows it.
type Stream struct {
	Path        string  `json:"path"` // as it stands in URLs
	ContentType string  `json:"contentType,omitempty"`
	Offset      string  `json:"offset,omitempty"` // of the tail
	Bytes       uint64  `json:"bytes"`            // stored, without what a fork inherits
	Closed      bool    `json:"closed,omitempty"`
	Deleted     bool    `json:"deleted,omitempty"` // or expired, and kept for its forks
	Damaged     bool    `json:"damaged,omitempty"` // it cannot be read; only path is known
	Created     string  `json:"created,omitempty"` // RFC 3339, like the other times
	LastWrite   string  `json:"lastWrite,omitempty"`
	TTLSeconds  *uint64 `json:"ttlSeconds,omitempty"`
	ExpiresAt   string  `json:"expiresAt,omitempty"` // as it was sent
	EndsAt      string  `json:"endsAt,omitempty"`    // when it is gone if nobody uses it before
	ForkedFrom  string  `json:"forkedFrom,omitempty"`
	ForkOffset  string  `json:"forkOffset,omitempty"`
	Forks       uint32  `json:"forks,omitempty"` // living ones that name it as their source
}

// StreamPage is a part of the list of streams.
type StreamPage struct {
	Streams []Stream `json:"streams"`
	Next    string   `json:"next,omitempty"` // for after; absent at the end
}

// lastShown is the latest Unix time that is shown: RFC 3339 has four digits for the year.
const lastShown = 253402300799 // 9999-12-31T23:59:59Z

func describe(i *store.Info) Stream {
	s := Stream{Path: string(i.Path), Bytes: i.Size(), Damaged: i.Damaged}
	if i.Damaged {
		return s
	}
	s.ContentType, s.Offset = i.ContentType, i.TailOffset().String()
	s.Closed, s.Deleted, s.Forks = i.Closed, i.Gone, i.Forks
	s.Created, s.LastWrite = moment(i.CreatedAt), moment(i.WrittenAt)
	if ttl, ok := i.Lifetime.TTL(); ok {
		s.TTLSeconds = &ttl
	}
	s.ExpiresAt, _ = i.Lifetime.ExpiresAt()
	if end := i.Deadline(); end != stream.Never { // or later than can be told
		s.EndsAt = moment(end)
	}
	if i.Fork != nil {
		s.ForkedFrom, s.ForkOffset = string(i.Fork.SourcePath), i.OffsetAt(i.Fork.Point).String()
	}
	return s
}

// moment writes a time in Unix nanoseconds; one too far away is left out.
func moment(nanos int64) string {
	if nanos == 0 || nanos/int64(time.Second) > lastShown {
		return ""
	}
	return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano)
}

// Subscription is a subscription as the API shows it, without its streams.
type Subscription struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	State      string `json:"state"` // idle, woken, held or failed
	Pattern    string `json:"pattern,omitempty"`
	Streams    int    `json:"streams,omitempty"` // explicit ones
	WebhookURL string `json:"webhookURL,omitempty"`
	WakeStream string `json:"wakeStream,omitempty"`
	Created    string `json:"created"`
	Generation uint64 `json:"generation"` // of the last wake
	Pending    int    `json:"pending"`    // streams with work
	Problem    string `json:"problem,omitempty"`
}

// SubscriptionPage is a part of the list of subscriptions.
type SubscriptionPage struct {
	Subscriptions []Subscription `json:"subscriptions"`
	Next          string         `json:"next,omitempty"` // for after; absent at the end
}

func describeSubscription(s subscription.Summary) Subscription {
	return Subscription{ID: s.ID, Type: string(s.Type), State: s.State, Pattern: s.Pattern, Streams: s.Explicit, WebhookURL: s.WebhookURL, WakeStream: s.WakeStream,
		Created: moment(s.CreatedAt.UnixNano()), Generation: s.Generation, Pending: s.Pending, Problem: s.Problem}
}
