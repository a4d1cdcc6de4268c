package fastpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"durablestreams/internal/protocol"
)

// loop is one event loop. Its fields belong to its goroutine but for the inbox.
type loop struct {
	srv    *Server
	meter  *protocol.Meter
	epfd   int
	wakefd int

	conns  map[int32]*conn
	timers timers
	rbuf   []byte // what the last read brought
	wbuf   []byte // the answer being written
	date   []byte
	dateAt int64 // second that date tells
	now    time.Time
	base   time.Time // what deadlines count from, on the clock that nobody sets

	inbox inbox
	spare []message // for the inbox, when its list is being handled
}

// inbox is how other goroutines reach a loop.
type inbox struct {
	sleeping atomic.Bool // the loop waits for events, or is about to

	mu    sync.Mutex
	list  []message
	ended bool // nobody reads this any more
}

// waiting says whether there is a message.
func (i *inbox) waiting() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.list) > 0
}

// message says that something concerns c.
type message struct {
	c    *conn
	what what
}

type what uint8

const (
	accepted what = iota + 1
	answered      // a write is done
	prepared      // a worker is done
	woken         // a feed may have something
	drain         // c is nil: connections are to end
	resumed       // it had its turn and has more to do
	cut           // c is nil: connections end now
)

// rbufSize is the most that one read takes, maxWbuf the most that is kept for
// writing.
const (
	rbufSize = 64 << 10
	maxWbuf  = 1 << 20
)

func newLoop(srv *Server) (*loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	wakefd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create eventfd: %w", err), unix.Close(epfd))
	}
	l := &loop{srv: srv, meter: srv.core.NewMeter(), epfd: epfd, wakefd: wakefd, conns: map[int32]*conn{}, rbuf: make([]byte, rbufSize), base: time.Now()}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wakefd)}
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, wakefd, &ev); err != nil {
		return nil, errors.Join(fmt.Errorf("watch eventfd: %w", err), l.closeFiles())
	}
	return l, nil
}

func (l *loop) closeFiles() error { return errors.Join(unix.Close(l.epfd), unix.Close(l.wakefd)) }

// post puts a message into the inbox, false if the loop has ended. It never
// blocks for long and may be called from any goroutine.
func (l *loop) post(m message) bool {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock() // not earlier: wakefd is open as long as the loop has not ended
	if l.inbox.ended {
		return false
	}
	l.inbox.list = append(l.inbox.list, m)
	if l.inbox.sleeping.CompareAndSwap(true, false) {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		// It can only fail when the counter is full, and then the loop wakes.
		_, _ = unix.Write(l.wakefd, one[:])
	}
	return true
}

// run handles events until the server has ended and every connection is closed.
func (l *loop) run() {
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := l.wait(events)
		if err != nil && !errors.Is(err, unix.EINTR) {
			l.srv.opts.Logger.Error("event loop ended", "err", err)
			return
		}
		l.burst(events, max(n, 0))
		l.trim()
		if l.srv.ending.Load() && l.end() {
			return
		}
	}
}

// burstTurns bounds how long a burst keeps the committer waiting.
const burstTurns = 16

// burst handles the n events at hand and whatever comes meanwhile, until nothing
// is left to do. What it brings goes into one commit batch: begun with the first
// request, a batch would leave the others to the next sync.
func (l *loop) burst(events []unix.EpollEvent, n int) {
	l.srv.core.Cork()
	defer l.srv.core.Uncork()
	for turns := 1; ; turns++ {
		l.now = time.Now()
		for i := range n {
			l.event(&events[i])
		}
		l.messages()
		l.expire()
		if turns == burstTurns {
			return
		}
		n, _ = unix.EpollWait(l.epfd, events, 0)
		if n = max(n, 0); n == 0 && !l.inbox.waiting() {
			return
		}
	}
}

// trim lets go of a buffer that an unusually large answer has made.
func (l *loop) trim() {
	if cap(l.wbuf) > maxWbuf {
		l.wbuf = nil
	}
}

// end closes the inbox if nothing is left to do.
func (l *loop) end() bool {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	l.inbox.ended = len(l.conns) == 0 && len(l.inbox.list) == 0
	return l.inbox.ended
}

// wait blocks until there is an event, a message or a deadline.
func (l *loop) wait(events []unix.EpollEvent) (int, error) {
	l.inbox.sleeping.Store(true)
	timeout := -1
	if at, ok := l.timers.Next(); ok {
		timeout = int(max(0, min((at-l.nanos(time.Now())+int64(time.Millisecond)-1)/int64(time.Millisecond), 60_000)))
	}
	if l.inbox.waiting() {
		timeout = 0
	}
	n, err := unix.EpollWait(l.epfd, events, timeout)
	l.inbox.sleeping.Store(false)
	return n, err
}

func (l *loop) event(ev *unix.EpollEvent) {
	if ev.Fd == int32(l.wakefd) {
		var b [8]byte
		_, _ = unix.Read(l.wakefd, b[:])
		return
	}
	c := l.conns[ev.Fd]
	if c == nil {
		return
	}
	l.guard(c, func() {
		if ev.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			c.broken = true
		}
		if ev.Events&unix.EPOLLRDHUP != 0 {
			c.half = true
		}
		if ev.Events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			c.readable = true
		}
		if ev.Events&unix.EPOLLOUT != 0 {
			c.flush()
		}
		c.advance()
	})
}

// messages handles what is in the inbox.
func (l *loop) messages() {
	l.inbox.mu.Lock()
	list := l.inbox.list
	l.inbox.list = l.spare
	l.inbox.mu.Unlock()
	for i, m := range list {
		list[i] = message{}
		if m.c == nil {
			l.all(m.what)
			continue
		}
		l.guard(m.c, func() { m.c.message(m.what) })
	}
	l.spare = list[:0]
}

// expire looks at the connections whose time has come.
func (l *loop) expire() {
	at := l.nanos(l.now)
	for c := l.timers.Pop(at); c != nil; c = l.timers.Pop(at) {
		l.guard(c, c.timeout)
	}
}

// all ends the connections, gently or not.
func (l *loop) all(w what) {
	for _, c := range l.conns {
		if w == cut {
			l.guard(c, c.close)
		} else {
			l.guard(c, c.drain)
		}
	}
}

// nanos is a time as deadlines are kept; never 0.
func (l *loop) nanos(t time.Time) int64 { return max(int64(t.Sub(l.base)), 1) }

// guard keeps a panic in one request from taking the process down.
func (l *loop) guard(c *conn, do func()) {
	defer func() {
		if v := recover(); v != nil {
			l.srv.opts.Logger.Error("panic in an event loop", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			defer func() { _ = recover() }() // the feed is not well either
			c.close()
		}
	}()
	do()
}

// dateField is the Date field of the current second.
func (l *loop) dateField() []byte {
	if s := l.now.Unix(); s != l.dateAt {
		l.dateAt, l.date = s, appendDate(l.date[:0], l.now)
	}
	return l.date
}
