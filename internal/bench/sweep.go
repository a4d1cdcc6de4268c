package bench

import (
	"context"
	"fmt"
)

// sweepTask makes one request for each of a family of streams, to set them up or to
// take them away.
type sweepTask struct {
	method   string
	rest     string // of the head, after the path
	good     []int  // statuses
	bed      *bed
	kind     string
	stream   int
	stride   int
	count    int
	tally    *tally
	attempts int
	due      int64
}

func (t *sweepTask) next(now int64, buf []byte) ([]byte, move) {
	if t.stream >= t.count {
		return buf, move{kind: stop}
	}
	if now < t.due {
		return buf, move{kind: wait, due: t.due}
	}
	buf = append(buf, t.method...)
	buf = append(buf, ' ')
	buf = t.bed.appendPath(buf, t.kind, t.stream)
	buf = append(buf, t.rest...)
	return buf, move{kind: send}
}

func (t *sweepTask) body(int64, *response, []byte) {}

func (t *sweepTask) done(now int64, r *response) {
	for _, status := range t.good {
		if r.status == status {
			t.tally.good++
			t.stream += t.stride
			t.attempts = 0
			return
		}
	}
	t.again(now, statusName(r.status))
}

func (t *sweepTask) failed(now int64, err error) { t.again(now, errorName(err)) }

func (t *sweepTask) again(now int64, why string) {
	t.due = now + int64(retryPause)
	if t.attempts++; t.attempts >= maxAttempts {
		t.tally.fail(why)
		t.stream = t.count // one failure is enough to end the run
	}
}

// sweep runs a request over streams 0 to count-1 of a kind.
func (b *bed) sweep(ctx context.Context, method, kind string, count int, good []int, fields ...string) error {
	tallies := b.tallies()
	conns := min(count, max(b.opts.Connections, 64), 1024)
	groups := b.spread(conns, func(i, loop int) task {
		return &sweepTask{
			bed: b, method: method, rest: b.fixed(fields...), good: good, kind: kind,
			stream: i, stride: conns, count: count, tally: tallies[loop],
		}
	})
	if err := b.runOnce(ctx, groups); err != nil {
		return fmt.Errorf("%s streams: %w", method, err)
	}
	for _, e := range sum(tallies).errorCounts() {
		return fmt.Errorf("%s streams: %s", method, e.What)
	}
	return nil
}

// create makes streams 0 to count-1 of a kind.
func (b *bed) create(ctx context.Context, kind string, count int, contentType string) error {
	return b.sweep(ctx, "PUT", kind, count, []int{201, 200},
		"Content-Type: "+contentType+"\r\nContent-Length: 0\r\n\r\n")
}

// remove deletes them, if the options say so.
func (b *bed) remove(ctx context.Context, kind string, count int) error {
	if !b.opts.Delete {
		return nil
	}
	return b.sweep(ctx, "DELETE", kind, count, []int{204, 200, 404}, "\r\n")
}
