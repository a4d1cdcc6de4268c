//go:build linux

package fastpath_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams/internal/fastpath"
	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// pair is a server on the fast path and one on net/http, each with an engine of
// its own.
type pair struct {
	fast, slow *server
	round      atomic.Int64
}

func newPair(t testing.TB, opt fastpath.Options) *pair {
	t.Helper()
	p := &pair{}
	for i, s := range []**server{&p.fast, &p.slow} {
		*s = start(t, config{plain: i == 1, fast: opt, store: openEngine(t, nil),
			protocol: protocol.Options{MaxReads: 1, LongPollTimeout: 30 * time.Millisecond, SSEMaxAge: 30 * time.Millisecond, PageSize: 64 << 10}})
	}
	return p
}

// check lets both servers answer the same connections, one after another.
func (p *pair) check(t testing.TB, data []byte) {
	g := &grammar{chooser: chooser{data}, prefix: fmt.Sprintf("r%d/", p.round.Add(1))}
	for conn := range 1 + g.n(3) {
		tk := g.talk()
		if tk.half && strings.Contains(tk.raw, "live=") {
			continue // TestHalfCloseDuringLiveReads says how they differ
		}
		var wg sync.WaitGroup
		var got, want []reply
		wg.Go(func() { got = p.fast.converse(t, tk) })
		wg.Go(func() { want = p.slow.converse(t, tk) })
		wg.Wait()
		compare(t, got, want)
		if t.Failed() {
			t.Fatalf("connection %d: %.4000q\ncut at %d, half %v", conn, tk.raw, tk.cuts, tk.half)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		p.sameStream(t, stream.Path(g.prefix+name))
	}
}

// sameStream compares what both engines have in the end.
func (p *pair) sameStream(t testing.TB, path stream.Path) {
	t.Helper()
	var seen [2]string
	for i, s := range []*server{p.fast, p.slow} {
		tk := talk{raw: fmt.Sprintf("HEAD %s%s HTTP/1.1\r\nHost: x\r\n\r\nGET %s%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", root, path, root, path),
			methods: []string{"HEAD", "GET"}}
		for _, r := range s.converse(t, tk) {
			seen[i] += r.normal()
		}
	}
	if seen[0] != seen[1] {
		t.Fatalf("%s: %s\nwant %s", path, seen[0], seen[1])
	}
}

// TestDifferential sends random conversations to both adapters. DS_SEED repeats
// one, DS_ROUNDS says how many.
func TestDifferential(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("DS_ROUNDS"))
	seed, err := strconv.ParseUint(os.Getenv("DS_SEED"), 10, 64)
	fixed := err == nil
	p := newPair(t, fastpath.Options{Loops: 2})
	for i := range max(rounds, 150) {
		if !fixed {
			seed = rand.Uint64()
		}
		p.checkSeed(t, seed)
		if t.Failed() || fixed && i > 20 {
			return
		}
	}
}

func (p *pair) checkSeed(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("DS_SEED=%d repeats this", seed)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 400)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	p.check(t, data)
}

// FuzzDifferential does the same with bytes that a fuzzer chooses.
func FuzzDifferential(f *testing.F) {
	p := newPair(f, fastpath.Options{Loops: 1})
	for i := range 5 {
		f.Add(slices.Repeat([]byte{byte(i * 37), byte(i), 3, 9, 17}, 30))
	}
	f.Fuzz(func(t *testing.T, data []byte) { p.check(t, data) })
}
