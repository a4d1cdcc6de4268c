package auth_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/auth"
	"durablestreams/stream"
)

// hash is how an access file names a key.
func hash(key string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(key))) }

// made is an API key that is easy to tell in a test.
func made(name string) string { return "dsk_" + name }

// open makes an authorizer with an access file of this text.
func open(t *testing.T, text string, change func(*auth.Options)) *auth.Authorizer {
	t.Helper()
	o := &auth.Options{File: filepath.Join(t.TempDir(), "access")}
	if change != nil {
		change(o)
	}
	if o.File != "" {
		write(t, o.File, text)
	}
	a, err := auth.New(o, auth.URLKey{1})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// kind gives the kind of a refusal, "ok" for none.
func kind(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*stream.Error](err); ok {
		return string(e.Kind)
	}
	return "not a refusal: " + err.Error()
}

// ask gives the outcome for one request.
func ask(a *auth.Authorizer, authorization []string, right stream.Right, path stream.Path) string {
	return kind(a.Authorize(authorization, right, path))
}

const rights = stream.MayRead | stream.MayAppend | stream.MayCreate | stream.MayDelete | stream.MaySubscribe | stream.MayAdmin

func TestRightsAndPatterns(t *testing.T) {
	text := "# keys\n\n" +
		"key one " + hash(made("one")) + " read:a/* append,create:a/**\n" +
		"  key\ttwo " + hash(made("two")) + "  all:t/**\tread:shared\n" +
		"key boss " + hash(made("boss")) + " all:**\r\n" +
		"anonymous read:public/** read:index\n"
	for _, hide := range []bool{false, true} {
		a := open(t, text, func(o *auth.Options) { o.Hide = hide })
		for _, tt := range []struct {
			key, path string
			may       string // rights
		}{
			{"one", "a/b", "read,append,create"},
			{"one", "a/b/c", "append,create"},
			{"one", "a", "append,create"},
			{"one", "b/a", ""},
			{"one", "A/b", ""},
			{"one", "a%2Fb", ""},
			{"one", "public/x", "read"}, // as everybody
			{"two", "t/x", "all"},
			{"two", "shared", "read"},
			{"two", "shared/x", ""},
			{"two", "a/b", ""},
			{"boss", "anything", "all"},
			{"boss", "", "all"},
			{"two", "", ""},
			{"", "public/x", "read"},
			{"", "index", "read"},
			{"", "a/b", ""},
			{"", "", ""},
		} {
			may, _ := stream.ParseRight(tt.may)
			for bit := stream.MayRead; bit <= rights; bit <<= 1 {
				var values []string
				refused := "unauthenticated"
				if tt.key != "" {
					values = []string{"Bearer " + made(tt.key)}
					if refused = "forbidden"; hide {
						refused = "not_found"
					}
				}
				want := "ok"
				if !may.Has(bit) {
					want = refused
				}
				if got := ask(a, values, bit, stream.Path(tt.path)); got != want {
					t.Errorf("hide=%v: %q may %v %q: %s, want %s", hide, tt.key, bit, tt.path, got, want)
				}
			}
		}
		if !a.Public("public/x") || a.Public("a/b") || a.Public("t/x") {
			t.Error("what is public is not what everybody may read")
		}
	}
}

