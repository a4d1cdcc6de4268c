package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cast is a number of clients and what they work on: families of a few paths, each
// with a content type, one of them with lifetimes.
type Cast struct {
	Rec    *Recorder
	Prefix string        // of all paths
	Idle   time.Duration // the longest time for which a client lets a lifetime go by
	board  *board
	actors []*actor
}

// kinds of families. Names are the first part of a path behind the prefix.
const (
	textFamily    = "text"
	jsonFamily    = "json"
	bytesFamily   = "bytes"
	bulkFamily    = "bulk"    // bodies that fill pages
	slidingFamily = "sliding" // streams with lifetimes, without forks and SSE
)

// weighted is how often each family is chosen.
var weighted = []string{textFamily, textFamily, textFamily, jsonFamily, jsonFamily, bytesFamily, bytesFamily, bulkFamily, slidingFamily}

// Paths of a family, and how often each is chosen.
const (
	pathsInFamily = "abc"
	weightedPaths = "aaabbc"
)

// NewCast gives so many clients, each with a source of randomness of its own.
func NewCast(rec *Recorder, clients int, prefix string, seed uint64) *Cast {
	c := &Cast{Rec: rec, Prefix: prefix, Idle: 1200 * time.Millisecond, board: &board{paths: map[string]*notes{}}}
	for i := range clients {
		c.actors = append(c.actors, &actor{cast: c, id: i, rng: rand.New(rand.NewPCG(seed, uint64(i)+1))})
	}
	return c
}

// Paths lists all paths.
func (c *Cast) Paths() (paths []string) {
	for _, f := range []string{textFamily, jsonFamily, bytesFamily, bulkFamily, slidingFamily} {
		for _, p := range pathsInFamily {
			paths = append(paths, c.Prefix+f+"/"+string(p))
		}
	}
	return paths
}

// Perform lets all clients work on a server until each has done so many steps, or
// until over says that the server is gone. Pause is called before each step.
func (c *Cast) Perform(conn *Conn, steps int, over func() bool, pause func(*rand.Rand)) {
	var wg sync.WaitGroup
	for _, a := range c.actors {
		wg.Go(func() {
			a.Client = Client{ID: a.id, Rec: c.Rec, Conn: conn}
			for range steps {
				pause(a.rng)
				if over() {
					return
				}
				a.step(pause)
			}
		})
	}
	wg.Wait()
}

// Audit reads everything, with a client of its own.
func (c *Cast) Audit(conn *Conn) {
	auditor := &Client{ID: len(c.actors), Rec: c.Rec, Conn: conn}
	for _, p := range c.Paths() {
		from := "-1"
		for {
			op := &Op{Kind: Read, Path: p, Ask: Ask{From: from}}
			if auditor.Do(context.Background(), op) != nil || op.Status != 200 {
				break
			}
			c.board.learn(op)
			if from = op.Next; op.UpToDate || op.Data == "" {
				break
			}
		}
		_ = auditor.Do(context.Background(), &Op{Kind: Head, Path: p})
	}
}

// board is what clients have told one another.
type board struct {
	mu    sync.Mutex
	paths map[string]*notes
}

// notes are about a path, of whatever stream was there.
type notes struct {
	offsets   []string // seen last
	producers map[string]Producer
	seq       int
	closed    bool
	missing   bool
	forks     []Ask // that were asked for
}

const offsetsKept = 8

func (b *board) note(path string) *notes {
	n := b.paths[path]
	if n == nil {
		n = &notes{producers: map[string]Producer{}}
		b.paths[path] = n
	}
	return n
}

// learn takes what an answer tells.
func (b *board) learn(op *Op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.note(op.Path)
	if op.Next != "" && !slices.Contains(n.offsets, op.Next) {
		n.offsets = append(n.offsets, op.Next)
		n.offsets = n.offsets[max(0, len(n.offsets)-offsetsKept):]
	}
	switch p := op.Ask.Producer; {
	case p != nil && op.Code == "" && op.Status != 0:
		if last := n.producers[p.ID]; p.Epoch > last.Epoch || p.Epoch == last.Epoch && p.Seq >= last.Seq {
			n.producers[p.ID] = *p
		}
	case op.Kind == Create && op.Status == 201:
		n.producers, n.seq = map[string]Producer{}, 0
	case op.Kind == Delete && op.Status == 204:
		n.closed = false
	}
	n.missing = op.Status == 404 && op.Ask.Source == "" || op.Kind == Delete && op.Status == 204
	if op.Kind != Delete && op.fate() == told && op.Status < 300 {
		n.closed = op.Closed || n.closed && op.Kind == Read
	}
}

// actor is a client with a will.
type actor struct {
	Client
	cast  *Cast
	id    int
	rng   *rand.Rand
	count int   // of bodies
	again []*Op // appends of producers whose answers did not come
}

func (a *actor) path() string {
	family := weighted[a.rng.IntN(len(weighted))]
	return a.in(family)
}

func (a *actor) in(family string) string {
	return a.cast.Prefix + family + "/" + weightedPaths[a.rng.IntN(len(weightedPaths)):][:1]
}

// kindOf gives the family of a path.
func (a *actor) kindOf(path string) string {
	return strings.TrimSuffix(Family(strings.TrimPrefix(path, a.cast.Prefix)), "/")
}

func (a *actor) typeOf(path string) string {
	switch a.kindOf(path) {
	case jsonFamily:
		return jsonType
	case bytesFamily:
		return "application/octet-stream"
	}
	return "text/plain"
}

// body makes content that says whose it is.
func (a *actor) body(path string) Bytes {
	kind := a.kindOf(path)
	n := 1
	if kind == jsonFamily {
		n += a.rng.IntN(3)
	}
	var out strings.Builder
	for range n {
		a.count++
		token := fmt.Sprintf("<%d.%d>", a.id, a.count)
		fill := strings.Repeat(string(rune('a'+a.count%26)), a.size(kind))
		switch kind {
		case jsonFamily:
			fmt.Fprintf(&out, `{"t":"%s","f":"%s"}`+",\n", token, fill)
		case textFamily:
			out.WriteString(token + fill + "\n")
		default:
			out.WriteString(token + fill)
		}
	}
	return Bytes(out.String())
}

func (a *actor) size(kind string) int {
	switch dice := a.rng.IntN(30); {
	case kind == bulkFamily && dice < 24:
		return 8<<10 + a.rng.IntN(24<<10)
	case dice == 0:
		return a.rng.IntN(70 << 10) // more than fits a page or an event
	case dice < 4:
		return a.rng.IntN(600)
	}
	return 0
}

// send sends an operation. Some clients lose patience or their connection.
func (a *actor) send(op *Op) {
	ctx := context.Background()
	if a.rng.IntN(25) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(a.rng.IntN(int(3*time.Millisecond))))
		defer cancel()
	}
	if err := a.Do(ctx, op); err == nil {
		a.cast.board.learn(op)
	}
	if op.fate() != told && op.Ask.Producer != nil {
		a.again = append(a.again, op)
	}
}
