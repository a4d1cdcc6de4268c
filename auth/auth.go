// Package auth decides who may do what to which stream. Callers are known by API
// keys, of which a file keeps the hashes, by the JSON Web Tokens of an issuer, by
// signed URLs, or not at all. What they may do is a list of [Grant]: rights on all
// paths that a pattern matches. What is not granted is refused.
//
// The package knows no HTTP requests: an [Authorizer] is given the values of an
// Authorization field or a query, and gives a [Caller] or the refusal, a
// [*stream.Error]. No secret is in an error or a log. It waits for nothing but the
// keys of an issuer, and for those only where the caller says so.
//
// Everything may be used by any number of goroutines at once.
package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"durablestreams/internal/glob"
	"durablestreams/stream"
)

// Options say who is let in. Somebody has to be: see [Options.Validate].
type Options struct {
	// File is the path of the access file: API keys and what everybody may read.
	// Default: none.
	File string

	// JWT says whose tokens count. Default: nobody's.
	JWT *JWT

	// Hide answers callers who may not do something as if there were no stream.
	Hide bool

	// Logger gets what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
}

// Validate reports what is wrong with the options, nil if nothing is.
func (o *Options) Validate() error {
	if o.File == "" && o.JWT == nil {
		return errors.New("access control needs an access file or the keys of a token issuer")
	}
	if o.JWT == nil {
		return nil
	}
	return o.JWT.validate()
}

// Authorizer knows who may do what.
type Authorizer struct {
	opt     Options
	table   atomic.Pointer[table]
	tokens  *verifier // nil: none are taken
	nobody  *Caller   // has no rights but everybody's
	signing atomic.Pointer[URLKey]
	files   files
}

// New reads the access file and starts to fetch an issuer's keys.
func New(o *Options, key URLKey) (*Authorizer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	a := &Authorizer{opt: *o}
	if a.opt.Logger == nil {
		a.opt.Logger = slog.New(slog.DiscardHandler)
	}
	a.nobody = &Caller{auth: a}
	if o.File != "" {
		a.files.names = append(a.files.names, o.File)
	}
	if o.JWT != nil {
		a.tokens = newVerifier(a, o.JWT)
		if !isURL(o.JWT.Keys) {
			a.files.names = append(a.files.names, o.JWT.Keys)
		}
	}
	return a, a.Reload(key)
}

// Reload reads the access file and an issuer's key file again, has keys fetched again,
// and takes a new key for signed URLs. If it fails, everything stays as it was. Those
// who are in the middle of a read are asked for by [Caller.Renew].
func (a *Authorizer) Reload(key URLKey) error {
	_, err := a.files.read(true, func() error { return a.load(true) })
	if err == nil {
		a.signing.Store(&key)
	}
	return err
}

// load takes the rules from their files, and may have an issuer's keys fetched.
func (a *Authorizer) load(fetch bool) error {
	t := &table{}
	if a.opt.File != "" {
		var err error
		if t, err = readTable(a, a.opt.File); err != nil {
			return err
		}
	}
	if a.tokens != nil && (fetch || !isURL(a.tokens.keys.from)) {
		if err := a.tokens.keys.reload(); err != nil {
			return err
		}
	}
	a.table.Store(t)
	return nil
}

// Caller is whoever sends a request.
type Caller struct {
	auth    *Authorizer
	name    string
	grants  []Grant
	key     *[sha256.Size]byte // hash of an API key; nil: it has none
	link    stream.Path        // the one that a signed URL opens
	signer  *URLKey            // by which
	expires time.Time          // zero: never
}

// Renew gives the caller as the rules of now have it, or the refusal if they have no
// such API key any more, or another key for signed URLs. The rights of a token stay:
// they stand in it.
func (c *Caller) Renew() (*Caller, error) {
	switch {
	case c.key != nil:
		if c = c.auth.table.Load().keys[*c.key]; c == nil {
			return nil, errUnknown
		}
	case c.signer != nil && *c.signer != *c.auth.signing.Load():
		return nil, errSignature
	}
	if !c.expires.IsZero() && !time.Now().Before(c.expires) {
		return nil, errExpired
	}
	return c, nil
}

// Expires is the time from which on the caller has to be asked again who it is; zero
// if that is never.
func (c *Caller) Expires() time.Time { return c.expires }

// Allow gives nil if the caller may do that, or the refusal.
func (c *Caller) Allow(right stream.Right, path stream.Path) error {
	matches := func(p glob.Pattern) bool { return p.Match(path) }
	if c.link != "" && right == stream.MayRead && c.link == path || c.granted(right, matches) {
		return nil
	}
	return c.refuse(right, string(path))
}

// May reports whether Allow would give nil, for who asks about many paths: a refusal is
// not logged.
func (c *Caller) May(right stream.Right, path stream.Path) bool {
	return c.granted(right, func(p glob.Pattern) bool { return p.Match(path) })
}

// AllowAll gives nil if the caller may do that with all paths that a pattern
// matches, or the refusal.
func (c *Caller) AllowAll(right stream.Right, pattern string) error {
	all, err := glob.Parse(strings.Trim(pattern, "/"))
	if err != nil {
		return err
	}
	if c.granted(right, func(p glob.Pattern) bool { return p.Covers(all) }) {
		return nil
	}
	return c.refuse(right, pattern)
}

