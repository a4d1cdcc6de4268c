package bench

import (
	"errors"
	"net"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// epoll drives all connections of a group from one thread: level-triggered readiness,
// one read and one write for each small exchange. The calls on sockets never block,
// so they are made without telling the scheduler; only the wait itself does.
type epoll struct {
	pool    *pool
	conns   []conn
	socks   []socket
	remote  syscall.Sockaddr
	family  int
	fd      int
	timer   int   // a timerfd, finer than epoll's milliseconds
	armed   int64 // when the timer is set to ring, 0 if not
	alarms  alarms
	active  int // connections whose task has not stopped
	fatal   error
	in      []byte
	request []byte
}

// socket is the kernel's side of a connection.
type socket struct {
	fd         int // -1: none
	generation int32
	connecting bool
	writing    bool   // readiness to write is being watched
	unsent     []byte // rest of a request that the kernel did not take at once
}

// timerMark is the index that events of the timer carry.
const timerMark = -1

func newDriver(p *pool, conns []conn) driver {
	e := &epoll{pool: p, conns: conns, socks: make([]socket, len(conns)), fd: -1, timer: -1, in: make([]byte, 128<<10)}
	for i := range e.socks {
		e.socks[i].fd = -1
	}
	return e
}

// connect opens everything and waits until all connections stand.
func (e *epoll) connect() error {
	if err := e.open(); err != nil {
		return err
	}
	pending := 0
	for i := range e.socks {
		if err := e.dial(i); err != nil {
			return err
		}
		pending++
		if pending == 64 || i == len(e.socks)-1 { // no more at once than a listen queue surely holds
			if err := e.established(pending); err != nil {
				return err
			}
			pending = 0
		}
	}
	return nil
}

// established waits for connections under way.
func (e *epoll) established(pending int) error {
	deadline := time.Now().Add(dialPatience)
	events := make([]syscall.EpollEvent, 64)
	for pending > 0 {
		if time.Now().After(deadline) {
			return errTimeout
		}
		n, err := syscall.EpollWait(e.fd, events, int(tick/time.Millisecond))
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		for _, ev := range events[:max(n, 0)] {
			s := &e.socks[ev.Fd]
			if !s.connecting {
				continue
			}
			if err := e.finishDial(s, int(ev.Fd)); err != nil {
				return err
			}
			pending--
		}
	}
	return nil
}

func (e *epoll) open() error {
	host, port, err := net.SplitHostPort(e.pool.addr)
	if err != nil {
		return err
	}
	ip := net.ParseIP(host)
	number, err := strconv.Atoi(port)
	if err != nil || ip == nil {
		return errors.New("address must be an IP address and a port")
	}
	if v4 := ip.To4(); v4 != nil {
		e.family, e.remote = syscall.AF_INET, &syscall.SockaddrInet4{Port: number, Addr: [4]byte(v4)}
	} else {
		e.family, e.remote = syscall.AF_INET6, &syscall.SockaddrInet6{Port: number, Addr: [16]byte(ip)}
	}
	if e.fd, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if e.timer, err = newTimer(); err != nil {
		return err
	}
	return syscall.EpollCtl(e.fd, syscall.EPOLL_CTL_ADD, e.timer, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: timerMark})
}

// dial begins a connection; readiness to write tells its end.
func (e *epoll) dial(i int) error {
	fd, err := syscall.Socket(e.family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s := &e.socks[i]
	s.fd, s.connecting, s.writing, s.unsent = fd, true, true, s.unsent[:0]
	s.generation++
	if err = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		return err
	}
	if err = syscall.Connect(fd, e.remote); err != nil && !errors.Is(err, syscall.EINPROGRESS) {
		return err
	}
	return e.watch(syscall.EPOLL_CTL_ADD, i, syscall.EPOLLIN|syscall.EPOLLOUT)
}

// finishDial looks how a connection attempt ended.
func (e *epoll) finishDial(s *socket, i int) error {
	code, err := syscall.GetsockoptInt(s.fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	if err != nil {
		return err
	}
	s.connecting, s.writing = false, false
	e.conns[i].failures = 0
	return e.watch(syscall.EPOLL_CTL_MOD, i, syscall.EPOLLIN)
}

func (e *epoll) watch(op, i int, events uint32) error {
	s := &e.socks[i]
	return syscall.EpollCtl(e.fd, op, s.fd, &syscall.EpollEvent{Events: events, Fd: int32(i), Pad: s.generation})
}

// drop closes a connection's socket; with it go all its events but those already
// fetched, which the generation tells apart.
func (e *epoll) drop(i int) {
	if s := &e.socks[i]; s.fd >= 0 {
		syscall.Close(s.fd)
		s.fd, s.connecting = -1, false
		s.generation++
	}
}

func (e *epoll) close() {
	for i := range e.socks {
		e.drop(i)
	}
	for _, fd := range []*int{&e.fd, &e.timer} {
		if *fd >= 0 {
			syscall.Close(*fd)
			*fd = -1
		}
	}
}

func (e *epoll) run() (usage, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadUsage()
	e.alarms, e.active, e.fatal = e.alarms[:0], len(e.conns), nil
	for i := range e.conns {
		e.conns[i].stopped = false
	}
	for i := range e.conns {
		e.pump(i, e.pool.now())
	}
	err := e.work()
	for i := range e.conns {
		if e.conns[i].busy { // only when the pool quits: nobody waits for these answers
			e.conns[i].busy = false
			e.drop(i)
		}
	}
	return threadUsage().less(before), err
}
