package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"durablestreams"
)

// groups are the headings under which serve's flags stand.
var groups = []kong.Group{
	{Key: "network", Title: "Network:"},
	{Key: "access", Title: "Access:"},
	{Key: "storage", Title: "Storage:"},
	{Key: "webhooks", Title: "Subscriptions and webhooks:"},
	{Key: "limits", Title: "Limits:"},
	{Key: "live", Title: "Live reads:"},
	{Key: "process", Title: "Process:"},
	{Key: "server", Title: "Server:"},
}

// serveCommand is "ds serve". Sizes and times are those of durablestreams.Options.
type serveCommand struct {
	Listen         string   `group:"network" default:"127.0.0.1:8642" placeholder:"${default}" help:"Address and port to listen on, or unix:PATH for a socket. Port 0 picks a free one."`
	AdminListen    string   `group:"network" placeholder:"127.0.0.1:8643" help:"Address and port for operators: health, metrics, profiles, the page. Where other machines reach it, access control has to be on; off is none. Default: 127.0.0.1:8643, or none if that is in use."`
	BasePath       string   `group:"network" default:"/durable-streams" placeholder:"${default}" help:"URL path before /v1/stream/. / is none."`
	PublicURL      string   `group:"network" name:"public-url" placeholder:"https://host/prefix" help:"Scheme, host and path prefix in Location headers and in the URLs that receivers of webhooks call back. Default: as the request came."`
	TrustedProxies []string `group:"network" placeholder:"range" help:"Addresses and ranges (10.0.0.0/8) of proxies, or unix for those that use the socket. What they say of scheme and host (Forwarded, X-Forwarded-Proto, X-Forwarded-Host) counts in place of a public URL, and X-Forwarded-For and X-Request-Id count in the log."`
	TLSCert        string   `group:"network" name:"tls-cert" placeholder:"FILE" help:"Certificate (PEM, with the intermediate ones) for HTTPS; the port then speaks nothing else. New files are used by themselves."`
	TLSKey         string   `group:"network" name:"tls-key" placeholder:"FILE" help:"Key of the certificate (PEM)."`
	CORSOrigins    []string `group:"network" reload:"" name:"cors-origins" placeholder:"https://host" help:"Origins whose pages may use the server from a browser. Default: all."`

	Page string `group:"network" enum:"off,read-only" default:"off" placeholder:"${default}" help:"With read-only: a page that shows streams, and a list for ds ls, at <base path>/v1/stream/__ds/page/. Where access is controlled, each token sees what it may read. The admin address has a page in any case."`

	FastPath   bool `group:"network" default:"true" negatable:"" help:"Answer plain requests from event loops (Linux); other requests, and all with --no-fast-path, go through net/http."`
	EventLoops int  `group:"network" placeholder:"N" help:"Event loops of the fast path. Default: one for two processors."`

	AccessFile  string `group:"access" placeholder:"FILE" help:"API keys and what everybody may read, see ds access key. With it or --jwt-keys, a request needs a right. Changes are taken by themselves."`
	JWTKeys     string `group:"access" name:"jwt-keys" placeholder:"URL" help:"JWK Set of an issuer whose tokens count: an https URL, or a file."`
	JWTIssuer   string `group:"access" name:"jwt-issuer" placeholder:"NAME" help:"What the claim iss of a token must be."`
	JWTAudience string `group:"access" name:"jwt-audience" placeholder:"NAME" help:"What must be in the claim aud of a token."`
	AccessHide  bool   `group:"access" help:"Answer whose token does not allow something as if there were no stream (404 for 403)."`
	Insecure    bool   `group:"access" help:"Listen on addresses that other machines can reach although everybody there may do everything."`

	DataDir     string `group:"storage" default:"./ds-data" placeholder:"${default}" help:"Directory of the streams. Made if it is not there; one server at a time."`
	InMemory    bool   `group:"storage" help:"Keep everything in memory instead: fast to try, gone at the end."`
	MaxMemory   size   `group:"storage" placeholder:"1GiB" help:"With --in-memory: size of what is kept; beyond it changes are answered 507. The process may use twice that."`
	SegmentSize size   `group:"storage" placeholder:"64MiB" help:"Size of one journal file; up to three of them have to be replayed after a crash."`
	TailMemory  size   `group:"storage" placeholder:"128MiB" help:"Recent data kept in memory until they are moved to the archive."`
	CacheSize   size   `group:"storage" placeholder:"64MiB" help:"Memory for reading the archive."`

	WebhookAllowLocal  bool     `group:"webhooks" help:"Let webhooks go to this machine, by http as well: localhost, 127.0.0.0/8 and [::1]. For development."`
	WebhookAllow       []string `group:"webhooks" placeholder:"host,range" help:"Hosts (worker.internal, *.example.com) and ranges of addresses (10.1.0.0/16) that webhooks may go to although they are not public."`
	WebhookOnlyAllowed bool     `group:"webhooks" help:"Webhooks go nowhere else."`
	MaxSubscriptions   int      `group:"webhooks" default:"100000" placeholder:"${default}" help:"Subscriptions; beyond it the answer is 429."`

	TenantsFile    string        `group:"limits" placeholder:"FILE" help:"What each tenant may use: the first segment of a stream's path is its tenant. Beyond it the answer is 507 or 429. Read again at SIGHUP. Default: nothing is counted."`
	MaxBody        size          `group:"limits" default:"16MiB" placeholder:"${default}" help:"Largest body of a request; beyond it the answer is 413."`
	MaxInflight    size          `group:"limits" placeholder:"256MiB" help:"Memory for bodies that are being received, of all requests together; beyond it the answer is 503."`
	MaxUnsent      size          `group:"limits" placeholder:"256MiB" help:"Memory for answers that clients have not taken yet, of all requests together; beyond it the answer is 503."`
	MaxQueued      size          `group:"limits" placeholder:"64MiB" help:"Changes that wait for the disk; beyond it the answer is 503."`
	MaxLive        int           `group:"limits" placeholder:"N" help:"Live reads that wait for data; further ones are answered 503. Default: seven eighths of the connections."`
	MaxReads       int           `group:"limits" placeholder:"N" help:"Answers that are read from the disk at once; others wait, after 10 s they get 503. Default: four a processor."`
	MaxSends       int           `group:"limits" placeholder:"N" help:"Answers of more than 64 KiB that are sent at once; further ones are answered 503. Default: 128."`
	MaxHeader      size          `group:"limits" default:"64KiB" placeholder:"${default}" help:"Largest head of a request; beyond it the answer is 431."`
	PageSize       size          `group:"limits" default:"1MiB" placeholder:"${default}" help:"Data in one answer to a catch-up read, about."`
	MaxConnections int           `group:"limits" placeholder:"N" help:"Open connections; further ones are answered 503. Default, and most: what the limit on open files leaves beside the data directory."`
	StallTimeout   time.Duration `group:"limits" default:"30s" placeholder:"${default}" help:"How long a client may make no progress while it sends or receives."`

	LongPollTimeout time.Duration `group:"live" default:"30s" placeholder:"${default}" help:"How long a long-poll waits for data."`
	SSEMaxAge       time.Duration `group:"live" name:"sse-max-age" default:"60s" placeholder:"${default}" help:"Age at which an SSE answer ends and its client comes back."`

	Config        string        `group:"process" placeholder:"FILE" help:"Settings file (TOML), see ds config example. Flags and the environment win over it."`
	ShutdownGrace time.Duration `group:"process" default:"10s" placeholder:"${default}" help:"How long requests may go on after SIGTERM or SIGINT. A second signal ends the server at once."`
	LogFormat     string        `group:"process" enum:"text,json" default:"text" placeholder:"${default}" help:"Format of the log on stderr: text or json."`
	AccessLog     bool          `group:"process" help:"A line of the log for every answer, at level info."`
	SlowRequest   time.Duration `group:"process" placeholder:"1s" help:"Answers that take the server longer get a line of the log, at level warn; live reads never do. 0 is none."`
	OTLPEndpoint  string        `group:"process" name:"otlp-endpoint" placeholder:"http://host:4318" help:"OpenTelemetry collector that gets traces of requests, OTLP over HTTP. Default: what OTEL_EXPORTER_OTLP_ENDPOINT says, or none. The other OTEL_ variables count as well."`
	LogLevel      string        `group:"process" reload:"" enum:"debug,info,warn,error" default:"info" placeholder:"${default}" help:"Least level that is logged: debug, info, warn or error."`
}

