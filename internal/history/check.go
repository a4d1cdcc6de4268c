package history

import (
	"cmp"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
)

// worlds are what a family may be: more than one while it is not known whether
// something has happened.
type worlds []*world

// step gives the worlds after op, of those that agree with its answer.
func (ws worlds) step(op *Op) worlds {
	var out worlds
	for _, w := range ws {
		if _, seen := w.seen[op]; op.Kind == Create && op.Ask.Source != "" && !seen {
			continue // the look comes first
		}
		for _, v := range w.ages(op) {
			r := v.do(op)
			if op.fate() == unknown {
				out = out.add(v)
				out = out.add(r.world)
			} else if v, ok := r.match(op); ok {
				out = out.add(v)
			}
		}
	}
	return out
}

func (ws worlds) add(w *world) worlds {
	if slices.ContainsFunc(ws, w.equal) {
		return ws
	}
	return append(ws, w)
}

func (ws worlds) equal(other worlds) bool {
	return len(ws) == len(other) && !slices.ContainsFunc(ws, func(w *world) bool { return !slices.ContainsFunc(other, w.equal) })
}

func (w *world) equal(v *world) bool {
	return w == v || slices.Equal(w.incs, v.incs) && maps.EqualFunc(w.at, v.at, (*entry).equal) && maps.Equal(w.seen, v.seen)
}

func (e *entry) equal(f *entry) bool {
	if e == f {
		return true
	}
	return e.inc == f.inc && e.text.equal(f.text) && e.closed == f.closed && e.deleted == f.deleted && e.forks == f.forks &&
		e.seq == f.seq && e.typ == f.typ && slices.Equal(e.last, f.last) && slices.Equal(e.lineage, f.lineage) &&
		same(e.closer, f.closer) && same(e.fork, f.fork) && same(e.ttl, f.ttl) && e.until == f.until &&
		e.ending == f.ending
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// hash is the same for equal worlds, in whatever order.
func (ws worlds) hash() (sum uint64) {
	for _, w := range ws {
		for path, e := range w.at {
			h := (*text)(nil).add(path).sum ^ e.text.checksum()*sumBase
			sum += (h ^ uint64(e.inc)<<32 ^ uint64(len(e.last))) * sumBase
		}
	}
	return sum
}

// model is what porcupine is given.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return worlds{{}} },
		Step: func(state, input, _ any) (bool, any) {
			next := state.(worlds).step(input.(*Op))
			return len(next) > 0, next
		},
		Equal:             func(a, b any) bool { return a.(worlds).equal(b.(worlds)) },
		Hash:              func(state any) uint64 { return state.(worlds).hash() },
		DescribeOperation: func(input, _ any) string { return input.(*Op).String() },
		DescribeState:     func(state any) string { return state.(worlds).String() },
	}
}

// families sorts the operations that say something by family, in order of their
// calls.
func families(ops []*Op) map[string][]*Op {
	sliding := map[string]bool{}
	for _, op := range ops {
		if op.Ask.TTL != nil {
			sliding[Family(op.Path)] = true
		}
	}
	out := map[string][]*Op{}
	for _, op := range ops {
		f := Family(op.Path)
		switch op.fate() {
		case nothing:
			continue
		case unknown:
			if !op.changes() && !sliding[f] {
				continue // but it may have renewed a lifetime
			}
		}
		if op.Kind == Create && op.Ask.Source != "" {
			out[f] = append(out[f], op.looks()...)
			continue
		}
		out[f] = append(out[f], op)
		if sliding[f] && op.Ask.Live != "" && op.fate() == told {
			out[f] = append(out[f], op.beginning())
		}
	}
	for _, list := range out {
		slices.SortStableFunc(list, func(a, b *Op) int { return cmp.Compare(a.Call, b.Call) })
		tighten(list)
	}
	return out
}

// beginning is what a live read does before it has an answer: it may renew a
// lifetime from its start on.
func (op *Op) beginning() *Op {
	return &Op{Client: op.Client, Life: op.Life, Kind: Read, Path: op.Path, Ask: Ask{From: start, Live: op.Ask.Live},
		Call: op.Begin, Return: op.Return, Begin: op.Begin, End: op.End}
}
