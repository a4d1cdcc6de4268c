package control

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"

	"durablestreams/internal/protocol"
	"durablestreams/subscription"
)

// object is a JSON object. Names count as they are spelled, unknown ones are
// tolerated, and null is as good as absent. Of a repeated name the last one counts.
type object map[string]json.RawMessage

// known are the names that mean something somewhere. What stands under others is
// not kept, so that a body does not grow in memory.
var known = map[string]bool{"type": true, "pattern": true, "streams": true, "webhook": true, "url": true, "wake_stream": true, "filter": true,
	"lease_ttl_ms": true, "description": true, "worker": true, "wake_id": true, "generation": true, "acks": true, "done": true, "stream": true, "offset": true}

// maxList bounds the lists in a body, for the same reason.
const maxList = subscription.MaxLinks

func invalid(message string) error {
	return &subscription.Refusal{Code: subscription.InvalidRequest, Message: message}
}

// parseObject reads a body. None is an object without members.
func parseObject(body []byte) (o object, err error) {
	if len(body) == 0 {
		return nil, nil
	}
	if !utf8.Valid(body) {
		return nil, invalid("the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if start, err := d.Token(); err != nil || start != json.Delim('{') || !json.Valid(body) {
		return nil, invalid("the body is not a JSON object")
	}
	o = object{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err // it is valid, so this cannot be
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if name := name.(string); known[name] {
			o[name] = value
			if string(value) == "null" {
				delete(o, name)
			}
		}
	}
	return o, nil
}

// list calls item for each element of a member that is a list. There is none if it
// is absent.
func (o object) list(name string, item func(json.RawMessage) error) (there bool, err error) {
	raw, ok := o[name]
	if !ok {
		return false, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return true, invalid(name + " is not a list")
	}
	for n := 0; d.More(); n++ {
		if n == maxList {
			return true, &subscription.Refusal{Code: subscription.LimitExceeded, Message: name + " has more than 10000 elements"}
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return true, err
		}
		if err := item(value); err != nil {
			return true, err
		}
	}
	return true, nil
}

// text gives a member that is a string, "" if it is absent.
func (o object) text(name string) (s string, err error) {
	if raw, ok := o[name]; ok && json.Unmarshal(raw, &s) != nil {
		return "", invalid(name + " is not a string")
	}
	return s, nil
}

// texts gives a member that is a list of strings, nil if it is absent.
func (o object) texts(name string) (list []string, err error) {
	there, err := o.list(name, func(item json.RawMessage) error {
		var s string
		if item[0] != '"' || json.Unmarshal(item, &s) != nil {
			return invalid(name + " is not a list of strings")
		}
		list = append(list, s)
		return nil
	})
	if there && list == nil {
		list = []string{}
	}
	return list, err
}

// maxExact is the largest whole number that a JavaScript client can mean exactly.
const maxExact = 1<<53 - 1

// integer gives a member that is a whole number, nil if it is absent. How it is
// written, 1000 or 1e3, does not matter.
func (o object) integer(name string) (*int64, error) {
	raw, ok := o[name]
	if !ok {
		return nil, nil
	}
	var f float64
	if json.Unmarshal(raw, &f) != nil || f != math.Trunc(f) || math.Abs(f) > maxExact {
		return nil, invalid(name + " is not a whole number")
	}
	n := int64(f)
	return &n, nil
}

// flag gives a member that is true or false, false if it is absent.
func (o object) flag(name string) (set bool, err error) {
	if raw, ok := o[name]; ok && json.Unmarshal(raw, &set) != nil {
		return false, invalid(name + " is neither true nor false")
	}
	return set, nil
}

// object gives a member that is an object, nil if it is absent.
func (o object) object(name string) (object, error) {
	raw, ok := o[name]
	if !ok {
		return nil, nil
	}
	member, err := parseObject(raw)
	if err != nil {
		return nil, invalid(name + " is not an object")
	}
	return member, nil
}

// parseConfig reads what a client asks for (§6.2).
func parseConfig(body []byte) (c subscription.Config, err error) {
	o, err := parseObject(body)
	if err != nil {
		return c, err
	}
	typ, err := o.text("type")
	if err != nil {
		return c, err
	}
	c.Type = subscription.Type(typ)
	if c.Pattern, err = o.text("pattern"); err != nil {
		return c, err
	}
	if c.Streams, err = o.texts("streams"); err != nil {
		return c, err
	}
	webhook, err := o.object("webhook")
	if err != nil {
		return c, err
	}
	if c.WebhookURL, err = webhook.text("url"); err != nil {
		return c, invalid("webhook.url is not a string")
	}
	if c.WakeStream, err = o.text("wake_stream"); err != nil {
		return c, err
	}
	if c.LeaseTTL, err = o.integer("lease_ttl_ms"); err != nil {
		return c, err
	}
	if c.Description, err = o.text("description"); err != nil {
		return c, err
	}
	c.Filter = bytes.Clone(o["filter"])
	return c, nil
}

// parseStreams reads the explicit links to be added (§6.4).
func parseStreams(body []byte) ([]string, error) {
	o, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	paths, err := o.texts("streams")
	if err == nil && paths == nil {
		err = invalid("streams is missing")
	}
	return paths, err
}

// parseClaim reads the worker's name (§7.2).
func parseClaim(body []byte) (worker string, err error) {
	o, err := parseObject(body)
	if err != nil {
		return "", err
	}
	return o.text("worker")
}

// work is what a worker says of the wake that it has (§7.1, §7.2).
type work struct {
	ref  subscription.WakeRef
	acks []subscription.Ack
	done bool
}

// parseWork reads an ack, a callback or a release. Without a token nothing else
// matters; a wake that is not named at all is a stale one.
func parseWork(req *protocol.ControlRequest) (w work, err error) {
	if w.ref.Token, err = bearer(req.Header); err != nil {
		return w, err
	}
	o, err := parseObject(req.Body)
	if err != nil {
		return w, err
	}
	if w.ref.WakeID, err = o.text("wake_id"); err != nil {
		return w, err
	}
	generation, err := o.integer("generation")
	if err != nil {
		return w, err
	}
	if generation != nil && *generation > 0 {
		w.ref.Generation = uint64(*generation)
	}
	if w.done, err = o.flag("done"); err != nil {
		return w, err
	}
	w.acks, err = o.acks()
	return w, err
}

func (o object) acks() (acks []subscription.Ack, err error) {
	_, err = o.list("acks", func(item json.RawMessage) error {
		member, err := parseObject(item)
		if err != nil {
			return invalid("an ack is not an object")
		}
		var a subscription.Ack
		if a.Stream, err = member.text("stream"); err != nil {
			return err
		}
		if a.Offset, err = member.text("offset"); err != nil {
			return err
		}
		if a.Stream == "" || a.Offset == "" {
			return invalid("an ack needs stream and offset")
		}
		acks = append(acks, a)
		return nil
	})
	return acks, err
}

// bearer gives the token of a request. The scheme's name may be in any case (RFC
// 9110 §11.1).
func bearer(h protocol.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 1 {
		scheme, token, _ := strings.Cut(values[0], " ")
		if token = strings.TrimLeft(token, " "); strings.EqualFold(scheme, "Bearer") && token != "" {
			return token, nil
		}
	}
	return "", &subscription.Refusal{Code: subscription.TokenInvalid, Message: "the request needs an Authorization header with a bearer token"}
}
