package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"durablestreams/auth"
	"durablestreams/stream"
)

const (
	issuer   = "https://issuer.example/"
	audience = "streams"
	keysURL  = "https://issuer.example/keys"
)

// signer has a private key of an issuer.
type signer struct {
	kid string
	alg jose.SignatureAlgorithm
	key crypto.Signer
}

func newSigner(t testing.TB, kid string, alg jose.SignatureAlgorithm) *signer {
	t.Helper()
	s := &signer{kid: kid, alg: alg}
	var err error
	switch alg {
	case jose.EdDSA:
		_, s.key, err = ed25519.GenerateKey(rand.Reader)
	case jose.ES256:
		s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		s.key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Algorithm: string(s.alg), Use: "sig"}
}

// token signs claims, with a header that says so.
func (s *signer) token(t testing.TB, claims any) string {
	t.Helper()
	o := (&jose.SignerOptions{}).WithType("JWT")
	if s.kid != "" {
		o = o.WithHeader("kid", s.kid)
	}
	made, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: s.key}, o)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(made).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

type claims = map[string]any

// with gives claims that are good, with changes; a nil takes one away.
func with(changes claims) claims {
	c := claims{"iss": issuer, "aud": audience, "sub": "somebody", "exp": time.Now().Add(time.Hour).Unix(), "ds": "read:a/**"}
	for name, value := range changes {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// publisher is the issuer's end of the wire.
type publisher struct {
	keys    atomic.Value // []byte
	status  atomic.Int32
	fetches atomic.Int32
	slow    time.Duration
}

func (p *publisher) publish(keys ...any) {
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err)
	}
	p.keys.Store(text)
}

func (p *publisher) RoundTrip(r *http.Request) (*http.Response, error) {
	p.fetches.Add(1)
	select {
	case <-time.After(p.slow):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	status := int(p.status.Load())
	switch status {
	case 0:
		status = http.StatusOK
	case -1:
		return nil, errors.New("no route")
	}
	text, _ := p.keys.Load().([]byte)
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, nil
}

func openJWT(t *testing.T, p *publisher, text string, change func(*auth.JWT)) *auth.Authorizer {
	t.Helper()
	return open(t, text, func(o *auth.Options) {
		o.JWT = &auth.JWT{Keys: keysURL, Issuer: issuer, Audience: audience, Client: &http.Client{Transport: p}}
		if change != nil {
			change(o.JWT)
		}
	})
}

func bearer(token string) []string { return []string{"Bearer " + token} }

func TestTokenRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{}
		for _, alg := range []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256, jose.RS256, jose.PS256} {
			s := newSigner(t, "k-"+string(alg), alg)
			p.publish(s.public())
			a := openJWT(t, p, "anonymous read:p\n", nil)
			for _, tt := range []struct {
				ds    any
				right stream.Right
				path  stream.Path
				want  string
			}{
				{"read:a/**", stream.MayRead, "a/b", "ok"},
				{"read:a/**", stream.MayAppend, "a/b", "forbidden"},
				{"read:a/**", stream.MayRead, "b", "forbidden"},
				{" read:a   all:b ", stream.MayDelete, "b", "ok"},
				{[]string{"read:a", "all:b"}, stream.MayDelete, "b", "ok"},
				{[]string{}, stream.MayRead, "a", "forbidden"},
				{nil, stream.MayRead, "a", "forbidden"},
				{nil, stream.MayRead, "p", "ok"},
				{"", stream.MayRead, "a", "forbidden"},
				{"everything", stream.MayRead, "a", "invalid_token"},
				{"read:a write:b", stream.MayRead, "a", "invalid_token"},
				{[]string{"read:a all:b"}, stream.MayRead, "a", "invalid_token"},
				{[]any{"read:a", 1}, stream.MayRead, "a", "invalid_token"},
				{map[string]string{"read": "a"}, stream.MayRead, "a", "invalid_token"},
				{true, stream.MayRead, "a", "invalid_token"},
				{strings.Repeat("read:a ", 257), stream.MayRead, "a", "invalid_token"},
			} {
				if got := ask(a, bearer(s.token(t, with(claims{"ds": tt.ds}))), tt.right, tt.path); got != tt.want {
					t.Errorf("%s %v: %v %q: %s, want %s", alg, tt.ds, tt.right, tt.path, got, tt.want)
				}
			}
		}
	})
}

func TestTokenClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := &publisher{}, newSigner(t, "k", jose.EdDSA)
		p.publish(s.public())
		a := openJWT(t, p, "", nil)
		in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
		for _, tt := range []struct {
			change claims
			want   string
		}{
			{nil, "ok"},
			{claims{"sub": nil}, "ok"},
			{claims{"aud": []string{"other", audience}}, "ok"},
			{claims{"aud": "other"}, "invalid_token"},
			{claims{"aud": []string{}}, "invalid_token"},
			{claims{"aud": nil}, "invalid_token"},
			{claims{"iss": "https://issuer.example"}, "invalid_token"},
			{claims{"iss": nil}, "invalid_token"},
			{claims{"iss": []string{issuer}}, "invalid_token"},
			{claims{"exp": nil}, "invalid_token"},
			{claims{"exp": 0}, "invalid_token"},
			{claims{"exp": "2100-01-01"}, "invalid_token"},
			{claims{"exp": in(-9 * time.Second)}, "ok"},
			{claims{"exp": in(-11 * time.Second)}, "invalid_token"},
			{claims{"nbf": in(9 * time.Second)}, "ok"},
			{claims{"nbf": in(11 * time.Second)}, "invalid_token"},
			{claims{"iat": in(11 * time.Second)}, "invalid_token"},
			{claims{"more": []any{1, nil, "x"}}, "ok"},
		} {
			if got := ask(a, bearer(s.token(t, with(tt.change))), stream.MayRead, "a/b"); got != tt.want {
				t.Errorf("%v: %s, want %s", tt.change, got, tt.want)
			}
		}
		other := openJWT(t, p, "", func(o *auth.JWT) { o.Claim, o.Leeway = "https://ds/rights", time.Minute })
		token := bearer(s.token(t, with(claims{"https://ds/rights": "append:a/**", "exp": in(-50 * time.Second)})))
		if got := ask(other, token, stream.MayAppend, "a/b") + " " + ask(other, token, stream.MayRead, "a/b"); got != "ok forbidden" {
			t.Errorf("another claim and leeway: %s", got)
		}
	})
}

// An expired token is refused at its time, and not only when it is seen first.
func TestTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := &publisher{}, newSigner(t, "k", jose.ES256)
		p.publish(s.public())
		a := openJWT(t, p, "", nil)
		token := bearer(s.token(t, with(claims{"exp": time.Now().Add(time.Minute).Unix()})))
		c, _, err := a.Identify(token, true)
		if err != nil || !c.Expires().Equal(time.Now().Add(70*time.Second)) {
			t.Fatalf("%v, expires %v", err, c.Expires())
		}
		time.Sleep(70*time.Second - time.Nanosecond)
		if _, known, err := a.Identify(token, false); !known || err != nil {
			t.Errorf("before: %v %v", known, err)
		}
		time.Sleep(time.Nanosecond)
		for _, wait := range []bool{false, true} {
			if _, known, err := a.Identify(token, wait); !known || kind(err) != "invalid_token" {
				t.Errorf("from then on: %v %v", known, err)
			}
		}
	})
}

