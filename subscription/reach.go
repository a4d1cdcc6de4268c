package subscription

import "durablestreams/stream"

// Reach is what a subscription touches, in normal form: for a look at the rights of
// whoever asks for it, which is not this package's.
type Reach struct {
	Pattern    string        // of streams that it is told about; "": none
	Streams    []stream.Path // that it is told about
	WakeStream stream.Path   // that events are appended to; "": none
}

// Reach gives what the configuration would touch. The error is a [*Refusal].
func (c *Config) Reach() (Reach, error) {
	set, links, refusal := c.normalise()
	if refusal != nil {
		return Reach{}, refusal
	}
	return Reach{Pattern: set.pattern.String(), Streams: links, WakeStream: set.wakeStream}, nil
}

// ReachOf is Reach for streams that are to be added.
func ReachOf(streams []string) (Reach, error) {
	links, refusal := parsePaths(streams)
	if refusal != nil {
		return Reach{}, refusal
	}
	return Reach{Streams: links}, nil
}
