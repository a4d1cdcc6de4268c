package process_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"durablestreams/internal/dstest/process"
)

// node is one stream as its owner knows it.
type node struct {
	path    string
	json    bool
	content string // what it inherits included; for JSON a line a message
	closed  bool
	deleted bool // but still read by forks
	source  *node
	forks   int
	marks   []mark // acknowledged offsets, in order
	nextSeq int    // of its producer
	last    *op    // what the producer sent last
}

// mark is an offset that the server has given, and how much is before it.
type mark struct {
	offset string
	length int
}

// op is one change that an owner asks for.
type op struct {
	path         string
	method, body string
	headers      []string
	want         int
	apply        func(tail string) // what it does to the model; nil if it must be refused
	producer     bool
}

func (o *op) send(c *process.Client) *process.Answer {
	return c.Do(o.method, o.path, o.body, o.headers...)
}

// startOffset is the start of every stream.
const startOffset = "0000000000000000_0000000000000000"

// owner changes streams that nobody else changes, so it knows exactly what each
// must hold. Only the one change that was under way at a crash may be there or
// not.
type owner struct {
	name    string
	root    string // URL path of all streams
	rng     *rand.Rand
	live    map[string]*node  // soft-deleted ones included
	stale   map[string]string // by path: an offset of a stream that was there
	count   int
	pending *op
}

func newOwner(i int, root string, rng *rand.Rand) *owner {
	return &owner{name: fmt.Sprintf("own%d", i), root: root, rng: rng, live: map[string]*node{}, stale: map[string]string{}}
}

const pathsPerOwner = 5

func (o *owner) path(i int) string { return fmt.Sprintf("%s/%d", o.name, i) }

// run changes streams until the server is gone.
func (o *owner) run(c *process.Client) error {
	for {
		op := o.next()
		a := op.send(c)
		if a.Err != nil {
			o.pending = op
			return nil
		}
		if a.Status != op.want {
			return fmt.Errorf("%s %s %q: %v, want %d", op.method, op.path, op.headers, a, op.want)
		}
		if op.apply != nil {
			op.apply(a.Tail())
		}
	}
}

// token makes content that was never there before.
func (o *owner) token(json bool) string {
	o.count++
	pad := ""
	if o.rng.IntN(12) == 0 {
		pad = strings.Repeat("x", o.rng.IntN(40<<10))
	}
	if json {
		return fmt.Sprintf(`{"%s":%d,"pad":"%s"}`, o.name, o.count, pad) + "\n"
	}
	return fmt.Sprintf("%s.%d%s;", o.name, o.count, pad)
}

func contentType(json bool) string {
	if json {
		return "application/json"
	}
	return "text/plain"
}

// next thinks of a change.
func (o *owner) next() *op {
	path := o.path(o.rng.IntN(pathsPerOwner))
	n := o.live[path]
	switch dice := o.rng.IntN(100); {
	case n == nil && dice < 35:
		return o.fork(path)
	case n == nil:
		return o.create(path)
	case n.deleted && dice < 90:
		return o.next() // there is little to try with it
	case n.deleted:
		return &op{path: path, method: http.MethodPut, headers: []string{"Content-Type", contentType(n.json)}, want: http.StatusConflict}
	case dice < 6 || n.closed && dice < 40:
		return o.remove(n)
	case n.closed:
		return &op{path: path, method: http.MethodPost, body: o.token(n.json), headers: []string{"Content-Type", contentType(n.json)}, want: http.StatusConflict}
	case dice < 10:
		return o.close(n, false)
	case dice < 14:
		return o.close(n, true)
	case dice < 20 && n.last != nil:
		again := *n.last
		again.want, again.apply = http.StatusNoContent, func(string) {}
		return &again
	case dice < 60:
		return o.produce(n)
	}
	return o.append(n)
}

func (o *owner) create(path string) *op {
	n := &node{path: path, json: o.rng.IntN(2) == 0}
	p := &op{path: path, method: http.MethodPut, headers: []string{"Content-Type", contentType(n.json)}, want: http.StatusCreated}
	if o.rng.IntN(2) == 0 {
		p.body = o.token(n.json)
	}
	if o.rng.IntN(8) == 0 {
		n.closed = true
		p.headers = append(p.headers, "Stream-Closed", "true")
	}
	p.apply = func(tail string) {
		o.live[path] = n
		n.grow(p.body, tail)
	}
	return p
}

// fork makes a stream of what another one holds, up to its tail or to an offset
// that it once had.
func (o *owner) fork(path string) *op {
	src := o.live[o.path(o.rng.IntN(pathsPerOwner))]
	if src == nil || src.deleted || len(src.marks) == 0 {
		return o.create(path)
	}
	n := &node{path: path, json: src.json, content: src.content, source: src}
	p := &op{path: path, method: http.MethodPut, headers: []string{"Stream-Forked-From", o.root + "/" + src.path}, want: http.StatusCreated}
	if o.rng.IntN(2) == 0 {
		m := src.marks[o.rng.IntN(len(src.marks))]
		n.content = src.content[:m.length]
		p.headers = append(p.headers, "Stream-Fork-Offset", m.offset)
	}
	if o.rng.IntN(3) == 0 {
		p.body = o.token(n.json)
		p.headers = append(p.headers, "Content-Type", contentType(n.json))
	}
	p.apply = func(tail string) {
		src.forks++
		o.live[path] = n
		n.grow(p.body, tail)
	}
	return p
}

