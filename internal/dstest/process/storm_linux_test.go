package process_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// After a kill -9 all readers come back at once, with their offsets, while writers
// write. Each gets every message once, and the server does not swell.
func TestReconnectStorm(t *testing.T) {
	const readers, rounds = 600, 3
	for _, adapter := range []string{"--fast-path", "--no-fast-path"} {
		t.Run(strings.TrimPrefix(adapter, "--"), func(t *testing.T) {
			command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", filepath.Join(t.TempDir(), "data"), adapter, "--long-poll-timeout", "2s"}}
			l := newLedger("feed", false)
			w := &writer{ledger: l, name: "f", producer: true}
			var all []*follower
			for i := range readers {
				all = append(all, &follower{path: l.path, producer: "f", poll: i%4 == 0})
			}
			for round := range rounds {
				s := process.Start(t, command)
				c := process.NewClient(s.Streams)
				if round == 0 {
					if err := l.create(c); err != nil {
						t.Fatal(err)
					}
				}
				var heard atomic.Int64 // readers that have got something of this round
				work := make(chan struct{})
				go func() {
					defer close(work)
					var wg sync.WaitGroup
					for _, f := range all {
						wg.Go(func() {
							if err := f.run(&process.Client{Streams: c.Streams, HTTP: &http.Client{Transport: &first{base: c.HTTP.Transport, heard: &heard}}}); err != nil {
								t.Error(err)
							}
						})
					}
					slow := &process.Client{Streams: c.Streams, HTTP: &http.Client{Transport: slowly{c.HTTP.Transport}}}
					wg.Go(func() {
						if err := w.run(slow); err != nil {
							t.Error(err)
						}
					})
					wg.Wait()
				}()
				for begin := time.Now(); heard.Load() < readers; time.Sleep(20 * time.Millisecond) {
					if time.Since(begin) > 30*time.Second {
						t.Fatalf("%d of %d readers are back after 30 s\n%s", heard.Load(), readers, s.Stderr)
					}
				}
				time.Sleep(200 * time.Millisecond)
				t.Logf("round %d: %d MiB, %d threads", round, residentMiB(t, s.Pid()), statusOf(t, s.Pid(), "Threads:"))
				if rss := residentMiB(t, s.Pid()); rss > 150 {
					t.Errorf("%d readers that came back at once take the server to %d MiB", readers, rss)
				}
				s.Kill()
				<-work
				c.Close()
				if t.Failed() {
					t.Fatalf("round %d\n%s", round, s.Stderr)
				}
			}
			s := process.Start(t, command)
			c := process.NewClient(s.Streams)
			defer c.Close()
			if status, _ := w.send(c, w.token(w.next), w.headers()...); status != http.StatusOK && status != http.StatusNoContent {
				t.Fatalf("the last append: %d", status)
			}
			for _, f := range all {
				if err := f.finish(c, w.next+1); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d messages, each seen once by %d readers over %d kills", w.next+1, readers, rounds)
		})
	}
}

// first counts one reader, with the first good answer that it gets.
type first struct {
	base  http.RoundTripper
	heard *atomic.Int64
	once  sync.Once
}

func (f *first) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := f.base.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusOK {
		f.once.Do(func() { f.heard.Add(1) })
	}
	return res, err
}

// slowly leaves the server some time between a writer's requests.
type slowly struct{ base http.RoundTripper }

func (s slowly) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	return s.base.RoundTrip(req)
}

// Readers of a large stream that take nothing cost what an answer on its way costs,
// not what the stream holds.
func TestStuckReadersOfALargeStream(t *testing.T) {
	const readers, most = 20, 4 // MiB for each
	for _, adapter := range []string{"--fast-path", "--no-fast-path"} {
		for kind, query := range map[string]string{"catch-up": "?offset=-1", "SSE": "?offset=-1&live=sse", "long-poll": "?offset=-1&live=long-poll"} {
			t.Run(strings.TrimPrefix(adapter, "--")+"/"+kind, func(t *testing.T) {
				s := process.Start(t, process.Command{Binary: process.Build(t),
					Args: []string{"--data-dir", filepath.Join(t.TempDir(), "data"), adapter, "--page-size", "64MiB", "--tail-memory", "4MiB", "--segment-size", "1MiB", "--cache-size", "8MiB"}})
				c := process.NewClient(s.Streams)
				defer c.Close()
				text := []string{"Content-Type", "text/plain"}
				if a := c.Do(http.MethodPut, "large", "", text...); a.Status != http.StatusCreated {
					t.Fatal(a)
				}
				for range 64 {
					if a := c.Do(http.MethodPost, "large", strings.Repeat("0123456789abcde\n", 1<<16), text...); a.Status != http.StatusNoContent {
						t.Fatal(a)
					}
				}
				if a := c.ReadAll("large", "-1"); len(a.Body) != 64<<20 { // what one reader warms up stays
					t.Fatalf("%d bytes, %v", len(a.Body), a.Err)
				}
				before := residentMiB(t, s.Pid())
				for range readers {
					conn, err := smallWindow(strings.TrimPrefix(s.Streams, "http://"))
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					fmt.Fprintf(conn, "GET %s/large%s HTTP/1.1\r\nHost: x\r\n\r\n", streamsRoot, query)
					begun(t, conn)
				}
				peak := 0
				for range 20 {
					time.Sleep(50 * time.Millisecond)
					peak = max(peak, residentMiB(t, s.Pid()))
				}
				t.Logf("%d MiB before, at most %d with %d readers of 64 MiB each", before, peak, readers)
				if peak-before > readers*most {
					t.Errorf("%d stuck readers take %d MiB", readers, peak-before)
				}
			})
		}
	}
}

// begun waits for the first byte of an answer.
func begun(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}