// Only a whole pattern lets a caller have a subscription with that pattern.
func TestAllowAll(t *testing.T) {
	a := open(t, "key k "+hash(made("k"))+" read:a/** read:b/* append:c/**\nanonymous read:p/*\n", nil)
	c, known, err := a.Identify([]string{"Bearer " + made("k")}, false)
	if err != nil || !known {
		t.Fatal(err, known)
	}
	for pattern, want := range map[string]string{
		"a/**": "ok", "a/b/*": "ok", "a": "ok", "/a/x": "ok", "a/b/": "ok", "b/*": "ok", "b/x": "ok", "p/x": "ok", "p/*": "ok",
		"**": "forbidden", "*": "forbidden", "*/x": "forbidden", "b/**": "forbidden", "c/x": "forbidden", "b/*/c": "forbidden", "": "invalid_path", "a*": "invalid_path",
	} {
		if got := kind(c.AllowAll(stream.MayRead, pattern)); got != want {
			t.Errorf("all of %q: %s, want %s", pattern, got, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	a := open(t, "key k "+hash(made("k"))+" all:**\n", nil)
	k := made("k")
	for _, tt := range []struct {
		values []string
		want   string
	}{
		{[]string{"Bearer " + k}, "ok"},
		{[]string{"bearer " + k}, "ok"},
		{[]string{"BEARER   " + k}, "ok"},
		{[]string{"Bearer " + k + " "}, "ok"},
		{nil, "unauthenticated"},
		{[]string{""}, "unauthenticated"},
		{[]string{k}, "unauthenticated"},
		{[]string{"Basic " + k}, "unauthenticated"},
		{[]string{"Bearer" + k}, "unauthenticated"},
		{[]string{"Bearer\t" + k}, "unauthenticated"},
		{[]string{"Bearer: " + k}, "unauthenticated"},
		{[]string{"Bearer"}, "invalid_token"},
		{[]string{"Bearer "}, "invalid_token"},
		{[]string{"Bearer \t" + k}, "invalid_token"},
		{[]string{"Bearer ="}, "invalid_token"},
		{[]string{"Bearer " + k + "="}, "invalid_token"},
		{[]string{"Bearer " + k + ", Bearer " + k}, "invalid_token"},
		{[]string{"Bearer " + k + "," + k}, "invalid_token"},
		{[]string{"Bearer " + k + " " + k}, "invalid_token"},
		{[]string{"Bearer \"" + k + "\""}, "invalid_token"},
		{[]string{"Bearer " + strings.ToUpper(k)}, "invalid_token"},
		{[]string{"Bearer " + k[:len(k)-1]}, "invalid_token"},
		{[]string{"Bearer " + k + "x"}, "invalid_token"},
		{[]string{"Bearer " + hash(k)}, "invalid_token"},
		{[]string{"Bearer " + strings.TrimPrefix(hash(k), "sha256:")}, "invalid_token"},
		{[]string{"Bearer dsk_"}, "invalid_token"},
		{[]string{"Bearer é"}, "invalid_token"},
		{[]string{"Bearer " + strings.Repeat("x", 1<<20)}, "invalid_token"},
		{[]string{"Bearer dsk_" + strings.Repeat("x", 1<<20)}, "invalid_token"},
		{[]string{"Bearer " + k, "Bearer " + k}, "invalid_header"},
		{[]string{"Bearer " + k, ""}, "invalid_header"},
		{[]string{"", ""}, "invalid_header"},
	} {
		if got := ask(a, tt.values, stream.MayRead, "x"); got != tt.want {
			t.Errorf("%.80q: %s, want %s", tt.values, got, tt.want)
		}
	}
}

// A token that must be looked at is for a worker; all else is known at once.
func TestKnownAtOnce(t *testing.T) {
	a := open(t, "key k "+hash(made("k"))+" all:**\n", nil)
	for _, values := range [][]string{nil, {""}, {"Bearer " + made("k")}, {"Bearer " + made("x")}, {"Bearer a.b.c"}, {"a", "b"}} {
		if _, known, _ := a.Identify(values, false); !known {
			t.Errorf("%q is not known", values)
		}
	}
}

func TestKeysExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Hour).UTC()
		a := open(t, "key k "+hash(made("k"))+" expires="+end.Format(time.RFC3339)+" all:**\n", nil)
		c, _, err := a.Identify([]string{"Bearer " + made("k")}, false)
		if err != nil || !c.Expires().Equal(end.Truncate(time.Second)) {
			t.Errorf("expires %v (%v), want %v", c.Expires(), err, end)
		}
		time.Sleep(time.Hour - time.Second)
		if got := ask(a, []string{"Bearer " + made("k")}, stream.MayRead, "x"); got != "ok" {
			t.Errorf("before: %s", got)
		}
		time.Sleep(time.Second)
		if got := ask(a, []string{"Bearer " + made("k")}, stream.MayRead, "x"); got != "invalid_token" {
			t.Errorf("from then on: %s", got)
		}
	})
}

