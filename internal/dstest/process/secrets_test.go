package process_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// blab is a server that logs what it should not: with these arguments a shell prints
// some text to stderr in place of ds.
func blab(t *testing.T, text string, args ...string) []string {
	t.Helper()
	s, stdout, err := process.Launch(process.Command{Binary: "true", Args: args, Prefix: []string{"sh", "-c", `printf '%s\n' "$TEXT" >&2; exec "$@"`, "sh"}, Env: []string{"TEXT=" + text}})
	if err != nil {
		t.Fatal(err)
	}
	_ = stdout.Close()
	<-s.Ended()
	return process.Leaks()
}

// The search of the logs finds each kind of secret, and nothing where there is none.
func TestLeaksAreFound(t *testing.T) {
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	const hookKey, sum = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MTI", "0123456789abcdef0123456789abcdef0123456789abcdef"
	if err := os.WriteFile(filepath.Join(data, "keys", "webhook"), []byte("ds webhook keys 1\nsign "+hookKey+" 1790000000\nsum "+sum+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	process.Secret("named by a test", "short")
	for text, want := range map[string]bool{
		"msg=request path=/a key=dsk_0123456789abcdefABCDEF":                 true,
		`msg="no" token=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlcw`: true,
		"path=/a?signature=1790000000.abcdef":                                true,
		"header=\"Authorization: Bearer abcdefgh\"":                          true,
		"a line\nmsg=x key=" + hookKey + "\nanother":                         true,
		"this was named by a test.":                                          true,
		"sum=" + sum + " short":                                              false,
		"msg=\"store is open\" id=0123456789abcdef path=/signature/bearer":   false,
		"": false,
	} {
		if found := blab(t, text, "--data-dir", data); len(found) == 1 != want {
			t.Errorf("%q: %q", text, found)
		}
	}
}

// A server at its most talkative sees all kinds of secrets, good, wrong and old ones, and
// its log has none of them: they are looked for here and, as after every test, by Main.
func TestSecretsAreNotLogged(t *testing.T) {
	dir := t.TempDir()
	binary := process.Build(t)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("ds %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	token := func(expires time.Time) string {
		claims, err := json.Marshal(map[string]any{"iss": "issuer", "aud": "ds", "exp": expires.Unix(), "ds": "all:**"})
		if err != nil {
			t.Fatal(err)
		}
		text := encode([]byte(`{"alg":"EdDSA","kid":"k"}`)) + "." + encode(claims)
		return text + "." + encode(ed25519.Sign(private, []byte(text)))
	}
	if err := os.WriteFile(filepath.Join(dir, "jwks.json"), fmt.Appendf(nil, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":%q}]}`, encode(public)), 0o600); err != nil {
		t.Fatal(err)
	}
	key := run("access", "key", "access", "shop", "all:**")
	log := &process.Tail{}
	for _, path := range []string{"--fast-path", "--no-fast-path"} {
		s := process.Start(t, process.Command{Binary: binary, Dir: dir, Log: log, Args: []string{path, "--data-dir", "data", "--access-file", "access", "--jwt-keys", filepath.Join(dir, "jwks.json"),
			"--jwt-issuer", "issuer", "--jwt-audience", "ds", "--log-level", "debug", "--access-log", "--slow-request", "1ns"}})
		signed := run("access", "url", "data", "a")
		good, old := token(time.Now().Add(time.Hour)), token(time.Now().Add(-time.Hour))
		wrong := "dsk_" + strings.Repeat("wrong", 9)
		_, mac, _ := strings.Cut(signed, "=")
		secrets := []string{key, good, old, wrong, mac, strings.Repeat("0", 8) + "." + mac}
		process.Secret(secrets...)
		asked := 0
		ask := func(status int, method, target, bearer string) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, s.Streams+target, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "text/plain")
			if bearer != "" {
				req.Header.Set("Authorization", "Bearer "+bearer)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != status {
				t.Errorf("%s %s: %s, %v, want %d", method, target, res.Status, err, status)
			}
			asked++
		}
		ask(201, "PUT", "/a", key)
		ask(200, "GET", "/a", good)
		ask(200, "GET", "/a?"+signed, "")
		ask(401, "GET", "/a?"+signed+"x", "")
		ask(401, "GET", "/b?"+signed, "")
		ask(401, "GET", "/a?offset="+mac+"&"+signed+"x", "")
		ask(400, "GET", "/a?offset="+mac, key)
		ask(401, "GET", "/a", old)
		ask(401, "GET", "/a", wrong)
		ask(401, "GET", "/a", good+"x")
		ask(401, "GET", "/a", key+"x")
		ask(204, "DELETE", "/a", key)
		if err := s.Stop(30 * time.Second); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "msg=request "); n < asked {
			t.Errorf("%d lines about %d requests:\n%s", n, asked, log)
		}
		if i := slices.IndexFunc(secrets, func(s string) bool { return strings.Contains(log.String(), s) }); i >= 0 {
			t.Errorf("secret %d of %d is in the log:\n%s", i, len(secrets), log)
		}
		for _, found := range process.Leaks() {
			t.Error(found)
		}
	}
}
