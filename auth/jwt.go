package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"durablestreams/stream"
)

// JWT says whose JSON Web Tokens count, and for what.
type JWT struct {
	// Keys is where the issuer's JWK Set is: an https URL (http for this machine), or
	// a file.
	Keys string

	// Issuer is what the claim iss must be.
	Issuer string

	// Audience is what must be among the claim aud.
	Audience string

	// Claim names the claim with the grants: a string with blanks between them, or a
	// list of strings. Default "ds".
	Claim string

	// Leeway is how far the issuer's clock may be off. Default 10 s.
	Leeway time.Duration

	// Client fetches the keys. Default: one of its own, which follows no redirects.
	Client *http.Client
}

const (
	defaultClaim  = "ds"
	defaultLeeway = 10 * time.Second
	maxLeeway     = 5 * time.Minute
)

func (o *JWT) validate() error {
	var errs []error
	if err := validSource(o.Keys); err != nil {
		errs = append(errs, err)
	}
	if o.Issuer == "" || o.Audience == "" {
		errs = append(errs, errors.New("tokens of an issuer need the issuer's name and an audience"))
	}
	if o.Leeway < 0 || o.Leeway > maxLeeway {
		errs = append(errs, errors.New("the leeway of an issuer's clock is at most 5 minutes"))
	}
	return errors.Join(errs...)
}

// algorithms are those that are taken: all have a public key.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// maxRemembered bounds the tokens that need not be verified again.
const maxRemembered = 10_000

// verifier knows the tokens of one issuer.
type verifier struct {
	auth *Authorizer
	opt  JWT
	keys *keySource

	mu       sync.Mutex
	verified map[[sha256.Size]byte]*Caller
	with     *keySet // by which they were
}

func newVerifier(a *Authorizer, o *JWT) *verifier {
	v := &verifier{auth: a, opt: *o, verified: map[[sha256.Size]byte]*Caller{}}
	if v.opt.Claim == "" {
		v.opt.Claim = defaultClaim
	}
	if v.opt.Leeway == 0 {
		v.opt.Leeway = defaultLeeway
	}
	v.keys = newKeySource(o.Keys, o.Client, a.opt.Logger)
	return v
}

var (
	errNoKeys    = refusal(stream.Busy, "the keys of the token's issuer cannot be had now")
	errNotSigned = refusal(stream.InvalidToken, "the token is not signed by a key of its issuer, or its claims are malformed")
	errNotForUs  = refusal(stream.InvalidToken, "the token is of another issuer, or for somebody else")
	errNotYet    = refusal(stream.InvalidToken, "the token is not valid yet")
	errEndless   = refusal(stream.InvalidToken, "the token does not say when it expires")
	errGrants    = refusal(stream.InvalidToken, "the token's claim with the rights is not made of rights:pattern")
)

// remembered gives the caller of a token that was verified with the keys of now, nil
// if there is none.
func (v *verifier) remembered(sum [sha256.Size]byte) *Caller {
	set := v.keys.current()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.with != set {
		return nil
	}
	return v.verified[sum]
}

// remember keeps a caller as long as the keys stay.
func (v *verifier) remember(sum [sha256.Size]byte, c *Caller, set *keySet, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.with != set {
		clear(v.verified)
		v.with = set
	}
	if len(v.verified) >= maxRemembered {
		v.forget(now)
	}
	v.verified[sum] = c
}

// forget makes room: of the tokens that have expired or, if there are none, of some.
func (v *verifier) forget(now time.Time) {
	some := maxRemembered / 10
	for sum, c := range v.verified {
		if some > 0 || !now.Before(c.expires) {
			delete(v.verified, sum)
			some--
		}
	}
}

// verify gives the caller of a token. It may wait for keys.
func (v *verifier) verify(token string, sum [sha256.Size]byte) (*Caller, error) {
	t, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(t.Headers) != 1 {
		return nil, errMalformed
	}
	set, keys, err := v.keys.find(t.Headers[0].KeyID)
	if err != nil {
		return nil, err
	}
	var claims jwt.Claims
	var more map[string]any
	signed := false
	for _, key := range keys {
		if fits(key, t.Headers[0].Algorithm) && t.Claims(key.Key, &claims, &more) == nil {
			signed = true
			break
		}
	}
	if !signed {
		return nil, errNotSigned
	}
	now := time.Now()
	c, err := v.caller(&claims, more, now)
	if err == nil {
		v.remember(sum, c, set, now)
	}
	return c, err
}

// fits reports whether a key is meant for an algorithm. Each kind of key that is
// taken fits only one family of them.
func fits(key jose.JSONWebKey, algorithm string) bool {
	if key.Algorithm != "" && key.Algorithm != algorithm {
		return false
	}
	switch key.Key.(type) {
	case *rsa.PublicKey:
		return algorithm == string(jose.RS256) || algorithm == string(jose.PS256)
	case *ecdsa.PublicKey:
		return algorithm == string(jose.ES256)
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	}
	return false
}

// usable reports whether a key of a set may verify tokens.
func usable(key jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= 2048
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return true
	}
	return false
}

// caller reads the claims of a token that is the issuer's.
func (v *verifier) caller(claims *jwt.Claims, more map[string]any, now time.Time) (*Caller, error) {
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: v.opt.Issuer, AnyAudience: jwt.Audience{v.opt.Audience}, Time: now}, v.opt.Leeway)
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer), errors.Is(err, jwt.ErrInvalidAudience):
		return nil, errNotForUs
	case errors.Is(err, jwt.ErrExpired):
		return nil, errExpired
	case err != nil:
		return nil, errNotYet
	case claims.Expiry == nil:
		return nil, errEndless
	}
	words, ok := grantWords(more[v.opt.Claim])
	if !ok {
		return nil, errGrants
	}
	grants, err := parseGrants(words)
	if err != nil {
		return nil, errGrants
	}
	return &Caller{auth: v.auth, name: claims.Subject, grants: grants, expires: claims.Expiry.Time().Add(v.opt.Leeway)}, nil
}

// grantWords takes both forms of the claim apart. A token without it has no rights of
// its own.
func grantWords(claim any) (words []string, ok bool) {
	switch c := claim.(type) {
	case nil:
		return nil, true
	case string:
		return strings.Fields(c), true
	case []any:
		for _, item := range c {
			word, ok := item.(string)
			if !ok {
				return nil, false
			}
			words = append(words, word)
		}
		return words, true
	}
	return nil, false
}
