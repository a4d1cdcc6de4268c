package webhook_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/webhook"
)

func exampleToken() webhook.Token {
	return webhook.Token{Kind: webhook.CallbackToken, Subscription: "sub/ü \"1\"", Incarnation: 1<<64 - 1, Generation: 7, WakeID: "w_abc",
		Expires: start.Add(time.Hour).Unix()}
}

func mint(t testing.TB, keys *webhook.Keys, token webhook.Token) string {
	t.Helper()
	text, err := keys.Mint(token, start)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokenSaysWhatItWasMadeFor(t *testing.T) {
	keys := openKeys(t, newDisk(t))
	for _, kind := range []webhook.TokenKind{webhook.CallbackToken, webhook.ClaimToken} {
		token := exampleToken()
		token.Kind = kind
		text := mint(t, keys, token)
		got, err := keys.CheckToken(text, start)
		if err != nil || got != token {
			t.Errorf("%s says %+v, %v", text, got, err)
		}
		head, _, _ := strings.Cut(text, ".")
		if plain, err := base64.RawURLEncoding.DecodeString(head); err != nil || string(plain) != `{"alg":"HS256","typ":"JWT"}` {
			t.Errorf("the head is %q, %v", plain, err)
		}
	}
}

func TestTokenAuthorizes(t *testing.T) {
	token := exampleToken()
	tests := []struct {
		name   string
		change func(want *webhook.Token)
		after  time.Duration
		err    error
	}{
		{"itself", func(*webhook.Token) {}, 0, nil},
		{"its last second", func(*webhook.Token) {}, time.Hour - time.Second, nil},
		{"too late", func(*webhook.Token) {}, time.Hour, webhook.ErrTokenExpired},
		{"other expiry", func(w *webhook.Token) { w.Expires = 0 }, 0, nil},
		{"other kind", func(w *webhook.Token) { w.Kind = webhook.ClaimToken }, 0, webhook.ErrTokenScope},
		{"other subscription", func(w *webhook.Token) { w.Subscription += "x" }, 0, webhook.ErrTokenScope},
		{"other case", func(w *webhook.Token) { w.Subscription = strings.ToUpper(w.Subscription) }, 0, webhook.ErrTokenScope},
		{"deleted and made again", func(w *webhook.Token) { w.Incarnation-- }, 0, webhook.ErrTokenScope},
		{"next generation", func(w *webhook.Token) { w.Generation++ }, 0, webhook.ErrTokenStale},
		{"other wake", func(w *webhook.Token) { w.WakeID = "w_abd" }, 0, webhook.ErrTokenStale},
		{"no wake", func(w *webhook.Token) { w.WakeID = "" }, 0, webhook.ErrTokenStale},
		{"stale and expired", func(w *webhook.Token) { w.Generation++ }, time.Hour, webhook.ErrTokenStale},
		{"other subscription and stale", func(w *webhook.Token) { w.Subscription, w.Generation = "", 0 }, 0, webhook.ErrTokenScope},
	}
	for _, tt := range tests {
		want := token
		tt.change(&want)
		if err := token.Authorizes(want, start.Add(tt.after)); !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		}
	}
}

func TestForgedTokens(t *testing.T) {
	keys := openKeys(t, newDisk(t))
	text := mint(t, keys, exampleToken())
	parts := strings.Split(text, ".")
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	other := mint(t, openKeys(t, newDisk(t)), exampleToken())
	// The last character has two bits to spare.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	spelled := text[:len(text)-1] + string(alphabet[strings.IndexByte(alphabet, text[len(text)-1])^1])
	long := exampleToken()
	long.Subscription = strings.Repeat("a", 16<<10)
	tests := []struct {
		name, text string
		err        error
	}{
		{"other spelling of the signature", spelled, webhook.ErrTokenMalformed},
		{"ours, but too long", mint(t, keys, long), webhook.ErrTokenMalformed},
		{"empty", "", webhook.ErrTokenMalformed},
		{"dots", "..", webhook.ErrTokenMalformed},
		{"head only", parts[0] + ".", webhook.ErrTokenMalformed},
		{"no signature", parts[0] + "." + parts[1], webhook.ErrTokenMalformed},
		{"empty signature", parts[0] + "." + parts[1] + ".", webhook.ErrTokenMalformed},
		{"short signature", text[:len(text)-4], webhook.ErrTokenMalformed},
		{"padding", text + "=", webhook.ErrTokenMalformed},
		{"line end", text + "\n", webhook.ErrTokenMalformed},
		{"line end inside", parts[0] + "." + parts[1] + "\n." + parts[2], webhook.ErrTokenMalformed},
		{"space", " " + text, webhook.ErrTokenMalformed},
		{"four parts", text + ".x", webhook.ErrTokenMalformed},
		{"no algorithm", encode(`{"alg":"none","typ":"JWT"}`) + "." + parts[1] + ".", webhook.ErrTokenMalformed},
		{"other algorithm", encode(`{"alg":"EdDSA","typ":"JWT"}`) + "." + parts[1] + "." + parts[2], webhook.ErrTokenMalformed},
		{"same head, other spelling", encode(`{"typ":"JWT","alg":"HS256"}`) + "." + parts[1] + "." + parts[2], webhook.ErrTokenMalformed},
		{"other text", parts[0] + "." + encode(`{"use":"callback"}`) + "." + parts[2], webhook.ErrTokenSignature},
		{"no text", parts[0] + ".." + parts[2], webhook.ErrTokenSignature},
		{"of another server", other, webhook.ErrTokenSignature},
		{"signature of another", parts[0] + "." + parts[1] + "." + strings.Split(other, ".")[2], webhook.ErrTokenSignature},
		{"signature of zeros", parts[0] + "." + parts[1] + "." + strings.Repeat("A", 43), webhook.ErrTokenSignature},
	}
	for _, tt := range tests {
		if got, err := keys.CheckToken(tt.text, start); !errors.Is(err, tt.err) || got != (webhook.Token{}) {
			t.Errorf("%s: %+v, %v; want %v", tt.name, got, err, tt.err)
		}
	}
}

func TestTokensSurviveARotationForADay(t *testing.T) {
	disk := newDisk(t)
	keys := openKeys(t, disk)
	old := mint(t, keys, exampleToken())
	rotate(t, disk, start)
	rotate(t, disk, start.Add(time.Minute))
	fresh := openKeys(t, disk)
	for after, want := range map[time.Duration]error{0: nil, webhook.KeepTokens - time.Second: nil, webhook.KeepTokens: webhook.ErrTokenSignature} {
		if _, err := fresh.CheckToken(old, start.Add(after)); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%v after the rotation: %v, want %v", after, err, want)
		}
	}
	if mint(t, fresh, exampleToken()) == old {
		t.Error("the old secret still makes tokens")
	}
}

func FuzzToken(f *testing.F) {
	keys := openKeys(f, newDisk(f))
	good := mint(f, keys, exampleToken())
	f.Add(good)
	f.Add(good[:len(good)-1] + "A")
	f.Add(good[:40])
	f.Fuzz(func(t *testing.T, text string) {
		token, err := keys.CheckToken(text, start)
		if (err == nil) != (text == good) {
			t.Fatalf("%q is taken as %+v, %v", text, token, err)
		}
	})
}
