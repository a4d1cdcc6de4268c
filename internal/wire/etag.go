package wire

import "strings"

// MatchETag reports whether one of the If-None-Match field values names etag, so that
// the answer is 304 (§10.1, RFC 9110 §13.1.2). Each value is a list of entity tags,
// strong or weak, or a lone "*", which names every tag. The comparison is weak. An
// empty etag, the sign of an answer without one, matches nothing. A value is read as
// far as its syntax holds; what follows the first fault matches nothing.
func MatchETag(ifNoneMatch []string, etag string) bool {
	etag = strings.TrimPrefix(etag, "W/")
	if etag == "" {
		return false
	}
	for _, list := range ifNoneMatch {
		if trimOWS(list) == "*" || listHasETag(list, etag) {
			return true
		}
	}
	return false
}

// listHasETag looks for the opaque part etag, with its quotes, in one list.
func listHasETag(list, etag string) bool {
	for {
		list = strings.TrimLeft(list, " \t,")
		tag := strings.TrimPrefix(list, "W/")
		n := opaqueTagLen(tag)
		if n == 0 {
			return false
		}
		list = trimLeftOWS(tag[n:])
		if list != "" && list[0] != ',' {
			return false
		}
		if tag[:n] == etag {
			return true
		}
	}
}

// opaqueTagLen returns the length of the opaque-tag (RFC 9110 §8.8.3) at the start
// of s, quotes included, 0 if there is none. A backslash escapes nothing there.
func opaqueTagLen(s string) int {
	if s == "" || s[0] != '"' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c <= ' ' || c == 0x7f:
			return 0
		}
	}
	return 0
}
