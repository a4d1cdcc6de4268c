//go:build !linux

package fastpath

import (
	"context"
	"errors"
	"net"

	"durablestreams/internal/protocol"
)

// Supported reports whether this system has event loops.
const Supported = false

// Server does not exist on this system: net/http serves everything.
type Server struct{}

// New always fails.
func New(*protocol.Core, *Options) (*Server, error) {
	return nil, errors.New("the fast path needs Linux")
}

// Take takes nothing.
func (*Server) Take(net.Conn, func()) bool { return false }

// Shutdown does nothing.
func (*Server) Shutdown(context.Context) error { return nil }

func (*Server) handTo(func(net.Conn)) {}
