package bench

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
)

// tally is what the connections of one group counted in one phase. Only their driver
// touches it while the phase runs.
type tally struct {
	latency    histogram // of what succeeded
	lateness   histogram // of this program: from when a request was due until it was sent, on a connection that was free
	good       int64     // answers that said yes
	bytes      int64     // of bodies read
	duplicates int64     // appends that the server said it had already
	retries    int64
	unsent     int64 // requests that were due and never sent
	last       int64 // when the last good answer was complete
	errors     map[string]int64

	slice  int64   // width of the slices of time, 0 for none; kept by reset
	origin int64   // start of the first
	slices []int64 // good answers in each
}

// success counts a good answer.
func (t *tally) success(now, start int64) {
	t.good++
	t.last = now
	t.latency.record(now - start)
	if t.slice > 0 {
		i := int((now - t.origin) / t.slice)
		for len(t.slices) <= i {
			t.slices = append(t.slices, 0)
		}
		t.slices[i]++
	}
}

// fail counts something that went wrong, by name.
func (t *tally) fail(what string) {
	if t.errors == nil {
		t.errors = map[string]int64{}
	}
	t.errors[what]++
}

func (t *tally) add(o *tally) {
	t.latency.add(&o.latency)
	t.lateness.add(&o.lateness)
	t.good += o.good
	t.bytes += o.bytes
	t.duplicates += o.duplicates
	t.retries += o.retries
	t.unsent += o.unsent
	t.last = max(t.last, o.last)
	for i, n := range o.slices {
		for len(t.slices) <= i {
			t.slices = append(t.slices, 0)
		}
		t.slices[i] += n
	}
	for what, n := range o.errors {
		if t.errors == nil {
			t.errors = map[string]int64{}
		}
		t.errors[what] += n
	}
}

// reset makes ready for a phase that begins now.
func (t *tally) reset(now int64) { *t = tally{slice: t.slice, origin: now} }

// sum puts the tallies of all groups together.
func sum(tallies []*tally) *tally {
	total := &tally{}
	for _, t := range tallies {
		total.add(t)
	}
	return total
}

// ErrorCount says how often something went wrong.
type ErrorCount struct {
	What  string `json:"what"`
	Count int64  `json:"count"`
}

func (t *tally) errorCounts() []ErrorCount {
	var counts []ErrorCount
	for _, what := range slices.Sorted(maps.Keys(t.errors)) {
		counts = append(counts, ErrorCount{what, t.errors[what]})
	}
	return counts
}

func statusName(status int) string { return fmt.Sprintf("HTTP %d", status) }

// errorName puts errors of one kind under one name.
func errorName(err error) string {
	switch {
	case errors.Is(err, errTimeout):
		return "time-out"
	case errors.Is(err, errTruncated), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before the answer"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, errUnsolicited):
		return "unasked bytes"
	case errors.Is(err, errHead), errors.Is(err, errChunk):
		return "malformed answer"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
