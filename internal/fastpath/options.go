package fastpath

import (
	"log/slog"
	"runtime"
	"time"
)

// Options set up a server. The zero value works.
type Options struct {
	// Loops is the number of event loops. Default: one for two processors, at
	// least 1 and at most 8: the other half is busy with the disk and the kernel's
	// side of the connections.
	Loops int

	// MaxBody is the largest body that is taken here, in bytes; net/http takes
	// larger ones. Default 256 KiB.
	MaxBody int64

	// The limits of net/http's adapter; see there.
	StallTimeout  time.Duration // default 30 s
	HeaderTimeout time.Duration // default 10 s
	IdleTimeout   time.Duration // default 2 minutes

	Logger *slog.Logger // default: discard
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	setDefault(&d.Loops, min(max(runtime.GOMAXPROCS(0)/2, 1), 8))
	setDefault(&d.MaxBody, 256<<10)
	setDefault(&d.StallTimeout, 30*time.Second)
	setDefault(&d.HeaderTimeout, 10*time.Second)
	setDefault(&d.IdleTimeout, 2*time.Minute)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
