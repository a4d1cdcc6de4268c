package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"durablestreams/client"
	"durablestreams/stream"
)

// lifetime is when a stream ends by itself.
type lifetime struct {
	TTL       time.Duration `name:"ttl" placeholder:"1h" help:"Time without reads and writes after which the stream ends, in whole seconds."`
	ExpiresAt time.Time     `placeholder:"2030-01-02T15:04:05Z" help:"Time at which the stream ends."`
}

// createCommand is "ds create".
type createCommand struct {
	remote
	lifetime
	Stream string `arg:"" help:"${stream}"`
	Type   string `name:"content-type" short:"t" placeholder:"TYPE" help:"Content type, such as application/json. Default: application/octet-stream."`
	File   string `short:"f" placeholder:"FILE" help:"First content, from a file or, as -, from stdin."`
	Closed bool   `help:"Close the stream at once: what it holds now is all."`
	JSON   bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (createCommand) Help() string {
	return `Creates a stream. If it is there with the same configuration, nothing is changed; with another one the
exit code is 4.

Examples:

    ds create orders -t application/json
    ds create build/17 -t text/plain --ttl 24h
    ds create report -t text/html -f report.html --closed`
}

// Run creates.
func (c *createCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.stream(env, c.Stream, false)
	if err != nil {
		return err
	}
	o := &client.CreateOptions{ContentType: c.Type, TTL: c.TTL, ExpiresAt: c.ExpiresAt, Closed: c.Closed}
	if c.File != "" {
		if o.Data, err = readFile(env, c.File); err != nil {
			return err
		}
	}
	info, created, err := s.Create(ctx, o)
	if err != nil {
		return err
	}
	r := newStreamReport(s, info)
	r.Created = &created
	return r.print(env, c.JSON)
}

// readFile reads a file, or stdin if its name is -.
func readFile(env *Env, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(env.Stdin)
	}
	return os.ReadFile(name)
}

// headCommand is "ds head".
type headCommand struct {
	remote
	Stream string `arg:"" help:"${stream}"`
	JSON   bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (headCommand) Help() string {
	return `Shows type, tail and state of a stream, without its data. That does not count as a use of it.

Examples:

    ds head orders
    ds head orders --json | jq -r .offset`
}

// Run asks.
func (c *headCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.stream(env, c.Stream, false)
	if err != nil {
		return err
	}
	info, err := s.Head(ctx)
	if err != nil {
		return err
	}
	r := newStreamReport(s, info)
	return r.print(env, c.JSON)
}

// closeCommand is "ds close".
type closeCommand struct {
	remote
	Stream string `arg:"" help:"${stream}"`
	JSON   bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (closeCommand) Help() string {
	return `Closes a stream: readers see its end, and nothing can be appended any more. Closing it again is fine.

Examples:

    ds close build/17
    ds append build/17 "done" --close     # the last message and the end in one`
}

// Run closes.
func (c *closeCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.stream(env, c.Stream, false)
	if err != nil {
		return err
	}
	done, err := s.Close(ctx)
	if err != nil {
		return err
	}
	return printAppended(env, c.JSON, 0, done)
}

// rmCommand is "ds rm".
type rmCommand struct {
	remote
	Streams []string `arg:"" name:"stream" help:"Paths or URLs of streams."`
	Force   bool     `short:"f" help:"A stream that is not there is no error."`
	JSON    bool     `name:"json" help:"Report each stream as a JSON object on a line."`
}

// Help is the text below the summary.
func (rmCommand) Help() string {
	return `Deletes streams with all their data. Forks keep what they inherited. Of several streams all are tried; the
exit code is that of the first error.

Examples:

    ds rm orders
    ds rm -f build/16 build/17`
}

// Run deletes.
func (c *rmCommand) Run(ctx context.Context, env *Env) error {
	var errs []error
	for _, name := range c.Streams {
		s, err := c.stream(env, name, false)
		if err == nil {
			err = s.Delete(ctx)
		}
		missing := errors.Is(err, stream.NotFound) || errors.Is(err, stream.Gone)
		if err != nil && !(c.Force && missing) {
			errs = append(errs, err)
			continue
		}
		if c.JSON {
			err = writeLine(env.Stdout, map[string]any{"url": s.URL(), "deleted": !missing})
		} else if err = nil; !missing {
			_, err = fmt.Fprintf(env.Stdout, "deleted %s\n", s.URL())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// forkCommand is "ds fork".
type forkCommand struct {
	remote
	lifetime
	Source    string `arg:"" help:"Path or URL of the stream to fork."`
	Stream    string `arg:"" help:"Path or URL of the fork, on the same server."`
	At        offset `placeholder:"OFFSET" help:"Where the fork leaves its source. Default: at its tail."`
	SubOffset uint64 `placeholder:"N" help:"That many JSON messages, or bytes, further."`
	JSON      bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (forkCommand) Help() string {
	return `Makes a stream that begins with the data of another one and then goes its own way. Nothing is copied.

Examples:

    ds fork chat chat-2
    ds fork chat chat-2 --at -1 --sub-offset 3     # the first three messages`
}

// Run forks.
func (c *forkCommand) Run(ctx context.Context, env *Env) error {
	source, err := c.stream(env, c.Source, false)
	if err != nil {
		return err
	}
	s, err := c.stream(env, c.Stream, false)
	if err != nil {
		return err
	}
	info, created, err := s.Fork(ctx, source, &client.ForkOptions{Offset: client.Offset(c.At), SubOffset: c.SubOffset, TTL: c.TTL, ExpiresAt: c.ExpiresAt})
	if err != nil {
		return err
	}
	r := newStreamReport(s, info)
	r.Created = &created
	return r.print(env, c.JSON)
}
