package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// scenario measures one server once.
type scenario func(context.Context, *bed) ([]Result, error)

// scenarios maps names to what they do.
var scenarios = map[string]scenario{
	"append":    runAppend,
	"create":    runCreate,
	"catchup":   runCatchup,
	"fanout":    runFanout,
	"longpoll":  runLongPoll,
	"idle":      runIdle,
	"mixed":     runMixed,
	"sustained": runSustained,
	"streams":   runStreams,
	"null":      runNull,
}

// Run measures what the options say and prints it. The error wraps [ErrFailed] when a
// server lost or invented data or refused requests; the report is whole then, and
// printed. Cancelling ends the run within moments, without a report.
func Run(ctx context.Context, opts Options, out io.Writer) (Report, error) {
	if err := opts.Validate(); err != nil {
		return Report{}, err
	}
	opts = opts.withDefaults()
	report := Report{Scenario: opts.Scenario, Started: time.Now(), Options: opts.summary()}
	sides := []side{{opts.URL, opts.PID, opts.Plain}}
	if opts.Compare != "" {
		sides = append(sides, side{opts.Compare, opts.ComparePID, opts.ComparePlain})
	}
	var failures []error
	for round := range opts.Rounds {
		for _, s := range sides {
			results, err := one(ctx, opts, s)
			if err != nil {
				return report, fmt.Errorf("%s at %s: %w", opts.Scenario, s.url, err)
			}
			for _, res := range results {
				if opts.Rounds > 1 || opts.Compare != "" {
					res.Round = round + 1
				}
				failures = append(failures, res.failure(opts.AllowErrors))
				report.Results = append(report.Results, res)
			}
		}
	}
	report.Ratios = compare(report.Results, opts.URL, opts.Compare)
	return report, errors.Join(append(failures, report.write(out, opts.Format))...)
}

// side is one of the servers to measure.
type side struct {
	url   string
	pid   int
	plain bool
}

// one runs the scenario once against one server.
func one(ctx context.Context, opts Options, s side) ([]Result, error) {
	b, err := newBed(ctx, opts, s.url, s.pid)
	if err != nil {
		return nil, err
	}
	b.plain = s.plain
	return scenarios[opts.Scenario](ctx, b)
}

func (o Options) summary() Summary {
	var counts []int
	if o.Scenario == "streams" {
		counts = o.Counts
	}
	return Summary{
		Connections: o.Connections, Streams: o.Streams, Counts: counts, Subscribers: o.Subscribers, Rate: o.Rate,
		Duration: o.Duration, Size: o.Size, ReadSize: o.ReadSize, JSON: o.JSON, Producers: o.Producers, Loops: o.Loops,
	}
}