// Help is the text below the summary.
func (serveCommand) Help() string {
	return `Streams are created, appended to, read and followed at <base path>/v1/stream/<name>, over
plain HTTP. Every acknowledged write is on the disk before its answer leaves.

Examples:

    ds serve                                      # streams in ./ds-data
    ds serve --in-memory --listen 127.0.0.1:0     # for tests: nothing kept, free port
    ds serve --data-dir data --max-body 64MiB
    DS_DATA_DIR=data DS_LOG_FORMAT=json ds serve  # every flag can stand in the environment
    ds serve --config ds.toml                     # or in a file

A flag wins over its environment variable, that over the file. Sizes take B, KiB, MiB, GiB, KB, MB and GB, times ms, s, m and h.`
}

func (c *serveCommand) options(log *slog.Logger) *durablestreams.Options {
	return &durablestreams.Options{
		InMemory: c.InMemory, MaxMemory: int64(c.MaxMemory), NoFastPath: !c.FastPath, EventLoops: c.EventLoops, BasePath: c.BasePath, PublicURL: c.PublicURL, TrustedProxies: c.TrustedProxies,
		ReadOnlyPage: c.Page == "read-only", TLSCert: c.TLSCert, TLSKey: c.TLSKey, Access: c.accessOptions(), AllowedOrigins: c.CORSOrigins,
		MaxBody: int64(c.MaxBody), MaxInflight: int64(c.MaxInflight), MaxUnsent: int64(c.MaxUnsent), MaxQueued: int64(c.MaxQueued),
		MaxLive: c.MaxLive, MaxReads: c.MaxReads, MaxSends: c.MaxSends, MaxHeader: int(c.MaxHeader), PageSize: int(c.PageSize),
		LongPollTimeout: c.LongPollTimeout, SSEMaxAge: c.SSEMaxAge, StallTimeout: c.StallTimeout,
		MaxConnections: c.MaxConnections, SegmentSize: int64(c.SegmentSize), TailMemory: int64(c.TailMemory),
		CacheSize: int64(c.CacheSize), ShutdownGrace: c.ShutdownGrace, Logger: log, AccessLog: c.AccessLog, SlowRequest: c.SlowRequest, OTLPEndpoint: c.OTLPEndpoint,
		WebhookAllowLocal: c.WebhookAllowLocal, WebhookAllow: c.WebhookAllow, WebhookOnlyAllowed: c.WebhookOnlyAllowed, MaxSubscriptions: c.MaxSubscriptions,
		TenantsFile: c.TenantsFile,
	}
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, env *Env, parsed *kong.Context) error {
	level := new(slog.LevelVar)
	level.Set(c.level())
	log := c.logger(env, level)
	opts := c.options(log)
	if opts.OTLPEndpoint == "" {
		opts.OTLPEndpoint = standardEndpoint(env.LookupEnv)
	}
	if err := opts.Validate(); err != nil {
		return usageError{err}
	}
	ln, err := listen(ctx, "--listen", c.Listen)
	if err != nil {
		return err
	}
	if err := c.checkExposed(opts, "--listen", ln.Addr()); err != nil {
		return errors.Join(err, ln.Close())
	}
	admin, missing, err := c.listenAdmin(ctx, opts)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	opts.AdminListener = admin
	s, err := durablestreams.Open(c.DataDir, opts)
	if err != nil {
		return errors.Join(openError(c.DataDir, err), ln.Close())
	}
	if c.FastPath {
		makeRoomForLoops(c.EventLoops)
	}
	c.announce(env, s, ln.Addr(), admin)
	if missing != nil {
		log.Warn("no admin address: no health, metrics and profiles", "err", missing)
	}
	c.warnExposed(log, opts, "listen", ln)
	c.warnExposed(log, opts, "admin-listen", admin)
	n := newNotifier(env)
	n.ready()
	context.AfterFunc(ctx, n.stopping)
	go (&reloader{env: env, log: log, level: level, server: s, notify: n, begun: parsed, parsed: parsed}).run(ctx)
	if err := s.Serve(ctx, ln); err != nil {
		log.Error("stopped", "err", err)
		return err
	}
	log.Info("stopped")
	return nil
}

