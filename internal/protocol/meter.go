package protocol

import (
	"sync"
	"sync/atomic"
	"time"

	"durablestreams/internal/metric"
	"durablestreams/stream"
)

// Kind is what a request is for, as far as it is counted.
type Kind uint8

// The kinds of requests.
const (
	Other Kind = iota + 1 // preflights, unknown methods, paths that name no stream
	Append
	Create
	Delete
	CatchUp
	Head
	LongPoll
	SSE
	ControlKind
	endOfKinds
)

var kindNames = [endOfKinds]string{Other: "other", Append: "append", Create: "create", Delete: "delete", CatchUp: "read",
	Head: "head", LongPoll: "long-poll", SSE: "sse", ControlKind: "control"}

// String names the kind as metrics do.
func (k Kind) String() string { return kindNames[k] }

// Live reports whether requests of the kind wait for others to do something: how long
// they take says nothing of the server.
func (k Kind) Live() bool { return k == LongPoll || k == SSE }

// kindOfMethod is the kind of a request of which no more is known.
var kindOfMethod = map[string]Kind{"GET": CatchUp, "HEAD": Head, "PUT": Create, "POST": Append, "DELETE": Delete}

// Kind tells what the request is for, once it was begun, or a guess before that.
func (r *Request) Kind() Kind {
	if r.kind != 0 {
		return r.kind
	}
	if k := kindOfMethod[r.Method]; k != 0 {
		return k
	}
	return Other
}

// statuses are those that are counted one by one; the others are counted as 0.
var statuses = [...]int{0, 200, 201, 204, 304, 400, 401, 403, 404, 405, 408, 409, 410, 413, 429, 431, 500, 501, 503, 507}

// statusIndex finds a status among statuses.
var statusIndex = buildStatusIndex()

func buildStatusIndex() (index [600]uint8) {
	for i, code := range statuses {
		index[code] = uint8(i)
	}
	return index
}

// Meter counts answers. An adapter has one for each of its goroutines that answers many
// requests, so that they do not get into each other's way.
type Meter struct {
	core    *Core
	answers [endOfKinds][len(statuses)]atomic.Uint64
	bytes   [endOfKinds]atomic.Int64
	latency [endOfKinds]*metric.Histogram
}

// NewMeter gives a meter whose figures are in those of the core from now on.
func (c *Core) NewMeter() *Meter {
	m := &Meter{core: c}
	for k := range m.latency {
		m.latency[k] = metric.New(metric.Durations())
	}
	s := &c.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meters = append(s.meters, m)
	return m
}

// Peer is the other end of a connection, whose address is only asked for where it counts.
type Peer interface {
	// Peer is an address as net.Conn has it.
	Peer() string
}

// Answered counts an answer that is about to be sent, and the time since the request was
// there. It may add a field to the answer.
func (m *Meter) Answered(req *Request, r *Response, took time.Duration, peer Peer) {
	k := req.Kind()
	m.answers[k][statusIndex[r.Status]].Add(1)
	if r.Length > 0 && r.HasBody(req.Method) {
		m.bytes[k].Add(r.Length)
	}
	if !k.Live() {
		m.latency[k].Observe(int64(took))
	}
	if r.refusal != "" {
		m.core.stats.refused(r.refusal)
	}
	if m.core.opt.Watch != nil || r.Status == 500 {
		m.watched(req, r, took, peer)
	}
}

// stats is what a core counts.
type stats struct {
	sse    atomic.Int64 // waiting now, among limits.live
	frames atomic.Uint64
	bytes  atomic.Int64 // of frames

	mu       sync.Mutex
	meters   []*Meter
	refusals map[stream.Kind]uint64
}

func (s *stats) refused(kind stream.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals == nil {
		s.refusals = map[stream.Kind]uint64{}
	}
	s.refusals[kind]++
}

// Figures are what was counted since the start.
type Figures struct {
	Answers    []Answers
	Latency    map[Kind]metric.Snapshot
	Bytes      map[Kind]int64 // of bodies sent
	Refusals   map[stream.Kind]uint64
	Frames     uint64 // of SSE answers
	FrameBytes int64
	SSE        int64 // SSE answers under way; the other live reads are long-polls
}

// Answers counts those of one kind and status; 0 is for statuses that are rare.
type Answers struct {
	Kind   Kind
	Status int
	Count  uint64
}

// Figures adds up what all meters have counted.
func (c *Core) Figures() Figures {
	s := &c.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	f := Figures{Latency: map[Kind]metric.Snapshot{}, Bytes: map[Kind]int64{}, Refusals: map[stream.Kind]uint64{},
		Frames: s.frames.Load(), FrameBytes: s.bytes.Load(), SSE: s.sse.Load()}
	for kind, n := range s.refusals {
		f.Refusals[kind] = n
	}
	for k := Other; k < endOfKinds; k++ {
		var latency []*metric.Histogram
		var counts [len(statuses)]uint64
		for _, m := range s.meters {
			latency = append(latency, m.latency[k])
			f.Bytes[k] += m.bytes[k].Load()
			for i := range counts {
				counts[i] += m.answers[k][i].Load()
			}
		}
		for i, n := range counts {
			if n > 0 {
				f.Answers = append(f.Answers, Answers{k, statuses[i], n})
			}
		}
		if len(latency) > 0 && !k.Live() {
			f.Latency[k] = metric.Sum(latency...)
		}
	}
	return f
}
