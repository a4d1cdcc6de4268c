package protocol

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// Core is the protocol on a store.
type Core struct {
	store    Store
	opt      Options
	root     string // path of all streams, with the slash at the end
	proxies  proxies
	cors     atomic.Pointer[corsPolicy]
	draining chan struct{}
	drain    sync.Once
	ending   time.Duration // over which live reads end, once draining is closed
	frames   frames
	pacer    pacer
	limits   limits
	waiting  waiting
	stats    stats

	controlRoot string // path of the control API, with the slash at the end
}

// New returns the protocol on store. opt may be nil.
func New(store Store, opt *Options) (*Core, error) {
	if err := opt.Validate(); err != nil {
		return nil, fmt.Errorf("protocol options: %w", err)
	}
	c := &Core{store: store, opt: opt.withDefaults(), draining: make(chan struct{})}
	c.opt.Logger = LimitLog(c.opt.Logger)
	c.root = c.opt.BasePath + "/v1/stream/"
	c.controlRoot = c.root + controlSegment
	c.proxies, _ = parseProxies(c.opt.TrustedProxies) // which Validate has seen
	c.AllowOrigins(c.opt.AllowedOrigins)
	c.pacer.rate = pacedRate * runtime.GOMAXPROCS(0)
	c.limits.init(&c.opt)
	return c, nil
}

// Options gives the options with their defaults filled in.
func (c *Core) Options() Options { return c.opt }

// Root is the path of all streams, with a slash at the end.
func (c *Core) Root() string { return c.root }

// Drain lets all feeds end with their next step, and new ones with their first:
// long-polls with what there is, SSE with a last control event. Writes and
// reads go on. It is idempotent.
func (c *Core) Drain() { c.DrainWithin(0) }

// endsPerSecond is how many live reads end in a second while there is time: their
// clients all come back, here or elsewhere.
const endsPerSecond = 2000

// DrainWithin is Drain, but when there are many feeds they end one after the other,
// within a time.
func (c *Core) DrainWithin(d time.Duration) {
	c.drain.Do(func() {
		need := time.Duration(c.limits.live.used.Load()) * time.Second / endsPerSecond
		c.ending = max(min(d, need), 0)
		close(c.draining)
	})
}

// Cork says that the caller is about to begin several operations, one after the
// other without waiting, and will call Uncork then: an event loop with the
// events of one turn. The store can make one batch of them.
func (c *Core) Cork() { c.store.Cork() }

// Uncork ends what Cork began.
func (c *Core) Uncork() { c.store.Uncork() }

// Draining is closed by Drain. An adapter then steps its parked feeds.
func (c *Core) Draining() <-chan struct{} { return c.draining }

func (c *Core) isDraining() bool {
	select {
	case <-c.draining:
		return true
	default:
		return false
	}
}

// Mode says how an operation goes on after Begin.
type Mode uint8

// The modes.
const (
	Write Mode = iota + 1
	Read
	Live
	ControlMode
)

// Op is one operation whose head is right, on a stream or on the control API.
type Op struct {
	core *Core
	req  *Request
	path stream.Path
	mode Mode

	caller Caller // nil: no access control

	// Reads.
	head   bool // HEAD
	sse    bool
	from   place
	cursor string // the client's

	// Writes. One of the commands is used.
	append   stream.Append
	producer stream.Producer
	seq      string
	create   *stream.Create
	remove   *stream.Delete
	forkJSON bool // the fork names no type and its source is in JSON mode

	immediate bool // as Immediate found it

	done func()
	res  stream.Result
	err  error
}

// Mode says which methods may be called.
func (o *Op) Mode() Mode { return o.mode }

// WantsBody reports whether the request's body counts. An adapter that is not
// asked for it need not read it.
func (o *Op) WantsBody() bool {
	switch o.mode {
	case Write:
		return o.remove == nil && o.req.mayHaveBody()
	case ControlMode:
		return (o.req.Method == "PUT" || o.req.Method == "POST") && o.req.mayHaveBody()
	}
	return false
}

