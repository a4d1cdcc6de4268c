package protocol

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"strings"
	"time"

	"durablestreams/stream"
)

// Options sets up a Core. The zero value, or nil, gives the defaults.
type Options struct {
	// BasePath stands before "/v1/stream/" in every URL. Default
	// "/durable-streams"; "/" is none.
	BasePath string

	// PublicURL is what stands before the request's path in a Location: a scheme
	// and host, and the prefix that a proxy strips. Default: what the client
	// used, as far as the request shows it.
	PublicURL string

	// TrustedProxies lists the addresses, and ranges of them, of proxies that say how
	// a client reached them; "unix" is for those that come by a Unix socket. Default:
	// nobody's word counts.
	TrustedProxies []string

	// MaxBody is the largest body of a PUT or POST in bytes. Default 16 MiB.
	MaxBody int64

	// MaxInflight is the memory for bodies that are being received, in bytes, of
	// all requests together. A quarter of it is for small ones only. Default 256
	// MiB, or twice MaxBody if that is more; at least twice MaxBody.
	MaxInflight int64

	// MaxUnsent is the memory for answers until their clients have taken them, in
	// bytes, of all requests together. A quarter of it is for small ones only.
	// Default 256 MiB, or four times MaxBody if that is more.
	MaxUnsent int64

	// MaxSends is how many answers of more than 64 KiB are sent at once; they are
	// read block by block. Default 256.
	MaxSends int

	// MaxLive is how many live reads wait at once. Default 100,000.
	MaxLive int

	// MaxReads is how many answers that need the disk are prepared at once, and so
	// many changes besides, so that readers of old data leave room for writers.
	// Default: 4 a processor.
	MaxReads int

	// PageSize is the number of stored bytes at which a catch-up or long-poll
	// answer ends, at the end of a message or of a character. A message that is
	// larger is sent whole. Default 1 MiB, at least 64 KiB.
	PageSize int

	// LongPollTimeout is how long a long-poll waits for data. Default 30 s.
	LongPollTimeout time.Duration

	// SSEMaxAge is the age at which an SSE answer ends, spread by ±10 %. Default
	// 60 s.
	SSEMaxAge time.Duration

	// KeepAlive is how long an SSE answer stays silent at most. Default 15 s.
	KeepAlive time.Duration

	// AllowedOrigins lists the origins that browsers may call from, as
	// "https://host:port". Default nil: all. An empty list allows none.
	AllowedOrigins []string

	// Control answers below the reserved segment. Default nil: nobody does.
	Control Control

	// Access says who may do what. Default nil: everybody may do everything.
	Access Access

	// Watch is told of answers. Default nil: nobody is.
	Watch *Watch

	// Tenants bounds the live reads of each tenant. Default nil: nobody does.
	Tenants Tenants

	// Logger gets the causes of 5xx answers. Default: none.
	Logger *slog.Logger
}

// Tenants counts the live reads that wait, by the tenant of the stream. It answers at
// once. What else a tenant may use is asked for where changes are decided, in the store.
type Tenants interface {
	// Follow charges a live read, or gives the refusal.
	Follow(path stream.Path) error

	// Unfollow takes back what Follow has charged.
	Unfollow(path stream.Path)
}

// Least values that make sense, in bytes.
const (
	minPageSize = 64 << 10
	minUnsent   = 1 << 20
)

// withDefaults returns a copy with every field filled in.
func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.BasePath == "" {
		d.BasePath = "/durable-streams"
	}
	d.BasePath = strings.TrimSuffix(d.BasePath, "/")
	d.PublicURL = strings.TrimSuffix(d.PublicURL, "/")
	setDefault(&d.MaxBody, 16<<20)
	setDefault(&d.MaxInflight, max(256<<20, 2*d.MaxBody))
	setDefault(&d.MaxUnsent, max(256<<20, 4*d.MaxBody))
	setDefault(&d.MaxSends, 256)
	setDefault(&d.MaxLive, 100_000)
	setDefault(&d.MaxReads, 4*runtime.GOMAXPROCS(0))
	setDefault(&d.PageSize, 1<<20)
	setDefault(&d.LongPollTimeout, 30*time.Second)
	setDefault(&d.SSEMaxAge, 60*time.Second)
	setDefault(&d.KeepAlive, 15*time.Second)
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
	var errs []error
	if d.BasePath != "" && !validBasePath(d.BasePath) {
		errs = append(errs, fmt.Errorf("base path %q: want a slash and plain path segments", d.BasePath))
	}
	if d.PublicURL != "" && !validOrigin(d.PublicURL, true) {
		errs = append(errs, fmt.Errorf("public URL %q: want http:// or https://, a host and at most a path", d.PublicURL))
	}
	if _, err := parseProxies(d.TrustedProxies); err != nil {
		errs = append(errs, err)
	}
	for _, origin := range d.AllowedOrigins {
		if !validOrigin(origin, false) {
			errs = append(errs, fmt.Errorf("allowed origin %q: want a scheme and a host, such as https://app.example", origin))
		}
	}
	if d.MaxBody < 0 || d.MaxBody > 1<<30 {
		errs = append(errs, fmt.Errorf("max body %d: want 1 byte to 1 GiB", d.MaxBody))
	}
	if d.MaxInflight < 2*d.MaxBody {
		errs = append(errs, fmt.Errorf("max inflight %d: want twice the largest body, %d bytes, or more", d.MaxInflight, 2*d.MaxBody))
	}
	if d.MaxUnsent < minUnsent {
		errs = append(errs, fmt.Errorf("max unsent %d: want 1 MiB or more", d.MaxUnsent))
	}
	if d.MaxSends < 0 || d.MaxLive < 0 || d.MaxReads < 0 {
		errs = append(errs, errors.New("max sends, max live, max reads: want 1 or more"))
	}
	if d.PageSize < minPageSize || d.PageSize > 1<<30 {
		errs = append(errs, fmt.Errorf("page size %d: want 64 KiB to 1 GiB", d.PageSize))
	}
	if d.LongPollTimeout < 0 || d.SSEMaxAge < 0 || d.KeepAlive < 0 {
		errs = append(errs, errors.New("negative duration"))
	}
	return errors.Join(errs...)
}

// validBasePath takes paths of which no byte needs an encoding, so that paths can
// be compared as they are sent.
func validBasePath(p string) bool {
	if p[0] != '/' || p[len(p)-1] == '/' {
		return false
	}
	for i := range len(p) {
		c := p[i]
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~/", c) >= 0
		if !plain || c == '/' && i+1 < len(p) && p[i+1] == '/' {
			return false
		}
	}
	return !strings.Contains(p+"/", "/./") && !strings.Contains(p+"/", "/../")
}

func validOrigin(s string, withPath bool) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https" || !withPath && u.Scheme != "") && u.Host != "" &&
		u.User == nil && u.RawQuery == "" && u.Fragment == "" && (withPath || u.Path == "")
}
