package webhook

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// addressError says that a connection was not made, since the policy refuses the
// address that the host's name led to.
type addressError struct {
	addr   netip.Addr
	reason string
}

func (e *addressError) Error() string {
	return fmt.Sprintf("not connected to %s: %s", e.addr, e.reason)
}

// guard makes connections to addresses that the policy allows.
type guard struct {
	policy Policy
	dialer net.Dialer
}

// dial connects to "host:port". The policy sees each address at the very moment at
// which the system is about to connect to it, so it does not matter what a name led
// to before.
func (g *guard) dial(ctx context.Context, network, target string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	d := g.dialer
	d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("not connected: %w", err)
		}
		if reason := g.policy.checkAddr(strings.ToLower(host), at.Addr()); reason != "" {
			return &addressError{at.Addr(), reason}
		}
		return nil
	}
	return d.DialContext(ctx, network, target)
}
