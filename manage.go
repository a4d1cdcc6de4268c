package durablestreams

import (
	"context"
	"net/http"

	"durablestreams/httpapi"
	"durablestreams/internal/manage"
	"durablestreams/internal/version"
	"durablestreams/internal/web"
	"durablestreams/stream"
	"durablestreams/subscription"
)

// Paths on the admin listener.
const (
	adminAPI = "/api/v1"
	pagePath = "/ui/"
)

// Subscriptions gives up to max subscriptions whose id comes after one, in the order of
// ids.
func (s *Server) Subscriptions(after string, max int) []subscription.Summary {
	return s.subs.manager.List(after, max)
}

// mountAdmin gives operators what there is to see once streams are served: the streams
// themselves, what is known of them, and the page that shows both. All of them have one
// origin, so that the page needs no leave to read.
func (s *Server) mountAdmin() error {
	page, err := web.Handler(pagePath, web.Config{Streams: s.Root(), API: adminAPI, Version: version.Read().Version})
	if err != nil {
		return err
	}
	look := s.manageAPI(adminAPI + "/")
	h := s.admin.handler
	for _, what := range []string{"streams", "totals", "subscriptions"} {
		h.Handle("GET "+adminAPI+"/"+what, look)
	}
	h.Handle("DELETE "+adminAPI+"/streams", look)
	h.Mount(adminAPI+"/streams/", look)
	h.Handle(adminAPI+"/backup", s.backupAPI())
	s.mountTenants()
	h.Mount(pagePath, page)
	h.Mount(s.Root(), s.handler)
	return nil
}

// manageAPI shows what is known of streams, below a prefix. Where access is controlled
// that needs the right to operate all of them.
func (s *Server) manageAPI(prefix string) http.Handler {
	fail := func(w http.ResponseWriter, r *http.Request, err error) {
		httpapi.Refusal(s.core, s.opts.http(), err).ServeHTTP(w, r)
	}
	look := manage.Handler(prefix, managed{s}, fail)
	return s.gated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Authorize(r.Header, stream.MayAdmin, ""); err != nil {
			fail(w, r, err)
			return
		}
		look.ServeHTTP(w, r)
	}))
}

// managed is a server as the administration sees it.
type managed struct{ *Server }

// DeleteStep implements [manage.Server].
func (m managed) DeleteStep(ctx context.Context, prefix string, after stream.Path, max int) (Deletion, error) {
	return m.deleteStep(ctx, prefix, after, max)
}
