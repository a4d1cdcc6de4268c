package durablestreams

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"durablestreams/auth"
	"durablestreams/httpapi"
	"durablestreams/internal/fastpath"
	"durablestreams/internal/protocol"
	"durablestreams/internal/trace"
	"durablestreams/internal/webhook"
	"durablestreams/store"
)

// Options set up a Server. The zero value works, and so does a nil pointer; a
// field left at zero has the default that its comment names.
type Options struct {
	// InMemory keeps everything in memory: the same engine on an in-memory file
	// system, gone with the process.
	InMemory bool

	// MaxMemory bounds the files that InMemory keeps, in bytes: beyond it changes are
	// refused as on a full disk, and deletions and reads go on. The memory of the
	// process may be twice that. Default 1 GiB.
	MaxMemory int64

	// BasePath stands before "/v1/stream/" in the URL of a stream. Default
	// "/durable-streams"; "/" is none.
	BasePath string

	// PublicURL is the scheme, host and path prefix under which clients reach the
	// server, for Location headers and the URLs that receivers of webhooks call back.
	// Default: what each request shows.
	PublicURL string

	// TrustedProxies lists addresses and ranges of proxies: what they say of the scheme
	// and host that a client used (Forwarded, X-Forwarded-Proto, X-Forwarded-Host)
	// counts where PublicURL would. "unix" is for those that come by a Unix socket.
	// Default: none.
	TrustedProxies []string

	// TLSCert and TLSKey are PEM files with a certificate (and those that it is signed
	// with) and its key. With them Serve speaks TLS, and nothing else. A server
	// follows the files: it uses new ones within about a second. Default: no TLS.
	TLSCert, TLSKey string

	// ReadOnlyPage lets [Server.Handler] serve a page that shows streams, at
	// [Server.PageURL], and lists for it and for ds ls: to everybody, or, where access
	// is controlled, to each caller what it may read. The page of [Server.Admin], which
	// changes things too, is there in any case.
	ReadOnlyPage bool

	// AllowedOrigins lists the origins whose pages may use the server from a
	// browser. Default: all.
	AllowedOrigins []string

	// Access says who may do what. Default: everybody may do everything.
	Access *auth.Options

	// TenantsFile is the path of a file with what each tenant may use; a tenant is the
	// first segment of its streams' paths. Default: nothing is counted and bounded.
	TenantsFile string

	// MaxBody bounds the body of one request in bytes. Default 16 MiB.
	MaxBody int64

	// MaxInflight bounds the memory for bodies that are being received, in bytes, of
	// all requests together; further ones are answered 503. Default 256 MiB, or
	// twice MaxBody if that is more.
	MaxInflight int64

	// MaxUnsent bounds the memory for answers until their clients have taken them, in
	// bytes, of all requests together; further ones are answered 503, and live
	// readers wait or come back. Default 256 MiB, or four times MaxBody if that
	// is more.
	MaxUnsent int64

	// MaxQueued bounds the changes that wait for the disk, in bytes; further ones
	// are answered 503. Default 64 MiB.
	MaxQueued int64

	// MaxLive bounds the live reads that wait for data; further ones are answered
	// 503. Default: seven eighths of MaxConnections, so that others can still
	// connect.
	MaxLive int

	// MaxReads bounds the answers that are read from the disk at once, and
	// likewise the changes that have to look there; others wait, and after 10 s
	// are answered 503. Default: four a processor.
	MaxReads int

	// MaxSends bounds the answers of more than 64 KiB that are sent at once;
	// further ones are answered 503. On the fast path each takes a descriptor.
	// Default: 128, or less if the process may open less than 1,024 files.
	MaxSends int

	// MaxHeader bounds the head of one request in bytes. Default 64 KiB.
	MaxHeader int

	// PageSize is the number of bytes at which one answer of a catch-up read
	// ends. Default 1 MiB.
	PageSize int

	// LongPollTimeout is how long a long-poll waits for data. Default 30 s.
	LongPollTimeout time.Duration

	// SSEMaxAge is the age at which an SSE answer ends and its client comes back,
	// spread by ±10 %. Default 60 s.
	SSEMaxAge time.Duration

	// StallTimeout is how long a peer may make no progress in sending a body or
	// taking an answer. Default 30 s.
	StallTimeout time.Duration

	// NoFastPath leaves everything to net/http. By default, on Linux, plain
	// requests of connections that Serve accepts are answered from event loops.
	NoFastPath bool

	// EventLoops is the number of event loops. Default: one for two processors,
	// at most 8. A loop waits in the kernel and holds a processor of Go's
	// scheduler meanwhile: a process that does little else is faster with a
	// GOMAXPROCS that is larger by this number.
	EventLoops int

	// MaxConnections bounds the open connections of Serve, and likewise the requests
	// that are under way over HTTP/2; further ones are answered 503. Default, and the most:
	// what the process's limit on open files allows, less a reserve for the data directory.
	MaxConnections int

	// WebhookAllowLocal lets webhooks go to this machine, by http as well: localhost,
	// 127.0.0.0/8 and [::1]. For development.
	WebhookAllowLocal bool

	// WebhookAllow lists hosts and ranges of addresses that webhooks may go to
	// although they are not public: "worker.internal", "*.example.com" for all hosts
	// below a name, "10.1.2.3", "10.1.0.0/16".
	WebhookAllow []string

	// WebhookOnlyAllowed keeps webhooks from going anywhere else.
	WebhookOnlyAllowed bool

	// MaxSubscriptions bounds the number of subscriptions. Default 100,000.
	MaxSubscriptions int

	// SegmentSize is the size of one journal file in bytes. Default 64 MiB, in
	// memory 4 MiB.
	SegmentSize int64

	// TailMemory is how much data may be in memory and journal before it is moved
	// into the archive, in bytes. Default 128 MiB, in memory 16 MiB.
	TailMemory int64

	// CacheSize is the memory for reading the archive, in bytes. Default 64 MiB.
	CacheSize int64

	// ShutdownGrace is how long Serve lets requests finish when its context ends.
	// Default 10 s.
	ShutdownGrace time.Duration

	// Logger gets what an operator should know. Default: nothing is logged.
	Logger *slog.Logger

	// AccessLog has a line of the log, at level info, for every answer. A log that
	// does not take them in time gets fewer, and is told how many are missing.
	AccessLog bool

	// SlowRequest is the time from which on an answer gets a line in the log, at level
	// warn: what the server took for it, without the time in which the client sent the
	// body. Live reads are never slow. Default 0: no answer is.
	SlowRequest time.Duration

	// OTLPEndpoint is the URL of an OpenTelemetry collector that gets a span for every
	// answer (OTLP over HTTP), such as http://127.0.0.1:4318. The standard OTEL_ variables
	// of the environment say everything else. What it does not take in time is left out.
	// Default: no traces.
	OTLPEndpoint string

	// AdminListener is where Open serves [Server.Admin] from its start until
	// Shutdown has ended, so that operators see a recovery and a stop too. Without
	// Access whoever reaches it may see and do everything. It is closed in any case.
	// Default: none.
	AdminListener net.Listener
}

