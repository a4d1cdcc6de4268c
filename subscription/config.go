package subscription

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"durablestreams/internal/glob"
	"durablestreams/stream"
)

// Type is how a subscription reaches its workers (§7).
type Type string

// The types.
const (
	Webhook  Type = "webhook"
	PullWake Type = "pull-wake"
)

// Config is what a client asks for when it creates or re-confirms a
// subscription (§6.2), as it came.
type Config struct {
	Type        Type
	Pattern     string   // "": none
	Streams     []string // explicit links
	WebhookURL  string   // counts for a webhook subscription only
	WakeStream  string   // counts for a pull-wake subscription only
	LeaseTTL    *int64   // milliseconds; nil: 30,000
	Description string
	Filter      []byte // raw JSON; refused unless empty or null (§7.4.1 is a draft)
}

// Limits of what a client may ask for, sizes in bytes.
const (
	MaxIDLen          = 256
	MaxWorkerLen      = 256
	MaxURLLen         = 2048
	MaxDescriptionLen = 4096
	MaxLinks          = 10_000 // explicit links of one subscription
)

const (
	defaultLease = 30 * time.Second
	minLease     = time.Second
)

// MaxLease is the longest lease that a configuration may ask for (§6.2).
const MaxLease = 10 * time.Minute

// settings are a configuration in normal form. They never change.
type settings struct {
	typ         Type
	pattern     glob.Pattern
	url         string        // webhook
	wakeStream  stream.Path   // pull-wake
	ttl         time.Duration // of a lease
	description string
}

// normalise checks a configuration (§6.2) and gives it its normal form, in which
// what does not count is gone and explicit links are sorted.
func (c *Config) normalise() (settings, []stream.Path, *Refusal) {
	set := settings{typ: c.Type, ttl: defaultLease, description: c.Description}
	if len(c.Filter) > 0 && string(c.Filter) != "null" {
		return set, nil, refuse(FilterUnsupported, "this server does not evaluate filters")
	}
	if c.Pattern == "" && len(c.Streams) == 0 {
		return set, nil, refuse(InvalidRequest, "at least one of pattern and streams is needed")
	}
	if c.Pattern != "" {
		var err error
		if set.pattern, err = glob.Parse(strings.Trim(c.Pattern, "/")); err != nil {
			return set, nil, refuse(InvalidRequest, "pattern: "+reason(err))
		}
	}
	if c.LeaseTTL != nil {
		if *c.LeaseTTL < minLease.Milliseconds() || *c.LeaseTTL > MaxLease.Milliseconds() {
			return set, nil, refuse(InvalidRequest, "lease_ttl_ms is a whole number from 1000 to 600000")
		}
		set.ttl = time.Duration(*c.LeaseTTL) * time.Millisecond
	}
	if len(c.Description) > MaxDescriptionLen || !utf8.ValidString(c.Description) {
		return set, nil, refuse(InvalidRequest, "description is text of at most 4096 bytes")
	}
	if r := c.delivery(&set); r != nil {
		return set, nil, r
	}
	links, r := parsePaths(c.Streams)
	if r == nil {
		r = set.mayLink(links)
	}
	return set, links, r
}

// delivery fills in what belongs to the type.
func (c *Config) delivery(set *settings) *Refusal {
	switch c.Type {
	case Webhook:
		if c.WebhookURL == "" {
			return refuse(InvalidRequest, "a webhook subscription needs webhook.url")
		}
		if len(c.WebhookURL) > MaxURLLen {
			return refuse(InvalidRequest, "webhook.url is longer than 2048 bytes")
		}
		set.url = c.WebhookURL
	case PullWake:
		if c.WakeStream == "" {
			return refuse(InvalidRequest, "a pull-wake subscription needs wake_stream")
		}
		path, err := parsePath(c.WakeStream)
		if err != nil {
			return refuse(InvalidRequest, "wake_stream: "+reason(err))
		}
		set.wakeStream = path
	default:
		return refuse(InvalidRequest, `type is "webhook" or "pull-wake"`)
	}
	return nil
}

// mayLink refuses links that could not work. A subscription that its own wake
// events wake would never come to rest.
func (set *settings) mayLink(links []stream.Path) *Refusal {
	if set.typ == PullWake && slices.Contains(links, set.wakeStream) {
		return refuse(InvalidRequest, "the wake stream of a subscription cannot be one of its streams")
	}
	return nil
}

// matches tells whether the pattern links a path. The subscription's own wake
// stream is not linked, see mayLink.
func (set *settings) matches(path stream.Path) bool {
	return set.pattern.Match(path) && (set.typ != PullWake || path != set.wakeStream)
}

// hash is the fingerprint of a normal form (§6.2). It is stored, so the
// encoding must not change.
func (set *settings) hash(links []stream.Path) (sum [sha256.Size]byte) {
	b := appendString(nil, string(set.typ))
	b = appendString(b, set.pattern.String())
	b = binary.AppendUvarint(b, uint64(len(links)))
	for _, p := range links {
		b = appendString(b, string(p))
	}
	b = appendString(b, set.url)
	b = appendString(b, string(set.wakeStream))
	b = binary.AppendUvarint(b, uint64(set.ttl.Milliseconds()))
	return sha256.Sum256(appendString(b, set.description))
}

// parsePath reads a stream-root-relative path; slashes around it do not count.
func parsePath(raw string) (stream.Path, error) { return stream.ParsePath(strings.Trim(raw, "/")) }

// parsePaths reads a list of paths and gives it sorted, each once.
func parsePaths(raw []string) ([]stream.Path, *Refusal) {
	if len(raw) > MaxLinks {
		return nil, refuse(LimitExceeded, "more than 10000 streams")
	}
	paths := make([]stream.Path, 0, len(raw))
	for _, s := range raw {
		p, err := parsePath(s)
		if err != nil {
			return nil, refuse(InvalidRequest, "streams: "+reason(err))
		}
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// reason is the part of an error that a client may see.
func reason(err error) string {
	if e, ok := errors.AsType[*stream.Error](err); ok {
		return e.Message
	}
	return "it is malformed"
}

// checkName checks a name that a client chose, of a subscription or of a worker.
func checkName(what, name string, limit int) *Refusal {
	switch {
	case name == "":
		return refuse(InvalidRequest, what+" is empty")
	case len(name) > limit:
		return refuse(InvalidRequest, what+" is longer than 256 bytes")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return refuse(InvalidRequest, what+" has characters that are not text")
	}
	return nil
}
