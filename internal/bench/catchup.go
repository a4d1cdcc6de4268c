package bench

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// fillRecord is the size of the records that a large stream is made of.
const fillRecord = 64 << 10

// archive is a large stream to be read, or a file that any web server serves.
type archive struct {
	source *source // nil for a file
	path   string
	plain  bool
	size   int64 // bytes of one whole read; of JSON, at least

	begun   sync.Once
	flowing chan struct{} // closed with the first bytes that a reader gets
}

// fillArchive makes a stream of the size that the options say.
func (b *bed) fillArchive(ctx context.Context, kind string) (*archive, error) {
	size := int(min(fillRecord, b.opts.ReadSize))
	f := newFormat(b.run, size, b.opts.JSON)
	l := layout{conns: min(b.opts.Connections, 4), streams: 1}
	if err := b.create(ctx, kind, 1, f.contentType()); err != nil {
		return nil, err
	}
	records := (b.opts.ReadSize + int64(size) - 1) / int64(size)
	ledgers := make([]ledger, l.conns)
	tallies := b.tallies()
	all, groups := newAppendRun(b, kind, f, l, false).writers(ledgers, tallies)
	ph := &phase{end: never, limit: records}
	for _, t := range all {
		t.pace.enter(ph)
	}
	if err := b.runOnce(ctx, groups); err != nil {
		return nil, fmt.Errorf("fill the stream: %w", err)
	}
	for _, e := range sum(tallies).errorCounts() {
		return nil, fmt.Errorf("fill the stream: %s", e.What)
	}
	return &archive{
		source: &source{kind: kind, count: 1, format: f, layout: l, ledgers: ledgers},
		path:   string(b.appendPath(nil, kind, 0)), size: records * int64(size), flowing: make(chan struct{}),
	}, nil
}

// readerTask reads an archive from start to end, again and again.
type readerTask struct {
	bed     *bed
	archive *archive
	tally   *tally
	ph      *phase

	offset  []byte
	last    []byte // the offset at which the first whole read ended
	start   int64  // of this read
	got     int64  // bytes of it
	reads   int64
	reading bool
	pause   int64
}

func (t *readerTask) next(now int64, buf []byte) ([]byte, move) {
	switch {
	case now >= t.ph.end, t.ph.limit > 0 && !t.reading && t.reads >= t.ph.limit:
		return buf, move{kind: stop}
	case now < t.pause:
		return buf, move{kind: wait, due: t.pause}
	}
	if !t.reading {
		t.reading, t.start, t.got = true, now, 0
		t.offset = append(t.offset[:0], "-1"...)
	}
	buf = append(buf, "GET "...)
	buf = append(buf, t.archive.path...)
	if !t.archive.plain {
		buf = append(buf, "?offset="...)
		buf = append(buf, t.offset...)
	}
	buf = append(buf, t.bed.fixed("\r\n")...)
	return buf, move{kind: send}
}

func (t *readerTask) body(_ int64, r *response, piece []byte) {
	if r.status == 200 {
		t.archive.begun.Do(func() { close(t.archive.flowing) })
		t.got += int64(len(piece))
		t.tally.bytes += int64(len(piece))
	}
}

func (t *readerTask) done(now int64, r *response) {
	t.tally.last = now
	switch {
	case r.status != 200:
		t.bad(now, statusName(r.status))
	case t.archive.plain || r.upToDate:
		t.whole(now, r)
	case len(r.offset) == 0 || bytes.Equal(r.offset, t.offset):
		t.bad(now, "a page that leads nowhere")
	default:
		t.offset = append(t.offset[:0], r.offset...)
	}
}

// whole ends one read of everything, which must be everything.
func (t *readerTask) whole(now int64, r *response) {
	json := t.archive.source != nil && t.archive.source.format.json
	if t.archive.size == 0 {
		t.archive.size = t.got
	}
	switch {
	case t.got < t.archive.size, t.got > t.archive.size && !json:
		t.bad(now, fmt.Sprintf("a read of %d bytes instead of %d", t.got, t.archive.size))
		return
	case t.last == nil:
		t.last = bytes.Clone(r.offset)
	case !bytes.Equal(t.last, r.offset):
		t.bad(now, "a read that ends at another offset")
		return
	}
	t.reading = false
	t.reads++
	t.tally.latency.record(now - t.start)
}

func (t *readerTask) failed(now int64, err error) { t.bad(now, errorName(err)) }

func (t *readerTask) bad(now int64, what string) {
	t.tally.fail(what)
	t.reading = false
	t.pause = now + int64(errorPause)
}

// readers makes the tasks that read an archive.
func (b *bed) readers(ctx context.Context, name string, a *archive, n int) (*measured, error) {
	tallies := b.tallies()
	var all []*readerTask
	groups := b.spread(n, func(_, loop int) task {
		t := &readerTask{bed: b, archive: a, tally: tallies[loop]}
		all = append(all, t)
		return t
	})
	p := newPool(b.addr, &b.opts, b.clock, groups)
	if err := p.connect(ctx); err != nil {
		p.close()
		return nil, err
	}
	return &measured{
		name: name, unit: "MiB", pool: p, tallies: tallies, conns: n,
		enter: func(ph *phase) {
			for _, t := range all {
				t.ph, t.reads, t.reading = ph, 0, false
			}
		},
	}, nil
}

// runCatchup is the scenario of that name: how fast a large stream can be read. What
// is read is compared byte by byte before and after the timed reads, of which only
// size and end are checked.
func runCatchup(ctx context.Context, b *bed) ([]Result, error) {
	const name = "catchup"
	a := &archive{path: b.path, plain: true, flowing: make(chan struct{})}
	var before *Verification
	if !b.plain {
		var err error
		if a, err = b.fillArchive(ctx, name); err != nil {
			return nil, err
		}
		if before, err = b.readBack(ctx, a.source); err != nil {
			return nil, err
		}
	}
	m, err := b.readers(ctx, name, a, b.opts.Connections)
	if err != nil {
		return nil, err
	}
	defer m.pool.close()
	res, err := b.measure(ctx, m)
	if err != nil {
		return nil, err
	}
	res.inMiB()
	res.Notes = append(res.Notes, fmt.Sprintf("latency is of one whole read of %s", size(float64(a.size))))
	if b.plain {
		return []Result{res}, nil
	}
	if res.Verify, err = b.readBack(ctx, a.source); err != nil {
		return nil, err
	}
	res.Verify.add(before)
	return []Result{res}, b.remove(ctx, name, 1)
}

// inMiB counts bytes instead of reads, rounded, but not to nothing.
func (r *Result) inMiB() {
	r.Count = (r.Bytes + 1<<19) >> 20
	if r.Bytes > 0 {
		r.Count = max(r.Count, 1)
	}
}
