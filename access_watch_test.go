package durablestreams_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/auth"
)

// follower is a live read that is open.
type follower struct {
	*testing.T
	conn net.Conn
	in   *bufio.Reader
	res  *http.Response // nil for a long-poll that waits
	text []byte
}

// follow opens a live read of the stream "a" at its end. An SSE answer has begun when it returns.
func (g *guarded) follow(kind, query string, lines ...string) *follower {
	g.Helper()
	c, err := net.Dial("tcp", g.host)
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	f := &follower{T: g.T, conn: c, in: bufio.NewReader(c)}
	waiting := g.live()
	fmt.Fprintf(c, "GET /durable-streams/v1/stream/a?offset=now&live=%s%s HTTP/1.1\r\nHost: x\r\n%s\r\n", kind, query, strings.Join(append(lines, ""), "\r\n"))
	if kind == "sse" {
		f.head()
		if f.res.StatusCode != 200 {
			g.Fatalf("follow: %d", f.res.StatusCode)
		}
		f.until("upToDate")
	}
	for range 200 {
		if g.live() > waiting {
			return f
		}
		<-time.After(10 * time.Millisecond)
	}
	g.Fatal("no live read waits")
	return nil
}

// live is how many live reads wait.
func (g *guarded) live() int64 { return durablestreams.LiveReaders(g.s) }

func (f *follower) head() {
	f.Helper()
	var err error
	if f.res, err = http.ReadResponse(f.in, nil); err != nil {
		f.Fatal(err)
	}
}

// until reads an SSE answer until it has a text.
func (f *follower) until(text string) {
	f.Helper()
	piece := make([]byte, 4096)
	for !strings.Contains(string(f.text), text) {
		n, err := f.res.Body.Read(piece)
		f.text = append(f.text, piece[:n]...)
		if err != nil {
			f.Fatalf("%v before %q: %s", err, text, f.text)
		}
	}
}

// rest reads to the end of the answer.
func (f *follower) rest() string {
	f.Helper()
	if f.res == nil {
		f.head()
	}
	more, err := io.ReadAll(f.res.Body)
	if err != nil {
		f.Fatalf("the answer is cut: %v, after %q", err, append(f.text, more...))
	}
	return string(append(f.text, more...))
}

