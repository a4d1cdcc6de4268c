//go:build !linux

package bench

func newDriver(p *pool, conns []conn) driver { return newBlocking(p, conns) }