// makeRoomForLoops lets Go run as many goroutines more as there are event loops: a
// loop that waits in the kernel keeps its place in the scheduler for a while, which
// another goroutine could use. With 2 processors an append took 10.2 µs instead of
// 11.7. Whoever sets GOMAXPROCS decides.
func makeRoomForLoops(loops int) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	procs := runtime.GOMAXPROCS(0)
	if loops == 0 {
		loops = max(procs/2, 1)
	}
	runtime.GOMAXPROCS(procs + loops)
}

func (c *serveCommand) level() (level slog.Level) {
	if level.UnmarshalText([]byte(c.LogLevel)) != nil {
		level = slog.LevelInfo // kong lets only known levels through
	}
	return level
}

func (c *serveCommand) logger(env *Env, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(env.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(env.Stderr, opts))
}

// announce tells a user where the streams are and how safe they are.
func (c *serveCommand) announce(env *Env, s *durablestreams.Server, addr net.Addr, admin net.Listener) {
	base := strings.TrimSuffix(c.PublicURL, "/")
	if base == "" {
		base = "http://" + reachable(addr)
		if c.TLSCert != "" {
			base = "https://" + reachable(addr)
		}
	}
	if addr.Network() == "unix" {
		fmt.Fprintf(env.Stdout, "socket      %s\n", addr)
	}
	fmt.Fprintf(env.Stdout, "streams     %s%s<path>\n", base, s.Root())
	if page := s.PageURL(); page != "" {
		fmt.Fprintf(env.Stdout, "page        %s%s\n", base, page)
	}
	if admin != nil {
		fmt.Fprintf(env.Stdout, "admin       http://%s\n", reachable(admin.Addr()))
	}
	if c.InMemory {
		fmt.Fprintf(env.Stdout, "durability  in memory: nothing survives a stop\n")
		return
	}
	dir := c.DataDir
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	fmt.Fprintf(env.Stdout, "data        %s\n", dir)
	fmt.Fprintf(env.Stdout, "durability  every acknowledged write is on disk (fdatasync)\n")
}

// reachable is an address that a client on this machine can use.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	switch {
	case !ok:
		return "localhost" // by a socket, which is named besides
	case !tcp.IP.IsUnspecified():
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback() // a Unix socket is on this machine, too
}
