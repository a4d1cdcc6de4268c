package httpapi

import (
	"net"
	"syscall"
)

const (
	tcpNotSentLowat = 25 // TCP_NOTSENT_LOWAT, which package syscall does not name

	// unsentInKernel is how many bytes of an answer the kernel takes before it can
	// send them. It takes more again when half of them have left.
	unsentInKernel = 128 << 10
)

// LimitUnsent keeps the kernel from taking far more of an answer than it can send.
// Without it some megabytes wait there for each stalled client, and a slow one is
// taken for stalled: on a local connection, such as a proxy's, the kernel asks for
// more only after a megabyte has gone, for which a client of 30 KB/s needs longer
// than the stall time. It is called for a new connection; a listener's own setting
// is not inherited with multipath TCP. A connection that has no such setting keeps
// its ways.
func LimitUnsent(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, unsentInKernel)
	})
}
