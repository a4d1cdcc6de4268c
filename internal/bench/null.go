package bench

import (
	"context"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// runNull is the scenario of that name: the appends of the append scenario against a
// server that answers 204 and keeps nothing. It is the yardstick for the cost of an
// adapter, so nothing is set up and nothing is read back. The server runs in this
// process; its CPU is all that the loops did not use.
func runNull(ctx context.Context, b *bed) ([]Result, error) {
	start := b.opts.NullServer
	if start == nil {
		start = netHTTPNull
	}
	addr, stop, err := start()
	if err != nil {
		return nil, err
	}
	defer stop()
	b.addr, b.host, b.url = addr, addr, "http://"+addr
	b.pid = os.Getpid()
	f := newFormat(b.run, b.opts.Size, b.opts.JSON)
	l := layout{conns: b.opts.Connections, streams: b.opts.Streams}
	res, err := b.write(ctx, "null", "answers", newAppendRun(b, "null", f, l, b.opts.Producers), make([]ledger, l.conns))
	res.Notes = append(res.Notes, "nothing is kept, so nothing is verified")
	if b.opts.Producers {
		res.Duplicates = 0 // a fixed 204 reads like one
	}
	return []Result{res}, err
}

// netHTTPNull serves a fixed 204 with net/http.
func netHTTPNull() (addr string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Stream-Next-Offset", "0000000000000000_"+strconv.FormatInt(r.ContentLength, 16))
			w.WriteHeader(http.StatusNoContent)
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with ErrServerClosed
	}()
	return listener.Addr().String(), func() {
		_ = server.Close()
		<-done
	}, nil
}
