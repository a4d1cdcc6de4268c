package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Options set up a Client. The zero value works, and so does a nil pointer.
type Options struct {
	// HTTPClient sends the requests. It should have no Timeout, which would cut live
	// reads. Default: one of the Client's own.
	HTTPClient *http.Client

	// Token gives the bearer token of a request. It is asked for each attempt, so
	// that a reader that comes back has a fresh one, and once more after a 401. Its
	// error ends the call.
	Token func(ctx context.Context) (string, error)

	// Header is added to every request.
	Header http.Header

	// GiveUpAfter is how long a call, a reader or a producer goes on trying while
	// nothing succeeds. Default: until its context ends. Negative: it tries once.
	GiveUpAfter time.Duration

	// MinDelay and MaxDelay bound the pause before another attempt; a server's
	// Retry-After may ask for more. Defaults 100 ms and 10 s.
	MinDelay, MaxDelay time.Duration

	// StallTimeout is how long an attempt may go without a byte in either direction.
	// It has to be longer than the long-poll timeout of the server and than
	// the silence between its keep-alives. Default 90 s.
	StallTimeout time.Duration

	// MaxAnswer bounds one answer, and one event of a live read, in bytes.
	// Default 256 MiB.
	MaxAnswer int64

	// OnRetry is told of each attempt that failed and will be made again after
	// delay. It must not block.
	OnRetry func(err error, delay time.Duration)
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.HTTPClient == nil {
		d.HTTPClient = &http.Client{Transport: newTransport()}
	}
	if d.MinDelay <= 0 {
		d.MinDelay = 100 * time.Millisecond
	}
	if d.MaxDelay <= 0 {
		d.MaxDelay = 10 * time.Second
	}
	d.MaxDelay = max(d.MaxDelay, d.MinDelay)
	if d.StallTimeout <= 0 {
		d.StallTimeout = 90 * time.Second
	}
	if d.MaxAnswer <= 0 {
		d.MaxAnswer = 256 << 20
	}
	if d.OnRetry == nil {
		d.OnRetry = func(error, time.Duration) {}
	}
	return d
}

// newTransport keeps as many idle connections to a host as producers need.
func newTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = 64
	return t
}

// Client makes requests to one server.
type Client struct {
	opts Options
	root *url.URL
}

// New makes a client for the streams below root, a URL such as
// http://127.0.0.1:8642/durable-streams/v1/stream. It makes no request.
func New(root string, opts *Options) (*Client, error) {
	u, err := parseURL(strings.TrimRight(root, "/"))
	if err != nil {
		return nil, err
	}
	return &Client{opts: opts.withDefaults(), root: u}, nil
}

// parseURL reads the URL of a stream or of all of them.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // the text may hold a password
		}
		return nil, fmt.Errorf("URL of the streams: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("URL of the streams: want http://host/path or https://host/path")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("URL of the streams: want neither query nor fragment")
	}
	return u, nil
}

// URL is the root of the streams, without a password.
func (c *Client) URL() string { return c.root.Redacted() }

// Stream is the stream at a path below the root, or at a URL of the same server.
// Percent-encodings in it are kept, since "a%2Fb" and "a/b" are two streams; what a
// URL cannot hold is encoded. A path that cannot be used fails the first request.
func (c *Client) Stream(path string) *Stream {
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		u, err := parseURL(path)
		if err == nil && (u.Scheme != c.root.Scheme || u.Host != c.root.Host) {
			err = fmt.Errorf("stream %s is not on the server %s", u.Redacted(), c.root.Host)
		}
		return &Stream{c: c, url: u, err: err}
	}
	u, err := c.below(encodePath(path))
	if path == "" {
		err = errors.New("the path of a stream is empty")
	}
	return &Stream{c: c, url: u, err: err}
}

// below is a URL under the root; the path is encoded.
func (c *Client) below(path string) (*url.URL, error) {
	u := *c.root
	raw := c.root.EscapedPath() + "/" + path
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return nil, fmt.Errorf("path of a stream: %w", err)
	}
	u.Path, u.RawPath = plain, raw
	return &u, nil
}

// encodePath encodes the bytes that the path of a URL cannot hold.
func encodePath(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>?[\\]^`{|}", c) >= 0 {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Stream is one stream of a server.
type Stream struct {
	c   *Client
	url *url.URL
	err error // the path is no good

	// contentType is what the server said last, so that appends need not ask.
	contentType atomic.Pointer[string]
}

// URL is the address of the stream, without a password.
func (s *Stream) URL() string {
	if s.url == nil {
		return ""
	}
	return s.url.Redacted()
}
