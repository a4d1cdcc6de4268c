package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Subscription is a durable cursor over streams, which wakes workers when there is
// something new in them.
type Subscription struct {
	c  *Client
	id string
}

// Subscription is the one with an id on this server.
func (c *Client) Subscription(id string) *Subscription { return &Subscription{c: c, id: id} }

// SubscriptionConfig says which streams wake whom. Of webhook and pull-wake it is
// the one whose field is set.
type SubscriptionConfig struct {
	Pattern     string        // of stream paths: * is a segment, ** any number of them
	Streams     []string      // paths besides
	WebhookURL  string        // is called
	WakeStream  string        // path of the stream that gets wake events
	Lease       time.Duration // default: the server's, 30 s
	Description string
}

// SubscriptionInfo is a subscription as the server shows it.
type SubscriptionInfo struct {
	ID          string             `json:"id"`
	Type        string             `json:"type"` // webhook or pull-wake
	Pattern     string             `json:"pattern,omitempty"`
	Streams     []SubscribedStream `json:"streams"`
	Webhook     *Webhook           `json:"webhook,omitempty"`
	WakeStream  string             `json:"wake_stream,omitempty"`
	LeaseMS     int64              `json:"lease_ttl_ms"`
	CreatedAt   time.Time          `json:"created_at"`
	Status      string             `json:"status"` // active, or failed while a delivery is tried again
	Description string             `json:"description,omitempty"`
}

// Webhook is where deliveries go, and by which key they are signed.
type Webhook struct {
	URL     string `json:"url"`
	Signing *struct {
		Alg     string `json:"alg"`
		Kid     string `json:"kid"`
		JWKSURL string `json:"jwks_url"`
	} `json:"signing,omitempty"`
}

// SubscribedStream is the cursor of one stream.
type SubscribedStream struct {
	Path       string `json:"path"`
	LinkType   string `json:"link_type"` // explicit or glob
	Acked      Offset `json:"acked_offset"`
	Tail       Offset `json:"tail_offset,omitempty"`
	HasPending bool   `json:"has_pending,omitempty"`
}

// Claim is a worker's hold on a subscription, for the time of its lease.
type Claim struct {
	WakeID     string             `json:"wake_id"`
	Generation uint64             `json:"generation"`
	Token      string             `json:"token"` // a secret
	Streams    []SubscribedStream `json:"streams"`
	LeaseMS    int64              `json:"lease_ttl_ms"`
}

// Ack says up to where a stream has been dealt with.
type Ack struct {
	Stream string `json:"stream"`
	Offset Offset `json:"offset"`
}

// Create creates the subscription. If it is there with the same configuration,
// created is false; another one is a conflict.
func (s *Subscription) Create(ctx context.Context, c *SubscriptionConfig) (info SubscriptionInfo, created bool, err error) {
	body := map[string]any{"type": "pull-wake"}
	if c.WebhookURL != "" {
		body["type"] = "webhook"
		body["webhook"] = map[string]string{"url": c.WebhookURL}
	}
	for name, value := range map[string]string{"pattern": c.Pattern, "wake_stream": c.WakeStream, "description": c.Description} {
		if value != "" {
			body[name] = value
		}
	}
	if len(c.Streams) > 0 {
		body["streams"] = c.Streams
	}
	if c.Lease > 0 {
		body["lease_ttl_ms"] = c.Lease.Milliseconds()
	}
	status, err := s.call(ctx, "subscribe", http.MethodPut, "", "", body, &info)
	return info, status == http.StatusCreated, err
}

// Get asks how the subscription stands.
func (s *Subscription) Get(ctx context.Context) (info SubscriptionInfo, err error) {
	_, err = s.call(ctx, "show subscription", http.MethodGet, "", "", nil, &info)
	return info, err
}

// Delete deletes the subscription; that there is none is no error.
func (s *Subscription) Delete(ctx context.Context) error {
	_, err := s.call(ctx, "unsubscribe", http.MethodDelete, "", "", nil, nil)
	return err
}

// Add links streams explicitly, at their tails.
func (s *Subscription) Add(ctx context.Context, paths ...string) error {
	_, err := s.call(ctx, "add streams", http.MethodPost, "/streams", "", map[string]any{"streams": paths}, nil)
	return err
}

// Remove takes an explicit link away; one by the pattern stays.
func (s *Subscription) Remove(ctx context.Context, path string) error {
	_, err := s.call(ctx, "remove stream", http.MethodDelete, "/streams/"+url.PathEscape(path), "", nil, nil)
	return err
}

// Claim takes the subscription for a worker, if it has work and nobody holds it.
func (s *Subscription) Claim(ctx context.Context, worker string) (*Claim, error) {
	var c Claim
	if _, err := s.call(ctx, "claim", http.MethodPost, "/claim", "", map[string]string{"worker": worker}, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

// Ack reports what has been dealt with. It extends the lease, or with done gives
// the subscription back; more then says whether there is work again.
func (s *Subscription) Ack(ctx context.Context, c *Claim, acks []Ack, done bool) (more bool, err error) {
	body := map[string]any{"wake_id": c.WakeID, "generation": c.Generation, "acks": append([]Ack{}, acks...)}
	if done {
		body["done"] = true
	}
	var answer struct {
		NextWake bool `json:"next_wake"`
	}
	_, err = s.call(ctx, "ack", http.MethodPost, "/ack", c.Token, body, &answer)
	return answer.NextWake, err
}

// Release gives the subscription back without an ack.
func (s *Subscription) Release(ctx context.Context, c *Claim) error {
	body := map[string]any{"wake_id": c.WakeID, "generation": c.Generation}
	_, err := s.call(ctx, "release", http.MethodPost, "/release", c.Token, body, nil)
	return err
}

// Keys gets the JWK Set with the keys that sign the server's webhooks.
func (c *Client) Keys(ctx context.Context) (json.RawMessage, error) {
	u, err := c.below("__ds/jwks.json")
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, &call{op: "keys", method: http.MethodGet, url: u})
	if err != nil {
		return nil, err
	}
	return a.body, nil
}

// call makes a request about the subscription and decodes the answer into out,
// unless that is nil.
func (s *Subscription) call(ctx context.Context, op, method, path, token string, in, out any) (status int, err error) {
	u, err := s.c.below("__ds/subscriptions/" + url.PathEscape(s.id) + path)
	if err != nil {
		return 0, err
	}
	req := &call{op: op, method: method, url: u, token: token, header: http.Header{}}
	if in != nil {
		if req.body, err = json.Marshal(in); err != nil {
			return 0, err
		}
		req.header.Set("Content-Type", "application/json")
	}
	a, err := s.c.do(ctx, req)
	if err != nil {
		return 0, err
	}
	if out != nil {
		if err := json.Unmarshal(a.body, out); err != nil {
			return a.status, fmt.Errorf("%s %s: %w", op, u.Redacted(), err)
		}
	}
	return a.status, nil
}
