package protocol

import (
	"errors"

	"durablestreams/stream"
)

// probe asks the store about a command whose body is not there yet, and gives the
// refusal that it is certain to meet.
func (c *Core) probe(cmd stream.Command) error {
	p := &probed{done: make(chan struct{})}
	c.store.Probe(cmd, p)
	<-p.done
	return p.err
}

// probed is the outcome of a probe.
type probed struct {
	err  error
	done chan struct{}
}

func (p *probed) Complete(_ stream.Result, err error) {
	p.err = err
	close(p.done)
}

// probeAppend refuses an append that is doomed whatever its body is.
func (o *Op) probeAppend() error {
	a := o.append
	// A body of unknown length may be empty. That is right for a close, which
	// then needs no content type and may come again; else it is refused anyway.
	a.HasBody = o.req.ContentLength > 0 || !a.Close
	if a.HasBody && a.ContentType == "" {
		if err := o.readType(); err != nil {
			return err
		}
		a.ContentType = o.append.ContentType
	}
	err := o.core.probe(&a)
	if errors.Is(err, stream.ProducerGap) && !o.req.asksFirst() {
		// The batches before it may be on their way on other connections, and
		// this one is coming whether it is wanted or not.
		return nil
	}
	return err
}
