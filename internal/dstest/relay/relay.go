// Package relay passes TCP connections on and counts them, to see how many a client
// makes.
package relay

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Relay stands in front of a server. Its methods may be called at once.
type Relay struct {
	Addr string // to connect to

	taken atomic.Int64
}

// To starts a relay to the server at an address, until the test ends.
func To(t testing.TB, server string) *Relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Addr: ln.Addr().String()}
	var open sync.Map
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.taken.Add(1)
			s, err := net.Dial("tcp", server)
			if err != nil {
				_ = c.Close()
				continue
			}
			open.Store(c, s)
			all.Go(func() { pass(s, c) })
			all.Go(func() { pass(c, s) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		open.Range(func(c, s any) bool {
			_ = c.(net.Conn).Close()
			_ = s.(net.Conn).Close()
			return true
		})
		all.Wait()
	})
	return r
}

// Taken is how many connections have come so far.
func (r *Relay) Taken() int64 { return r.taken.Load() }

// pass copies until one side ends, and ends the other.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}
