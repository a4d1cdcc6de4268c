package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// newPool makes a pool with one driver for each group of tasks.
func newPool(addr string, opts *Options, clock time.Time, groups [][]task) *pool {
	p := &pool{addr: addr, patience: opts.Timeout, clock: clock}
	for _, tasks := range groups {
		if len(tasks) == 0 {
			continue
		}
		conns := make([]conn, len(tasks))
		for i, t := range tasks {
			conns[i].task = t
		}
		if opts.Portable {
			p.drivers = append(p.drivers, newBlocking(p, conns))
		} else {
			p.drivers = append(p.drivers, newDriver(p, conns))
		}
	}
	return p
}

// connect opens all connections, so that no dialling falls into a measurement.
func (p *pool) connect(ctx context.Context) error {
	for _, d := range p.drivers {
		if err := errors.Join(ctx.Err(), d.connect()); err != nil {
			return err
		}
	}
	return nil
}

// run drives all connections until every task has stopped, and gives the CPU time the
// drivers used. Cancelling breaks off.
func (p *pool) run(ctx context.Context) (usage, error) {
	p.quit.Store(false)
	defer context.AfterFunc(ctx, func() { p.quit.Store(true) })()
	used := make([]usage, len(p.drivers))
	errs := make([]error, len(p.drivers))
	var group sync.WaitGroup
	for i, d := range p.drivers {
		group.Go(func() {
			used[i], errs[i] = d.run()
			if errs[i] != nil {
				p.quit.Store(true)
			}
		})
	}
	group.Wait()
	var total usage
	for _, u := range used {
		total = total.plus(u)
	}
	if err := ctx.Err(); err != nil {
		return total, err
	}
	return total, errors.Join(errs...)
}

func (p *pool) close() {
	for _, d := range p.drivers {
		d.close()
	}
}