func (c *Caller) granted(right stream.Right, matches func(glob.Pattern) bool) bool {
	for _, grants := range [2][]Grant{c.grants, c.auth.table.Load().everybody} {
		for i := range grants {
			if grants[i].rights.Has(right) && matches(grants[i].pattern) {
				return true
			}
		}
	}
	return false
}

// The refusals. They say nothing about streams.
var (
	errNobody    = refusal(stream.Unauthenticated, "this needs an Authorization header with a bearer token")
	errScheme    = refusal(stream.Unauthenticated, "the Authorization header is not a bearer token")
	errTwice     = refusal(stream.InvalidHeader, "the header Authorization is given more than once")
	errBoth      = refusal(stream.InvalidParameter, "a request has an Authorization header or a signature, not both")
	errMalformed = refusal(stream.InvalidToken, "the bearer token is not one that this server takes")
	errTooLong   = refusal(stream.InvalidToken, "the bearer token is too long")
	errUnknown   = refusal(stream.InvalidToken, "there is no such API key")
	errExpired   = refusal(stream.InvalidToken, "the token has expired")
	errForbidden = refusal(stream.Forbidden, "the token does not allow this")
	// errHidden is what a missing stream is answered with.
	errHidden = refusal(stream.NotFound, "there is no stream at this path")
)

func refusal(kind stream.Kind, message string) *stream.Error {
	return &stream.Error{Kind: kind, Message: message}
}

func (c *Caller) refuse(right stream.Right, path string) error {
	if l := c.auth.opt.Logger; l.Enabled(context.Background(), slog.LevelDebug) {
		l.LogAttrs(context.Background(), slog.LevelDebug, "access refused", slog.String("caller", c.name),
			slog.String("right", right.String()), slog.String("path", path))
	}
	switch {
	case c == c.auth.nobody:
		return errNobody
	case c.auth.opt.Hide:
		return errHidden
	}
	return errForbidden
}

// Public reports whether everybody may read the stream at a path.
func (a *Authorizer) Public(path stream.Path) bool {
	return a.nobody.granted(stream.MayRead, func(p glob.Pattern) bool { return p.Match(path) })
}

// Identify gives the caller behind the values of an Authorization field, or the
// refusal. If it must not wait, known is false where a signature would have to be
// verified, for which keys may have to be fetched.
func (a *Authorizer) Identify(authorization []string, wait bool) (c *Caller, known bool, err error) {
	if len(authorization) == 0 {
		return a.nobody, true, nil
	}
	token, err := bearer(authorization)
	if err != nil {
		return nil, true, err
	}
	sum := sha256.Sum256([]byte(token))
	switch {
	case strings.HasPrefix(token, keyPrefix):
		c = a.table.Load().keys[sum]
		if c == nil {
			return nil, true, errUnknown
		}
	case a.tokens == nil:
		return nil, true, errMalformed
	default:
		if c = a.tokens.remembered(sum); c == nil {
			if !wait {
				return nil, false, nil
			}
			if c, err = a.tokens.verify(token, sum); err != nil {
				return nil, true, err
			}
		}
	}
	if !c.expires.IsZero() && !time.Now().Before(c.expires) {
		return nil, true, errExpired
	}
	return c, true, nil
}

// Signed gives the caller whom the query of a URL with this path names by its
// signature, nil if it has none. A request with an Authorization field is not alone:
// it may not say in two ways who sends it (RFC 6750 §2).
func (a *Authorizer) Signed(query string, path stream.Path, alone bool) (*Caller, error) {
	text, err := signature(query)
	if err != nil || text == "" {
		return nil, err
	}
	if !alone {
		return nil, errBoth
	}
	key := a.signing.Load()
	expires, err := key.check(text, path, time.Now())
	if err != nil {
		return nil, err
	}
	return &Caller{auth: a, name: "signed URL", link: path, signer: key, expires: expires}, nil
}

// Sign gives the query parameter that makes a URL with this path readable until then.
func (a *Authorizer) Sign(path stream.Path, expires time.Time) (param string, err error) {
	return a.signing.Load().Sign(path, time.Now(), expires)
}

// Authorize is [Authorizer.Identify] and [Caller.Allow] in one, for what is not
// about one stream: an empty path means all streams.
func (a *Authorizer) Authorize(authorization []string, right stream.Right, path stream.Path) error {
	c, _, err := a.Identify(authorization, true)
	switch {
	case err != nil:
		return err
	case path == "":
		return c.AllowAll(right, "**")
	}
	return c.Allow(right, path)
}

// maxToken is the longest token, in bytes.
const maxToken = 16 << 10

// bearer gives the token in an Authorization field (RFC 6750 §2.1). The scheme's
// name may be in any case (RFC 9110 §11.1).
func bearer(values []string) (token string, err error) {
	if len(values) != 1 {
		return "", errTwice
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", errScheme
	}
	token = strings.Trim(token, " ")
	switch {
	case len(token) > maxToken:
		return "", errTooLong
	case !isToken68(token):
		return "", errMalformed
	}
	return token, nil
}

// isToken68 is the grammar of bearer tokens (RFC 9110 §11.2).
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		c := body[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("-._~+/", c) >= 0) {
			return false
		}
	}
	return body != ""
}
