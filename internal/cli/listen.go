package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"durablestreams"
)

// adminAddress is the default of --admin-listen.
const adminAddress = "127.0.0.1:8643"

// listenAdmin opens the port for operators; nil is none. Nobody has asked for the
// default one, so a server that finds it taken, by a second one for example, goes on
// and says why there is none.
func (c *serveCommand) listenAdmin(ctx context.Context, opts *durablestreams.Options) (ln net.Listener, missing, err error) {
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
	if err := c.checkExposed(opts, "--admin-listen", ln.Addr()); err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	return ln, nil, nil
}

// checkAddresses says what is wrong with the addresses as far as that is known before
// they are listened on: names are not resolved.
func (c *serveCommand) checkAddresses() error {
	check := func(flag, address string) error {
		addr, err := literal(flag, address)
		if err != nil || addr == nil {
			return err
		}
		return c.checkExposed(c.options(nil), flag, addr)
	}
	err := check("--listen", c.Listen)
	if c.AdminListen != "" && c.AdminListen != "off" {
		err = errors.Join(err, check("--admin-listen", c.AdminListen))
	}
	return err
}

// literal reads an address. It is nil if it is a socket, or if its host is a name.
func literal(flag, address string) (net.Addr, error) {
	if strings.HasPrefix(address, "unix:") {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %q is not an address: want host:port, such as 127.0.0.1:8642", flag, address)}
	}
	n, err := net.LookupPort("tcp", port) // also of services, such as http
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %q is not a port", flag, port)}
	}
	if host == "" {
		return &net.TCPAddr{IP: net.IPv6unspecified, Port: n}, nil
	}
	if ip := net.ParseIP(host); ip != nil {
		return &net.TCPAddr{IP: ip, Port: n}, nil
	}
	return nil, nil
}

// listen opens the port; its errors are one line each.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(ctx, flag, path)
	}
	if _, err := literal(flag, address); err != nil {
		return nil, err
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

// listenUnix opens a socket. One that a server has left behind, because it was killed,
// is taken over. Who may connect is decided by the permissions of its folder.
func listenUnix(ctx context.Context, flag, path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", path)
		if err == nil {
			return nil, errors.Join(fmt.Errorf("%s is in use by another process; choose another socket with %s", path, flag), conn.Close())
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			err = os.Remove(path)
		}
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
	}
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return ln, nil
}