// Defaults for the in-memory mode: its journal is memory, and zero-filled.
const (
	memorySegmentSize = 4 << 20
	memoryTailMemory  = 16 << 20
	memorySize        = 1 << 30
)

// withDefaults returns a copy with every default filled in that is decided here;
// the others are decided by the package that the option is for.
func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.InMemory {
		setDefault(&d.SegmentSize, memorySegmentSize)
		setDefault(&d.TailMemory, memoryTailMemory)
		setDefault(&d.MaxMemory, memorySize)
	}
	setDefault(&d.MaxConnections, defaultConnections())
	d.MaxConnections = min(d.MaxConnections, defaultConnections())
	setDefault(&d.MaxLive, max(d.MaxConnections-d.MaxConnections/8, 1))
	setDefault(&d.MaxSends, defaultSends())
	setDefault(&d.ShutdownGrace, 10*time.Second)
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

// Smallest and largest values that make sense; sizes in bytes.
const (
	minSegmentSize = 256 << 10
	maxSegmentSize = 1 << 30
	maxEventLoops  = 64
	minMemory      = 1 << 20
	minMemoryFiles = 16 << 20
)

// Validate reports everything that is wrong with the options and with the files that
// they name, nil if nothing is.
func (o *Options) Validate() error {
	d := o.withDefaults()
	errs := []error{d.protocol().Validate(), d.http().Validate()}
	if d.SegmentSize != 0 && (d.SegmentSize < minSegmentSize || d.SegmentSize > maxSegmentSize) {
		errs = append(errs, fmt.Errorf("segment size %d: want 256 KiB to 1 GiB", d.SegmentSize))
	}
	if d.TailMemory != 0 && d.TailMemory < minMemory {
		errs = append(errs, fmt.Errorf("tail memory %d: want 1 MiB or more", d.TailMemory))
	}
	if d.MaxMemory != 0 && d.MaxMemory < minMemoryFiles {
		errs = append(errs, fmt.Errorf("max memory %d: want 16 MiB or more", d.MaxMemory))
	}
	if d.MaxQueued != 0 && d.MaxQueued < minMemory {
		errs = append(errs, fmt.Errorf("max queued %d: want 1 MiB or more", d.MaxQueued))
	}
	if d.CacheSize != 0 && d.CacheSize < minMemory {
		errs = append(errs, fmt.Errorf("cache size %d: want 1 MiB or more", d.CacheSize))
	}
	if d.EventLoops < 0 || d.EventLoops > maxEventLoops {
		errs = append(errs, fmt.Errorf("event loops %d: want 1 to %d", d.EventLoops, maxEventLoops))
	}
	if _, err := d.certificate(); err != nil {
		errs = append(errs, err)
	}
	if d.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("max connections %d: want 1 or more", d.MaxConnections))
	}
	if d.MaxSubscriptions < 0 {
		errs = append(errs, fmt.Errorf("max subscriptions %d: want 1 or more", d.MaxSubscriptions))
	}
	if _, err := d.webhookPolicy(); err != nil {
		errs = append(errs, err)
	}
	if d.Access != nil {
		errs = append(errs, d.Access.Validate())
	}
	if d.OTLPEndpoint != "" {
		errs = append(errs, trace.Validate(d.OTLPEndpoint))
	}
	if d.SlowRequest < 0 {
		errs = append(errs, errors.New("slow request: negative duration"))
	}
	if _, err := d.tenants(); err != nil {
		errs = append(errs, err)
	}
	if d.ShutdownGrace < 0 {
		errs = append(errs, errors.New("shutdown grace: negative duration"))
	}
	return errors.Join(errs...)
}

