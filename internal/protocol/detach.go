package protocol

import (
	"strings"

	"durablestreams/stream"
)

// Detach lets go of the memory that the head of the request takes, for a feed
// that is going to wait: it keeps copies of the little that can still matter.
// Strings and header of the Request that Begin got are replaced; the Request
// itself must stay. It is called between steps.
func (f *Feed) Detach() {
	o := f.op
	r := o.req
	r.Path = strings.Clone(r.Path)
	if tail := r.Path[min(len(o.core.root), len(r.Path)):]; tail == string(o.path) {
		o.path = stream.Path(tail)
	} else {
		o.path = stream.Path(strings.Clone(string(o.path)))
	}
	o.cursor = strings.Clone(o.cursor)
	if o.core.opt.Watch != nil || r.Proxied {
		kept := o.core.originOf(r)
		r.origin = &kept
	}
	r.Query, r.Host = "", ""
	r.Header = o.core.keptHeader(r.Header)
}

// keptHeader copies what an answer may still depend on.
func (c *Core) keptHeader(h Header) Header {
	if c.cors.Load().allowed == nil {
		return origins(nil)
	}
	var kept origins
	for _, v := range h.Values("Origin") {
		kept = append(kept, strings.Clone(v))
	}
	return kept
}

// origins is a header with nothing but Origin in it.
type origins []string

// Values implements Header.
func (o origins) Values(name string) []string {
	if name == "Origin" {
		return o
	}
	return nil
}
