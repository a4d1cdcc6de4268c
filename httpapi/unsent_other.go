//go:build !linux

package httpapi

import "net"

// LimitUnsent does something on Linux only.
func LimitUnsent(net.Conn) {}