func (o *Options) store() *store.Options {
	return &store.Options{SegmentSize: o.SegmentSize, TailMemory: o.TailMemory, CacheSize: o.CacheSize, MaxQueued: o.MaxQueued, Logger: o.Logger}
}

func (o *Options) protocol() *protocol.Options {
	return &protocol.Options{BasePath: o.BasePath, PublicURL: o.PublicURL, TrustedProxies: o.TrustedProxies, MaxBody: o.MaxBody, MaxInflight: o.MaxInflight, MaxUnsent: o.MaxUnsent,
		MaxLive: o.MaxLive, MaxReads: o.MaxReads, MaxSends: o.MaxSends, PageSize: o.PageSize,
		LongPollTimeout: o.LongPollTimeout, SSEMaxAge: o.SSEMaxAge, AllowedOrigins: o.AllowedOrigins, Logger: o.Logger}
}

// certificate loads the certificate, nil if there is none.
func (o *Options) certificate() (*certificate, error) {
	switch {
	case o.TLSCert == "" && o.TLSKey == "":
		return nil, nil
	case o.TLSCert == "" || o.TLSKey == "":
		return nil, errors.New("TLS: want a certificate and a key, or neither")
	}
	return openCertificate(o.TLSCert, o.TLSKey, o.Logger)
}

// webhookPolicy says where webhooks may go, or what is wrong with the rules.
func (o *Options) webhookPolicy() (webhook.Policy, error) {
	p := webhook.Policy{AllowLocal: o.WebhookAllowLocal, OnlyAllowed: o.WebhookOnlyAllowed}
	var errs []error
	for _, text := range o.WebhookAllow {
		rule, err := webhook.ParseRule(text)
		p.Allow = append(p.Allow, rule)
		errs = append(errs, err)
	}
	return p, errors.Join(errs...)
}

func (o *Options) fastPath() *fastpath.Options {
	return &fastpath.Options{Loops: o.EventLoops, StallTimeout: o.StallTimeout, Logger: o.Logger}
}

func (o *Options) http() *httpapi.Options {
	return &httpapi.Options{StallTimeout: o.StallTimeout, MaxHeaderBytes: o.MaxHeader, Logger: o.Logger}
}
