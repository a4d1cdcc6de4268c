package durablestreams

import (
	"net/http"
	"strings"

	"durablestreams/auth"
	"durablestreams/httpapi"
	"durablestreams/internal/manage"
	"durablestreams/internal/web"
	"durablestreams/stream"
)

// Where the page and what it asks are beside the streams: below the reserved segment,
// where no stream can be. Its own addresses are relative, so it works behind a proxy that
// takes a prefix away.
const (
	besidePage = stream.ControlSegment + "/page/"
	besideAPI  = stream.ControlSegment + "/api/v1/"
)

// PageURL is the URL path of the read-only page that [Server.Handler] serves, "" if it
// serves none.
func (s *Server) PageURL() string {
	if !s.opts.ReadOnlyPage {
		return ""
	}
	return s.Root() + besidePage
}

// withPage puts the page beside the streams, if it is wanted. The event loops hand every
// request below the reserved segment to net/http, so it is here for both adapters.
func (s *Server) withPage(next http.Handler) (http.Handler, error) {
	if !s.opts.ReadOnlyPage || s.store == nil {
		return next, nil
	}
	page, err := web.Handler(s.Root()+besidePage, web.Config{Streams: "../../", API: "../api/v1", ReadOnly: true})
	if err != nil {
		return nil, err
	}
	look, err := s.publicAPI(s.Root() + besideAPI)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		switch {
		case strings.HasPrefix(path, s.Root()+besideAPI):
			look.ServeHTTP(w, r)
		case !strings.HasPrefix(path, s.Root()+besidePage):
			next.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "a page can only be read", http.StatusMethodNotAllowed)
		default:
			page.ServeHTTP(w, r)
		}
	}), nil
}

// publicAPI shows each caller the streams that it may read. Like other answers from the
// disk, only so many are made at once; totals, which many may wait for, are counted one
// at a time.
func (s *Server) publicAPI(prefix string) (http.Handler, error) {
	fail := func(w http.ResponseWriter, r *http.Request, err error) {
		httpapi.Refusal(s.core, s.opts.http(), err).ServeHTTP(w, r)
	}
	look, err := manage.Public(prefix, managed{s}, s.visitor, fail)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != prefix+"totals" {
			leave, err := s.core.EnterDisk()
			if err != nil {
				fail(w, r, err)
				return
			}
			defer leave()
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		look.ServeHTTP(w, r)
	}), nil
}

// visitor finds out who sends a request.
func (s *Server) visitor(r *http.Request) (manage.Visitor, error) {
	if s.access == nil {
		return everybody{}, nil
	}
	authorization := r.Header.Values("Authorization")
	c, _, err := s.access.Authorizer.Identify(authorization, true)
	if err != nil {
		return nil, err
	}
	return reader{caller: c, named: len(authorization) > 0}, nil
}

// everybody sees everything: there is no access control.
type everybody struct{}

func (everybody) May(stream.Path) error { return nil }

func (everybody) Sees(stream.Path) bool { return true }

func (everybody) Lists() (all bool, err error) { return true, nil }

// reader sees what its token may read.
type reader struct {
	caller *auth.Caller
	named  bool // by a token
}

func (r reader) May(path stream.Path) error { return r.caller.Allow(stream.MayRead, path) }

func (r reader) Sees(path stream.Path) bool { return r.caller.May(stream.MayRead, path) }

// errUnnamed is the answer to who asks for a list and does not say who it is. What
// everybody may read may still be something that has to be known to be found.
var errUnnamed = &stream.Error{Kind: stream.Unauthenticated, Message: "a list needs an Authorization header with a bearer token"}

func (r reader) Lists() (all bool, err error) {
	if !r.named {
		return false, errUnnamed
	}
	return r.caller.AllowAll(stream.MayRead, "**") == nil, nil
}
