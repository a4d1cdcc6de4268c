package auth_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"durablestreams/auth"
	"durablestreams/stream"
)

// The keys are fetched at the start, once more for a key that is not there, and not
// again within ten seconds, whatever comes.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, one, two := &publisher{}, newSigner(t, "one", jose.EdDSA), newSigner(t, "two", jose.EdDSA)
		p.publish(one.public())
		a := openJWT(t, p, "", nil)
		first, second := bearer(one.token(t, with(nil))), bearer(two.token(t, with(nil)))
		check := func(fetches int32, want string) {
			t.Helper()
			if got := ask(a, first, stream.MayRead, "a/b") + " " + ask(a, second, stream.MayRead, "a/b"); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if n := p.fetches.Load(); n != fetches {
				t.Errorf("%d fetches, want %d", n, fetches)
			}
		}
		synctest.Wait()
		check(1, "ok invalid_token")
		p.publish(two.public(), one.public())
		for range 100 {
			check(1, "ok invalid_token")
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		check(1, "ok invalid_token")
		time.Sleep(time.Nanosecond)
		check(2, "ok ok")
		check(2, "ok ok")
		time.Sleep(10 * time.Second)
		for range 100 {
			check(2, "ok ok")
		}
		// A key that is taken away is noticed when the keys have grown old.
		p.publish(two.public())
		time.Sleep(10*time.Minute - 10*time.Second)
		check(2, "ok ok")
		time.Sleep(time.Nanosecond)
		ask(a, first, stream.MayRead, "a/b")
		synctest.Wait()
		check(3, "invalid_token ok")
	})
}

// While the issuer cannot be reached, the last keys count; without any the client is
// to come back.
func TestIssuerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, one := &publisher{}, newSigner(t, "one", jose.ES256)
		p.publish(one.public())
		for _, status := range []int32{-1, 404, 500} {
			p.status.Store(status)
			a := openJWT(t, p, "key k "+hash(made("k"))+" all:**\nanonymous read:p\n", nil)
			token := bearer(one.token(t, with(nil)))
			if got := ask(a, token, stream.MayRead, "a/b"); got != "busy" {
				t.Errorf("%d: %s", status, got)
			}
			if got := ask(a, bearer(made("k")), stream.MayRead, "a/b") + ask(a, nil, stream.MayRead, "p"); got != "okok" {
				t.Errorf("%d: who needs no issuer: %s", status, got)
			}
			p.status.Store(0)
			if got := ask(a, token, stream.MayRead, "a/b"); got != "busy" {
				t.Errorf("%d: asked again at once: %s", status, got)
			}
			time.Sleep(time.Second)
			if got := ask(a, token, stream.MayRead, "a/b"); got != "ok" {
				t.Errorf("%d, a second later: %s", status, got)
			}
			p.status.Store(status)
			time.Sleep(11 * time.Minute)
			for range 3 {
				if got := ask(a, token, stream.MayRead, "a/b"); got != "ok" {
					t.Errorf("%d: with old keys: %s", status, got)
				}
				time.Sleep(time.Minute)
			}
			p.status.Store(0)
		}
	})
}

// Those who come while keys are being fetched share the fetch, and nobody who may not
// wait does.
func TestSlowIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, one := &publisher{slow: 5 * time.Second}, newSigner(t, "one", jose.EdDSA)
		p.publish(one.public())
		a := openJWT(t, p, "", nil)
		token := bearer(one.token(t, with(nil)))
		begin := time.Now()
		if _, known, err := a.Identify(token, false); known || err != nil {
			t.Errorf("%v %v", known, err)
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if got := ask(a, token, stream.MayRead, "a/b"); got != "ok" {
					t.Error(got)
				}
			})
		}
		all.Wait()
		if took := time.Since(begin); took != 5*time.Second || p.fetches.Load() != 1 {
			t.Errorf("%v, %d fetches", took, p.fetches.Load())
		}
		if c, known, err := a.Identify(token, false); !known || err != nil || c == nil {
			t.Errorf("verified, and not known: %v", err)
		}
		if err := a.Reload(auth.URLKey{}); err != nil {
			t.Error(err)
		}
		if _, known, _ := a.Identify(token, false); !known {
			t.Error("a reload forgets what the same keys have verified")
		}
		time.Sleep(5 * time.Second)
		if n := p.fetches.Load(); n != 2 {
			t.Errorf("%d fetches after a reload", n)
		}

		synctest.Wait()
		p.slow = time.Hour
		b := openJWT(t, p, "", nil)
		begin = time.Now()
		if got := ask(b, token, stream.MayRead, "a/b"); got != "busy" || time.Since(begin) != 10*time.Second {
			t.Errorf("an issuer that never answers: %s after %v", got, time.Since(begin))
		}
	})
}

// Tokens that were verified are remembered up to a bound, and all of them go on to be
// taken.
func TestManyTokens(t *testing.T) {
	p, one := &publisher{}, newSigner(t, "one", jose.EdDSA)
	p.publish(one.public())
	a := openJWT(t, p, "", nil)
	const n = 12_000
	tokens := make([][]string, n)
	for i := range tokens {
		tokens[i] = bearer(one.token(t, with(claims{"jti": fmt.Sprint(i)})))
		if got := ask(a, tokens[i], stream.MayRead, "a/b"); got != "ok" {
			t.Fatal(got)
		}
	}
	known := 0
	for _, token := range tokens {
		if _, k, _ := a.Identify(token, false); k {
			known++
		}
	}
	if known < 8_000 || known > 10_000 {
		t.Errorf("%d of %d are known", known, n)
	}
}
