// Package streamtest gives tests a Durable Streams server of their own: the real one, in
// memory, on a free port of this machine, gone when the test ends.
//
//	func TestCheckout(t *testing.T) {
//		streams := streamtest.Start(t, nil)
//		orders := streams.URL("orders/17") // what the code under test gets
//		…
//	}
//
// It is for tests of programs that use streams. Several servers may run at once.
package streamtest

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"durablestreams"
)

// stopLimit is how long the requests of a test that is over may go on.
const stopLimit = 100 * time.Millisecond

// Server is a running server.
type Server struct {
	streams *durablestreams.Server
	address string
}

// Start starts a server, which stops when the test and its subtests end. opts may be nil;
// InMemory is set in any case, and live reads are cut shortly after the end. What
// goes wrong fails the test.
func Start(tb testing.TB, opts *durablestreams.Options) *Server {
	tb.Helper()
	var o durablestreams.Options
	if opts != nil {
		o = *opts
	}
	o.InMemory = true
	if o.ShutdownGrace == 0 {
		o.ShutdownGrace = stopLimit
	}
	streams, err := durablestreams.Open("", &o)
	if err != nil {
		tb.Fatalf("streamtest: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		stop()
		tb.Fatalf("streamtest: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- streams.Serve(ctx, ln) }()
	tb.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			tb.Errorf("streamtest: %v", err)
		}
	})
	return &Server{streams, ln.Addr().String()}
}

// URL is the URL of the stream at a path, which stands in it as it is: "a/b%2Fc".
func (s *Server) URL(path string) string { return "http://" + s.address + s.streams.Root() + path }

// Handler serves the same streams, for tests that need a server of their own around it.
func (s *Server) Handler() http.Handler { return s.streams.Handler() }
