// Package control is the HTTP side of subscriptions (§6, §7): it turns requests
// below the reserved segment into calls of a subscription manager, and what comes
// of them into answers. It decides nothing about subscriptions, holds no state, and
// knows no transport; methods, caching and CORS are the protocol core's.
//
// An [API] may be used by any number of goroutines at once. Serve waits until what
// the answer tells is durable, also if the client has gone: what it asked for is
// under way.
package control

import (
	"context"
	"errors"
	"net/http"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
	"durablestreams/subscription"
)

// Subscriptions are what the API is about; a [*subscription.Manager] is meant. Errors
// are a [*subscription.Refusal] or those of the engine.
type Subscriptions interface {
	Create(ctx context.Context, id, root string, c subscription.Config) (v subscription.View, created bool, err error)
	Get(ctx context.Context, id string) (subscription.View, error)
	Delete(ctx context.Context, id string) error
	AddStreams(ctx context.Context, id string, paths []string) error
	RemoveStream(ctx context.Context, id, path string) error
	Claim(ctx context.Context, id, worker string) (subscription.Wake, error)
	Ack(ctx context.Context, id string, ref subscription.WakeRef, acks []subscription.Ack, done bool) (nextWake bool, err error)
	Callback(ctx context.Context, id string, ref subscription.WakeRef, acks []subscription.Ack, done bool) (nextWake bool, err error)
	Release(ctx context.Context, id string, ref subscription.WakeRef) error
}

// Keys are the public side of the webhook signing keys (§6.5).
type Keys interface {
	// KeyID names the key that signs now. The first call ever makes it.
	KeyID() (string, error)
	// JWKS is the JWK Set.
	JWKS() ([]byte, error)
}

// API implements [protocol.Control].
type API struct {
	subs Subscriptions
	keys Keys
}

// New gives the API of a server's subscriptions.
func New(subs Subscriptions, keys Keys) *API { return &API{subs, keys} }

// Methods implements [protocol.Control].
func (a *API) Methods(path string) []string {
	rt, _ := parseRoute(path)
	return methods[rt.endpoint]
}

// Serve implements [protocol.Control].
func (a *API) Serve(req *protocol.ControlRequest) (protocol.ControlAnswer, error) {
	rt, _ := parseRoute(req.Path)
	answer, err := a.serve(req, rt)
	if refusal, ok := errors.AsType[*subscription.Refusal](err); ok {
		return refuse(refusal), nil
	}
	return answer, err
}

func (a *API) serve(req *protocol.ControlRequest, rt route) (protocol.ControlAnswer, error) {
	switch rt.endpoint {
	case keySet:
		return a.jwks()
	case base:
		switch req.Method {
		case http.MethodPut:
			return a.create(req, rt.id)
		case http.MethodDelete:
			return nothing, a.subs.Delete(context.Background(), rt.id)
		}
		return a.get(rt.id)
	case streams:
		return a.addStreams(req, rt.id)
	case oneStream:
		return nothing, a.subs.RemoveStream(context.Background(), rt.id, rt.stream)
	case claim:
		return a.claim(req, rt.id)
	case ack:
		return a.ack(req, rt.id, a.subs.Ack)
	case callback:
		return a.ack(req, rt.id, a.subs.Callback)
	case release:
		return a.release(req, rt.id)
	}
	return nothing, errors.New("a control endpoint is not served") // the core asked Methods before
}

func (a *API) jwks() (protocol.ControlAnswer, error) {
	set, err := a.keys.JWKS()
	return protocol.ControlAnswer{Status: http.StatusOK, Type: "application/jwk-set+json", Cache: "public, max-age=300", Body: set}, err
}

func (a *API) create(req *protocol.ControlRequest, id string) (protocol.ControlAnswer, error) {
	c, err := parseConfig(req.Body)
	if err != nil {
		return nothing, err
	}
	if err := permit(req.Caller, c.Reach); err != nil {
		return nothing, err
	}
	if req.Root == "" {
		return nothing, invalid("the request does not say by what host it came, so receivers could not call back")
	}
	if c.Type == subscription.Webhook {
		if _, err := a.keys.KeyID(); err != nil { // so that no delivery has to wait for keys
			return nothing, err
		}
	}
	v, created, err := a.subs.Create(context.Background(), id, req.Root, c)
	if err != nil {
		return nothing, err
	}
	if created {
		return a.show(http.StatusCreated, v)
	}
	return a.show(http.StatusOK, v)
}

func (a *API) get(id string) (protocol.ControlAnswer, error) {
	v, err := a.subs.Get(context.Background(), id)
	if err != nil {
		return nothing, err
	}
	return a.show(http.StatusOK, v)
}

func (a *API) addStreams(req *protocol.ControlRequest, id string) (protocol.ControlAnswer, error) {
	paths, err := parseStreams(req.Body)
	if err != nil {
		return nothing, err
	}
	if err := permit(req.Caller, func() (subscription.Reach, error) { return subscription.ReachOf(paths) }); err != nil {
		return nothing, err
	}
	return nothing, a.subs.AddStreams(context.Background(), id, paths)
}

func (a *API) claim(req *protocol.ControlRequest, id string) (protocol.ControlAnswer, error) {
	worker, err := parseClaim(req.Body)
	if err != nil {
		return nothing, err
	}
	if _, err := a.keys.KeyID(); err != nil { // or the lease would be taken and there would be no token for it
		return nothing, err
	}
	w, err := a.subs.Claim(context.Background(), id, worker)
	if err != nil {
		return nothing, err
	}
	return claimed(w), nil
}

// ack serves the two endpoints that take acks.
func (a *API) ack(req *protocol.ControlRequest, id string,
	apply func(context.Context, string, subscription.WakeRef, []subscription.Ack, bool) (bool, error)) (protocol.ControlAnswer, error) {
	w, err := parseWork(req)
	if err != nil {
		return nothing, err
	}
	next, err := apply(context.Background(), id, w.ref, w.acks, w.done)
	if err != nil {
		return nothing, err
	}
	return acked(next), nil
}

func (a *API) release(req *protocol.ControlRequest, id string) (protocol.ControlAnswer, error) {
	w, err := parseWork(req)
	if err != nil {
		return nothing, err
	}
	return nothing, a.subs.Release(context.Background(), id, w.ref)
}

// permit refuses a subscription that would tell its maker of streams that the maker may
// not read, or would append where the maker may not.
func permit(caller protocol.Caller, of func() (subscription.Reach, error)) error {
	if caller == nil {
		return nil
	}
	reach, err := of()
	if err != nil {
		return err
	}
	for _, path := range reach.Streams {
		if err := caller.Allow(stream.MayRead, path); err != nil {
			return err
		}
	}
	if reach.Pattern != "" {
		if err := caller.AllowAll(stream.MayRead, reach.Pattern); err != nil {
			return err
		}
	}
	if reach.WakeStream != "" {
		return caller.Allow(stream.MayAppend, reach.WakeStream)
	}
	return nil
}
