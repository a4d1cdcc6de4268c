package bench

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// maxAttempts is how often setting up and reading back try a request again before
// they call it failed.
const maxAttempts = 4

// retryPause is how long they wait before.
const retryPause = 50 * time.Millisecond

// source tells what has to be in the streams of one kind.
type source struct {
	kind    string
	count   int // streams 0 to count-1
	format  *format
	layout  layout
	ledgers []ledger
	absent  bool // a stream without acknowledged records need not exist
}

// acknowledgedIn counts what has to be there.
func (s *source) acknowledged() int64 {
	n := int64(0)
	for i := range s.ledgers {
		n += s.ledgers[i].sent - int64(len(s.ledgers[i].odd))
	}
	return n
}

// readBack reads every stream from its start and compares it with the ledgers.
func (b *bed) readBack(ctx context.Context, src *source) (*Verification, error) {
	found := make([]*Verification, b.opts.Loops)
	for i := range found {
		found[i] = &Verification{}
	}
	readers := min(src.count, max(b.opts.Connections, 8), 64)
	groups := b.spread(readers, func(i, loop int) task {
		return &readTask{
			bed: b, source: src, stream: i, stride: readers,
			check: check{layout: src.layout, ledgers: src.ledgers, total: found[loop]},
			scan:  scan{format: src.format},
		}
	})
	if err := b.runOnce(ctx, groups); err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	total := &Verification{Acknowledged: src.acknowledged()}
	for _, v := range found {
		total.add(v)
	}
	return total, nil
}

// runOnce runs tasks over connections of their own.
func (b *bed) runOnce(ctx context.Context, groups [][]task) error {
	p := newPool(b.addr, &b.opts, b.clock, groups)
	defer p.close()
	if err := p.connect(ctx); err != nil {
		return err
	}
	_, err := p.run(ctx)
	return err
}

// readTask reads every stride-th stream, page by page.
type readTask struct {
	bed    *bed
	source *source
	stream int
	stride int
	check  check
	scan   scan

	reading  bool
	attempts int
	due      int64
	offset   []byte
}

func (t *readTask) next(now int64, buf []byte) ([]byte, move) {
	if t.stream >= t.source.count {
		return buf, move{kind: stop}
	}
	if now < t.due {
		return buf, move{kind: wait, due: t.due}
	}
	if !t.reading {
		t.reading = true
		t.offset = append(t.offset[:0], "-1"...)
		t.check.begin(t.stream)
		t.scan.reset()
	}
	buf = append(buf, "GET "...)
	buf = t.bed.appendPath(buf, t.source.kind, t.stream)
	buf = append(buf, "?offset="...)
	buf = append(buf, t.offset...)
	buf = append(buf, t.bed.fixed("\r\n")...)
	return buf, move{kind: send}
}

func (t *readTask) body(_ int64, r *response, piece []byte) {
	if r.status == 200 {
		t.scan.write(piece, &t.check)
	}
}

func (t *readTask) done(now int64, r *response) {
	switch {
	case r.status == 404 && t.source.absent: // fine unless its creation was acknowledged
		t.check.absent()
		t.advance()
	case r.status == 429 || r.status >= 500:
		t.again(now, statusName(r.status))
	case r.status != 200:
		t.give(statusName(r.status))
	case bytes.Compare(r.offset, t.offset) < 0 && string(t.offset) != "-1", len(r.offset) == 0:
		t.give(fmt.Sprintf("Stream-Next-Offset %q after %q", r.offset, t.offset))
	case !r.upToDate && bytes.Equal(r.offset, t.offset):
		t.give("no progress: the page ends where it began and is not up to date")
	case !r.upToDate:
		t.scan.endPage(&t.check)
		t.offset = append(t.offset[:0], r.offset...)
	default:
		t.scan.endPage(&t.check)
		t.scan.end(&t.check)
		t.check.end()
		t.advance()
	}
}

func (t *readTask) failed(now int64, err error) { t.again(now, errorName(err)) }

// advance goes on with the next stream.
func (t *readTask) advance() {
	t.stream += t.stride
	t.reading, t.attempts = false, 0
}

// again reads the stream from its start once more, as often as is sensible.
func (t *readTask) again(now int64, why string) {
	if t.attempts++; t.attempts >= maxAttempts {
		t.give(why)
		return
	}
	t.reading, t.due = false, now+int64(retryPause)
}

// give gives the stream up.
func (t *readTask) give(why string) {
	t.check.unreadable(why)
	t.advance()
}
