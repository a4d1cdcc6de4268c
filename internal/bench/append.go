package bench

import (
	"strconv"
	"time"
)

// errorPause keeps a refused connection from asking again at full speed.
const errorPause = 10 * time.Millisecond

// appendTask appends records over one connection, or creates streams that hold one.
type appendTask struct {
	run    *appendRun
	tally  *tally
	ledger *ledger
	pace   pace
	conn   int

	attempts int   // at the present request, with producers
	lost     bool  // a producer gave up: the server takes no later number from it
	start    int64 // from when its latency counts
	pause    int64 // no request before
}

// appendRun is what the connections of one append scenario share.
type appendRun struct {
	bed       *bed
	kind      string
	format    *format
	layout    layout
	producers bool
	creates   bool   // PUT a stream of its own for each record
	head      string // from after the path to the end, or to the producer's number
}

func newAppendRun(b *bed, kind string, f *format, l layout, producers bool) *appendRun {
	r := &appendRun{bed: b, kind: kind, format: f, layout: l, producers: producers}
	r.head = b.fixed("Content-Type: ", f.contentType(), "\r\nContent-Length: ", strconv.Itoa(f.size), "\r\n")
	if producers {
		r.head += "Producer-Epoch: 0\r\nProducer-Id: " + b.run + "-"
	} else {
		r.head += "\r\n"
	}
	return r
}

// good tells whether a status says that a record is now in its stream. A stream that
// was there before is not what a create asked for.
func (r *appendRun) good(status int) bool {
	if r.creates {
		return status == 201
	}
	return status == 204 || status == 200
}

// request writes one append. A connection's producer counts on each stream apart.
func (r *appendRun) request(buf []byte, conn int, seq int64) []byte {
	method := "POST "
	if r.creates {
		method = "PUT "
	}
	buf = append(buf, method...)
	buf = r.bed.appendPath(buf, r.kind, r.layout.streamOf(conn, seq))
	buf = append(buf, r.head...)
	if r.producers {
		buf = appendHex(buf, uint64(conn), 4)
		buf = append(buf, "\r\nProducer-Seq: "...)
		buf = strconv.AppendInt(buf, seq/r.layout.rounds(conn), 10)
		buf = append(buf, "\r\n\r\n"...)
	}
	return r.format.appendTo(buf, conn, seq)
}

func (t *appendTask) next(now int64, buf []byte) ([]byte, move) {
	if t.lost {
		return buf, move{kind: stop}
	}
	if now < t.pause {
		return buf, move{kind: wait, due: t.pause}
	}
	if t.attempts == 0 {
		start, m := t.pace.next(now, t.tally)
		if m.kind != send {
			return buf, m
		}
		t.start = start
		t.pace.k++
		t.ledger.sent++
	}
	return t.run.request(buf, t.conn, t.ledger.sent-1), move{kind: send}
}

func (t *appendTask) body(int64, *response, []byte) {}

func (t *appendTask) done(now int64, r *response) {
	if !t.run.good(r.status) {
		t.bad(now, statusName(r.status), outcomeOf(r.status), r.status == 429 || r.status >= 500)
		return
	}
	if t.attempts > 0 {
		t.ledger.note(t.ledger.sent-1, acknowledged)
		t.attempts = 0
	}
	if t.run.producers && r.status == 204 {
		t.tally.duplicates++
	}
	t.tally.success(now, t.start)
}

func (t *appendTask) failed(now int64, err error) { t.bad(now, errorName(err), doubtful, true) }

// bad takes note of a request without a good answer. A producer sends it again, for
// that is what producers are for; others cannot without risking to write twice.
func (t *appendTask) bad(now int64, what string, o outcome, again bool) {
	t.tally.fail(what)
	t.ledger.note(t.ledger.sent-1, o)
	t.pause = now + int64(errorPause)
	switch {
	case !t.run.producers:
	case again && t.attempts+1 < maxAttempts:
		t.attempts++
		t.tally.retries++
	default:
		t.lost = true
	}
}

// writers makes the append tasks of a run, dealt to the loops.
func (r *appendRun) writers(ledgers []ledger, tallies []*tally) (all []*appendTask, groups [][]task) {
	groups = r.bed.spread(r.layout.conns, func(i, loop int) task {
		t := &appendTask{
			run: r, tally: tallies[loop], ledger: &ledgers[i], conn: i,
			pace: pace{conn: i, conns: r.layout.conns},
		}
		all = append(all, t)
		return t
	})
	return all, groups
}
