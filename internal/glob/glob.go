// Package glob matches stream paths against patterns (§6.2) and keeps an index that
// finds, among thousands of patterns, those that match one path.
//
// A pattern is made like a path. Its segments are compared with those of the path as
// they were sent: case counts, and percent-encodings are not taken apart. `*` stands
// for exactly one segment, `**` for zero or more, and both only as a whole segment.
// A star inside a segment, such as `agent-*`, is refused: the reference server takes
// it for a plain character, which is hardly ever meant. A star that is meant is
// written %2A, and that also matches a path that was sent with %2A in it.
//
// Patterns come from clients, so everything is bounded: [MaxSegments] and [MaxDeep]
// of a pattern, and the time of a match by the product of the segments of pattern and
// path. The package keeps no stream and asks for none. A [Pattern] is a value that
// never changes; an [Index] may be used from many goroutines.
package glob

import (
	"errors"
	"strings"

	"durablestreams/stream"
)

const (
	// MaxSegments is how many segments a pattern may have.
	MaxSegments = 64
	// MaxDeep is how many `**` a pattern may have; neighbours count as one.
	MaxDeep = 8
)

const (
	one  = "*"  // exactly one segment
	deep = "**" // any number of segments
)

// Pattern is a parsed pattern. The zero value matches nothing.
type Pattern struct {
	text     string
	segments []segment
}

// segment is one place of a pattern: a wildcard, or text in plain form.
type segment struct {
	wild string // one, deep, or empty
	text string
}

// plainStars writes a percent-encoded star as the character it stands for.
var plainStars = strings.NewReplacer("%2A", "*", "%2a", "*")

// plain gives a segment the form in which the texts of segments are compared.
func plain(text string) string {
	if !strings.Contains(text, "%2") {
		return text
	}
	return plainStars.Replace(text)
}

// Parse reads a pattern. Slashes before the first segment are dropped, as the
// reference server does. The error is a [stream.Error] whose message may be shown to
// the client.
func Parse(text string) (Pattern, error) {
	text = strings.TrimLeft(text, "/")
	if _, err := stream.ParsePath(text); err != nil {
		return Pattern{}, misshapen(err)
	}
	var segments []segment
	var deeps int
	for part := range strings.SplitSeq(text, "/") {
		switch {
		case part == deep && len(segments) > 0 && segments[len(segments)-1].wild == deep:
			continue
		case part == deep:
			deeps++
			segments = append(segments, segment{wild: deep})
		case part == one:
			segments = append(segments, segment{wild: one})
		case strings.Contains(part, one):
			return Pattern{}, bad("the pattern has a star inside a segment: * and ** stand for whole segments, and the character itself is written %2A")
		default:
			segments = append(segments, segment{text: plain(part)})
		}
	}
	switch {
	case len(segments) > MaxSegments:
		return Pattern{}, bad("the pattern has more than 64 segments")
	case deeps > MaxDeep:
		return Pattern{}, bad("the pattern has more than 8 times **")
	}
	return Pattern{text: text, segments: segments}, nil
}

func bad(message string) error {
	return &stream.Error{Kind: stream.InvalidPath, Message: message}
}

// misshapen tells why a pattern could not be the path of any stream.
func misshapen(err error) error {
	why, ok := errors.AsType[*stream.Error](err)
	if !ok {
		return err
	}
	return &stream.Error{Kind: why.Kind, Message: "the pattern is not made like a path: " + why.Message}
}

// String gives the pattern as it was written, less slashes at its beginning.
func (p Pattern) String() string { return p.text }

// Prefix gives a text with which every matching path begins, to narrow a listing.
func (p Pattern) Prefix() string {
	end := 0
	for i, s := range p.segments {
		next := len(s.text)
		switch {
		case s.wild == deep && end > 0:
			return p.text[:end-1] // a/** matches a, too
		case s.wild != "" || strings.Contains(s.text, one):
			return p.text[:end] // a star in plain form has more than one spelling
		case i+1 < len(p.segments):
			next++
		}
		end += next
	}
	return p.text[:end]
}

// Match tells whether the pattern matches a path. A `**` first takes nothing, and
// only the last one met is ever given more, so the work is at most the product of
// both numbers of segments.
func (p Pattern) Match(path stream.Path) bool {
	rest, more := string(path), len(p.segments) > 0
	lastDeep, fromDeep := -1, ""
	at := 0
	for more {
		if at < len(p.segments) && p.segments[at].wild == deep {
			lastDeep, fromDeep = at, rest
			at++
			continue
		}
		text, after, slash := strings.Cut(rest, "/")
		switch {
		case at < len(p.segments) && p.segments[at].matches(text):
			at++
			rest, more = after, slash
		case lastDeep < 0:
			return false
		default:
			_, fromDeep, more = strings.Cut(fromDeep, "/")
			rest = fromDeep
			at = lastDeep + 1
		}
	}
	if at < len(p.segments) && p.segments[at].wild == deep {
		at++
	}
	return at > 0 && at == len(p.segments)
}

func (s segment) matches(text string) bool {
	return s.wild == one || s.text == plain(text)
}

// Covers tells whether it is sure that every path that other matches is matched by
// p, too. It compares segment by segment, so it may miss what only follows from
// several of them together: `*/**` and `**/*` match the same paths, and do not
// cover each other.
func (p Pattern) Covers(other Pattern) bool {
	if len(p.segments) == 0 || len(other.segments) == 0 {
		return false
	}
	return covers(p.segments, other.segments)
}

// covers is Match with the segments of a pattern in the place of those of a path.
func covers(p, other []segment) bool {
	at, lastDeep, fromDeep := 0, -1, 0
	i := 0
	for i < len(other) {
		switch {
		case at < len(p) && p[at].wild == deep:
			lastDeep, fromDeep = at, i
			at++
		case at < len(p) && p[at].covers(other[i]):
			at++
			i++
		case lastDeep < 0:
			return false
		default:
			fromDeep++
			i, at = fromDeep, lastDeep+1
		}
	}
	if at < len(p) && p[at].wild == deep {
		at++
	}
	return at == len(p)
}

// covers tells whether a segment, which is no `**`, stands for all that other does.
func (s segment) covers(other segment) bool {
	switch other.wild {
	case deep:
		return false
	case one:
		return s.wild == one
	}
	return s.wild == one || s.text == other.text
}
