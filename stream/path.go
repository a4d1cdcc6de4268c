package stream

import "strings"

// Path is the name of a stream below the server's stream root, exactly as a
// client sent it: percent-encodings are kept, case counts, and "a%2Fb" is not
// "a/b" (§3, §5).
type Path string

// MaxPathLen is the longest path in bytes.
const MaxPathLen = 1024

// ControlSegment is the first path segment that is reserved for control APIs (§6).
const ControlSegment = "__ds"

// ParsePath checks a path as sent. Refused are empty paths and segments, "."
// and ".." (also percent-encoded), since clients and proxies rewrite those on
// their way, bytes that a URL cannot hold, and broken percent-encodings. A path
// below the control segment is [Reserved], also when the segment or the slash
// behind it arrives encoded.
func ParsePath(raw string) (Path, error) {
	switch {
	case raw == "":
		return "", refuse(InvalidPath, "the stream path is empty")
	case len(raw) > MaxPathLen:
		return "", refuse(InvalidPath, "the stream path is longer than 1024 bytes")
	}
	for i := 0; i < len(raw); i++ {
		if c := raw[i]; c <= ' ' || c >= 0x7f || c == '?' || c == '#' {
			return "", refuse(InvalidPath, "the stream path has a character that must be percent-encoded")
		}
	}
	first := true
	for segment := range strings.SplitSeq(raw, "/") {
		plain, ok := unescape(segment)
		switch {
		case !ok:
			return "", refuse(InvalidPath, "the stream path has a broken percent-encoding")
		case plain == "":
			return "", refuse(InvalidPath, "the stream path has an empty segment")
		case plain == "." || plain == "..":
			return "", refuse(InvalidPath, "the stream path has a dot segment")
		case first && (plain == ControlSegment || strings.HasPrefix(plain, ControlSegment+"/")):
			return "", refuse(Reserved, "paths below __ds are reserved for control")
		}
		first = false
	}
	return Path(raw), nil
}

// unescape decodes a segment's percent-encodings; ok is false if one is broken.
func unescape(s string) (plain string, ok bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		hi, ok1 := hexDigit(s[i+1] | 0x20)
		lo, ok2 := hexDigit(s[i+2] | 0x20)
		if !ok1 || !ok2 {
			return "", false
		}
		b = append(b, hi<<4|lo)
		i += 2
	}
	return string(b), true
}
