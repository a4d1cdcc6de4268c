package fastpath

import (
	"bytes"
	"strings"

	"durablestreams/internal/protocol"
)

// verdict is what the parser makes of the bytes so far.
type verdict uint8

const (
	incomplete verdict = iota // more bytes are needed
	plain                     // a request for the fast path
	odd                       // anything else: net/http decides
)

// maxHead is the largest head that is taken, in bytes; net/http takes larger ones.
const maxHead = 8 << 10

// head is the parsed head of a request. Its strings are slices of text.
type head struct {
	text   string // all of it, up to and including the empty line
	method string
	path   string
	query  string
	host   string
	names  []string
	values []string

	contentLength int64
}

// Values implements protocol.Header. Names are compared without case.
func (h *head) Values(name string) []string {
	first, n := -1, 0
	for i, s := range h.names {
		if len(s) == len(name) && strings.EqualFold(s, name) {
			if n == 0 {
				first = i
			}
			n++
		}
	}
	if n <= 1 {
		if n == 0 {
			return nil
		}
		return h.values[first : first+1 : first+1]
	}
	all := make([]string, 0, n)
	for i, s := range h.names {
		if strings.EqualFold(s, name) {
			all = append(all, h.values[i])
		}
	}
	return all
}

// reset makes h empty but keeps its slices.
func (h *head) reset(text string) {
	*h = head{text: text, names: h.names[:0], values: h.values[:0]}
}

// headEnd gives the length of the head at the beginning of b, with its empty
// line; 0 if it is not complete.
func headEnd(b []byte) int {
	for i := 0; i+3 < len(b); i++ {
		if b[i] == '\r' && b[i+1] == '\n' && b[i+2] == '\r' && b[i+3] == '\n' {
			return i + 4
		}
	}
	return 0
}

// mayBePlain looks at the beginning of a head and says whether it can still
// become one for the fast path. It keeps bytes that are no HTTP/1.1 at all (a
// TLS hello, the HTTP/2 preface), or that net/http would answer now (lines
// without CR, a broken request line), from waiting for an empty line that never
// comes.
func mayBePlain(b []byte) bool {
	known := false
	for _, m := range methods {
		n := min(len(b), len(m))
		known = known || string(b[:n]) == m[:n]
	}
	if !known {
		return false
	}
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return true
		}
		if i == 0 || b[at+i-1] != '\r' {
			return false
		}
		if at == 0 && !new(head).requestLine(string(b[:i-1])) {
			return false
		}
		at += i + 1
	}
}

// methods that the fast path takes, with the space behind them.
var methods = []string{"POST ", "GET ", "HEAD ", "PUT ", "DELETE "}

// parse reads a complete head. Everything that is not of the plainest form is odd.
func (h *head) parse(text string) verdict {
	h.reset(text)
	line, rest, ok := cutLine(text)
	if !ok || !h.requestLine(line) {
		return odd
	}
	hosts, lengths := 0, 0
	for {
		if line, rest, ok = cutLine(rest); !ok {
			return odd
		}
		if line == "" {
			break
		}
		name, value, ok := cutField(line)
		if !ok {
			return odd
		}
		switch kindOf(name) {
		case fieldHost:
			if !plainHost(value) {
				return odd
			}
			h.host = value
			hosts++
		case fieldLength:
			if h.contentLength, ok = parseLength(value); !ok {
				return odd
			}
			lengths++
		case fieldConnection:
			if !strings.EqualFold(value, "keep-alive") {
				return odd
			}
		case fieldOdd:
			return odd
		}
		if len(h.names) == protocol.MaxFields {
			return odd
		}
		h.names = append(h.names, name)
		h.values = append(h.values, value)
	}
	if rest != "" || hosts != 1 || lengths > 1 {
		return odd
	}
	if h.contentLength > 0 && h.method != "POST" && h.method != "PUT" {
		return odd
	}
	return plain
}

// cutLine cuts at the first CRLF. A bare CR or LF before it is refused.
func cutLine(s string) (line, rest string, ok bool) {
	i := strings.IndexByte(s, '\n')
	if i < 1 || s[i-1] != '\r' {
		return "", "", false
	}
	line = s[:i-1]
	if strings.IndexByte(line, '\r') >= 0 {
		return "", "", false
	}
	return line, s[i+1:], true
}

func (h *head) requestLine(line string) bool {
	for _, m := range methods {
		if !strings.HasPrefix(line, m) {
			continue
		}
		target, version, ok := strings.Cut(line[len(m):], " ")
		if !ok || version != "HTTP/1.1" || target == "" || target[0] != '/' {
			return false
		}
		for i := 0; i < len(target); i++ {
			if c := target[i]; c <= ' ' || c >= 0x7f || c == '#' {
				return false
			}
		}
		h.method = m[:len(m)-1]
		h.path, h.query, _ = strings.Cut(target, "?")
		return plainEscapes(h.path)
	}
	return false
}

// plainEscapes refuses a % without two hex digits.
func plainEscapes(path string) bool {
	for {
		i := strings.IndexByte(path, '%')
		if i < 0 {
			return true
		}
		if i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2]) {
			return false
		}
		path = path[i+3:]
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// plainHost takes names and addresses, with or without a port. It ends up in
// Location.
func plainHost(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("-._:[]", c) >= 0) {
			return false
		}
	}
	return true
}

// cutField splits a field line (RFC 9112 §5). White space before the colon, an
// empty name and control characters are refused.
func cutField(line string) (name, value string, ok bool) {
	i := strings.IndexByte(line, ':')
	if i < 1 {
		return "", "", false
	}
	name = line[:i]
	for j := 0; j < len(name); j++ {
		if !isToken[name[j]] {
			return "", "", false
		}
	}
	value = strings.Trim(line[i+1:], " \t")
	for j := 0; j < len(value); j++ {
		if c := value[j]; c < ' ' && c != '\t' || c == 0x7f {
			return "", "", false
		}
	}
	return name, value, true
}

// isToken marks the characters of a field name (RFC 9110 §5.6.2).
var isToken = func() (t [256]bool) {
	for c := range 256 {
		t[c] = '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' ||
			c < 0x80 && c > ' ' && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()

// parseLength reads a Content-Length of the plainest form.
func parseLength(s string) (int64, bool) {
	if s == "" || len(s) > 15 {
		return 0, false
	}
	var n int64
	for i := 0; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	return n, true
}

// fieldKind sorts out the fields that matter to the connection.
type fieldKind uint8

const (
	fieldOther fieldKind = iota
	fieldHost
	fieldLength
	fieldConnection
	fieldOdd // its presence makes the request odd
)

func kindOf(name string) fieldKind {
	switch len(name) {
	case 2:
		if strings.EqualFold(name, "TE") {
			return fieldOdd
		}
	case 4:
		if strings.EqualFold(name, "Host") {
			return fieldHost
		}
	case 6:
		if strings.EqualFold(name, "Expect") {
			return fieldOdd
		}
	case 7:
		if strings.EqualFold(name, "Upgrade") || strings.EqualFold(name, "Trailer") {
			return fieldOdd
		}
	case 10:
		if strings.EqualFold(name, "Connection") {
			return fieldConnection
		}
	case 14:
		if strings.EqualFold(name, "Content-Length") {
			return fieldLength
		}
	case 16:
		if strings.EqualFold(name, "Proxy-Connection") {
			return fieldOdd
		}
	case 17:
		if strings.EqualFold(name, "Transfer-Encoding") {
			return fieldOdd
		}
	}
	return fieldOther
}
