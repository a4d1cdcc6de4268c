package bench

// phase bounds what tasks do: from start until end, or a number of requests.
type phase struct {
	start, end int64
	limit      int64   // requests in all, 0 without bound
	interval   float64 // between the requests of one connection when sent by schedule, else 0
}

// due is the moment of a connection's k-th request of the phase.
func (p *phase) due(conn, conns int, k int64) int64 {
	return p.start + int64(p.interval*(float64(k)+float64(conn)/float64(conns)))
}

// share is a connection's part of the limit.
func (p *phase) share(conn, conns int) int64 {
	if p.limit == 0 {
		return never
	}
	n := p.limit / int64(conns)
	if int64(conn) < p.limit%int64(conns) {
		n++
	}
	return n
}

// pace decides when a connection's next request is due.
type pace struct {
	phase  *phase
	conn   int
	conns  int
	k      int64 // requests of this phase so far
	share  int64
	waited bool
}

// enter begins a phase.
func (p *pace) enter(ph *phase) {
	p.phase, p.k, p.share, p.waited = ph, 0, ph.share(p.conn, p.conns), false
}

// next tells from when the latency of the request counts that may be sent now, or what
// to do instead of sending.
func (p *pace) next(now int64, t *tally) (start int64, m move) {
	if p.k >= p.share {
		return 0, move{kind: stop}
	}
	if p.phase.interval == 0 {
		if now >= p.phase.end {
			return 0, move{kind: stop}
		}
		return now, move{kind: send}
	}
	due := p.phase.due(p.conn, p.conns, p.k)
	switch {
	case due >= p.phase.end:
		return 0, move{kind: stop}
	case now >= p.phase.end: // the server is behind: say how much was not even sent
		for ; p.k < p.share && due < p.phase.end; p.k++ {
			t.unsent++
			due = p.phase.due(p.conn, p.conns, p.k+1)
		}
		return 0, move{kind: stop}
	case now < due:
		p.waited = true
		return 0, move{kind: wait, due: due}
	}
	if p.waited {
		t.lateness.record(now - due)
		p.waited = false
	}
	return due, move{kind: send}
}
