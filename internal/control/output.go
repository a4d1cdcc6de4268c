package control

import (
	"bytes"
	"encoding/json"
	"net/http"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
	"durablestreams/subscription"
)

const jsonType = "application/json"

// nothing is the answer without a body. It is good for errors as well.
var nothing = protocol.ControlAnswer{Status: http.StatusNoContent}

// statuses is the one table from codes to statuses.
var statuses = map[subscription.Code]int{
	subscription.InvalidRequest:    http.StatusBadRequest,
	subscription.FilterUnsupported: http.StatusBadRequest,
	subscription.URLRejected:       http.StatusBadRequest,
	subscription.InvalidOffset:     http.StatusBadRequest,
	subscription.TokenInvalid:      http.StatusUnauthorized,
	subscription.TokenExpired:      http.StatusUnauthorized,
	subscription.NotFound:          http.StatusNotFound,
	subscription.AlreadyExists:     http.StatusConflict,
	subscription.Fenced:            http.StatusConflict,
	subscription.AlreadyClaimed:    http.StatusConflict,
	subscription.NoPendingWork:     http.StatusConflict,
	subscription.LimitExceeded:     http.StatusTooManyRequests,
}

// refuse gives the answer to a refused request.
func refuse(r *subscription.Refusal) protocol.ControlAnswer {
	status, known := statuses[r.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	type details struct {
		Code       subscription.Code `json:"code"`
		Message    string            `json:"message"`
		Holder     string            `json:"current_holder,omitempty"`
		Generation uint64            `json:"generation,omitempty"`
	}
	return answer(status, struct {
		Error details `json:"error"`
	}{details{r.Code, r.Message, r.Holder, r.Generation}})
}

// answer gives a JSON answer.
func answer(status int, v any) protocol.ControlAnswer {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // the values here all have a JSON form
	}
	return protocol.ControlAnswer{Status: status, Type: jsonType, Body: b.Bytes()}
}

// view is a subscription as §6.3 shows it. What follows status and description is
// this server's.
type view struct {
	ID          string            `json:"id"`
	SameID      string            `json:"subscription_id"`
	Type        subscription.Type `json:"type"`
	Pattern     *string           `json:"pattern"`
	Streams     []link            `json:"streams"`
	Webhook     *webhook          `json:"webhook"`
	WakeStream  *string           `json:"wake_stream"`
	Filter      *struct{}         `json:"filter"` // never: §7.4 is a draft
	LeaseTTL    int64             `json:"lease_ttl_ms"`
	CreatedAt   string            `json:"created_at"`
	Status      string            `json:"status"`
	Description *string           `json:"description"`
	Generation  uint64            `json:"generation"`
	Problem     string            `json:"problem,omitempty"`
	Truncated   bool              `json:"streams_truncated,omitempty"`
}

type link struct {
	Path    stream.Path `json:"path"`
	Type    string      `json:"link_type"`
	Acked   string      `json:"acked_offset"`
	Tail    string      `json:"tail_offset,omitempty"`
	Pending bool        `json:"has_pending"`
}

type webhook struct {
	URL     string  `json:"url"`
	Signing signing `json:"signing"`
}

type signing struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	JWKS      string `json:"jwks_url"`
}

// timeForm is RFC 3339 with milliseconds, in UTC.
const timeForm = "2006-01-02T15:04:05.000Z"

// show gives the answer that shows a subscription.
func (a *API) show(status int, v subscription.View) (protocol.ControlAnswer, error) {
	out := view{ID: v.ID, SameID: v.ID, Type: v.Type, Pattern: orNull(v.Pattern), Streams: make([]link, len(v.Streams)), WakeStream: orNull(v.WakeStream),
		LeaseTTL: v.LeaseTTL.Milliseconds(), CreatedAt: v.CreatedAt.UTC().Format(timeForm), Status: "active", Description: orNull(v.Description),
		Generation: v.Generation, Problem: v.Problem, Truncated: v.Truncated}
	if v.Failed {
		out.Status = "failed"
	}
	for i, l := range v.Streams {
		out.Streams[i] = link{Path: l.Path, Type: l.LinkType(), Acked: l.Acked.String(), Pending: l.Pending}
	}
	if v.Type == subscription.Webhook {
		kid, err := a.keys.KeyID()
		if err != nil {
			return nothing, err
		}
		out.Webhook = &webhook{URL: v.WebhookURL, Signing: signing{"ed25519", kid, v.Root + "/" + stream.ControlSegment + "/jwks.json"}}
	}
	return answer(status, out), nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// claimed answers a successful claim (§7.2).
func claimed(w subscription.Wake) protocol.ControlAnswer {
	links := make([]link, len(w.Streams))
	for i, l := range w.Streams {
		links[i] = link{Path: l.Path, Type: l.LinkType(), Acked: l.Acked.String(), Tail: l.Tail.String(), Pending: l.Pending}
	}
	return answer(http.StatusOK, struct {
		WakeID     string `json:"wake_id"`
		Generation uint64 `json:"generation"`
		Token      string `json:"token"`
		Streams    []link `json:"streams"`
		LeaseTTL   int64  `json:"lease_ttl_ms"`
	}{w.ID, w.Generation, w.Token, links, w.LeaseTTL})
}

// acked answers an ack or a callback.
func acked(nextWake bool) protocol.ControlAnswer {
	return answer(http.StatusOK, struct {
		OK       bool `json:"ok"`
		NextWake bool `json:"next_wake"`
	}{true, nextWake})
}
