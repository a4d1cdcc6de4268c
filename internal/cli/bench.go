package cli

import (
	"context"
	"time"

	"durablestreams"
	"durablestreams/internal/bench"
)

// benchCommand is "ds bench". What its flags mean and their defaults are those of
// bench.Options.
type benchCommand struct {
	Scenario string `arg:"" optional:"" default:"append" help:"append, create, catchup, fanout, longpoll, idle, mixed, sustained, streams or null. Default: append."`

	URL          string `name:"url" default:"http://127.0.0.1:8642/durable-streams/v1/stream" placeholder:"${default}" help:"The server's streams. Any server of the protocol will do."`
	PID          int    `name:"pid" placeholder:"N" help:"The server's process: its CPU and memory are measured too."`
	Compare      string `placeholder:"URL" help:"A second server: both are measured in turn and compared."`
	ComparePID   int    `name:"compare-pid" placeholder:"N" help:"The second server's process."`
	Plain        bool   `help:"catchup: --url is a file that any web server serves."`
	ComparePlain bool   `help:"catchup: --compare is such a file."`
	Rounds       int    `placeholder:"N" help:"How often each server is measured. Default: 1, with --compare 3."`

	Connections int           `short:"c" default:"16" placeholder:"${default}" help:"Connections that write, create or read."`
	Streams     int           `placeholder:"N" help:"Streams to write to. Default: as many as connections."`
	Counts      []int         `placeholder:"N" help:"streams: numbers of streams to measure. Default: 100,100000."`
	Subscribers int           `placeholder:"N" help:"Live readers of fanout, longpoll and idle (default: 100), readers of mixed (default: 2)."`
	Rate        float64       `placeholder:"N" help:"Requests a second in all, sent when they are due; latency counts from then. Default: as fast as answers come; live scenarios 50."`
	Duration    time.Duration `short:"d" default:"5s" placeholder:"${default}" help:"Length of the measured phase."`
	Warmup      time.Duration `default:"500ms" placeholder:"${default}" help:"Length of the phase before it. 0: none."`
	Requests    int64         `placeholder:"N" help:"End the measured phase after so many requests."`
	Timeout     time.Duration `default:"10s" placeholder:"${default}" help:"How long one answer may take."`

	Size      size `default:"256" placeholder:"${default}" help:"Bytes of one append."`
	ReadSize  size `default:"64MiB" placeholder:"${default}" help:"Bytes of the stream that catchup and mixed read."`
	JSON      bool `name:"json" help:"Append JSON instead of bytes."`
	Producers bool `help:"Append as idempotent producers."`

	Loops       int    `default:"1" placeholder:"${default}" help:"Threads that drive the connections."`
	SyncDir     string `placeholder:"DIR" help:"Directory in which the disk's fdatasync time is measured, before and after."`
	AllowErrors bool   `help:"Count refused requests without failing."`
	Delete      bool   `help:"Delete the run's streams at the end."`
	Format      string `enum:"text,json,benchstat" default:"text" placeholder:"${default}" help:"Output: text, json or benchstat."`
}

// Help is the text below the summary.
func (benchCommand) Help() string {
	return `Loads a server and measures it. All that was written is read back afterwards: unless exactly the
acknowledged data are there, once and in order, and every request had a good answer, the exit code is 1.
The streams of a run are named bench-<run>/... and stay unless --delete is given.

    append     appends, in closed loop or at --rate
    create     creates streams that hold one record
    catchup    reads a large stream from its start, again and again
    fanout     one writer, many SSE subscribers: delivery times
    longpoll   the same with long-polling readers
    idle       many SSE subscribers to whom nothing happens: memory per connection (--pid)
    mixed      writers alone, with readers, alone again: what the readers take from them
    sustained  appends for a long time: rate and memory along the way
    streams    appends over more and more streams (--counts)
    null       appends answered by a server in this process that keeps nothing: the yardstick

Examples:

    ds bench                                               # against ds serve on this machine
    ds bench append -c 64 --pid $(pidof ds) --sync-dir ds-data
    ds bench append --rate 5000 --json --producers
    ds bench append --url http://127.0.0.1:1234/v1/stream --compare http://127.0.0.1:5678/v1/stream`
}

// Run measures and prints.
func (c *benchCommand) Run(ctx context.Context, env *Env) error {
	opts := c.options()
	if err := opts.Validate(); err != nil {
		return usageError{err}
	}
	if c.Scenario == "null" {
		makeRoomForLoops(0) // as ds serve does
	}
	_, err := bench.Run(ctx, opts, env.Stdout)
	return err
}

func (c *benchCommand) options() bench.Options {
	warmup := c.Warmup
	if warmup == 0 {
		warmup = -1 // none, and not the default
	}
	return bench.Options{
		Scenario: c.Scenario, URL: c.URL, PID: c.PID, Compare: c.Compare, ComparePID: c.ComparePID,
		Plain: c.Plain, ComparePlain: c.ComparePlain, Rounds: c.Rounds,
		Connections: c.Connections, Streams: c.Streams, Counts: c.Counts, Subscribers: c.Subscribers,
		Rate: c.Rate, Duration: c.Duration, Warmup: warmup, Requests: c.Requests, Timeout: c.Timeout,
		Size: int(c.Size), ReadSize: int64(c.ReadSize), JSON: c.JSON, Producers: c.Producers,
		Loops: c.Loops, SyncDir: c.SyncDir, AllowErrors: c.AllowErrors, Delete: c.Delete, Format: c.Format,
		NullServer: durablestreams.NullServer,
	}
}