// A live read ends when what opened it does not count any more, cleanly and without a
// byte more of the stream, and no other does. The file is followed by itself.
func TestLiveReadsEndWithTheirKey(t *testing.T) {
	overBoth(t, durablestreams.Options{}, func(g *guarded) {
		boss, one, other := g.key("boss"), g.key("one"), g.key("other")
		always := keyLine("boss", boss, "all:**") + keyLine("other", other, "read:a")
		good := always + keyLine("one", one, "read:a")
		tests := []struct {
			name          string
			before, after string
			who, query    string
			poll          int // status that a long-poll gets
			then          int // and a read afterwards
		}{
			{"the key is taken out", good, always, as(one), "", 401, 401},
			{"its right is narrowed", good, always + keyLine("one", one, "read:b append:a"), as(one), "", 403, 403},
			{"its pattern is narrowed", always + keyLine("one", one, "read:**"), always + keyLine("one", one, "read:b/**"), as(one), "", 403, 403},
			{"it expires from now on", good, always + keyLine("one", one, "expires=2020-01-01T00:00:00Z read:a"), as(one), "", 401, 401},
			{"it expires soon", good, always + keyLine("one", one, "expires=SOON read:a"), as(one), "", 204, 401},
			{"everybody's right is taken out", always + "anonymous read:a\n", always, "X: y", "", 401, 401},
			{"everybody's right, with a key", always + keyLine("one", one, "read:b") + "anonymous read:a\n", always + keyLine("one", one, "read:b"), as(one), "", 403, 403},
		}
		for i, tt := range tests {
			g.rewrite(tt.before)
			g.ask("PUT", "a", "old", textType, as(boss))
			sse, poll, stays := g.follow("sse", tt.query, tt.who), g.follow("long-poll", tt.query, tt.who), g.follow("sse", "", as(other))
			reloads := scrape(g.T, g.s)[`ds_access_reloads_total{result="ok"}`]
			soon := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)
			if g.write(strings.Replace(tt.after, "SOON", soon, 1)); i > 1 {
				if err := g.s.ReloadAccess(); err != nil { // the first two come by the file alone
					g.Fatal(err)
				}
			}
			if got := poll.rest(); poll.res.StatusCode != tt.poll {
				g.Errorf("%s: the long-poll got %d %s, want %d", tt.name, poll.res.StatusCode, got, tt.poll)
			}
			text := sse.rest()
			if strings.Count(text, "streamNextOffset") != 2 {
				g.Errorf("%s: the SSE answer does not end with a control event: %q", tt.name, text)
			}
			if now := scrape(g.T, g.s)[`ds_access_reloads_total{result="ok"}`]; now != reloads+1 {
				g.Errorf("%s: taken %v times", tt.name, now-reloads)
			}
			// The connections go on, and tell why.
			for _, f := range []*follower{sse, poll} {
				fmt.Fprintf(f.conn, "GET /durable-streams/v1/stream/a HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", tt.who)
				f.head()
				if f.text = nil; f.res.StatusCode != tt.then {
					g.Errorf("%s: then %d %s, want %d", tt.name, f.res.StatusCode, f.rest(), tt.then)
				}
				f.conn.Close()
			}
			g.ask("POST", "a", "news", textType, as(boss))
			stays.until("news")
			stays.conn.Close()
			if a := g.ask("DELETE", "a", "", as(boss)); a.StatusCode != 204 {
				g.Errorf("%s: delete: %d", tt.name, a.StatusCode)
			}
			for g.live() > 0 {
				<-time.After(10 * time.Millisecond)
			}
		}
	})
}

// What comes into the stream after a key was taken out never reaches its reader, however
// close after.
func TestNoDataAfterTheKey(t *testing.T) {
	overBoth(t, durablestreams.Options{}, func(g *guarded) {
		boss, one := g.key("boss"), g.key("one")
		for range 20 {
			g.rewrite(keyLine("boss", boss, "all:**") + keyLine("one", one, "read:a"))
			g.ask("PUT", "a", "old", textType, as(boss))
			sse, poll := g.follow("sse", "", as(one)), g.follow("long-poll", "", as(one))
			g.rewrite(keyLine("boss", boss, "all:**"))
			g.ask("POST", "a", "secret", textType, as(boss))
			if text := sse.rest() + poll.rest(); strings.Contains(text, "secret") {
				g.Fatalf("after its key was taken out: %q", text)
			}
			g.ask("DELETE", "a", "", as(boss))
		}
	})
}

// A signed URL does not outlive the key that signed it, and a read by it neither.
func TestSignedReadEndsWithTheSigner(t *testing.T) {
	dir := t.TempDir()
	g := &guarded{T: t, seen: &lockedText{}, file: filepath.Join(t.TempDir(), "access")}
	boss := g.key("boss")
	g.write(keyLine("boss", boss, "all:**"))
	g.s = open(t, dir, &durablestreams.Options{Access: &auth.Options{File: g.file}})
	ln := listen(t)
	g.host = ln.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.s.Serve(ctx, ln) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	g.ask("PUT", "a", "old", textType, as(boss))
	sse := g.follow("sse", "&"+g.sign("a", time.Minute))
	if err := g.s.ReloadAccess(); err != nil {
		t.Fatal(err)
	}
	g.ask("POST", "a", "one", textType, as(boss))
	sse.until("one") // the key is still the same
	if err := os.Remove(filepath.Join(dir, "keys", "urls")); err != nil {
		t.Fatal(err)
	}
	if err := g.s.ReloadAccess(); err != nil {
		t.Fatal(err)
	}
	sse.rest()
}
