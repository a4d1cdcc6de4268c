package durablestreams_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/auth"
	"durablestreams/stream"
)

// guarded is a server with access control on a port of this machine, over one of the
// two adapters.
type guarded struct {
	*testing.T
	s       *durablestreams.Server
	host    string
	secrets []string // that must be seen nowhere
	seen    *lockedText
	issuer  ed25519.PrivateKey
	file    string
}

type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// key gives an API key and its hash.
func (g *guarded) key(name string) string {
	k := "dsk_" + name + "-secret"
	g.secrets = append(g.secrets, k)
	return k
}

func keyLine(name, key, rest string) string {
	return fmt.Sprintf("key %s sha256:%x %s\n", name, sha256.Sum256([]byte(key)), rest)
}

// token gives a JWT of the issuer.
func (g *guarded) token(rights string, expires time.Time) string {
	claims, err := json.Marshal(map[string]any{"iss": "issuer", "aud": "ds", "exp": expires.Unix(), "ds": rights})
	if err != nil {
		g.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"EdDSA","kid":"k"}`)) + "." + encode(claims)
	text += "." + encode(ed25519.Sign(g.issuer, []byte(text)))
	g.secrets = append(g.secrets, text)
	return text
}

// overBoth runs a test on a guarded server over each adapter, and looks for secrets in
// what was logged and answered.
func overBoth(t *testing.T, opts durablestreams.Options, test func(g *guarded)) {
	for name, plain := range map[string]bool{"event loops": false, "net/http": true} {
		t.Run(name, func(t *testing.T) {
			public, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			g := &guarded{T: t, seen: &lockedText{}, issuer: private, file: filepath.Join(t.TempDir(), "access")}
			g.write("")
			issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public))
			}))
			t.Cleanup(issuer.Close)
			o := opts
			o.NoFastPath, o.InMemory = plain, true
			o.AccessLog, o.SlowRequest = true, time.Nanosecond
			o.Logger = slog.New(slog.NewTextHandler(g.seen, &slog.HandlerOptions{Level: slog.LevelDebug}))
			a := auth.Options{}
			if o.Access != nil {
				a = *o.Access
			}
			a.File, a.JWT = g.file, &auth.JWT{Keys: issuer.URL, Issuer: "issuer", Audience: "ds"}
			o.Access = &a
			g.s = open(t, "", &o)
			ln := listen(t)
			g.host = ln.Addr().String()
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() { served <- g.s.Serve(ctx, ln) }()
			t.Cleanup(func() {
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
				for _, secret := range g.secrets {
					if strings.Contains(g.seen.String(), secret) {
						t.Errorf("%q was shown:\n%s", secret, g.seen)
					}
				}
			})
			test(g)
		})
	}
}

// write changes the access file.
func (g *guarded) write(text string) {
	if err := os.WriteFile(g.file, []byte(text), 0o600); err != nil {
		g.Fatal(err)
	}
}

func (g *guarded) rewrite(text string) {
	g.write(text)
	if err := g.s.ReloadAccess(); err != nil {
		g.Fatal(err)
	}
}

// sign gives the query parameter for a stream.
func (g *guarded) sign(path string, life time.Duration) string {
	param, err := g.s.SignURL(stream.Path(path), life)
	if err != nil {
		g.Fatal(err)
	}
	g.secrets = append(g.secrets, strings.TrimPrefix(param, "signature="))
	return param
}

// said is an answer with its text.
type said struct {
	*http.Response
	text string
}

// ask sends a request. The target is what follows the path of all streams; lines are
// of the head.
func (g *guarded) ask(method, target, body string, lines ...string) said {
	g.Helper()
	return g.raw(fmt.Sprintf("%s /durable-streams/v1/stream/%s HTTP/1.1\r\nHost: ds.example\r\n%sContent-Length: %d\r\n\r\n%s",
		method, target, strings.Join(append(lines, ""), "\r\n"), len(body), body), method)
}

func (g *guarded) raw(request, method string) said {
	g.Helper()
	c, err := net.Dial("tcp", g.host)
	if err != nil {
		g.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		g.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		g.Fatalf("%.100q: %v", request, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		g.Fatalf("%.100q: %v", request, err)
	}
	if err := res.Header.Write(g.seen); err != nil {
		g.Fatal(err)
	}
	fmt.Fprintf(g.seen, "%s\n", text)
	res.Header.Del("X-Request-Id") // which the access log gives, to each answer another one
	return said{res, string(text)}
}

// as is the line that says who sends a request.
func as(token string) string { return "Authorization: Bearer " + token }

const textType = "Content-Type: text/plain"

// attempt is one request that needs one right.
type attempt struct {
	name, method, query, body string
	lines                     []string
	right                     stream.Right
	good                      int // status if it is allowed
}

var attempts = []attempt{
	{"read", "GET", "", "", nil, stream.MayRead, 200},
	{"read on", "GET", "offset=-1", "", nil, stream.MayRead, 200},
	{"long-poll", "GET", "offset=-1&live=long-poll", "", nil, stream.MayRead, 200},
	{"follow to the end", "GET", "offset=-1&live=sse", "", nil, stream.MayRead, 200},
	{"metadata", "HEAD", "", "", nil, stream.MayRead, 200},
	{"append", "POST", "", "x", []string{textType}, stream.MayAppend, 409}, // it is closed
	{"close", "POST", "", "", []string{"Stream-Closed: true"}, stream.MayAppend, 204},
	{"confirm", "PUT", "", "", []string{textType, "Stream-Closed: true"}, stream.MayCreate, 200},
	{"delete", "DELETE", "", "", nil, stream.MayDelete, 204},
}

// Every method needs its right, and whoever has it may.
func TestAccessTable(t *testing.T) {
	overBoth(t, durablestreams.Options{}, func(g *guarded) {
		boss, past, gone := g.key("boss"), g.key("past"), g.key("gone")
		file := keyLine("boss", boss, "all:**") + keyLine("past", past, "expires=2020-01-01T00:00:00Z all:**") + "anonymous read:public/**\n"
		keys := map[stream.Right]string{}
		for bit := stream.MayRead; bit <= stream.MayAdmin; bit <<= 1 {
			keys[bit] = g.key(bit.String())
			file += keyLine(bit.String(), keys[bit], bit.String()+":a/**")
		}
		g.rewrite(file)
		fresh := func(path string) {
			g.Helper()
			if a := g.ask("PUT", path, "kept", textType, "Stream-Closed: true", as(boss)); a.StatusCode != 201 && a.StatusCode != 200 {
				g.Fatalf("create %s: %d %s", path, a.StatusCode, a.text)
			}
		}
		check := func(who string, try attempt, path string, want int, lines ...string) said {
			g.Helper()
			target := path
			if try.query != "" {
				target += "?" + try.query
			}
			a := g.ask(try.method, target, try.body, append(lines, try.lines...)...)
			if a.StatusCode != want {
				g.Errorf("%s, %s %s: %d %s, want %d", who, try.name, path, a.StatusCode, a.text, want)
			}
			wantChallenge(g, a)
			if a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Vary") != "Authorization" {
				g.Errorf("%s, %s: origin %q, Vary %q", who, try.name, a.Header.Get("Access-Control-Allow-Origin"), a.Header.Get("Vary"))
			}
			return a
		}
		for _, try := range attempts {
			for _, path := range []string{"a/x", "public/x", "other/x"} {
				fresh(path)
				nobody := 401
				if path == "public/x" && try.right == stream.MayRead {
					nobody = try.good
				}
				check("nobody", try, path, nobody)
				check("a key that has expired", try, path, 401, as(past))
				check("an unknown key", try, path, 401, as(gone))
				check("an expired token", try, path, 401, as(g.token("all:**", time.Now().Add(-time.Minute))))
				check("a forged token", try, path, 401, as(g.token("all:**", time.Now().Add(time.Hour))+"A"))
				for bit, key := range keys {
					want := 403
					if path == "a/x" && bit == try.right || path == "public/x" && try.right == stream.MayRead {
						want = try.good
					}
					if a := check("the key to "+bit.String(), try, path, want, as(key)); try.method == "GET" && want == 200 && !strings.Contains(a.text, "kept") {
						g.Errorf("%s reads %q", bit, a.text)
					}
					fresh(path)
					check("the token to "+bit.String(), try, path, want, as(g.token(bit.String()+":a/**", time.Now().Add(time.Hour))))
					fresh(path)
				}
				check("the boss", try, path, try.good, as(boss))
			}
		}
		if a := g.ask("OPTIONS", "a/x", "", "Origin: https://x.example", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: authorization"); a.StatusCode != 204 ||
			!strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "Authorization") || !strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
			g.Errorf("preflight: %d %v", a.StatusCode, a.Header)
		}
	})
}

// wantChallenge looks at what a refusal must carry.
func wantChallenge(g *guarded, a said) {
	g.Helper()
	challenge := a.Header.Get("WWW-Authenticate")
	want := ""
	switch {
	case a.StatusCode == 403:
		want = `Bearer realm="durable-streams", error="insufficient_scope"`
	case a.StatusCode == 401 && strings.Contains(challenge, "error="):
		want = `Bearer realm="durable-streams", error="invalid_token"`
	case a.StatusCode == 401:
		want = `Bearer realm="durable-streams"`
	}
	if challenge != want {
		g.Errorf("%d with WWW-Authenticate %q, want %q", a.StatusCode, challenge, want)
	}
	if a.StatusCode >= 400 && a.Header.Get("Cache-Control") != "no-store" {
		g.Errorf("%d with Cache-Control %q", a.StatusCode, a.Header.Get("Cache-Control"))
	}
}

// A refusal is the same whether there is a stream or not, and if existence is hidden
// it is that of a missing stream.
func TestAccessHides(t *testing.T) {
	for _, hide := range []bool{false, true} {
		t.Run(fmt.Sprint("hide=", hide), func(t *testing.T) {
			overBoth(t, durablestreams.Options{Access: &auth.Options{Hide: hide}}, func(g *guarded) {
				boss, mine := g.key("boss"), g.key("mine")
				g.rewrite(keyLine("boss", boss, "all:**") + keyLine("mine", mine, "all:mine/**"))
				g.ask("PUT", "there", "kept", textType, "Stream-Closed: true", as(boss))
				look := func(a said) string {
					a.Header.Del("Date")
					var b strings.Builder
					_ = a.Header.Write(&b)
					return fmt.Sprintln(a.StatusCode, b.String(), a.text)
				}
				for _, try := range attempts {
					for _, who := range [][]string{nil, {as(mine)}, {as("dsk_unknown")}} {
						there, missing := g.ask(try.method, "there?"+try.query, try.body, append(who, try.lines...)...), g.ask(try.method, "missing?"+try.query, try.body, append(who, try.lines...)...)
						if look(there) != look(missing) || there.StatusCode < 400 {
							g.Errorf("%s by %v tells of streams:\n%s\n%s", try.name, who, look(there), look(missing))
						}
						// What a caller who may gets for a missing stream.
						if truly := g.ask(try.method, "missing?"+try.query, try.body, append([]string{as(boss)}, try.lines...)...); try.right != stream.MayCreate && who != nil && who[0] == as(mine) &&
							hide != (look(truly) == look(missing)) {
							g.Errorf("%s, hide=%v:\n%s\n%s", try.name, hide, look(missing), look(truly))
						}
					}
				}
				// Forks need their source to be readable.
				for source, want := range map[string]int{"there": 403, "missing": 403} {
					if hide {
						want = 404
					}
					a := g.ask("PUT", "mine/fork", "", as(mine), "Stream-Forked-From: /durable-streams/v1/stream/"+source)
					if a.StatusCode != want || hide != strings.Contains(a.text, "fork_source_not_found") {
						g.Errorf("fork of %s: %d %s", source, a.StatusCode, a.text)
					}
				}
				if a := g.ask("PUT", "mine/fork", "", as(boss), "Stream-Forked-From: /durable-streams/v1/stream/there"); a.StatusCode != 201 {
					g.Errorf("fork by who may: %d %s", a.StatusCode, a.text)
				}
			})
		})
	}
}

// Heads that say in more than one way, or in an odd one, who sends them.
func TestAccessHeads(t *testing.T) {
	overBoth(t, durablestreams.Options{}, func(g *guarded) {
		boss, low := g.key("boss"), g.key("low")
		g.rewrite(keyLine("boss", boss, "all:**") + keyLine("low", low, "read:a"))
		for _, tt := range []struct {
			lines string
			want  int
		}{
			{"Authorization: Bearer " + boss, 201},
			{"authorization: bearer " + boss, 200},
			{"AUTHORIZATION:BEARER   " + boss, 200},
			{"Authorization: Bearer " + boss + "\t ", 200},
			{"Authorization: Bearer " + low + "\r\nAuthorization: Bearer " + boss, 400},
			{"Authorization: Bearer " + boss + "\r\nauthorization: Bearer " + boss, 400},
			{"Authorization: Bearer " + boss + "\r\nAuthorization:", 400},
			{"Authorization: Bearer " + low + ", Bearer " + boss, 401},
			{"Authorization : Bearer " + boss, 400},
			{" Authorization: Bearer " + boss, 400},
			{"X: y\r\n Authorization: Bearer " + boss, 401}, // net/http folds it into X
			{"X-Authorization: Bearer " + boss, 401},
			{"Proxy-Authorization: Bearer " + boss, 401},
			{"Cookie: Authorization=Bearer " + boss, 401},
			{"Authorization_: Bearer " + boss, 401},
			{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+boss)), 401},
			{"Authorization:", 401},
			{"Authorization: Bearer", 401},
			{"Authorization: Bearer " + strings.Repeat("A", 30_000), 401},
			{"Authorization: Bearer " + strings.Repeat("A", 200_000), 431},
			{"Authorization: Bearer é" + boss, 401},
		} {
			a := g.ask("PUT", "odd", "", tt.lines, textType)
			if a.StatusCode != tt.want {
				g.Errorf("%.80q: %d %s, want %d", tt.lines, a.StatusCode, a.text, tt.want)
			}
		}
		// The path comes first, the rest behind.
		for _, tt := range []struct {
			method, target string
			want           int
		}{
			{"GET", "a//b", 400}, {"GET", "__ds/x", 404}, {"PATCH", "a", 405}, {"GET", "a?offset=nonsense", 401}, {"GET", "a?live=x", 401},
			{"GET", "a?offset=1&offset=2", 401}, {"POST", "a", 401},
		} {
			if a := g.ask(tt.method, tt.target, ""); a.StatusCode != tt.want {
				g.Errorf("%s %s: %d, want %d", tt.method, tt.target, a.StatusCode, tt.want)
			}
		}
		if a := g.raw("POST /durable-streams/v1/stream/none HTTP/1.1\r\nHost: x\r\n"+textType+"\r\nContent-Length: 9000000\r\nExpect: 100-continue\r\n\r\n", "POST"); a.StatusCode != 401 {
			g.Errorf("a large body: %d", a.StatusCode)
		}
	})
}

// A signed URL opens one stream for reading, and is told to nobody.
func TestSignedURLOverHTTP(t *testing.T) {
	overBoth(t, durablestreams.Options{}, func(g *guarded) {
		boss := g.key("boss")
		g.rewrite(keyLine("boss", boss, "all:**"))
		g.ask("PUT", "a%2Fb", "kept", textType, as(boss))
		param, short := g.sign("a%2Fb", time.Hour), g.sign("a%2Fb", 1500*time.Millisecond)
		g.sign("other", time.Hour)
		first := g.ask("GET", "a%2Fb?offset=-1&"+param+"&cursor=7", "")
		if first.StatusCode != 200 || first.text != "kept" || first.Header.Get("Cache-Control") != "private, max-age=60, stale-while-revalidate=300" {
			g.Errorf("%d %q %v", first.StatusCode, first.text, first.Header)
		}
		next := first.Header.Get("Stream-Next-Offset")
		if a := g.ask("GET", "a%2Fb?"+param+"&offset="+next, ""); a.StatusCode != 200 || a.text != "" {
			g.Errorf("reading on: %d %q", a.StatusCode, a.text)
		}
		if a := g.ask("GET", "a%2Fb?offset=-1&"+param, "", "If-None-Match: "+first.Header.Get("ETag")); a.StatusCode != 304 {
			g.Errorf("304: %d", a.StatusCode)
		}
		if a := g.ask("HEAD", "a%2Fb?"+param, ""); a.StatusCode != 200 {
			g.Errorf("HEAD: %d", a.StatusCode)
		}
		for _, tt := range []struct {
			method, target string
			want           int
			lines          []string
		}{
			{"GET", "a%2fb?" + param, 401, nil}, {"GET", "other?" + param, 401, nil}, {"GET", "a%2Fb?" + param + "x", 401, nil},
			{"GET", "a%2Fb?" + param + "&" + param, 400, nil}, {"GET", "a%2Fb?" + param, 400, []string{as(boss)}},
			{"DELETE", "a%2Fb?" + param, 403, nil}, {"POST", "a%2Fb?" + param, 403, []string{textType}}, {"PUT", "a%2Fb?" + param, 403, []string{textType}},
			{"PUT", "fork?" + param, 401, []string{"Stream-Forked-From: /durable-streams/v1/stream/a%2Fb"}}, {"GET", "__ds/subscriptions/s?" + param, 401, nil},
		} {
			if a := g.ask(tt.method, tt.target, "", tt.lines...); a.StatusCode != tt.want {
				g.Errorf("%s %s %v: %d %s, want %d", tt.method, tt.target, tt.lines, a.StatusCode, a.text, tt.want)
			}
		}
		// A reader is sent away when its time is over, and not let in again.
		for _, live := range []string{"sse", "long-poll"} {
			target := "a%2Fb?offset=" + next + "&live=" + live + "&"
			a := g.ask("GET", target+short, "")
			switch {
			case a.StatusCode == 401: // its second was over already
			case live == "sse" && (a.StatusCode != 200 || !strings.HasSuffix(a.text, "\n\n") || strings.Count(a.text, "event: control") == 0 ||
				a.Header.Get("Cache-Control") != "private, no-cache, no-transform"):
				g.Errorf("SSE: %d %q %v", a.StatusCode, a.text, a.Header)
			case live == "long-poll" && (a.StatusCode != 204 || a.Header.Get("Stream-Next-Offset") != next):
				g.Errorf("long-poll: %d %v", a.StatusCode, a.Header)
			}
			if a := g.ask("GET", target+short, ""); live == "long-poll" && a.StatusCode != 401 {
				g.Errorf("%s again: %d", live, a.StatusCode)
			}
		}
		// Where a stream was made, nobody learns how.
		if a := g.ask("PUT", "b?"+param, "", as(boss)); a.StatusCode != 400 {
			g.Errorf("two credentials: %d", a.StatusCode)
		}
		if a := g.ask("PUT", "b?x=y", "", as(boss)); !strings.HasSuffix(a.Header.Get("Location"), "/stream/b") {
			g.Errorf("Location %q", a.Header.Get("Location"))
		}
	})
}

// What everybody may read may be kept by everybody; nothing else.
func TestAccessAndCaches(t *testing.T) {
	overBoth(t, durablestreams.Options{AllowedOrigins: []string{"https://a.example"}}, func(g *guarded) {
		boss := g.key("boss")
		g.rewrite(keyLine("boss", boss, "all:**") + "anonymous read:public/*\n")
		for path, want := range map[string]string{"public/x": "public", "mine": "private"} {
			g.ask("PUT", path, "kept", textType, "Stream-Closed: true", as(boss))
			for _, query := range []string{"", "?offset=-1&live=long-poll"} {
				a := g.ask("GET", path+query, "", as(boss), "Origin: https://a.example")
				if got, _, _ := strings.Cut(a.Header.Get("Cache-Control"), ","); got != want || a.Header.Get("Vary") != "Origin, Authorization" ||
					a.Header.Get("Access-Control-Allow-Origin") != "https://a.example" {
					g.Errorf("%s%s: %v", path, query, a.Header)
				}
			}
			if a := g.ask("GET", path+"?offset=-1&live=sse", "", as(boss)); (want == "private") != strings.HasPrefix(a.Header.Get("Cache-Control"), "private") {
				g.Errorf("%s, SSE: %v", path, a.Header)
			}
		}
	})
}

// Subscriptions need a right of their own, and what they tell of must be readable; the
// holder of a wake needs nothing but its token.
func TestAccessToSubscriptions(t *testing.T) {
	overBoth(t, durablestreams.Options{}, func(g *guarded) {
		boss, team, worker := g.key("boss"), g.key("team"), g.key("worker")
		g.rewrite(keyLine("boss", boss, "all:**") + keyLine("team", team, "subscribe:team/** read,append,create:team/**") + keyLine("worker", worker, "subscribe:team/s read:public"))
		pull := func(config string) string { return `{"type":"pull-wake",` + config + `}` }
		g.ask("PUT", "team/wake", "", "Content-Type: application/json", as(boss))
		g.ask("PUT", "team/x", "", textType, as(boss))
		for _, tt := range []struct {
			method, target, body, key string
			want                      int
		}{
			{"GET", "__ds/jwks.json", "", "", 200},
			{"PUT", "__ds/subscriptions/team%2Fs", pull(`"pattern":"team/x","wake_stream":"team/wake"`), "", 401},
			{"PUT", "__ds/subscriptions/team%2Fs", pull(`"pattern":"team/x","wake_stream":"team/wake"`), "dsk_none", 401},
			{"PUT", "__ds/subscriptions/s", pull(`"pattern":"team/x","wake_stream":"team/wake"`), team, 403},
			{"PUT", "__ds/subscriptions/team%2Fs", pull(`"pattern":"**","wake_stream":"team/wake"`), team, 403},
			{"PUT", "__ds/subscriptions/team%2Fs", pull(`"streams":["team/x","other"],"wake_stream":"team/wake"`), team, 403},
			{"PUT", "__ds/subscriptions/team%2Fs", pull(`"streams":["team/x"],"wake_stream":"other"`), team, 403},
			{"PUT", "__ds/subscriptions/team%2Fs", pull(`"streams":["team/x"],"wake_stream":"team/wake"`), worker, 403},
			{"PUT", "__ds/subscriptions/team%2Fs", pull(`"streams":["//"],"wake_stream":"team/wake"`), team, 400},
			{"PUT", "__ds/subscriptions/team%2Fs", pull(`"pattern":"team/x","streams":["/team/x"],"wake_stream":"/team/wake/"`), team, 201},
			{"PUT", "__ds/subscriptions/te%61m%2Fs", pull(`"pattern":"team/x","streams":["/team/x"],"wake_stream":"/team/wake/"`), team, 200},
			{"PATCH", "__ds/subscriptions/team%2Fs", "", "", 405},
			{"GET", "__ds/subscriptions/team%2Fs", "", "", 401},
			{"GET", "__ds/subscriptions/none", "", "", 401},
			{"GET", "__ds/subscriptions/none", "", team, 403},
			{"GET", "__ds/subscriptions/team%2Fs", "", team, 200},
			{"GET", "__ds/subscriptions/team%2Fs", "", worker, 200},
			{"GET", "__ds/subscriptions/team%2Fnone", "", worker, 403},
			{"POST", "__ds/subscriptions/team%2Fs/streams", `{"streams":["other"]}`, team, 403},
			{"POST", "__ds/subscriptions/team%2Fs/streams", `{"streams":["team/y"]}`, "", 401},
			{"POST", "__ds/subscriptions/team%2Fs/streams", `{"streams":["team/y"]}`, worker, 403},
			{"POST", "__ds/subscriptions/team%2Fs/streams", `{"streams":["team/y"]}`, team, 204},
			{"DELETE", "__ds/subscriptions/team%2Fs/streams/team/y", "", "", 401},
			{"DELETE", "__ds/subscriptions/team%2Fs/streams/team/y", "", team, 204},
			{"POST", "__ds/subscriptions/team%2Fs/claim", `{"worker":"w"}`, "", 401},
			{"POST", "__ds/subscriptions/team%2Fs/claim", `{"worker":"w"}`, boss, 409}, // no work
			{"POST", "__ds/subscriptions/team%2Fs/ack", `{}`, "", 401},
			{"POST", "__ds/subscriptions/team%2Fs/ack", `{}`, "x.y", 401},
			{"POST", "__ds/subscriptions/none/ack", `{}`, "x.y", 401},
			{"POST", "__ds/subscriptions/none/callback", `{}`, "x.y", 401},
			{"POST", "__ds/subscriptions/none/release", `{}`, boss, 401},
			{"DELETE", "__ds/subscriptions/none", "", "", 401},
		} {
			var lines []string
			if tt.key != "" {
				lines = append(lines, as(tt.key))
			}
			if a := g.ask(tt.method, tt.target, tt.body, lines...); a.StatusCode != tt.want {
				g.Errorf("%s %s %s by %q: %d %s, want %d", tt.method, tt.target, tt.body, tt.key, a.StatusCode, a.text, tt.want)
			}
		}
		g.ask("POST", "team/x", "work", textType, as(team))
		a := g.ask("POST", "__ds/subscriptions/team%2Fs/claim", `{"worker":"w"}`, as(worker))
		var wake struct {
			WakeID     string `json:"wake_id"`
			Generation int
			Token      string
			Streams    []struct {
				Path string
				Tail string `json:"tail_offset"`
			}
		}
		if err := json.Unmarshal([]byte(a.text), &wake); err != nil || a.StatusCode != 200 || len(wake.Streams) != 1 {
			g.Fatalf("claim: %d %s", a.StatusCode, a.text)
		}
		done := fmt.Sprintf(`{"wake_id":%q,"generation":%d,"acks":[{"stream":%q,"offset":%q}],"done":true}`, wake.WakeID, wake.Generation, wake.Streams[0].Path, wake.Streams[0].Tail)
		for token, want := range map[string]int{boss: 401, wake.Token: 200} {
			if a := g.ask("POST", "__ds/subscriptions/team%2Fs/ack", done, as(token)); a.StatusCode != want {
				g.Errorf("ack by %q: %d %s", token, a.StatusCode, a.text)
			}
		}
		if a := g.ask("GET", "team/x", "", as(wake.Token)); a.StatusCode != 401 {
			g.Errorf("the token of a wake reads streams: %d", a.StatusCode)
		}
	})
}

// A connection's requests are each looked at, and a change of the rights counts from
// the next one on.
func TestAccessChangesOnOneConnection(t *testing.T) {
	overBoth(t, durablestreams.Options{}, func(g *guarded) {
		key := g.key("k")
		g.rewrite(keyLine("k", key, "all:**"))
		g.ask("PUT", "a", "kept", textType, as(key))
		token := g.token("read:a", time.Now().Add(time.Hour))
		c, err := net.Dial("tcp", g.host)
		if err != nil {
			g.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		in := bufio.NewReader(c)
		get := func(who string) int {
			fmt.Fprintf(c, "GET /durable-streams/v1/stream/a HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", who)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				g.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			return res.StatusCode
		}
		var got []int
		for _, who := range []string{as(key), as(key), "X: y", as(token), as(token), as(key)} {
			got = append(got, get(who))
		}
		g.rewrite(keyLine("k", key, "read:b"))
		got = append(got, get(as(key)))
		g.rewrite("")
		got = append(got, get(as(key)), get(as(token)))
		if want := "[200 200 401 200 200 200 403 401 200]"; fmt.Sprint(got) != want {
			g.Errorf("%v, want %s", got, want)
		}
	})
}

// The server's own question, for what is beside the protocol.
func TestAuthorize(t *testing.T) {
	overBoth(t, durablestreams.Options{}, func(g *guarded) {
		boss, low := g.key("boss"), g.key("low")
		g.rewrite(keyLine("boss", boss, "admin:**") + keyLine("low", low, "admin:a/** admin:*"))
		for _, tt := range []struct {
			who  []string
			path stream.Path
			want error
		}{
			{[]string{"Bearer " + boss}, "", nil}, {[]string{"Bearer " + boss}, "a/b", nil}, {[]string{"Bearer " + low}, "a/b", nil},
			{[]string{"Bearer " + low}, "", stream.Forbidden}, {[]string{"Bearer " + low}, "b/c", stream.Forbidden}, {nil, "a/b", stream.Unauthenticated},
			{[]string{"Bearer x"}, "", stream.InvalidToken}, {[]string{"Bearer " + boss, "Bearer " + boss}, "", stream.InvalidHeader},
		} {
			err := g.s.Authorize(http.Header{"Authorization": tt.who}, stream.MayAdmin, tt.path)
			if tt.want == nil && err != nil || tt.want != nil && (err == nil || !strings.HasPrefix(err.Error(), string(tt.want.(stream.Kind)))) {
				g.Errorf("%q on %q: %v, want %v", tt.who, tt.path, err, tt.want)
			}
		}
	})
	s := open(t, "", &durablestreams.Options{InMemory: true})
	if err := s.Authorize(nil, stream.MayAdmin, ""); err != nil {
		t.Errorf("without access control: %v", err)
	}
	if _, err := s.SignURL("a", time.Minute); err == nil {
		t.Error("a URL is signed that nobody would look at")
	}
	if err := s.ReloadAccess(); err != nil {
		t.Error(err)
	}
}

// The key for signed URLs stays the same over restarts and is the owner's alone.
func TestURLKeyInDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "access")
	if err := os.WriteFile(file, []byte("anonymous read:public\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := durablestreams.SignURL(dir, "a", time.Minute); err == nil {
		t.Error("signed by no key")
	}
	opts := &durablestreams.Options{Access: &auth.Options{File: file}}
	s := open(t, dir, opts)
	param, err := durablestreams.SignURL(dir, "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	get := func(want int) {
		t.Helper()
		if got, text := do(s.Handler(), "GET", streamA+"?"+param, nil); got != want {
			t.Errorf("%d %s, want %d", got, text, want)
		}
	}
	get(404) // and not 401
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(dir, "keys", "urls")
	if info, err := os.Stat(keyFile); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if list, err := os.ReadDir(filepath.Join(dir, "keys")); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	s = open(t, dir, opts)
	get(404)
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	if err := s.ReloadAccess(); err != nil {
		t.Fatal(err)
	}
	get(401)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keyFile, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := durablestreams.Open(dir, opts); err == nil || strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a damaged key: %v", err)
	}
}
