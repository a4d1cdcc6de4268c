package wire

import "strings"

// MaxMediaType is the longest Content-Type value that is understood, in bytes,
// parameters included.
const MaxMediaType = 255

const (
	jsonType   = "application/json"
	textPrefix = "text/"
)

// ParseMediaType reads a Content-Type value as it was sent and returns its essence,
// the lower-case type "/" subtype (§5.1, RFC 9110 §8.3.1). Parameters may follow and
// must be well formed: each is ";" and optionally name "=" token or quoted string,
// with optional spaces and tabs around the semicolon. It reports false for
// anything else and for values longer than MaxMediaType. It allocates only when
// the essence has upper-case letters.
func ParseMediaType(s string) (essence string, ok bool) {
	essence, ok = cutEssence(s)
	if !ok {
		return "", false
	}
	return strings.ToLower(essence), true
}

// SameMediaType reports whether two Content-Type values name the same type "/"
// subtype, in any case and whatever their parameters (§5.1, §5.2). Values equal
// byte for byte are the same without a further look; otherwise a value that
// ParseMediaType refuses is the same as nothing. It does not allocate.
func SameMediaType(a, b string) bool {
	if a == b {
		return true
	}
	ea, ok := cutEssence(a)
	if !ok {
		return false
	}
	eb, ok := cutEssence(b)
	return ok && strings.EqualFold(ea, eb)
}

// IsJSON reports whether the Content-Type value s puts a stream into JSON mode
// (§9.1): exactly application/json, in any case and with any parameters. Types
// with the suffix +json are bytes. It does not allocate.
func IsJSON(s string) bool {
	if s == jsonType {
		return true
	}
	e, ok := cutEssence(s)
	return ok && strings.EqualFold(e, jsonType)
}

// IsText reports whether the Content-Type value s is text/*, which SSE carries as
// it is instead of as base64 (§5.8). It does not allocate.
func IsText(s string) bool {
	e, ok := cutEssence(s)
	return ok && len(e) > len(textPrefix) && strings.EqualFold(e[:len(textPrefix)], textPrefix)
}

// cutEssence returns the part of s that is the type "/" subtype, in the case it
// was sent in, after having checked the whole of s.
func cutEssence(s string) (string, bool) {
	if len(s) > MaxMediaType {
		return "", false
	}
	s = trimOWS(s)
	slash := tokenLen(s)
	if slash == 0 || slash == len(s) || s[slash] != '/' {
		return "", false
	}
	sub := tokenLen(s[slash+1:])
	if sub == 0 {
		return "", false
	}
	end := slash + 1 + sub
	return s[:end], validParameters(s[end:])
}

// validParameters reports whether s is *( OWS ";" OWS [ parameter ] ) of RFC 9110
// §5.6.6, followed by optional white space.
func validParameters(s string) bool {
	for {
		s = trimLeftOWS(s)
		if s == "" {
			return true
		}
		if s[0] != ';' {
			return false
		}
		s = trimLeftOWS(s[1:])
		name := tokenLen(s)
		if name == 0 {
			continue // an empty parameter; junk fails at the next turn
		}
		if name == len(s) || s[name] != '=' {
			return false
		}
		s = s[name+1:]
		value := tokenLen(s)
		if value == 0 {
			value = quotedLen(s)
		}
		if value == 0 {
			return false
		}
		s = s[value:]
	}
}

// quotedLen returns the length of the quoted-string (RFC 9110 §5.6.4) that s starts
// with, 0 if there is none.
func quotedLen(s string) int {
	if s == "" || s[0] != '"' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i++
			if i == len(s) || isControl(s[i]) {
				return 0
			}
		case isControl(c):
			return 0
		}
	}
	return 0
}

// isControl reports whether c may not stand in a field value (RFC 9110 §5.5).
func isControl(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f }

// tokenLen returns how many bytes at the start of s are token characters.
func tokenLen(s string) int {
	for i := range len(s) {
		if !tokenTable[s[i]] {
			return i
		}
	}
	return len(s)
}

// tokenTable marks the tchar of RFC 9110 §5.6.2.
var tokenTable = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

func isOWS(c byte) bool { return c == ' ' || c == '\t' }

func trimLeftOWS(s string) string {
	for s != "" && isOWS(s[0]) {
		s = s[1:]
	}
	return s
}

func trimOWS(s string) string {
	s = trimLeftOWS(s)
	for s != "" && isOWS(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}
