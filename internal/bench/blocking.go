package bench

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// blocking drives each connection from a goroutine of its own. It runs everywhere and
// costs some microseconds more for each request than the driver over epoll.
type blocking struct {
	pool  *pool
	conns []conn
	socks []net.Conn
	mu    sync.Mutex // serialises the tasks of the group
}

func newBlocking(p *pool, conns []conn) *blocking {
	return &blocking{pool: p, conns: conns, socks: make([]net.Conn, len(conns))}
}

const dialPatience = 5 * time.Second

func (b *blocking) connect() error {
	for i := range b.socks {
		sock, err := net.DialTimeout("tcp", b.pool.addr, dialPatience)
		if err != nil {
			return err
		}
		b.socks[i] = sock
	}
	return nil
}

func (b *blocking) close() {
	for i, sock := range b.socks {
		if sock != nil {
			sock.Close()
			b.socks[i] = nil
		}
	}
}

func (b *blocking) run() (usage, error) {
	before := processUsage()
	done := make(chan struct{})
	defer close(done)
	var group sync.WaitGroup
	errs := make([]error, len(b.conns))
	for i := range b.conns {
		b.conns[i].stopped = false
		group.Go(func() { errs[i] = b.drive(i) })
	}
	group.Wait()
	return processUsage().less(before), errors.Join(errs...)
}

// tick bounds how long a driver is deaf to the end of its run.
const tick = 100 * time.Millisecond

// drive works for one connection until its task stops.
func (b *blocking) drive(i int) error {
	c := &b.conns[i]
	buf := make([]byte, 64<<10)
	var request []byte
	for !b.pool.quit.Load() {
		if b.socks[i] == nil {
			if err := b.redial(i); err != nil {
				return err
			}
			continue
		}
		b.mu.Lock()
		now := b.pool.now()
		out, m := c.begin(now, request[:0], b.pool.patience)
		b.mu.Unlock()
		request = out
		switch m.kind {
		case stop:
			return nil
		case wait:
			b.pause(m.due - now)
			b.dropStale(i)
		case send:
			b.exchange(i, out, buf)
		}
	}
	return nil
}

// pause waits, but not past the next look at the pool.
func (b *blocking) pause(d int64) {
	timer := time.NewTimer(min(time.Duration(d), tick))
	<-timer.C
}

// dropStale closes a connection that the server closed while nothing was under way. It
// may, and the next request shall not suffer from it.
func (b *blocking) dropStale(i int) {
	raw, err := b.socks[i].(*net.TCPConn).SyscallConn()
	if err != nil {
		return
	}
	stale := false
	b.socks[i].SetReadDeadline(time.Time{}) // one that has passed would forbid the look
	err = raw.Read(func(fd uintptr) bool {
		var peeked [1]byte
		n, _, err := syscall.Recvfrom(int(fd), peeked[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		stale = n == 0 && err == nil
		return true
	})
	if stale && err == nil {
		b.socks[i].Close()
		b.socks[i] = nil
	}
}

func (b *blocking) redial(i int) error {
	sock, err := net.DialTimeout("tcp", b.pool.addr, dialPatience)
	if err == nil {
		b.pool.reconnects.Add(1)
		b.socks[i], b.conns[i].failures = sock, 0
		return nil
	}
	now := b.pool.now()
	again, fatal := b.conns[i].refused(now, err)
	if fatal == nil {
		b.pause(again - now)
	}
	return fatal
}

// exchange sends one request and reads its answer.
func (b *blocking) exchange(i int, request, buf []byte) {
	c, sock := &b.conns[i], b.socks[i]
	sock.SetWriteDeadline(b.pool.clock.Add(time.Duration(c.limit)))
	_, err := sock.Write(request)
	for err == nil && c.busy && !b.pool.quit.Load() {
		sock.SetReadDeadline(time.Now().Add(tick))
		var n int
		n, err = sock.Read(buf)
		b.mu.Lock()
		now := b.pool.now()
		if n > 0 {
			err = errors.Join(c.take(now, buf[:n]), notTimeout(err))
		} else if err = notTimeout(err); err == nil && now > c.limit {
			err = errTimeout
		}
		if errors.Is(err, io.EOF) && c.busy {
			err = c.ended(now)
			c.resp.close = true
		}
		b.mu.Unlock()
	}
	if err != nil || c.busy || c.resp.close {
		b.mu.Lock()
		if err != nil {
			c.broken(b.pool.now(), err)
		}
		c.busy = false // the pool quits: nobody waits for this answer any more
		b.mu.Unlock()
		sock.Close()
		b.socks[i] = nil
	}
}

// notTimeout drops the error of a deadline that only ends one look at the socket.
func notTimeout(err error) error {
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return nil
	}
	return err
}