// Nothing but a signature by a key of the issuer, by the algorithm of that key, counts.
func TestForgedTokens(t *testing.T) {
	p := &publisher{}
	ed, ec, rs := newSigner(t, "ed", jose.EdDSA), newSigner(t, "ec", jose.ES256), newSigner(t, "rs", jose.RS256)
	p.publish(ed.public(), ec.public(), rs.public(), claims{"kty": "oct", "kid": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXg"})
	a := openJWT(t, p, "", nil)
	body := func() string {
		b, err := json.Marshal(with(nil))
		if err != nil {
			t.Fatal(err)
		}
		return b64(b)
	}()
	good := ed.token(t, with(nil))
	if got := ask(a, bearer(good), stream.MayRead, "a/b"); got != "ok" {
		t.Fatalf("a good one: %s", got)
	}
	parts := strings.Split(good, ".")
	der, err := x509.MarshalPKIXPublicKey(rs.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	hs := func(header string, secret []byte) string {
		h := hmac.New(sha256.New, secret)
		text := b64([]byte(header)) + "." + body
		h.Write([]byte(text))
		return text + "." + b64(h.Sum(nil))
	}
	crit := func() string {
		made, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: ed.key},
			(&jose.SignerOptions{}).WithHeader("kid", "ed").WithHeader("crit", []string{"more"}).WithHeader("more", 1))
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.Signed(made).Claims(with(nil)).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	stranger := newSigner(t, "ed", jose.EdDSA)
	unnamed := newSigner(t, "", jose.EdDSA)
	embedded := func() string {
		jwk, err := json.Marshal(stranger.public())
		if err != nil {
			t.Fatal(err)
		}
		return edSigned(stranger, fmt.Sprintf(`{"alg":"EdDSA","kid":"ed","jwk":%s}`, jwk), "{}")
	}
	none := b64([]byte(`{"alg":"none","kid":"ed"}`)) + "." + body + "."
	for name, token := range map[string]string{
		"alg none":                       none,
		"alg none, padded":               none + "AA",
		"alg None":                       b64([]byte(`{"alg":"None","kid":"ed"}`)) + "." + body + ".",
		"no alg":                         b64([]byte(`{"kid":"ed"}`)) + "." + body + "." + parts[2],
		"HS256 with the public key":      hs(`{"alg":"HS256","kid":"rs"}`, der),
		"HS256 with the PEM":             hs(`{"alg":"HS256","kid":"rs"}`, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"HS256 with the Ed25519 key":     hs(`{"alg":"HS256","kid":"ed"}`, ed.key.Public().(ed25519.PublicKey)),
		"HS256 with a secret of the set": hs(`{"alg":"HS256","kid":"oct"}`, []byte("secret-secret-secret-secret-x")),
		"another signature":              parts[0] + "." + parts[1] + "." + b64(make([]byte, 64)),
		"no signature":                   parts[0] + "." + parts[1] + ".",
		"no third part":                  parts[0] + "." + parts[1],
		"a fourth part":                  good + "." + parts[2],
		"five parts":                     good + ".a.b",
		"other claims":                   parts[0] + "." + b64([]byte(`{"iss":"x"}`)) + "." + parts[2],
		"a stranger with the same kid":   stranger.token(t, with(nil)),
		"a stranger with his key in it":  embedded(),
		"of no named key":                unnamed.token(t, with(nil)),
		"of an unknown key":              newSigner(t, "other", jose.ES256).token(t, with(nil)),
		"a key for another algorithm":    (&signer{"rs", jose.PS256, rs.key}).token(t, with(nil)),
		"RS384":                          (&signer{"rs", jose.RS384, rs.key}).token(t, with(nil)),
		"another key's id":               (&signer{"ec", jose.EdDSA, ed.key}).token(t, with(nil)),
		"crit":                           crit(),
		"odd base64: padding":            good + "=",
		"odd base64: +":                  parts[0] + "." + parts[1] + ".+" + parts[2][1:],
		"odd base64: a bad character":    parts[0] + "." + parts[1] + "." + parts[2][:10] + "~" + parts[2][11:],
		"JSON serialization":             `{"payload":"` + body + `"}`,
		"no JSON":                        b64([]byte("x")) + "." + b64([]byte("y")) + "." + b64([]byte("z")),
		"dots":                           "..",
		"huge":                           good + strings.Repeat("A", 1<<20),
		"claims of another kind":         edSigned(ed, `{"alg":"EdDSA","kid":"ed"}`, "[1]"),
	} {
		got := ask(a, bearer(token), stream.MayRead, "a/b")
		if got != "invalid_token" {
			t.Errorf("%s: %s", name, got)
		}
		if _, _, err := a.Identify(bearer(token), true); err != nil && len(token) > 10 && strings.Contains(err.Error(), token[:10]) {
			t.Errorf("%s: the error shows the token: %v", name, err)
		}
	}
}

// edSigned signs anything.
func edSigned(s *signer, header, body string) string {
	text := b64([]byte(header)) + "." + b64([]byte(body))
	return text + "." + b64(ed25519.Sign(s.key.(ed25519.PrivateKey), []byte(text)))
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Weak keys and those for encryption are none, and unknown ones do no harm.
func TestUsableKeys(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // that is the point
	if err != nil {
		t.Skip("this Go makes no small keys: ", err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := newSigner(t, "", jose.ES256)
	enc := good.public()
	enc.KeyID, enc.Use = "enc", "enc"
	for name, key := range map[string]any{
		"1024 bits": jose.JSONWebKey{Key: small.Public(), KeyID: "k"}, "P-384": jose.JSONWebKey{Key: p384.Public(), KeyID: "k"}, "for encryption": enc,
		"private": jose.JSONWebKey{Key: good.key, KeyID: "k"}, "oct": claims{"kty": "oct", "k": "AAAA"}, "unknown": claims{"kty": "new", "x": 1}, "broken": "x",
	} {
		file := filepath.Join(t.TempDir(), "keys")
		text, err := json.Marshal(claims{"keys": []any{key}})
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, string(text))
		o := &auth.Options{JWT: &auth.JWT{Keys: file, Issuer: issuer, Audience: audience}}
		if _, err := auth.New(o, auth.URLKey{}); err == nil {
			t.Errorf("%s: it is a key", name)
		}
		if text, err = json.Marshal(claims{"keys": []any{key, good.public()}}); err != nil {
			t.Fatal(err)
		}
		write(t, file, string(text))
		a, err := auth.New(o, auth.URLKey{})
		if err != nil {
			t.Errorf("%s beside a good one: %v", name, err)
			continue
		}
		if got := ask(a, bearer(good.token(t, with(nil))), stream.MayRead, "a/b"); got != "ok" {
			t.Errorf("%s: the only good key, which no token has to name: %s", name, got)
		}
	}
}

func TestKeysInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	one, two := newSigner(t, "one", jose.EdDSA), newSigner(t, "two", jose.EdDSA)
	save := func(s *signer) {
		text, err := json.Marshal(claims{"keys": []any{s.public()}})
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, string(text))
	}
	save(one)
	a, err := auth.New(&auth.Options{JWT: &auth.JWT{Keys: file, Issuer: issuer, Audience: audience}}, auth.URLKey{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		got := ask(a, bearer(one.token(t, with(nil))), stream.MayRead, "a/b") + " " + ask(a, bearer(two.token(t, with(nil))), stream.MayRead, "a/b")
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	check("ok invalid_token")
	write(t, file, "nonsense")
	if err := a.Reload(auth.URLKey{}); err == nil {
		t.Error("nonsense is taken")
	}
	check("ok invalid_token")
	save(two)
	if err := a.Reload(auth.URLKey{}); err != nil {
		t.Fatal(err)
	}
	check("invalid_token ok")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(auth.URLKey{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	check("invalid_token ok")
}

func TestKeySources(t *testing.T) {
	for from, good := range map[string]bool{
		"https://issuer.example/keys": true, "http://127.0.0.1:1/keys": true, "http://[::1]/keys": true, "http://localhost/keys": true,
		"http://issuer.example/keys": false, "http://127.0.0.1.example/": false, "ftp://issuer.example/": false, "https://": false, "": false, "file:///keys": false,
	} {
		o := &auth.Options{JWT: &auth.JWT{Keys: from, Issuer: issuer, Audience: audience}}
		if err := o.Validate(); (err == nil) != good {
			t.Errorf("%q: %v", from, err)
		}
	}
	for _, o := range []auth.JWT{{Keys: keysURL, Audience: audience}, {Keys: keysURL, Issuer: issuer}, {Keys: keysURL, Issuer: issuer, Audience: audience, Leeway: time.Hour},
		{Keys: keysURL, Issuer: issuer, Audience: audience, Leeway: -1}} {
		if err := (&auth.Options{JWT: &o}).Validate(); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