// Errors name the line, and never what stands in it.
func TestAccessFileErrors(t *testing.T) {
	good := "key k " + hash("dsk_k") + " all:**"
	for _, line := range []string{
		"secret-in-the-wrong-place", "dsk_secret-in-the-wrong-place", "key", "key k", "key k dsk_secret-in-the-wrong-place all:**",
		"key k " + hash("dsk_k"), "key k " + hash("dsk_k") + "0 all:**", "key k " + hash("dsk_k")[:70] + " all:**",
		"key k md5:00 all:**", "key k sha256:" + strings.Repeat("g", 64) + " all:**", good + " secret-in-the-wrong-place",
		"key k " + hash("dsk_k") + " read", "key k " + hash("dsk_k") + " :**", "key k " + hash("dsk_k") + " read:", "key k " + hash("dsk_k") + " write:**",
		"key k " + hash("dsk_k") + " read:a*", "key k " + hash("dsk_k") + " read:../x", "key k " + hash("dsk_k") + " read:__ds/x",
		"key k " + hash("dsk_k") + " expires=2030-01-01 all:**", "key k " + hash("dsk_k") + " expires=2030-01-01T00:00:00Z",
		"key " + strings.Repeat("n", 129) + " " + hash("dsk_k") + " all:**", "key #k " + hash("dsk_k") + " all:**", "key \x01 " + hash("dsk_k") + " all:**",
		"anonymous append:**", "anonymous read,append:**", "anonymous all:**", "anonymous read", "Key k " + hash("dsk_k") + " all:**",
		good + strings.Repeat(" read:x", 256), "key other " + hash("dsk_first") + " all:**",
	} {
		file := filepath.Join(t.TempDir(), "access")
		write(t, file, "# \n key first "+hash("dsk_first")+" all:**\n"+line+"\n")
		_, err := auth.New(&auth.Options{File: file}, auth.URLKey{})
		if err == nil {
			t.Errorf("%q is taken", line)
			continue
		}
		if !strings.HasPrefix(err.Error(), file+":3: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60q: %v", line, err)
		}
	}
	if _, err := auth.New(&auth.Options{File: filepath.Join(t.TempDir(), "none")}, auth.URLKey{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := auth.New(&auth.Options{}, auth.URLKey{}); err == nil {
		t.Error("nothing to go by is taken")
	}
}

// A file that is wrong changes nothing; a right one takes effect at once, for tokens
// that were seen before as well.
func TestReload(t *testing.T) {
	var file string
	a := open(t, "key k "+hash(made("k"))+" read:a\nanonymous read:p\n", func(o *auth.Options) { file = o.File })
	old, _, _ := a.Identify([]string{"Bearer " + made("k")}, false)
	check := func(want string) {
		t.Helper()
		got := ""
		for _, path := range []stream.Path{"a", "b", "p", "q"} {
			got += ask(a, []string{"Bearer " + made("k")}, stream.MayRead, path) + " "
		}
		if got+ask(a, nil, stream.MayRead, "q") != want {
			t.Errorf("%s%s, want %s", got, ask(a, nil, stream.MayRead, "q"), want)
		}
	}
	check("ok forbidden ok forbidden unauthenticated")
	write(t, file, "key k\n")
	if err := a.Reload(auth.URLKey{2}); err == nil {
		t.Error("a wrong file is taken")
	}
	check("ok forbidden ok forbidden unauthenticated")
	write(t, file, "key k "+hash(made("k"))+" read:b\nanonymous read:q\n")
	if err := a.Reload(auth.URLKey{2}); err != nil {
		t.Error(err)
	}
	check("forbidden ok forbidden ok ok")
	if got := kind(old.Allow(stream.MayRead, "p")); got != "forbidden" {
		t.Errorf("what everybody may is remembered: %s", got)
	}
	write(t, file, "anonymous read:q\n")
	if err := a.Reload(auth.URLKey{2}); err != nil {
		t.Error(err)
	}
	check("invalid_token invalid_token invalid_token invalid_token ok")
}

func TestNewKey(t *testing.T) {
	g1, err1 := auth.ParseGrant("append,read:a/**")
	g2, err2 := auth.ParseGrant("all:/b/*")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	key, line, err := auth.NewKey("name", []auth.Grant{g1, g2}, time.Date(2300, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)))
	if want := "key name " + hash(key) + " expires=2300-01-02T02:04:05Z read,append:a/** all:b/*"; err != nil || line != want {
		t.Errorf("line %q (%v), want %q", line, err, want)
	}
	if len(key) != len("dsk_")+43 || strings.Contains(line, key) {
		t.Errorf("key %q", key)
	}
	if other, _, _ := auth.NewKey("name", []auth.Grant{g1}, time.Time{}); other == key {
		t.Error("the same key twice")
	}
	a := open(t, line, nil)
	if got := ask(a, []string{"Bearer " + key}, stream.MayDelete, "b/x"); got != "ok" {
		t.Errorf("its own line does not let it in: %s", got)
	}
	for _, name := range []string{"", "a b", "#", "a\nb", "\xff", strings.Repeat("x", 129)} {
		if _, _, err := auth.NewKey(name, []auth.Grant{g1}, time.Time{}); err == nil {
			t.Errorf("name %q is taken", name)
		}
	}
	if _, _, err := auth.NewKey("k", nil, time.Time{}); err == nil {
		t.Error("no grants are taken")
	}
}

