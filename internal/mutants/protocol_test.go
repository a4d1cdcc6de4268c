package mutants_test

var protocolMutants = []mutant{
	{
		name:    "protocol-long-poll-ends-over-data",
		promise: "a long-poll whose time is over gives the data that came",
		file:    "internal/protocol/feed.go",
		old: `	if r := f.pollData(now); r != nil {
		return Action{Response: r, Done: true}, nil
	}
	if f.timeUp(now) {
		return Action{Response: f.pollEmpty(now), Done: true}, nil
	}
`,
		new: `	if f.timeUp(now) {
		return Action{Response: f.pollEmpty(now), Done: true}, nil
	}
	if r := f.pollData(now); r != nil {
		return Action{Response: r, Done: true}, nil
	}
`,
		caught: in("TestLongPoll", "./internal/protocol"),
	},
	{
		name:    "protocol-long-poll-outlasts-shutdown",
		promise: "a shutdown ends long-polls",
		file:    "internal/protocol/feed.go",
		old:     `if !f.drained && f.op.core.isDraining() {`,
		new:     `if f.drained {`,
		caught:  in("TestDrain", "./internal/protocol"),
	},
	{
		name:    "protocol-sse-close-one-event-late",
		promise: "the control event of the last data says that the stream is closed",
		file:    "internal/protocol/sse.go",
		old:     `if c.Closed = f.snap.Closed && f.pos == f.snap.Tail; !c.Closed {`,
		new:     `if c.Closed = f.snap.Closed && f.pos == f.snap.Tail && len(dst) == 0; !c.Closed {`,
		caught:  in("TestSSE", "./internal/protocol"),
	},
	{
		name:    "protocol-sse-does-not-end",
		promise: "an SSE answer ends with the data of a closed stream",
		file:    "internal/protocol/sse.go",
		old:     `atEnd := snap.Closed && f.pos == snap.Tail`,
		new:     `atEnd := snap.Closed && f.pos == snap.Tail && frame == nil`,
		caught:  in("TestSSE", "./internal/protocol"),
	},
	{
		name:    "protocol-sse-up-to-date-too-early",
		promise: "upToDate is said only at the tail",
		file:    "internal/protocol/sse.go",
		old:     `UpToDate: f.pos == f.snap.Tail}`,
		new:     `UpToDate: true}`,
		caught:  in("TestSSE", "./internal/protocol"),
	},
	{
		name:    "protocol-page-cut-inside-a-character",
		promise: "a page of text ends between characters",
		file:    "internal/protocol/page.go",
		old:     `return end - look + uint64(wire.CutText(b, look)), nil`,
		new:     `return end - look + uint64(max(look, wire.CutText(b, look))), nil`,
		caught:  in("TestPages", "./internal/protocol"),
	},
	{
		name:    "protocol-closed-before-the-end",
		promise: "Stream-Closed comes with the last page only",
		file:    "internal/protocol/read.go",
		old:     `r.addTrue(wire.HeaderStreamClosed, snap.Closed && end == snap.Tail)`,
		new:     `r.addTrue(wire.HeaderStreamClosed, snap.Closed)`,
		caught:  in("TestPages|TestCatchUp", "./internal/protocol"),
	},
	{
		name:    "protocol-etag-hides-close",
		promise: "a 304 never hides that a stream was closed",
		file:    "internal/protocol/read.go",
		old:     `tag = etag(snap, pos, end, snap.Closed && end == snap.Tail)`,
		new:     `tag = etag(snap, pos, end, false)`,
		caught:  in("TestETags", "./internal/protocol"),
	},
	{
		name:    "protocol-missing-bytes-are-the-end",
		promise: "a read that cannot be completed is no shorter read",
		file:    "internal/protocol/page.go",
		old:     `err = fmt.Errorf("read blocks: %d bytes are missing: %w", p.left, io.ErrUnexpectedEOF)`,
		new:     `_ = fmt.Errorf("read blocks: %d bytes are missing: %w", p.left, io.ErrUnexpectedEOF)`,
		caught:  in("TestReadErrors", "./internal/protocol"),
	},
	{
		name:    "protocol-room-for-bodies-kept",
		promise: "the room of a body is given back",
		file:    "internal/protocol/limits.go",
		old:     `func (c *Core) Release(total int64) { c.limits.bodies.give(total) }`,
		new:     `func (c *Core) Release(total int64) {}`,
		caught:  in("TestReserve", "./internal/protocol"),
	},
	{
		name:    "protocol-doubled-header-taken",
		promise: "a header that is given twice is refused",
		file:    "internal/protocol/request.go",
		old:     "\tcase 1:\n\t\treturn v[0], true, nil\n\t}",
		new:     "\tdefault:\n\t\treturn v[0], true, nil\n\t}",
		caught:  in("TestDoubledHeaders", "./internal/protocol"),
	},
	{
		name:    "protocol-offset-inside-a-message",
		promise: "an offset that was never minted is refused",
		file:    "internal/protocol/request.go",
		old:     `if b[0] != '\n' {`,
		new:     `if b[0] == 0 {`,
		caught:  in("TestOffsetInsideMessage", "./internal/protocol"),
	},
	{
		name:    "protocol-half-a-character-sent",
		promise: "SSE text never ends inside a character",
		file:    "internal/protocol/sse.go",
		old:     `if data = data[:wire.HoldBackUTF8(data)]; len(data) == 0 {`,
		new:     `if len(data) == 0 {`,
		caught:  in("TestSSE", "./internal/protocol"),
	},
	{
		name:    "protocol-frame-of-another-tail",
		promise: "a shared SSE frame is only given to readers in the same place",
		file:    "internal/protocol/frames.go",
		old:     `s.key != *k {`,
		new:     `s.key.id != k.id || s.key.from != k.from || s.key.closed != k.closed {`,
		caught:  in("", "./internal/protocol"),
	},
	{
		name:    "protocol-replaced-stream-goes-on",
		promise: "a live read ends with its stream, also if another one is put in its place",
		file:    "internal/protocol/feed.go",
		old:     `if err == nil && snap.ID != f.snap.ID {`,
		new:     `if err == nil && snap.ID < f.snap.ID {`,
		caught:  in("", "./internal/protocol"),
	},
}
