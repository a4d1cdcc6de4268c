package subscription

import (
	"fmt"
	"time"

	"durablestreams/stream"
)

// Describe says in one line what a row of the engine means, for people who look into
// a data directory; ok is false if it is none of this package's or cannot be read. URLs
// and names of wakes are left out: they may be secrets.
func Describe(row stream.Row) (text string, ok bool) {
	own, kind, path, err := parseKey(row.Key)
	if err != nil {
		return "", false
	}
	switch kind {
	case mainRow:
		s, err := decodeMain(own, row.Value)
		if err != nil {
			return "", false
		}
		text = fmt.Sprintf("subscription %q  %s  lease %s", s.id, s.typ, s.ttl)
		if p := s.pattern.String(); p != "" {
			text += "  pattern " + p
		}
		if s.wakeStream != "" {
			text += "  wakes by " + string(s.wakeStream)
		}
	case linkRows:
		text = "linked  " + string(path)
	case markRows:
		acked, err := decodeMark(row.Value)
		if err != nil {
			return "", false
		}
		text = fmt.Sprintf("pending  %s  acked %s", path, acked)
	case runRows:
		r, err := decodeRun(row.Value)
		if err != nil {
			return "", false
		}
		text = "wake  " + r.describe()
	}
	return fmt.Sprintf("%s  of %0*x", text, ownLen, own), true
}

// describe says how far a wake has come.
func (r *run) describe() string {
	text := fmt.Sprintf("generation %d  %s", r.generation, [...]string{idle: "over", woken: "under way", held: "held"}[r.phase])
	if r.holder != "" {
		text += fmt.Sprintf(" by %q", r.holder)
	}
	if r.lease != 0 {
		text += "  lease until " + utc(r.lease)
	}
	if r.retryAt != 0 {
		text += fmt.Sprintf("  %d failures, retry at %s", r.retries, utc(r.retryAt))
	}
	return text
}

func utc(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339) }
