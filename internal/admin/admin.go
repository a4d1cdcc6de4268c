// Package admin is what operators see of a server, on a listener of their own: health,
// profiles, and whatever the server hangs below, such as metrics. It knows nothing of
// streams.
//
// Its guard keeps browsers out that act for somebody else's page; access control is up
// to whoever serves the handler. A Handler may be used by any number of goroutines.
package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
)

// Options set up a Handler. The zero value works.
type Options struct {
	// Alive gives the reason why the process should be ended, nil if it should not.
	Alive func() error

	// Ready gives the reason why clients should not come now, nil if they should.
	Ready func() error

	// Operator lets requests of operators through and refuses others. It is asked for
	// profiles where other machines can reach the listener. Default: nobody is one.
	Operator func(http.Handler) http.Handler

	// Logger gets what goes wrong in handlers. Default: nothing is logged.
	Logger *slog.Logger
}

// Handler serves /healthz, /readyz, /debug/pprof/ and what Handle adds. Answers of
// the API below /api/v1/ have the form of those about streams.
type Handler struct {
	opt     Options
	mux     *http.ServeMux
	mounts  mounts
	guarded http.Handler
}

// New gives a handler that answers from the start on. opt may be nil.
func New(opt *Options) *Handler {
	h := &Handler{mux: http.NewServeMux()}
	if opt != nil {
		h.opt = *opt
	}
	if h.opt.Logger == nil {
		h.opt.Logger = slog.New(slog.DiscardHandler)
	}
	h.mux.HandleFunc("GET /healthz", answer(h.opt.Alive))
	h.mux.HandleFunc("GET /readyz", answer(h.opt.Ready))
	h.mux.HandleFunc("GET /{$}", index)
	profiles := http.NewServeMux()
	addProfiles(profiles)
	h.mux.Handle("GET /debug/pprof/", operatorsOnly(profiles, h.opt.Operator))
	h.guarded = guard(h.mounts.before(h.mux))
	return h
}

// Handle adds a handler, also while the others serve. The pattern is one of
// [http.ServeMux].
func (h *Handler) Handle(pattern string, handler http.Handler) { h.mux.Handle(pattern, handler) }

// Mount adds a handler for all paths that begin with prefix, as they were sent: a
// ServeMux would tidy some of them up and redirect. It comes before those of Handle.
func (h *Handler) Mount(prefix string, handler http.Handler) { h.mounts.add(prefix, handler) }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.guarded.ServeHTTP(w, r) }

// answer says "ok", or 503 and why not.
func answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if check != nil {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "ok")
	}
}

// index leads people to the page and tells others what there is.
func index(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, "/ui/", http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "/ui/           the page that shows streams\n/api/v1/       the same for programs\n/healthz       the process works\n/readyz        clients may come\n/metrics       figures for Prometheus\n/debug/pprof/  profiles of the process\n")
}
