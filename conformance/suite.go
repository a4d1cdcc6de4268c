// Package conformance is a black-box test of a Durable Streams server: everything
// the protocol demands, the faults that servers of this kind really had, and the
// answers that this project has chosen where the protocol leaves a choice. It only
// knows a URL, so it runs against a process, a handler in a test, or any transport.
//
// It does not stop, crash or reconfigure servers; tests that own the process do
// that. Every test makes streams of its own, so one server can be used by several
// runs at once, and tests of one run share the server too.
package conformance

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Options name the server and say how it was started. The zero value of all but
// BaseURL stands for the server's own defaults.
type Options struct {
	// BaseURL is the server's origin, such as http://127.0.0.1:8642.
	BaseURL string
	// StreamPath is the path below which streams live: /durable-streams/v1/stream.
	StreamPath string
	// MaxBody is the largest request body that the server takes: 16 MiB.
	MaxBody int64
	// LongPollTimeout is how long the server holds a long-poll: 30 s. Above a few
	// seconds the tests that wait for it are left out.
	LongPollTimeout time.Duration
	// AllowedOrigins is the server's CORS allow-list. Empty means any origin.
	AllowedOrigins []string
	// Transport carries the requests that need no raw socket. Nil means HTTP/1.1
	// with connections of the suite's own. Raw sockets always go to BaseURL.
	Transport http.RoundTripper
	// TLS is for raw sockets to a server with TLS.
	TLS *tls.Config
	// LooseErrors looks at the status of a refusal only, not at its body and caching:
	// for servers that are not this project's.
	LooseErrors bool
	// Subscriptions says that the server has them, and that its webhooks may go to
	// this machine. Without it they are left out.
	Subscriptions bool
	// Topics names the parts to run, such as "create" or "browser". Empty means all.
	Topics []string
	// Long also runs what needs more than half a minute of real time.
	Long bool
}

// atOnce is how many tests run at the same time. Most of them wait.
const atOnce = 24

// patience is how long a test waits for what should come at once. It is long
// because a loaded machine is no fault of the server.
const patience = 15 * time.Second

type suite struct {
	Options
	host string // for raw sockets
	tls  bool   // they speak TLS
	http *http.Client
	id   string
	next atomic.Int64
	room chan struct{}
}

// test is one subtest. Its name starts with the ids of the cases that it covers.
type test struct {
	name string
	run  func(c *client)
}

// topic is a group of tests. Those of a lone topic run when all others are done,
// one at a time, because they measure time or move much data.
type topic struct {
	name string
	lone bool
	list []test

	subscriptions bool // it needs them
}

// Run tests the server. It takes some 25 seconds, most of them waiting.
func Run(t *testing.T, o Options) {
	if o.StreamPath == "" {
		o.StreamPath = "/durable-streams/v1/stream"
	}
	if o.MaxBody == 0 {
		o.MaxBody = 16 << 20
	}
	if o.LongPollTimeout == 0 {
		o.LongPollTimeout = 30 * time.Second
	}
	base, err := url.Parse(o.BaseURL)
	if err != nil || base.Host == "" {
		t.Fatalf("conformance: BaseURL %q is no URL of a server", o.BaseURL)
	}
	o.BaseURL = strings.TrimSuffix(o.BaseURL, "/")
	if o.Transport == nil {
		own := &http.Transport{MaxIdleConnsPerHost: 2 * atOnce, DisableCompression: true}
		defer own.CloseIdleConnections()
		o.Transport = own
	}
	s := &suite{
		Options: o,
		host:    base.Host,
		tls:     base.Scheme == "https",
		http: &http.Client{
			Transport:     o.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		id:   strconv.FormatInt(time.Now().UnixNano(), 36),
		room: make(chan struct{}, atOnce),
	}
	var lone []topic
	var running sync.WaitGroup
	for _, topic := range s.topics() {
		if topic.subscriptions && !o.Subscriptions {
			continue
		}
		if len(o.Topics) > 0 && !slices.Contains(o.Topics, topic.name) {
			continue
		}
		if topic.lone {
			lone = append(lone, topic)
			continue
		}
		running.Go(func() { t.Run(topic.name, func(t *testing.T) { s.together(t, topic.list) }) })
	}
	running.Wait()
	for _, topic := range lone {
		t.Run(topic.name, func(t *testing.T) {
			for _, tt := range topic.list {
				t.Run(tt.name, func(t *testing.T) { tt.run(&client{T: t, suite: s}) })
			}
		})
	}
}

func (s *suite) topics() []topic {
	return []topic{
		{name: "create", list: createTests()},
		{name: "append", list: appendTests()},
		{name: "producer", list: producerTests()},
		{name: "close", list: closeTests()},
		{name: "json", list: jsonTests()},
		{name: "text", list: textTests()},
		{name: "offsets", list: offsetTests()},
		{name: "read", list: readTests()},
		{name: "cache", list: cacheTests()},
		{name: "longpoll", list: longPollTests()},
		{name: "sse", list: sseTests()},
		{name: "fork", list: forkTests()},
		{name: "lineage", list: lineageTests()},
		{name: "ttl", list: ttlTests()},
		{name: "http", list: httpTests()},
		{name: "browser", list: browserTests()},
		{name: "edge", list: edgeTests()},
		{name: "paths", list: pathTests()},
		{name: "races", list: raceTests()},
		{name: "subscription", list: subscriptionTests(), subscriptions: true},
		{name: "pull-wake", list: pullTests(), subscriptions: true},
		{name: "webhook", list: webhookTests(), subscriptions: true},
		{name: "control", list: controlTests(), subscriptions: true},
		{name: "sse timing", lone: true, list: sseTimingTests()},
		{name: "bulk", lone: true, list: bulkTests()},
	}
}

// together runs tests at the same time without depending on -parallel, which
// would be the number of processors while these tests mostly wait.
func (s *suite) together(t *testing.T, list []test) {
	var running sync.WaitGroup
	for _, tt := range list {
		running.Go(func() {
			s.room <- struct{}{}
			defer func() { <-s.room }()
			t.Run(tt.name, func(t *testing.T) { tt.run(&client{T: t, suite: s}) })
		})
	}
	running.Wait()
}

// client is what a test works with: the test itself and the server.
type client struct {
	*testing.T
	*suite
}

// sub runs a subtest of a table, in order.
func (c *client) sub(name string, run func(c *client)) {
	c.T.Run(name, func(t *testing.T) { run(&client{T: t, suite: c.suite}) })
}

// subs runs the subtests of a table at the same time.
func (c *client) subs(list []test) {
	var running sync.WaitGroup
	for _, tt := range list {
		running.Go(func() { c.sub(tt.name, tt.run) })
	}
	running.Wait()
}

// path gives a stream path that nobody else uses.
func (c *client) path(name string) string {
	return fmt.Sprintf("%s-%d-%s", c.id, c.next.Add(1), strings.ReplaceAll(name, " ", "-"))
}

// full is the path of a stream on this server, as Stream-Forked-From wants it.
func (c *client) full(path string) string { return c.StreamPath + "/" + path }

// waitLong leaves a test out whose wait would be too long with this server.
func (c *client) waitLong() {
	c.Helper()
	if c.LongPollTimeout > 5*time.Second {
		c.Skipf("needs a server with a long-poll timeout of at most 5 s, this one has %s", c.LongPollTimeout)
	}
}

// pause lets real time pass, where the protocol counts in it.
func (c *client) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.Context().Done():
	}
}
