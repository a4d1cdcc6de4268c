package cli

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// notifier tells a service manager how a server is (sd_notify). Without one it does
// nothing.
type notifier struct{ socket string }

func newNotifier(env *Env) notifier {
	socket, _ := env.LookupEnv("NOTIFY_SOCKET")
	return notifier{socket}
}

func (n notifier) ready()    { n.send("READY=1") }
func (n notifier) stopping() { n.send("STOPPING=1") }

// reloading carries the time, by which systemd tells this reload from an earlier one.
func (n notifier) reloading() {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		n.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000))
	}
}

// send is in vain where nobody listens; a server does not depend on that.
func (n notifier) send(state string) {
	if n.socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", n.socket)
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}