// What is refused is told to an operator who asks for it, without the token.
func TestRefusalsInTheLog(t *testing.T) {
	var log strings.Builder
	a := open(t, "key k "+hash(made("k"))+" read:a\n", func(o *auth.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	ask(a, []string{"Bearer " + made("k")}, stream.MayAppend, "b")
	if s := log.String(); !strings.Contains(s, "caller=k right=append path=b") || strings.Contains(s, made("k")) {
		t.Errorf("log %q", s)
	}
}

func FuzzAccessFile(f *testing.F) {
	f.Add("key k " + hash("dsk_k") + " expires=2030-01-01T00:00:00Z read,append:a/** all:**\n# x\nanonymous read:p/*\n")
	f.Add("key\nanonymous read:*")
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "access")
		write(t, file, text)
		a, err := auth.New(&auth.Options{File: file}, auth.URLKey{})
		if err != nil {
			return
		}
		if !strings.Contains(text, "anonymous") && a.Public("p/x") {
			t.Errorf("%q lets everybody read", text)
		}
		if ask(a, nil, stream.MayAppend, "p/x") == "ok" {
			t.Errorf("%q lets everybody write", text)
		}
	})
}

func FuzzHeader(f *testing.F) {
	a := func() *auth.Authorizer {
		file := filepath.Join(f.TempDir(), "access")
		if err := os.WriteFile(file, []byte("key k "+hash(made("k"))+" all:**\n"), 0o600); err != nil {
			f.Fatal(err)
		}
		a, err := auth.New(&auth.Options{File: file}, auth.URLKey{})
		if err != nil {
			f.Fatal(err)
		}
		return a
	}()
	f.Add("Bearer " + made("k"))
	f.Add("bearer  dsk_, Bearer x")
	f.Fuzz(func(t *testing.T, value string) {
		err := a.Authorize([]string{value}, stream.MayRead, "x")
		scheme, token, _ := strings.Cut(value, " ")
		if ok := strings.EqualFold(scheme, "Bearer") && strings.Trim(token, " ") == made("k"); ok != (err == nil) {
			t.Errorf("%q: %v", value, err)
		}
		if err != nil && len(token) > 12 && strings.Contains(err.Error(), token) {
			t.Errorf("%q echoes the token: %v", value, err)
		}
	})
}