// grow adds what was accepted.
func (n *node) grow(body, tail string) {
	n.content += body
	if tail != "" {
		n.marks = append(n.marks, mark{tail, len(n.content)})
	}
}

func (o *owner) append(n *node) *op {
	p := &op{path: n.path, method: http.MethodPost, body: o.token(n.json), headers: []string{"Content-Type", contentType(n.json)}, want: http.StatusNoContent}
	p.apply = func(tail string) { n.grow(p.body, tail) }
	return p
}

func (o *owner) produce(n *node) *op {
	p := o.append(n)
	p.want, p.producer = http.StatusOK, true
	p.headers = append(p.headers, process.Producer("p", 0, n.nextSeq)...)
	p.apply = func(tail string) {
		n.grow(p.body, tail)
		n.nextSeq++
		n.last = p
	}
	return p
}

func (o *owner) close(n *node, withBody bool) *op {
	p := o.append(n)
	p.headers = append(p.headers, "Stream-Closed", "true")
	if !withBody {
		p.body = ""
	}
	p.apply = func(tail string) {
		n.grow(p.body, tail)
		n.closed = true
		n.last = nil
	}
	return p
}

func (o *owner) remove(n *node) *op {
	return &op{path: n.path, method: http.MethodDelete, want: http.StatusNoContent, apply: func(string) {
		if n.forks > 0 {
			n.deleted = true
			return
		}
		o.end(n)
	}}
}

// end takes a stream away, and the deleted sources that only it still read.
func (o *owner) end(n *node) {
	delete(o.live, n.path)
	if len(n.marks) > 0 && n.source == nil { // a fork's offsets may be its source's
		o.stale[n.path] = n.marks[len(n.marks)-1].offset
	}
	if src := n.source; src != nil {
		if src.forks--; src.forks == 0 && src.deleted {
			o.end(src)
		}
	}
}

// expect is what a read must give.
func (o *owner) expect(path string) (status int, n *node) {
	switch n := o.live[path]; {
	case n == nil:
		return http.StatusNotFound, nil
	case n.deleted:
		return http.StatusGone, nil
	default:
		return http.StatusOK, n
	}
}

// differs says how an answer differs from the model, "" if it does not.
func (o *owner) differs(path string, a *process.Answer) string {
	status, n := o.expect(path)
	switch {
	case a.Err != nil || a.Status != status:
		return fmt.Sprintf("%s: %.200v, want %d", path, a, status)
	case n == nil:
		return ""
	case a.Body != n.content:
		return fmt.Sprintf("%s holds %s, want %s", path, brief(a.Body), brief(n.content))
	case a.Closed() != n.closed:
		return fmt.Sprintf("%s: closed is %v, want %v", path, a.Closed(), n.closed)
	case len(n.marks) > 0 && a.Tail() < n.marks[len(n.marks)-1].offset:
		return fmt.Sprintf("%s: the tail %s is before the acknowledged %s", path, a.Tail(), n.marks[len(n.marks)-1].offset)
	}
	return ""
}

// brief shows the end of a content, where things go wrong.
func brief(s string) string {
	return fmt.Sprintf("%d bytes ending in %q", len(s), s[max(0, len(s)-120):])
}

// settle finds out whether the change that was under way at the crash is there,
// and lets a producer try again.
func (o *owner) settle(c *process.Client) error {
	p := o.pending
	o.pending = nil
	if p == nil || p.apply == nil {
		return nil
	}
	a := c.ReadAll(p.path, "-1")
	there := o.differs(p.path, a) != ""
	if there {
		p.apply(a.Tail())
	}
	if !p.producer {
		return nil // whether it differs now is looked at next
	}
	want := http.StatusOK
	if there || p.want == http.StatusNoContent {
		want = http.StatusNoContent
	}
	again := p.send(c)
	if again.Err != nil || again.Status != want {
		return fmt.Errorf("%s: the producer's retry: %v, want %d", p.path, again, want)
	}
	if !there {
		p.apply(again.Tail())
	}
	return nil
}

// verify compares every stream with the model.
func (o *owner) verify(c *process.Client) error {
	if err := o.settle(c); err != nil {
		return err
	}
	for i := range pathsPerOwner {
		path := o.path(i)
		if d := o.differs(path, c.ReadAll(path, "-1")); d != "" {
			return fmt.Errorf("%s", d)
		}
		_, n := o.expect(path)
		if old := o.stale[path]; old != "" && old != startOffset && n != nil {
			if a := c.Do(http.MethodGet, path+"?offset="+old, ""); a.Status != http.StatusGone && a.Status != http.StatusBadRequest {
				return fmt.Errorf("%s: an offset of a deleted stream gives %v", path, a)
			}
		}
		if n == nil || len(n.marks) == 0 {
			continue
		}
		m := n.marks[o.rng.IntN(len(n.marks))]
		if a := c.ReadAll(path, m.offset); a.Body != n.content[m.length:] {
			return fmt.Errorf("%s from %s: %s, want %s", path, m.offset, brief(a.Body), brief(n.content[m.length:]))
		}
	}
	return nil
}
