package glob

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"durablestreams/stream"
)

// Index holds pairs of a pattern and an id and finds the ids whose patterns match a
// path. It is a tree of segments: what a lookup costs follows from the patterns that
// agree with the path so far, not from all patterns. Every method may be called from
// many goroutines; lookups run side by side. The zero value is an empty index.
type Index[T comparable] struct {
	mu   sync.RWMutex
	root node[T]
}

// node stands for the patterns that begin with the segments on the way to it. A deep
// node has no deep child.
type node[T comparable] struct {
	texts map[string]*node[T]
	one   *node[T]
	deep  *node[T]
	ids   map[T]struct{} // of the patterns that end here
}

// Add puts a pattern with its id into the index. A pair that is there already stays as
// it is.
func (x *Index[T]) Add(p Pattern, id T) {
	if len(p.segments) == 0 {
		return // the zero pattern matches nothing
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	n := &x.root
	for _, s := range p.segments {
		child := n.child(s)
		if child == nil {
			child = new(node[T])
			n.setChild(s, child)
		}
		n = child
	}
	if n.ids == nil {
		n.ids = map[T]struct{}{}
	}
	n.ids[id] = struct{}{}
}

// Remove takes a pair out of the index, together with all that was there for it alone.
// A pair that is not there is no error.
func (x *Index[T]) Remove(p Pattern, id T) {
	if len(p.segments) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.root.remove(p.segments, id)
}

func (n *node[T]) remove(way []segment, id T) {
	if len(way) == 0 {
		delete(n.ids, id)
		return
	}
	child := n.child(way[0])
	if child == nil {
		return
	}
	child.remove(way[1:], id)
	if len(child.ids) == 0 && len(child.texts) == 0 && child.one == nil && child.deep == nil {
		n.setChild(way[0], nil)
	}
}

func (n *node[T]) child(s segment) *node[T] {
	switch s.wild {
	case one:
		return n.one
	case deep:
		return n.deep
	}
	return n.texts[s.text]
}

// setChild links a child, or takes it away if it is nil.
func (n *node[T]) setChild(s segment, child *node[T]) {
	switch {
	case s.wild == one:
		n.one = child
	case s.wild == deep:
		n.deep = child
	case child == nil:
		delete(n.texts, s.text)
	case n.texts == nil:
		n.texts = map[string]*node[T]{s.text: child}
	default:
		n.texts[s.text] = child
	}
}

// Lookup gives the ids of all patterns that match the path, in no order that means
// anything. An id that was added with several matching patterns comes several times.
func (x *Index[T]) Lookup(path stream.Path) []T {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var w walk[T]
	w.reach(&x.root)
	for text := range strings.SplitSeq(string(path), "/") {
		if len(w.here) == 0 && len(w.deeps) == 0 {
			return nil
		}
		w.step(plain(text))
	}
	var ids []T
	for _, n := range w.here {
		ids = slices.AppendSeq(ids, maps.Keys(n.ids))
	}
	for _, n := range w.deeps {
		ids = slices.AppendSeq(ids, maps.Keys(n.ids))
	}
	return ids
}

// walk is the state of a lookup: all nodes whose segments match the path so far. None
// is ever held twice, so a step costs at most one visit per node of the tree.
type walk[T comparable] struct {
	here  []*node[T] // match the path so far exactly
	spare []*node[T]
	deeps []*node[T] // end with **: once reached they match whatever comes
	met   map[*node[T]]struct{}
}

func (w *walk[T]) reach(n *node[T]) {
	if n == nil {
		return
	}
	w.here = append(w.here, n)
	if n.deep == nil {
		return
	}
	if _, again := w.met[n.deep]; again {
		return
	}
	if w.met == nil {
		w.met = map[*node[T]]struct{}{}
	}
	w.met[n.deep] = struct{}{}
	w.deeps = append(w.deeps, n.deep)
}

// step goes on by one segment of the path.
func (w *walk[T]) step(text string) {
	from := w.here
	w.here, w.spare = w.spare[:0], from
	deeps := w.deeps // those reached in this step start with the next segment
	for _, n := range from {
		w.reach(n.texts[text])
		w.reach(n.one)
	}
	for _, n := range deeps {
		w.reach(n.texts[text])
		w.reach(n.one)
	}
}
