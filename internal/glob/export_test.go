package glob

import (
	"strings"

	"durablestreams/stream"
)

// Nodes counts the nodes of the tree.
func (x *Index[T]) Nodes() int { return x.root.count() }

func (n *node[T]) count() int {
	if n == nil {
		return 0
	}
	sum := 1 + n.one.count() + n.deep.count()
	for _, child := range n.texts {
		sum += child.count()
	}
	return sum
}

// Widest gives the largest number of nodes that a lookup holds at once.
func (x *Index[T]) Widest(path stream.Path) int {
	var w walk[T]
	w.reach(&x.root)
	widest := 0
	for text := range strings.SplitSeq(string(path), "/") {
		w.step(plain(text))
		widest = max(widest, len(w.here)+len(w.deeps))
	}
	return widest
}
