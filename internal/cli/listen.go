package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// adminAddress is the default of --admin-listen.
const adminAddress = "127.0.0.1:8643"

// listenAdmin opens the port for operators; nil is none. Nobody has asked for the
// default one, so a server that finds it taken, by a second one for example, goes on
// and says why there is none.
func (c *serveCommand) listenAdmin(ctx context.Context) (ln net.Listener, missing, err error) {
	switch c.AdminListen {
	case "off":
		return nil, nil, nil
	case "":
		ln, missing = listen(ctx, "--admin-listen", adminAddress)
		return ln, missing, nil
	}
	ln, err = listen(ctx, "--admin-listen", c.AdminListen)
	if err != nil {
		return nil, nil, err
	}
	if !loopback(ln.Addr()) {
		return nil, nil, errors.Join(usageError{fmt.Errorf("--admin-listen: %s is reachable from other machines, and there is no access control: use an address of this machine", c.AdminListen)}, ln.Close())
	}
	return ln, nil, nil
}

// listen opens the port; its errors are one line each.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, usageError{fmt.Errorf("%s: %q is not an address: want host:port, such as 127.0.0.1:8642", flag, address)}
	}
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another process; choose another address with %s", address, flag)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("no permission to listen on %s; choose a port from 1024 on with %s", address, flag)
	}
	return nil, fmt.Errorf("listen on %s: %w", address, err)
}
