package fastpath

// Parsed is a head as the parser understands it.
type Parsed struct {
	Method, Path, Query, Host string
	Names, Values             []string
	ContentLength             int64
}

// MaxHead is the largest head that is taken.
const MaxHead = maxHead

// ParseHead parses a complete head and says whether it is plain.
func ParseHead(text string) (Parsed, bool) {
	var h head
	if headEnd([]byte(text)) != len(text) || h.parse(text) != plain {
		return Parsed{}, false
	}
	return Parsed{h.method, h.path, h.query, h.host, h.names, h.values, h.contentLength}, true
}

// HeaderValues gives the values of a field of a plain head.
func HeaderValues(text, name string) []string {
	var h head
	h.parse(text)
	return h.Values(name)
}

// MayBePlain says whether a beginning of a head can still become plain.
func MayBePlain(b string) bool { return mayBePlain([]byte(b)) }
