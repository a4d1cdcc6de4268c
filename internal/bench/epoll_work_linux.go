package bench

import (
	"errors"
	"syscall"
	"time"
	"unsafe"
)

// work is the loop: wait for readiness or an alarm, serve, look for time-outs.
func (e *epoll) work() error {
	events := make([]syscall.EpollEvent, 256)
	lastSweep := e.pool.now()
	for e.active > 0 && e.fatal == nil && !e.pool.quit.Load() {
		e.setTimer()
		n, err := syscall.EpollWait(e.fd, events, int(tick/time.Millisecond))
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		for k := range events[:max(n, 0)] {
			e.serve(&events[k])
		}
		now := e.pool.now()
		for len(e.alarms) > 0 && e.alarms[0].due <= now {
			e.pump(e.alarms.pop().conn, e.pool.now())
		}
		if now-lastSweep > int64(tick) {
			e.sweep(now)
			lastSweep = now
		}
	}
	return e.fatal
}

// serve handles one event.
func (e *epoll) serve(ev *syscall.EpollEvent) {
	if ev.Fd == timerMark {
		var count [8]byte
		_, _ = syscall.Read(e.timer, count[:]) // rings again if unread; nothing else can be wrong
		e.armed = 0
		return
	}
	i := int(ev.Fd)
	s := &e.socks[i]
	if s.fd < 0 || s.generation != ev.Pad {
		return // of a socket that is gone
	}
	if s.connecting {
		if err := e.finishDial(s, i); err != nil {
			e.drop(i)
			e.again(i, err)
			return
		}
		e.pump(i, e.pool.now())
		return
	}
	if ev.Events&syscall.EPOLLOUT != 0 {
		e.flush(i)
	}
	if ev.Events&^syscall.EPOLLOUT != 0 && s.fd >= 0 {
		e.read(i)
	}
}

// read takes what has come, once; what is left rings again.
func (e *epoll) read(i int) {
	c := &e.conns[i]
	n, errno := rawRead(e.socks[i].fd, e.in)
	if errno == syscall.EAGAIN || errno == syscall.EINTR {
		return
	}
	now := e.pool.now()
	var err error
	switch {
	case errno != 0:
		err = errno
	case n == 0:
		err = c.ended(now)
		e.drop(i)
	default:
		err = c.take(now, e.in[:n])
	}
	if err != nil {
		if !c.busy {
			e.pool.unsolicited.Add(1)
		}
		e.drop(i)
		c.broken(now, err)
	}
	if c.busy {
		return
	}
	if c.resp.close || len(e.socks[i].unsent) > 0 { // answered before all was sent
		e.drop(i)
	}
	e.pump(i, now)
}

// pump asks a task that has no request under way what to do, and does it.
func (e *epoll) pump(i int, now int64) {
	c, s := &e.conns[i], &e.socks[i]
	if c.busy || c.stopped || s.connecting {
		return
	}
	if s.fd < 0 {
		e.redial(i)
		return
	}
	out, m := c.begin(now, e.request[:0], e.pool.patience)
	e.request = out
	switch m.kind {
	case stop:
		e.active--
	case wait:
		e.alarms.push(alarm{m.due, i})
	case send:
		e.write(i, out)
	}
}

func (e *epoll) redial(i int) {
	e.pool.reconnects.Add(1)
	if err := e.dial(i); err != nil {
		e.drop(i)
		e.again(i, err)
	}
}

// again plans another attempt to connect, or ends the run.
func (e *epoll) again(i int, err error) {
	due, fatal := e.conns[i].refused(e.pool.now(), err)
	if fatal != nil {
		e.fatal = fatal
		return
	}
	e.alarms.push(alarm{due, i})
}

// write sends a request, or as much as the kernel takes.
func (e *epoll) write(i int, out []byte) {
	s := &e.socks[i]
	n, errno := rawWrite(s.fd, out)
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		n = 0
	case errno != 0:
		e.lost(i, errno)
		return
	}
	if n == len(out) {
		return
	}
	s.unsent = append(s.unsent[:0], out[n:]...)
	if err := e.watch(syscall.EPOLL_CTL_MOD, i, syscall.EPOLLIN|syscall.EPOLLOUT); err != nil {
		e.fatal = err
	}
	s.writing = true
}

// flush sends what write could not.
func (e *epoll) flush(i int) {
	s := &e.socks[i]
	n, errno := rawWrite(s.fd, s.unsent)
	if errno == syscall.EAGAIN || errno == syscall.EINTR {
		return
	}
	if errno != 0 {
		e.lost(i, errno)
		return
	}
	s.unsent = s.unsent[:copy(s.unsent, s.unsent[n:])]
	if len(s.unsent) > 0 {
		return
	}
	s.writing = false
	if err := e.watch(syscall.EPOLL_CTL_MOD, i, syscall.EPOLLIN); err != nil {
		e.fatal = err
	}
}

// lost gives up a connection while it writes. The task is asked again by an alarm, not
// from here, so that a server that breaks every connection cannot deepen the stack.
func (e *epoll) lost(i int, err error) {
	now := e.pool.now()
	e.drop(i)
	e.conns[i].broken(now, err)
	e.alarms.push(alarm{now, i})
}

// sweep breaks the connections whose answer is overdue.
func (e *epoll) sweep(now int64) {
	for i := range e.conns {
		if c := &e.conns[i]; c.busy && now > c.limit {
			e.lost(i, errTimeout)
		}
	}
}

// setTimer makes the timer ring for the earliest alarm, if it does not already.
func (e *epoll) setTimer() {
	if len(e.alarms) == 0 || e.armed != 0 && e.armed <= e.alarms[0].due {
		return
	}
	e.armed = e.alarms[0].due
	setTimer(e.timer, max(e.armed-e.pool.now(), 1))
}

// rawRead is read(2) on a socket that does not block.
func rawRead(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// rawWrite is write(2) on a socket that does not block. The runtime ignores SIGPIPE
// on sockets.
func rawWrite(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// itimerspec is the kernel's struct of that name.
type itimerspec struct {
	interval, value syscall.Timespec
}

const clockMonotonic = 1

func newTimer() (int, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// setTimer makes a timer ring once, after some nanoseconds.
func setTimer(fd int, ns int64) {
	spec := itimerspec{value: syscall.NsecToTimespec(ns)}
	syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(fd), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}
