package durablestreams

import (
	"context"
	"sync"

	"durablestreams/internal/protocol"
	"durablestreams/internal/requestlog"
	"durablestreams/internal/trace"
	"durablestreams/internal/version"
)

// watch begins what wants to know of answers; nil: nobody does, and answers cost nothing
// more.
func (s *Server) watch() (*protocol.Watch, error) {
	w := &protocol.Watch{All: s.opts.AccessLog || s.opts.OTLPEndpoint != "", Slow: s.opts.SlowRequest}
	if !w.All && w.Slow == 0 {
		return nil, nil
	}
	var tell []func(protocol.Answer)
	if s.opts.OTLPEndpoint != "" {
		var err error
		if s.traces, err = trace.New(trace.Options{Endpoint: s.opts.OTLPEndpoint, Version: version.Read().Version, Logger: s.opts.Logger}); err != nil {
			return nil, err
		}
		tell = append(tell, s.traces.Tell)
	}
	if s.opts.AccessLog || w.Slow > 0 {
		s.log = requestlog.New(s.opts.Logger, s.opts.AccessLog)
		tell = append(tell, s.log.Tell)
	}
	w.Tell = func(a protocol.Answer) {
		for _, f := range tell {
			f(a)
		}
	}
	return w, nil
}

// endWatch lets lines and spans of the last answers go out, while somebody takes them.
func (s *Server) endWatch() {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { s.log.Close(ctx) })
	all.Go(func() { s.traces.Close(ctx) })
	all.Wait()
}
