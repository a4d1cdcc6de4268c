package admin

import (
	"net/http"
	"strings"
	"sync"
)

// mounts are handlers by the beginning of a path.
type mounts struct {
	mu  sync.RWMutex
	all []mount
}

type mount struct {
	prefix  string
	handler http.Handler
}

func (m *mounts) add(prefix string, handler http.Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, mount{prefix, sameOrigin(handler)})
}

func (m *mounts) find(path string) http.Handler {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, mt := range m.all {
		if strings.HasPrefix(path, mt.prefix) {
			return mt.handler
		}
	}
	return nil
}

// before lets requests for other paths go on to next.
func (m *mounts) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := m.find(r.URL.EscapedPath()); h != nil {
			h.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin takes out of a handler's answers what would let pages of other origins
// read them, as those about streams do by default.
func sameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&ownAnswer{ResponseWriter: w}, r) })
}

type ownAnswer struct {
	http.ResponseWriter
	begun bool
}

func (a *ownAnswer) WriteHeader(status int) {
	a.begun = true
	head := a.Header()
	for name := range head {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(head, name)
		}
	}
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	a.ResponseWriter.WriteHeader(status)
}

func (a *ownAnswer) Write(b []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *ownAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
