package manage

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"durablestreams/store"
	"durablestreams/stream"
)

// Visitor is what somebody who is no operator may see.
type Visitor interface {
	// May gives nil if the visitor may see the stream at a path, or the refusal.
	May(path stream.Path) error

	// Sees reports the same, and costs little: it is asked about each stream of a list.
	Sees(path stream.Path) bool

	// Lists gives nil if the visitor may have lists, all if every stream shows there.
	Lists() (all bool, err error)
}

// Public serves the part of the API that clients may have: the list, single streams,
// and, to those who see all of them, totals. Nothing in it tells of streams that the
// visitor may not see. visit gives who sends a request, or the refusal.
func Public(prefix string, s Server, visit func(*http.Request) (Visitor, error), fail func(http.ResponseWriter, *http.Request, error)) (http.Handler, error) {
	marks, err := newMarks()
	if err != nil {
		return nil, err
	}
	p := &public{api: &api{server: s, totals: newTotals(s.Totals)}, marks: marks}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what, below := strings.CutPrefix(r.URL.EscapedPath(), prefix)
		if !below {
			what = ""
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			notAllowed(w, "")
			return
		}
		var answer any
		v, err := visit(r)
		if err == nil {
			answer, err = p.get(r, what, v)
		}
		if err != nil {
			fail(w, r, err)
			return
		}
		write(w, answer)
	}), nil
}

type public struct {
	*api
	marks *marks
}

func (p *public) get(r *http.Request, what string, v Visitor) (any, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse("the query is malformed")
	}
	if path, one := strings.CutPrefix(what, "streams/"); one {
		return p.one(path, v)
	}
	if what != "streams" && what != "totals" {
		return nil, &stream.Error{Kind: stream.NotFound, Message: "there are streams and totals here"}
	}
	all, err := v.Lists()
	switch {
	case err != nil:
		return nil, err
	case what == "totals" && all:
		return p.totals.get(r.Context(), q.Get("prefix"))
	case what == "totals":
		return nil, &stream.Error{Kind: stream.Forbidden, Message: "totals are for those who may read all streams"}
	case all:
		return p.streams(q)
	}
	return p.some(r.Context(), q, v)
}

func (p *public) one(text string, v Visitor) (any, error) {
	path, err := stream.ParsePath(text)
	if err != nil {
		return nil, err
	}
	if err := v.May(path); err != nil {
		return nil, err
	}
	info, err := p.server.Inspect(path)
	if err != nil {
		return nil, err
	}
	return seen(&info, v), nil
}

// seen is what a visitor sees of a stream: nothing of others that belong to it.
func seen(i *store.Info, v Visitor) Stream {
	s := describe(i)
	if s.ForkedFrom != "" && !v.Sees(i.Fork.SourcePath) {
		s.ForkedFrom, s.ForkOffset = "", ""
	}
	if all, err := v.Lists(); !all || err != nil {
		s.Forks = 0
	}
	return s
}

// Bounds of one request: how many streams it looks at in all and at once.
const (
	maxLooked = maxLimit
	lookStep  = 1000
)

// some lists the streams that a visitor sees, which may be few among many.
func (p *public) some(ctx context.Context, q url.Values, v Visitor) (any, error) {
	limit, err := limitOf(q, defaultLimit)
	if err != nil {
		return nil, err
	}
	after, err := p.marks.open(q.Get("after"))
	if err != nil {
		return nil, err
	}
	answer := StreamPage{Streams: []Stream{}}
	if q.Has("source") && !v.Sees(stream.Path(q.Get("source"))) {
		return answer, nil
	}
	for looked := 0; looked < maxLooked && ctx.Err() == nil; looked += lookStep {
		page, err := p.server.List(q.Get("prefix"), after, lookStep)
		if err != nil {
			return nil, err
		}
		for i := range page.Streams {
			info := &page.Streams[i]
			if !v.Sees(info.Path) || !isFork(info, q) {
				continue
			}
			if len(answer.Streams) == limit { // there is more
				answer.Next = p.marks.make(stream.Path(answer.Streams[limit-1].Path))
				return answer, nil
			}
			answer.Streams = append(answer.Streams, seen(info, v))
		}
		if after = page.Next; after == "" {
			return answer, nil
		}
	}
	answer.Next = p.marks.make(after)
	return answer, ctx.Err()
}

// marks are places in a list, as visitors get them. The path at which a page ends may be
// one that they may not see, so it is sealed; its length is rounded up.
type marks struct{ seal cipher.AEAD }

func newMarks() (*marks, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &marks{seal}, nil
}

// markUnit is what the length of a path is rounded up to, in bytes.
const markUnit = 64

func (m *marks) make(path stream.Path) string {
	plain := make([]byte, (len(path)/markUnit+1)*markUnit) // no path has a zero byte
	copy(plain, path)
	return base64.RawURLEncoding.EncodeToString(m.seal.Seal(nil, nil, plain, nil))
}

func (m *marks) open(text string) (stream.Path, error) {
	if text == "" {
		return "", nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		sealed, err = m.seal.Open(nil, nil, sealed, nil)
	}
	if err != nil {
		return "", refuse("after is what next was in an answer of this server since its start; begin without it")
	}
	return stream.Path(strings.TrimRight(string(sealed), "\x00")), nil
}
