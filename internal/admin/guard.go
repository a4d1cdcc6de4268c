package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard keeps out pages that a browser on this machine has open. A page of a name that
// has been made to resolve to this machine (DNS rebinding) sends that name as Host; one
// of another origin is known by what browsers say of themselves, and gets no leave to
// read anything, since there are no CORS headers.
func guard(next http.Handler) http.Handler {
	var changes http.CrossOriginProtection // by methods other than GET, HEAD and OPTIONS
	guarded := changes.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		head.Set("Cache-Control", "no-store")
		switch {
		case onlyThisMachine(r) && !loopback(r.Host):
			http.Error(w, "this address is for names of this machine: use localhost, 127.0.0.1 or [::1]", http.StatusMisdirectedRequest)
		case embedded(r):
			http.Error(w, "a page of another origin may not have this", http.StatusForbidden)
		default:
			guarded.ServeHTTP(w, r)
		}
	})
}

// onlyThisMachine reports whether the request came by an address that only this machine
// has. Others are as public as their listener, whatever they are called.
func onlyThisMachine(r *http.Request) bool {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case *net.UnixAddr:
		return false // no browser gets there
	}
	return true
}

// operatorsOnly is for what costs the process much and shows its inside. Who is on this
// machine may have it.
func operatorsOnly(next http.Handler, operator func(http.Handler) http.Handler) http.Handler {
	operators := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this is for this machine only", http.StatusForbidden)
	}))
	if operator != nil {
		operators = operator(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
			operators.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether a Host names this machine and can name no other.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// embedded reports whether a page of another site asks for a part of itself, such as
// an image that is really a profile. Following a link is fine.
func embedded(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
