// Package httpapi carries the protocol over net/http: HTTP/1.1, HTTP/2 and TLS,
// or embedded in somebody else's server. It decides nothing about streams; it
// moves bytes between a connection and a protocol.Core, and keeps slow, broken
// and hostile peers from costing more than their own connection.
//
// Paths are taken as they were sent, from the request line: the handler must
// not stand behind anything that cleans or redirects them (http.ServeMux does),
// and http.StripPrefix has no effect on it; set the core's BasePath instead.
//
// A live read holds the request's own goroutine and no other. The handler may be
// used by any number of goroutines at once.
package httpapi
