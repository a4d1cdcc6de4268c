package auth_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/auth"
	"durablestreams/stream"
)

func TestSignedURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := open(t, "", nil)
		param, err := a.Sign("a/%2F", time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		name, value, _ := strings.Cut(param, "=")
		seconds, mac, _ := strings.Cut(value, ".")
		other, _ := a.Sign("b", time.Now().Add(time.Minute))
		for _, tt := range []struct {
			query string
			path  stream.Path
			want  string
		}{
			{param, "a/%2F", "ok"},
			{"offset=-1&live=sse&" + param + "&cursor=5", "a/%2F", "ok"},
			{"x&" + param + "&&=", "a/%2F", "ok"},
			{param, "a/%2f", "invalid_token"},
			{param, "a///", "invalid_token"},
			{param, "b", "invalid_token"},
			{other, "a/%2F", "invalid_token"},
			{"signature=" + seconds + "." + strings.TrimPrefix(other, "signature="+seconds+"."), "a/%2F", "invalid_token"},
			{param + "A", "a/%2F", "invalid_token"},
			{param[:len(param)-1], "a/%2F", "invalid_token"},
			{param + "=", "a/%2F", "invalid_token"},
			{name + "=", "a/%2F", "invalid_token"},
			{name + "=.", "a/%2F", "invalid_token"},
			{name + "=" + seconds, "a/%2F", "invalid_token"},
			{name + "=" + seconds + ".", "a/%2F", "invalid_token"},
			{name + "=0" + value, "a/%2F", "invalid_token"},
			{name + "=+" + value, "a/%2F", "invalid_token"},
			{name + "=9" + value, "a/%2F", "invalid_token"},
			{name + "=99999999999999999999999." + mac, "a/%2F", "invalid_token"},
			{param + "&" + param, "a/%2F", "invalid_parameter"},
			{param + "&signature=", "a/%2F", "invalid_parameter"},
			{"Signature=" + value, "a/%2F", "nobody"},
			{"%73ignature=" + value, "a/%2F", "nobody"},
			{"xsignature=" + value, "a/%2F", "nobody"},
			{"signature", "a/%2F", "nobody"},
			{"", "a/%2F", "nobody"},
			{"offset=signature=1", "a/%2F", "nobody"},
		} {
			c, err := a.Signed(tt.query, tt.path, true)
			got := kind(err)
			if err == nil && c == nil {
				got = "nobody"
			}
			if got != tt.want {
				t.Errorf("%q for %q: %s, want %s", tt.query, tt.path, got, tt.want)
			}
		}
		if _, err := a.Signed(param, "a/%2F", false); kind(err) != "invalid_parameter" {
			t.Errorf("two ways to say who it is: %v", err)
		}

		c, err := a.Signed(param, "a/%2F", true)
		if err != nil {
			t.Fatal(err)
		}
		for bit := stream.MayRead; bit <= rights; bit <<= 1 {
			want := "forbidden"
			if bit == stream.MayRead {
				want = "ok"
			}
			if got := kind(c.Allow(bit, "a/%2F")); got != want {
				t.Errorf("it may %v: %s, want %s", bit, got, want)
			}
		}
		if got := kind(c.Allow(stream.MayRead, "b")) + kind(c.AllowAll(stream.MayRead, "a/%2F")); got != "forbiddenforbidden" {
			t.Errorf("it opens other streams: %s", got)
		}
		if want := fmt.Sprint(c.Expires().Unix()); want != seconds {
			t.Errorf("it ends at %s, not at %s", want, seconds)
		}
		time.Sleep(time.Until(c.Expires()) - time.Nanosecond)
		if _, err := a.Signed(param, "a/%2F", true); err != nil {
			t.Errorf("before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := a.Signed(param, "a/%2F", true); kind(err) != "invalid_token" {
			t.Errorf("at its end: %v", err)
		}
	})
}

func TestSigning(t *testing.T) {
	a := open(t, "", nil)
	now := time.Now()
	for life, good := range map[time.Duration]bool{time.Second: true, 24*time.Hour - time.Second: true, 0: false, -time.Second: false, 25 * time.Hour: false} {
		if _, err := a.Sign("x", now.Add(life)); (err == nil) != good {
			t.Errorf("%v: %v", life, err)
		}
	}
	param, _ := a.Sign("x", now.Add(time.Hour))
	if err := a.Reload(auth.URLKey{2}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Signed(param, "x", true); kind(err) != "invalid_token" {
		t.Errorf("signed by a former key: %v", err)
	}
}

func TestURLKeyFile(t *testing.T) {
	k := auth.NewURLKey()
	if k == auth.NewURLKey() {
		t.Error("the same key twice")
	}
	text := string(k.Text())
	if back, err := auth.ParseURLKey([]byte(text)); err != nil || back != k {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", text + "\n", text[:len(text)-1], text[:len(text)-2] + "\n", strings.Replace(text, "1", "2", 1), " " + text, text + text,
		strings.TrimSuffix(text, "\n") + "AA\n", text[:len(text)-20] + "\n" + text[len(text)-20:]} {
		if _, err := auth.ParseURLKey([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		} else if strings.Contains(err.Error(), strings.TrimSpace(text[len(text)-30:])) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	if s := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); strings.Contains(s, "0x") || strings.Count(s, "a key") != 4 {
		t.Errorf("it shows itself: %s", s)
	}
}

func FuzzSignature(f *testing.F) {
	var k auth.URLKey
	now := time.Now()
	param, err := k.Sign("a", now, now.Add(time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(param)
	f.Add("offset=-1&signature=1.x&signature=2.y")
	file := f.TempDir() + "/access"
	a := func() *auth.Authorizer {
		if err := writeFile(file); err != nil {
			f.Fatal(err)
		}
		a, err := auth.New(&auth.Options{File: file}, k)
		if err != nil {
			f.Fatal(err)
		}
		return a
	}()
	f.Fuzz(func(t *testing.T, query string) {
		c, err := a.Signed(query, "a", true)
		if c != nil && (err != nil || !strings.Contains("&"+query+"&", "&"+param+"&")) {
			t.Errorf("%q is taken", query)
		}
	})
}

func writeFile(file string) error { return os.WriteFile(file, nil, 0o600) }
