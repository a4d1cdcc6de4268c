package httpapi

import (
	"errors"
	"log/slog"
	"time"
)

// Options sets up a handler and a server. The zero value, or nil, gives the
// defaults.
type Options struct {
	// StallTimeout is how long a peer may make no progress while it sends a body
	// or should take an answer. Default 30 s.
	StallTimeout time.Duration

	// HeaderTimeout is how long the head of a request may take. Default 10 s.
	HeaderTimeout time.Duration

	// IdleTimeout is how long a connection may wait for its next request.
	// Default 2 minutes.
	IdleTimeout time.Duration

	// MaxHeaderBytes is the largest head of a request; net/http adds 4 KiB. Above
	// it the answer is 431. Default 64 KiB.
	MaxHeaderBytes int

	// Logger gets panics and what net/http has to say. Default: none.
	Logger *slog.Logger
}

// withDefaults returns a copy with every field filled in.
func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	setDefault(&d.StallTimeout, 30*time.Second)
	setDefault(&d.HeaderTimeout, 10*time.Second)
	setDefault(&d.IdleTimeout, 2*time.Minute)
	setDefault(&d.MaxHeaderBytes, 64<<10)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports what is wrong with the options, nil if nothing is.
func (o *Options) Validate() error {
	d := o.withDefaults()
	if d.StallTimeout < 0 || d.HeaderTimeout < 0 || d.IdleTimeout < 0 || d.MaxHeaderBytes < 0 {
		return errors.New("http options: negative limit")
	}
	return nil
}
