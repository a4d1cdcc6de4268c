package bench

import (
	"context"
	"fmt"
)

// maxCreated bounds the streams of one run: their numbers have six hex digits.
const maxCreated = 1 << 24

// runCreate is the scenario of that name: every request creates a stream that holds
// one record.
func runCreate(ctx context.Context, b *bed) ([]Result, error) {
	const kind = "create"
	f := newFormat(b.run, b.opts.Size, b.opts.JSON)
	l := layout{conns: b.opts.Connections, streams: maxCreated}
	run := newAppendRun(b, kind, f, l, false)
	run.creates = true
	ledgers := make([]ledger, l.conns)
	res, err := b.write(ctx, kind, "creates", run, ledgers)
	if err != nil {
		return nil, err
	}
	count := 0
	for conn := range ledgers {
		if sent := ledgers[conn].sent; sent > l.rounds(conn) {
			return nil, fmt.Errorf("more than %d streams in one run: shorten it", maxCreated)
		} else if sent > 0 {
			count = max(count, l.streamOf(conn, sent-1)+1)
		}
	}
	res.Verify, err = b.readBack(ctx, &source{kind: kind, count: count, format: f, layout: l, ledgers: ledgers, absent: true})
	if err != nil {
		return nil, err
	}
	return []Result{res}, b.remove(ctx, kind, count)
}
