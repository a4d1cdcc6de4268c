package bench

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// DefaultURL is where a server with default options listens.
const DefaultURL = "http://127.0.0.1:8642/durable-streams/v1/stream"

// Scenarios lists the names that Options.Scenario knows.
func Scenarios() []string {
	return []string{"append", "create", "catchup", "fanout", "longpoll", "idle", "mixed", "sustained", "streams", "null"}
}

// Options says what to measure. The zero value appends to DefaultURL.
type Options struct {
	Scenario string // one of Scenarios; "append" if empty
	URL      string // of the stream root, without a stream's path; DefaultURL if empty
	PID      int    // the server's process, for CPU and memory; unknown if 0

	Compare      string // a second server's URL: both are measured in turn
	ComparePID   int
	ComparePlain bool // as Plain, of the second URL
	Rounds       int  // how often each server is measured; 1, with Compare 3

	Connections int           // connections that write, create or read; 16
	Streams     int           // streams in use; as many as connections
	Counts      []int         // streams: the numbers of streams to measure; 100 and 100,000
	Subscribers int           // live readers of fanout, longpoll and idle; 100. Readers of mixed; 2
	Rate        float64       // requests a second in all, sent when due; 0 is as fast as answers come. Live scenarios: 50
	Duration    time.Duration // of the measured phase; 5 s
	Warmup      time.Duration // before it; 500 ms. Negative: none
	Requests    int64         // bound of requests in the measured phase, of whole reads per connection in catchup; 0: none
	Timeout     time.Duration // for one answer; 10 s

	Size      int   // bytes of one append's body; 256
	ReadSize  int64 // bytes of the stream that catchup and mixed read; 64 MiB
	JSON      bool  // application/json instead of bytes
	Producers bool  // idempotent producers, one for each connection

	Loops       int    // threads that drive connections; 1
	Portable    bool   // a goroutine for each connection, as on systems without epoll
	SyncDir     string // where the disk's fdatasync is measured; not if empty
	Plain       bool   // catchup: URL is a file that any web server serves
	AllowErrors bool   // count refusals without failing
	Delete      bool   // delete the run's streams when it is over
	Format      string // text, json or benchstat; text if empty

	// NullServer starts a server that answers 204 to everything, the yardstick of
	// the null scenario. If nil, net/http serves.
	NullServer func() (addr string, stop func(), err error)
}

const maxConnections = 1 << 16 // a record has four hex digits for its connection

// withDefaults fills in what was left at zero.
func (o Options) withDefaults() Options {
	fill(&o.Scenario, "append")
	fill(&o.URL, DefaultURL)
	fill(&o.Format, "text")
	if o.Compare != "" {
		fill(&o.Rounds, 3)
	}
	fill(&o.Rounds, 1)
	fill(&o.Connections, 16)
	fill(&o.Streams, o.Connections)
	fill(&o.Duration, 5*time.Second)
	fill(&o.Warmup, 500*time.Millisecond)
	o.Warmup = max(o.Warmup, 0)
	fill(&o.Timeout, 10*time.Second)
	fill(&o.Size, 256)
	fill(&o.ReadSize, 64<<20)
	fill(&o.Loops, 1)
	if len(o.Counts) == 0 {
		o.Counts = []int{100, 100_000}
	}
	switch o.Scenario {
	case "fanout", "longpoll", "idle":
		fill(&o.Subscribers, 100)
		o.Connections, o.Streams, o.Loops, o.JSON = 1, 1, 1, true // one writer, one thread, one clock
		if o.Rate == 0 {
			o.Rate = 50
		}
	case "mixed":
		fill(&o.Subscribers, 2)
	}
	return o
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate tells what is wrong with the options.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(!slices.Contains(Scenarios(), o.Scenario), "scenario %q: must be one of %s", o.Scenario, strings.Join(Scenarios(), ", "))
	bad(!slices.Contains([]string{"text", "json", "benchstat"}, o.Format), "format %q: must be text, json or benchstat", o.Format)
	for _, u := range []string{o.URL, o.Compare} {
		if u != "" {
			_, _, err := splitURL(u)
			bad(err != nil, "%w", err)
		}
	}
	least := minBytes
	if o.JSON {
		least = minJSON
	}
	bad(o.Size < least || o.Size > 16<<20, "size %d: must be %d to 16777216", o.Size, least)
	bad(o.Connections < 1 || o.Connections >= maxConnections, "connections %d: must be 1 to %d", o.Connections, maxConnections-1)
	bad(o.Subscribers < 0 || o.Subscribers > maxConnections, "subscribers %d: must be 0 to %d", o.Subscribers, maxConnections)
	deliveries := o.Rate * o.Duration.Seconds() * float64(o.Subscribers)
	bad(o.Scenario != "mixed" && deliveries > 1e8, "%.0f deliveries: must be at most 100 million", deliveries)
	for _, n := range append([]int{o.Streams}, o.Counts...) {
		bad(n < 1 || n > 10_000_000, "streams %d: must be 1 to 10000000", n)
	}
	bad(o.Rate < 0 || o.Rate > 1e7, "rate %g: must be 0 to 10000000", o.Rate)
	bad(o.Duration < 0 || o.Duration > 24*time.Hour, "duration %v: must be at most a day", o.Duration)
	bad(o.Warmup > time.Hour, "warm-up %v: must be at most an hour", o.Warmup)
	bad(o.Timeout < time.Millisecond || o.Timeout > time.Hour, "time-out %v: must be 1ms to 1h", o.Timeout)
	bad(o.ReadSize < 1<<10 || o.ReadSize > 1<<40, "read size %d: must be 1 KiB to 1 TiB", o.ReadSize)
	bad(o.Loops < 1 || o.Loops > 64, "loops %d: must be 1 to 64", o.Loops)
	bad(o.Rounds < 1 || o.Rounds > 100, "rounds %d: must be 1 to 100", o.Rounds)
	bad((o.Plain || o.ComparePlain) && o.Scenario != "catchup", "a plain file can only be read: scenario catchup")
	bad(o.Requests < 0, "requests %d: must not be negative", o.Requests)
	return errors.Join(errs...)
}

// splitURL gives the host and port to connect to, and the path that stream names are
// appended to.
func splitURL(raw string) (host, path string, err error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", "", err
	}
	if u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return "", "", fmt.Errorf("URL %q: must be http://host:port/path", raw)
	}
	host = u.Host
	if u.Port() == "" {
		host = u.Host + ":80"
	}
	return host, strings.TrimSuffix(u.EscapedPath(), "/"), nil
}
