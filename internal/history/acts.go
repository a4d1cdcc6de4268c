package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// step does one thing.
func (a *actor) step(pause func(*rand.Rand)) {
	p := a.path()
	if len(a.again) > 0 && a.rng.IntN(3) > 0 {
		a.repeat()
		return
	}
	if a.kindOf(p) == slidingFamily && a.rng.IntN(4) == 0 {
		a.idle()
		return
	}
	closed, missing := a.known(p)
	switch dice := a.rng.IntN(100); {
	case missing && dice < 30:
		a.send(a.create(p))
	case missing && dice < 50:
		a.send(a.fork(p))
	case dice < 4 || closed && dice < 24:
		a.send(&Op{Kind: Delete, Path: p})
	case dice < 20:
		a.send(a.append(p))
	case dice < 38:
		a.send(a.produce(p))
	case dice < 42:
		a.twice(p)
	case dice < 44:
		a.send(a.closing(p))
	case dice < 53:
		a.send(a.create(p))
	case dice < 62:
		a.send(a.fork(p))
	case dice < 76:
		a.send(&Op{Kind: Read, Path: p, Ask: Ask{From: a.offset(p)}})
	case dice < 84:
		a.send(&Op{Kind: Read, Path: p, Ask: Ask{From: a.offset(p), Live: "long-poll"}})
	case dice < 90:
		a.follow(p)
	case dice < 92:
		a.echo(p)
	default:
		a.send(&Op{Kind: Head, Path: p})
	}
}

// known says what was heard last of a path.
func (a *actor) known(p string) (closed, missing bool) {
	a.cast.board.mu.Lock()
	defer a.cast.board.mu.Unlock()
	n := a.cast.board.note(p)
	return n.closed, n.missing
}

// idle lets some part of a lifetime go by.
func (a *actor) idle() {
	wait(time.Duration(a.rng.Int64N(int64(a.cast.Idle))))
}

// repeat sends once more, letter by letter, what was not answered.
func (a *actor) repeat() {
	i := a.rng.IntN(len(a.again))
	op := a.again[i]
	a.again = append(a.again[:i], a.again[i+1:]...)
	a.send(&Op{Kind: op.Kind, Path: op.Path, Ask: op.Ask})
}

func (a *actor) append(p string) *Op {
	ask := Ask{Type: a.typeOf(p), Body: a.body(p)}
	switch a.rng.IntN(30) {
	case 0:
		ask.Close = true
	case 1:
		ask.Type = "text/html"
	case 2, 3, 4, 5:
		ask.Seq = a.seq(p)
	}
	return &Op{Kind: Append, Path: p, Ask: ask}
}

// seq makes a Stream-Seq that is mostly the next one.
func (a *actor) seq(p string) string {
	b := a.cast.board
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.note(p)
	n.seq++
	return fmt.Sprintf("%05d", n.seq-a.rng.IntN(2)*a.rng.IntN(3))
}

// produce makes a producer's append: mostly the next one, of a producer that
// others may be too.
func (a *actor) produce(p string) *Op {
	op := a.append(p)
	b := a.cast.board
	b.mu.Lock()
	defer b.mu.Unlock()
	id := fmt.Sprint("p", a.rng.IntN(2))
	last, known := b.note(p).producers[id]
	next := Producer{ID: id, Epoch: last.Epoch, Seq: last.Seq + 1}
	if !known {
		next.Seq = 0
	}
	switch a.rng.IntN(16) {
	case 0:
		next.Seq = max(0, next.Seq-1-int64(a.rng.IntN(2)))
	case 1:
		next.Seq += 1 + int64(a.rng.IntN(2))
	case 2:
		next.Epoch, next.Seq = next.Epoch+1, 0
	case 3:
		next.Epoch++
	case 4:
		next.Epoch = max(0, next.Epoch-1)
	case 5:
		op.Ask.Close = true
		if a.rng.IntN(2) == 0 {
			op.Ask.Body, op.Ask.Type = "", ""
		}
	}
	op.Ask.Producer = &next
	return op
}

