package control

import (
	"durablestreams/internal/protocol"
	"durablestreams/subscription"
)

// ParseConfig, ParseWork and Members are the decoders of bodies.
func ParseConfig(body []byte) (subscription.Config, error) { return parseConfig(body) }

func ParseWork(req *protocol.ControlRequest) (subscription.WakeRef, []subscription.Ack, bool, error) {
	w, err := parseWork(req)
	return w.ref, w.acks, w.done, err
}

func Members(body []byte) (map[string]string, error) {
	o, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	members := map[string]string{}
	for name, value := range o {
		members[name] = string(value)
	}
	return members, nil
}

// Known tells whether a name means something.
func Known(name string) bool { return known[name] }
