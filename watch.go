package durablestreams

import (
	"context"

	"durablestreams/internal/protocol"
	"durablestreams/internal/requestlog"
)

// watch begins what wants to know of answers; nil: nobody does, and answers cost nothing
// more.
func (s *Server) watch() *protocol.Watch {
	if !s.opts.AccessLog && s.opts.SlowRequest == 0 {
		return nil
	}
	s.log = requestlog.New(s.opts.Logger, s.opts.AccessLog)
	return &protocol.Watch{All: s.opts.AccessLog, Slow: s.opts.SlowRequest, Tell: s.log.Tell}
}

// closeLog lets lines of the last answers be written, while the log takes them.
func (s *Server) closeLog() {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	s.log.Close(ctx)
}
