package history

import (
	"regexp"
	"sync"
	"time"
)

// Recorder writes down what clients do. It may be used from many goroutines.
type Recorder struct {
	begun time.Time

	mu   sync.Mutex
	ops  []*Op
	last int64 // number that was given out last
}

// NewRecorder begins a history.
func NewRecorder() *Recorder { return &Recorder{begun: time.Now()} }

// Now is the time of the history.
func (r *Recorder) Now() int64 { return int64(time.Since(r.begun)) }

// At gives the clock's time of a time of the history.
func (r *Recorder) At(t int64) time.Time { return r.begun.Add(time.Duration(t)) }

// stamp gives the next number. It is never below the time, so that times can be
// used as numbers of what comes later.
func (r *Recorder) stamp() int64 {
	r.last = max(r.last+1, r.Now())
	return r.last
}

// Begin notes that an operation is about to be sent.
func (r *Recorder) Begin(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Begin, op.Call = r.Now(), r.stamp()
	r.ops = append(r.ops, op)
}

// Done notes that the answer has come, whole or in part.
func (r *Recorder) Done(op *Op, a Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Answer, op.End, op.Return = a, r.Now(), r.stamp()
}

// Seen notes an operation that came as part of a longer one, since begun.
func (r *Recorder) Seen(op, since *Op, a Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Begin, op.Call = since.Begin, since.Call
	op.Answer, op.End, op.Return = a, r.Now(), r.stamp()
	r.ops = append(r.ops, op)
}

// NotBefore tells that an operation was decided at a time or later.
func (r *Recorder) NotBefore(op *Op, t int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Call = min(max(op.Call, t), op.Return)
}

// Died notes that a server's process is over: what it has not answered has
// happened by now or never will.
func (r *Recorder) Died(life int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, op := range r.ops {
		if op.Life == life && op.fate() == unknown {
			op.Return, op.End = r.stamp(), r.Now()
		}
	}
}

// Ops gives everything so far. Nothing may be under way any more.
func (r *Recorder) Ops() []*Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ops
}

// token is what makes a piece of content unlike any other.
var tokens = regexp.MustCompile(`<\d+\.\d+>`)

// tighten lets reads begin no earlier than the first that could have written what
// they have seen. That takes nothing away but work from the search for an order.
func tighten(list []*Op) {
	sent := map[string]int64{}
	for _, op := range list {
		for _, t := range tokens.FindAllString(string(op.Ask.Body), -1) {
			if _, again := sent[t]; !again {
				sent[t] = op.Call
			}
		}
	}
	for _, op := range list {
		if op.Kind != Read {
			continue
		}
		for _, t := range tokens.FindAllString(string(op.Data), -1) {
			if call := sent[t]; call > op.Call && call < op.Return {
				op.Call = call
			}
		}
	}
}
