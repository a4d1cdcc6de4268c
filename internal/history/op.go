package history

import (
	"fmt"
	"strings"
)

// Kind is what a client asks for.
type Kind string

// The kinds. Closing is an append without a body.
const (
	Create Kind = "create"
	Append Kind = "append"
	Read   Kind = "read"
	Head   Kind = "head"
	Delete Kind = "delete"

	lookAt Kind = "look at the source for" // the first step of a fork
)

// Op is one request and its answer. What is read by SSE is one Op for each pair of
// events.
type Op struct {
	Client int  `json:"client"`
	Life   int  `json:"life"` // of the server: how often it was started before
	Kind   Kind `json:"kind"`

	// Order. Two operations are in order if one returned before the other was
	// called; no two numbers of a history are the same but where noted.
	Call   int64 `json:"call"`
	Return int64 `json:"return"` // 0: not yet

	// Time in nanoseconds since the history began.
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`

	Path string `json:"path"`
	Ask  Ask    `json:"ask"`
	Answer

	of *Op // of a look: the fork
}

// Ask is what a request says besides its path. Bodies are in stored form: byte
// streams as they are, JSON as messages each followed by a comma and a newline.
type Ask struct {
	Type     string    `json:"type,omitempty"`
	Body     Bytes     `json:"body,omitempty"`
	Close    bool      `json:"close,omitempty"`
	Producer *Producer `json:"producer,omitempty"`
	Seq      string    `json:"seq,omitempty"`   // Stream-Seq
	TTL      *int64    `json:"ttl,omitempty"`   // seconds
	Until    int64     `json:"until,omitempty"` // Stream-Expires-At, as a time like Op.Begin
	Source   string    `json:"source,omitempty"`
	Point    string    `json:"point,omitempty"` // Stream-Fork-Offset
	Sub      int       `json:"sub,omitempty"`   // Stream-Fork-Sub-Offset
	From     string    `json:"from,omitempty"`  // offset of a read
	Live     string    `json:"live,omitempty"`  // long-poll or sse
}

// Producer is the triple of an idempotent producer.
type Producer struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"`
	Seq   int64  `json:"seq"`
}

// Answer is what a client was told. All of it but Next, Data and Part has to be
// exactly what the model says.
type Answer struct {
	Status int    `json:"status"` // 0: no answer that counts
	Code   string `json:"code,omitempty"`
	Next   string `json:"next,omitempty"` // Stream-Next-Offset
	Data   Bytes  `json:"data,omitempty"`
	Part   bool   `json:"part,omitempty"` // the answer broke off: only the data count

	Type     string `json:"type,omitempty"`
	Closed   bool   `json:"closed,omitempty"`
	UpToDate bool   `json:"upToDate,omitempty"`
	TTL      string `json:"ttl,omitempty"`
	Until    int64  `json:"until,omitempty"`

	ProducerEpoch string `json:"producerEpoch,omitempty"`
	ProducerSeq   string `json:"producerSeq,omitempty"`
	Expected      string `json:"expected,omitempty"`
	Received      string `json:"received,omitempty"`
}

// Statuses that no server sends.
const (
	notSent    = 601 // the server was down
	diskFailed = 602 // a 500, from a server whose disk may fail
	diskFull   = 603 // a 507, from one whose disk may be full
	noAnswer   = 604 // although it had to come
)

// fate is what is known of an operation's effect.
type fate uint8

const (
	unknown fate = iota // it may have happened
	nothing             // it has not happened, and its answer tells nothing of the stream
	told
)

func (op *Op) fate() fate {
	switch {
	case op.Status == 0:
		return unknown
	case op.Status == 503, op.Status == notSent, op.Status == diskFull:
		return nothing
	case op.Status == diskFailed && op.Code == "damaged" && op.changes():
		return nothing // the stream could not be loaded, so nothing was decided
	case op.Status == diskFailed:
		return unknown
	}
	return told
}

// changes reports whether the operation may change more than a stream's lifetime.
func (op *Op) changes() bool { return op.Kind != Read && op.Kind != Head }

// Family is the part of a path that names the streams which are checked together.
func Family(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }

func (op *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", op.Kind, op.Path)
	a := &op.Ask
	word := func(set bool, format string, args ...any) {
		if set {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	word(a.Live != "", "%s", a.Live)
	word(op.Kind == Read, "from %s", a.From)
	word(a.Source != "", "fork of %s at %q+%d", a.Source, a.Point, a.Sub)
	word(len(a.Body) > 0, "%s", a.Body.brief())
	word(a.Close, "close")
	word(a.Producer != nil, "producer %v", a.Producer)
	word(a.Seq != "", "seq %s", a.Seq)
	word(a.TTL != nil, "ttl %s", number(a.TTL))
	word(a.Until != 0, "until %d", a.Until)
	if op.Status == 0 {
		return b.String() + ": ?"
	}
	fmt.Fprintf(&b, ": %d", op.Status)
	word(op.Code != "", "%s", op.Code)
	word(len(op.Data) > 0, "%s", op.Data.brief())
	word(op.Part, "broken off")
	word(op.Next != "", "next %s", op.Next)
	word(op.UpToDate, "up to date")
	word(op.Closed, "closed")
	word(op.ProducerSeq != "", "highest %s/%s", op.ProducerEpoch, op.ProducerSeq)
	word(op.Expected != "", "expected %s", op.Expected)
	return b.String()
}

func (p *Producer) String() string { return fmt.Sprintf("%s %d/%d", p.ID, p.Epoch, p.Seq) }

func number(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