// MaxBody is the largest body that the operation takes, in bytes.
func (o *Op) MaxBody() int64 {
	if o.mode == ControlMode {
		return min(o.core.opt.MaxBody, maxControlBody)
	}
	return o.core.opt.MaxBody
}

// Immediate reports whether the operation's next call (Read, Submit, or the first
// Step of its feed) can do without the disk. Creations and deletions never can:
// they look for streams that need not be in memory.
func (o *Op) Immediate() bool {
	if o.create != nil || o.remove != nil {
		return false
	}
	from := o.looksBackFrom(o.from.offset.Pos)
	if o.mode == Write || o.head || o.from.now {
		from = math.MaxUint64
	}
	o.immediate = o.core.store.InMemory(o.path, from)
	return o.immediate
}

// enter takes a place for an operation that may wait for the disk; leave gives it
// back.
func (o *Op) enter(p places) (leave func(), err error) {
	if o.immediate || o.Immediate() {
		return func() {}, nil
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	return p.leave, nil
}

// looksBackFrom is where a read at a position begins: SSE may need the byte before
// it, see splitsCRLF.
func (o *Op) looksBackFrom(pos uint64) uint64 {
	if o.sse && pos > 0 {
		return pos - 1
	}
	return pos
}

// Begin checks the head of a request: the method, then the path, then who sends it,
// then headers and parameters. It gives either an operation or the answer. A request that is
// doomed is answered before its body was read if the client waits for a 100 or
// announced a large one.
func (c *Core) Begin(req *Request) (*Op, *Response) {
	req.kind, req.id, req.origin = Other, "", nil
	if methods := c.endpoint(req.Path); len(methods) > 0 {
		return c.beginControl(req, methods)
	}
	switch req.Method {
	case "GET", "HEAD", "PUT", "POST", "DELETE":
	case "OPTIONS":
		return nil, c.preflight(req)
	default:
		return nil, c.Refuse(req, refuseMethod(req.Method))
	}
	path, err := c.parsePath(req.Path)
	if err != nil {
		return nil, c.Refuse(req, err)
	}
	req.kind = 0 // as the method says
	o := &Op{core: c, req: req, path: path}
	if err := o.admit(); err != nil {
		return nil, c.Refuse(req, err)
	}
	if req.waitsForDisk() {
		if err := c.limits.changes.enter(); err != nil {
			return nil, c.Refuse(req, err)
		}
		defer c.limits.changes.leave()
	}
	switch req.Method {
	case "GET":
		err = o.beginGet()
	case "HEAD":
		o.mode, o.head = Read, true
	case "PUT":
		err = o.beginCreate()
	case "POST":
		err = o.beginAppend()
	case "DELETE":
		o.mode, o.remove = Write, &stream.Delete{Path: path}
	}
	if err != nil {
		return nil, c.Refuse(req, err)
	}
	return o, nil
}

// parsePath gives the stream that a request's path names.
func (c *Core) parsePath(raw string) (stream.Path, error) {
	rest, ok := strings.CutPrefix(raw, c.root)
	if !ok {
		return "", refuse(stream.NotFound, "streams are below "+c.root)
	}
	return stream.ParsePath(rest)
}

func (o *Op) beginGet() error {
	q, err := wire.ParseQuery(o.req.Query)
	if err != nil {
		return &stream.Error{Kind: stream.InvalidParameter, Message: err.Error()}
	}
	o.mode, o.cursor = Read, q.Cursor
	switch {
	case !q.HasLive:
	case q.Live == wire.LiveLongPoll:
		o.mode, o.req.kind = Live, LongPoll
	case q.Live == wire.LiveSSE:
		o.mode, o.req.kind, o.sse = Live, SSE, true
	default:
		return refuse(stream.InvalidParameter, "live is long-poll or sse")
	}
	if !q.HasOffset {
		if o.mode == Live {
			return refuse(stream.InvalidParameter, "a live read needs an offset")
		}
		return nil // the start
	}
	o.from, err = parsePlace(q.Offset)
	return err
}
