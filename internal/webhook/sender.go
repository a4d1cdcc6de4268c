package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Options set up a Sender. A field left at zero has the default that its comment
// names.
type Options struct {
	Policy Policy

	// Timeout bounds one delivery, from the first look-up of a name to the last byte
	// of the answer. Waiting for a place does not count. Default 30 s.
	Timeout time.Duration
	// ConnectTimeout bounds the look-up of a name together with connecting. Default 5 s.
	ConnectTimeout time.Duration
	// TLSTimeout bounds the TLS handshake. Default 5 s.
	TLSTimeout time.Duration
	// HeaderTimeout bounds the wait for the head of the answer, which a receiver may
	// put off until its work is done. Default 25 s.
	HeaderTimeout time.Duration

	// PerHost bounds the deliveries to one host that are under way. Default 8.
	PerHost int
	// Concurrent bounds all deliveries that are under way. Default 256.
	Concurrent int
	// IdleConnections bounds the connections that are kept for later. Default 64.
	IdleConnections int

	// RootCAs replaces the system's certificate authorities.
	RootCAs *x509.CertPool
	// Resolver replaces the system's resolver.
	Resolver *net.Resolver
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	orDefault(&d.Timeout, 30*time.Second)
	orDefault(&d.ConnectTimeout, 5*time.Second)
	orDefault(&d.TLSTimeout, 5*time.Second)
	orDefault(&d.HeaderTimeout, 25*time.Second)
	orDefault(&d.PerHost, 8)
	orDefault(&d.Concurrent, 256)
	orDefault(&d.IdleConnections, 64)
	return d
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

const (
	maxAnswer     = 64 << 10 // of an answer's body; more is not read
	maxAnswerHead = 32 << 10
	maxReason     = 200
	idleTime      = 90 * time.Second
)

// Outcome tells how a delivery went.
type Outcome struct {
	OK     bool   // the receiver has taken the request: a whole answer of status 2xx
	Done   bool   // and says {"done":true}
	Status int    // of the answer, 0 if there was none
	Reason string // why it failed, for operators; never contains the URL, a header or a body
}

// Sender makes deliveries.
type Sender struct {
	opts   Options
	keys   *Keys
	limits *limiter
	client *http.Client
	pool   *http.Transport
}

// NewSender gives a Sender that signs with keys. opts may be nil. Connections that it
// keeps open are closed by [Sender.Close].
func NewSender(keys *Keys, opts *Options) *Sender {
	o := opts.withDefaults()
	g := &guard{policy: o.Policy, dialer: net.Dialer{Timeout: o.ConnectTimeout, Resolver: o.Resolver}}
	transport := &http.Transport{
		DialContext:            g.dial, // and no Proxy: a proxy would connect in our place, unguarded
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    o.TLSTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		MaxResponseHeaderBytes: maxAnswerHead,
		DisableCompression:     true, // so no answer grows while it is read
		MaxConnsPerHost:        o.PerHost,
		MaxIdleConns:           o.IdleConnections,
		MaxIdleConnsPerHost:    o.PerHost,
		IdleConnTimeout:        idleTime,
		Protocols:              new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(true) // one connection a request keeps the bounds simple
	return &Sender{
		opts:   o,
		keys:   keys,
		limits: newLimiter(o.PerHost, o.Concurrent),
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		pool: transport,
	}
}

// Close closes the connections that wait for later use. Deliveries that are under way
// go on; end their contexts to end them.
func (s *Sender) Close() { s.pool.CloseIdleConnections() }

// CheckURL decides whether a URL may become that of a subscription, see
// [Policy.CheckURL].
func (s *Sender) CheckURL(raw string) error { return s.opts.Policy.CheckURL(raw) }

// Deliver sends one POST with a JSON body to a URL and waits for the answer, at most
// until ctx ends or Options.Timeout is over. The policy is asked again: it may have
// become stricter since the subscription was made.
func (s *Sender) Deliver(ctx context.Context, rawURL string, body []byte) Outcome {
	target, reason := s.opts.Policy.parse(rawURL)
	if reason != "" {
		return Outcome{Reason: (&URLError{reason}).Error()}
	}
	host := strings.ToLower(target.Host)
	if err := s.limits.enter(ctx, host); err != nil {
		return Outcome{Reason: describe(err)}
	}
	defer s.limits.leave(host)
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	// Signed only now, after waiting for a place: receivers refuse old signatures.
	signature, err := s.keys.Sign(body, time.Now())
	if err != nil {
		return Outcome{Reason: "cannot sign: " + err.Error()}
	}
	answer, err := s.post(ctx, target, body, signature)
	if err != nil {
		return Outcome{Reason: describe(err)}
	}
	defer answer.Body.Close()
	return judge(answer)
}

func (s *Sender) post(ctx context.Context, target *url.URL, body []byte, signature string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "durable-streams")
	request.Header.Set("Webhook-Signature", signature)
	return s.client.Do(request)
}

// judge reads an answer. One that breaks off may have been meant as anything, so it
// counts as none. One that is too long cannot be {"done":true}.
func judge(answer *http.Response) Outcome {
	status := answer.StatusCode
	switch {
	case status >= 300 && status < 400:
		return Outcome{Status: status, Reason: "answered " + strconv.Itoa(status) + "; redirects are not followed"}
	case status < 200 || status >= 300:
		return Outcome{Status: status, Reason: "answered " + strconv.Itoa(status)}
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return Outcome{Status: status, Reason: "the answer broke off: " + describe(err)}
	}
	return Outcome{OK: true, Done: len(body) <= maxAnswer && isDone(body), Status: status}
}

// isDone tells whether a body is a JSON object with "done": true, spelled exactly so.
func isDone(body []byte) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(body, &members) == nil && string(members["done"]) == "true"
}

// describe gives the text of a failure for operators. Errors that may repeat what
// was sent or received (the URL, which net/http puts in front, or a malformed answer)
// are replaced by words.
func describe(err error) string {
	refused, isRefused := errors.AsType[*addressError](err)
	lookup, isLookup := errors.AsType[*net.DNSError](err)
	timeout, isNetwork := errors.AsType[net.Error](err)
	broken, isBroken := errors.AsType[*net.OpError](err)
	untrusted, isUntrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, isNoTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isRefused:
		return refused.Error()
	case isLookup:
		return "the name cannot be resolved: " + lookup.Err
	case errors.Is(err, context.Canceled):
		return "called off"
	case errors.Is(err, context.DeadlineExceeded) || isNetwork && timeout.Timeout():
		return "took too long"
	case isUntrusted:
		return "the certificate is not trusted: " + printable(untrusted.Err.Error())
	case isNoTLS || errors.Is(err, http.ErrSchemeMismatch):
		return "the receiver does not speak TLS"
	case isBroken:
		return "the connection failed: " + printable(broken.Error())
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return "the connection was closed too early"
	}
	return "the connection broke, or the answer was not proper HTTP"
}

// printable makes a text harmless that a receiver may have a part in.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
