package control

import (
	"net/http"
	"net/url"
	"strings"

	"durablestreams/stream"
)

// endpoint is a kind of address below the reserved segment.
type endpoint uint8

const (
	unknown endpoint = iota
	keySet
	base
	streams
	oneStream
	claim
	ack
	release
	callback
)

// methods of each endpoint.
var methods = map[endpoint][]string{
	keySet:    {http.MethodGet, http.MethodHead},
	base:      {http.MethodPut, http.MethodGet, http.MethodHead, http.MethodDelete},
	streams:   {http.MethodPost},
	oneStream: {http.MethodDelete},
	claim:     {http.MethodPost},
	ack:       {http.MethodPost},
	release:   {http.MethodPost},
	callback:  {http.MethodPost},
}

// actions are the endpoints of one subscription, by the segment behind its id.
var actions = map[string]endpoint{"streams": streams, "claim": claim, "ack": ack, "release": release, "callback": callback}

// route is a path taken apart.
type route struct {
	endpoint endpoint
	id       string // of the subscription, decoded
	stream   string // decoded once: what is left encoded belongs to the stream's path (§6.4)
}

// parseRoute takes apart what follows the reserved segment; ok is false if that is no
// endpoint. Only what a client chose may be encoded: the other segments are
// compared as sent.
func parseRoute(path string) (rt route, ok bool) {
	if path == "jwks.json" {
		return route{endpoint: keySet}, true
	}
	rest, ok := strings.CutPrefix(path, "subscriptions/")
	if !ok {
		return route{}, false
	}
	id, action, deeper := strings.Cut(rest, "/")
	rt.endpoint = base
	if deeper {
		action, path, below := strings.Cut(action, "/")
		rt.endpoint = actions[action]
		if below {
			if rt.endpoint != streams || path == "" {
				return route{}, false
			}
			rt.endpoint = oneStream
			if rt.stream, ok = decode(path); !ok {
				return route{}, false
			}
		}
	}
	// A dot segment would not survive in a callback URL.
	if rt.id, ok = decode(id); !ok || rt.endpoint == unknown || rt.id == "" || rt.id == "." || rt.id == ".." {
		return route{}, false
	}
	return rt, true
}

// Needs implements [protocol.Control]: everybody may have the public keys, the holder
// of a wake proves it with the token that came with it, and everything else needs the
// right to subscribe under the subscription's id.
func (a *API) Needs(path string) (right stream.Right, of stream.Path) {
	rt, _ := parseRoute(path)
	switch rt.endpoint {
	case base, streams, oneStream, claim:
		return stream.MaySubscribe, idPath(rt.id)
	}
	return 0, ""
}

// idPath gives an id as a path, in the one spelling that each id has, so that patterns
// of paths apply to ids with slashes in them.
func idPath(id string) stream.Path {
	segments := strings.Split(id, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return stream.Path(strings.Join(segments, "/"))
}

func decode(s string) (string, bool) {
	plain, err := url.PathUnescape(s)
	return plain, err == nil
}