// twice sends a producer's append two times at once, as who has lost patience.
func (a *actor) twice(p string) {
	first := a.produce(p)
	second := &Op{Kind: Append, Path: p, Ask: first.Ask}
	var wg sync.WaitGroup
	for _, op := range []*Op{first, second} {
		wg.Go(func() {
			if a.Do(context.Background(), op) == nil {
				a.cast.board.learn(op)
			}
		})
	}
	wg.Wait()
}

func (a *actor) closing(p string) *Op {
	return &Op{Kind: Append, Path: p, Ask: Ask{Close: true}}
}

func (a *actor) create(p string) *Op {
	ask := Ask{Type: a.typeOf(p), Close: a.rng.IntN(15) == 0}
	if a.rng.IntN(2) == 0 {
		ask.Body = a.body(p)
	}
	if a.kindOf(p) == slidingFamily {
		switch a.rng.IntN(8) {
		case 0:
			ask.Until = a.Rec.Now() + int64(a.rng.IntN(2000))*int64(time.Millisecond)
		case 1:
		default:
			ttl := int64(1 + a.rng.IntN(2))
			ask.TTL = &ttl
		}
	}
	if a.rng.IntN(30) == 0 {
		ask.Type = "text/html"
	}
	return &Op{Kind: Create, Path: p, Ask: ask}
}

// fork makes a fork, or one that somebody has asked for before.
func (a *actor) fork(p string) *Op {
	kind := a.kindOf(p)
	source := a.in(kind)
	if kind == slidingFamily || source == p {
		return a.create(p)
	}
	b := a.cast.board
	b.mu.Lock()
	n := b.note(p)
	if len(n.forks) > 0 && a.rng.IntN(4) == 0 {
		ask := n.forks[a.rng.IntN(len(n.forks))]
		b.mu.Unlock()
		return &Op{Kind: Create, Path: p, Ask: ask}
	}
	b.mu.Unlock()
	ask := Ask{Source: source}
	if a.rng.IntN(3) > 0 {
		ask.Point = a.offset(source)
		if a.rng.IntN(3) == 0 {
			ask.Sub = 1 + a.rng.IntN(4)
		}
	}
	if a.rng.IntN(3) == 0 {
		ask.Type = a.typeOf(p)
		ask.Body = a.body(p)
	}
	b.mu.Lock()
	n.forks = append(n.forks[max(0, len(n.forks)-3):], ask)
	b.mu.Unlock()
	return &Op{Kind: Create, Path: p, Ask: ask}
}

// offset gives a place to read from: the start, the end, or one that was seen.
func (a *actor) offset(p string) string {
	b := a.cast.board
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := b.note(p).offsets
	switch dice := a.rng.IntN(10); {
	case dice < 3 || len(seen) == 0:
		return "-1"
	case dice < 4:
		return "now"
	case dice < 8:
		return seen[len(seen)-1]
	default:
		return seen[a.rng.IntN(len(seen))]
	}
}

// follow reads by SSE for a while.
func (a *actor) follow(p string) {
	if a.kindOf(p) == slidingFamily {
		a.send(&Op{Kind: Head, Path: p})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.rng.IntN(40))*time.Millisecond)
	defer cancel()
	left := 1 + a.rng.IntN(12)
	op := &Op{Path: p, Ask: Ask{From: a.offset(p)}}
	_ = a.Follow(ctx, op, func(seen *Op) bool {
		a.cast.board.learn(seen)
		left--
		return left > 0
	})
}

// echo follows a stream from its end, appends to it and waits until it hears that,
// a few times.
func (a *actor) echo(p string) {
	if a.kindOf(p) == slidingFamily {
		a.send(&Op{Kind: Head, Path: p})
		return
	}
	token, left := "", 1+a.rng.IntN(4)
	op := &Op{Path: p, Ask: Ask{From: "now"}}
	_ = a.Follow(context.Background(), op, func(seen *Op) bool {
		a.cast.board.learn(seen)
		if !strings.Contains(string(seen.Data), token) {
			return true
		}
		if left--; left < 0 {
			return false
		}
		mine := &Op{Kind: Append, Path: p, Ask: Ask{Type: a.typeOf(p), Body: a.body(p)}}
		token = tokens.FindString(string(mine.Ask.Body))
		if a.Do(context.Background(), mine) == nil {
			a.cast.board.learn(mine)
		}
		return mine.Status == 204
	})
}
