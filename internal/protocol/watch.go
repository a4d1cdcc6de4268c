package protocol

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"durablestreams/stream"
)

// Watch says which answers are told, and to whom.
type Watch struct {
	// All has every answer told; otherwise only slow ones are.
	All bool

	// Slow is the time from which on an answer is slow: what the server took for it,
	// without the time in which the client sent the body. Live reads wait for others
	// and are never slow. 0: none is.
	Slow time.Duration

	// Tell gets an answer that is on its way. It is called on event loops, by several
	// at once, and must not wait.
	Tell func(Answer)
}

// Answer is what there is to say about an answer. Nothing of the query is in it, which
// may hold a signature, nor of any field that may hold a secret.
type Answer struct {
	ID     string // of the request, see [Request.ID]
	Client string // address of the client, as far as it is known; "unix" if it came by a socket
	Method string // a token of at most 32 bytes
	Path   string // as sent, but in printable ASCII and of at most 512 bytes
	Kind   Kind
	Status int
	Code   stream.Kind // why, if it is a refusal
	Bytes  int64       // of the body; -1: SSE
	Took   time.Duration
	At     time.Time // when the answer was about to be sent
	Slow   bool

	// Parent is the field traceparent of the request, if it is one (W3C Trace
	// Context), and Proxied that it came from a trusted proxy.
	Parent  string
	Proxied bool
}

// origin is what a request says of where it comes from.
type origin struct {
	id     string // "": nothing that counts
	client string // "": the peer
	parent string
}

// originOf reads the fields of a request. What is kept of a detached one is better.
func (c *Core) originOf(req *Request) origin {
	if req.origin != nil {
		return *req.origin
	}
	o := origin{parent: traceParent(req.Header)}
	if req.Proxied {
		o.id = proxyID(req.Header, o.parent)
		o.client = c.proxies.client(req.Header)
	}
	return o
}

// requestID gives a request its name in the log: what a trusted proxy calls it, or a
// new one. It stays the same until the request is answered.
func (c *Core) requestID(req *Request) string {
	if req.id == "" {
		req.id = c.originOf(req).id
	}
	if req.id == "" {
		req.id = newID()
	}
	return req.id
}

// newID makes 16 digits. They only have to differ within one log.
func newID() string {
	var b [8]byte
	n := rand.Uint64()
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
	return hex.EncodeToString(b[:])
}

// watched tells of an answer where somebody wants to know, and lets the client know
// under which name the log has it.
func (m *Meter) watched(req *Request, r *Response, took time.Duration, peer Peer) {
	c := m.core
	kind := req.Kind()
	var slow, tell bool
	if w := c.opt.Watch; w != nil {
		slow = w.Slow > 0 && took-req.BodyTook >= w.Slow && !kind.Live()
		tell = slow || w.All
	}
	if !tell && r.Status != 500 {
		return
	}
	id := c.requestID(req)
	req.id = ""
	r.name(id)
	if !tell {
		return
	}
	o := c.originOf(req)
	a := Answer{ID: id, Client: o.client, Method: clip(req.Method, maxMethod), Path: LogPath(req.Path), Kind: kind, Status: r.Status,
		Code: r.refusal, Took: took, At: time.Now(), Slow: slow, Parent: o.parent, Proxied: req.Proxied}
	if a.Client == "" {
		a.Client = plainPeer(peer.Peer())
	}
	if r.Length < 0 || r.HasBody(req.Method) {
		a.Bytes = r.Length
	}
	c.opt.Watch.Tell(a)
}

// name adds the field X-Request-Id, and lets pages of other origins read it.
func (r *Response) name(id string) {
	for i := range r.Fields {
		if f := &r.Fields[i]; f.Name == "Access-Control-Expose-Headers" {
			f.Value += ", " + headerRequestID
		}
	}
	r.add(headerRequestID, id)
}

const headerRequestID = "X-Request-Id"

// What of a request stands in a log at most, in bytes.
const (
	maxMethod = 32
	maxPath   = 512
	maxID     = 128
)

// LogPath is a path as a log may have it: printable ASCII of bounded length.
func LogPath(path string) string { return clip(path, maxPath) }

// clip makes something that a client has sent fit for a log: whatever reads that sees
// printable ASCII, of bounded length. Other bytes are encoded as in a URL.
func clip(s string, most int) string {
	plain := len(s) <= most
	for i := 0; plain && i < len(s); i++ {
		plain = printable(s[i])
	}
	if plain {
		return s
	}
	b := make([]byte, 0, most+len("..."))
	for i := range len(s) {
		if len(b) >= most {
			return string(append(b[:most], "..."...))
		}
		if printable(s[i]) {
			b = append(b, s[i])
			continue
		}
		const digits = "0123456789ABCDEF"
		b = append(b, '%', digits[s[i]>>4], digits[s[i]&15])
	}
	if len(b) > most {
		return string(append(b[:most], "..."...))
	}
	return string(b)
}

func printable(c byte) bool { return c > ' ' && c < 0x7f }

// proxyID is the name that a proxy gave the request: X-Request-Id, or the id of its
// trace. A name that could be anything else than one is not taken.
func proxyID(h Header, parent string) string {
	if v := h.Values(headerRequestID); len(v) == 1 && validID(v[0]) {
		return strings.Clone(v[0])
	}
	if parent != "" {
		return parent[3:35]
	}
	return ""
}

func validID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._:/+=@", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= maxID
}

// traceParent gives the field traceparent if it is one of version 00 of W3C Trace
// Context (§3.2): 00-TRACE-SPAN-FLAGS in lower-case hex, and neither id only zeros.
func traceParent(h Header) string {
	v := h.Values("Traceparent")
	if len(v) != 1 {
		return ""
	}
	s := v[0]
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return ""
	}
	trace, span := s[3:35], s[36:52]
	if !lowerHex(trace+span+s[53:]) || strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return ""
	}
	return strings.Clone(s)
}

func lowerHex(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') })
}
