package webhook_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/webhook"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// pipeTo makes a sender whose connections all lead to serve, in a bubble.
func pipeTo(t *testing.T, opts *webhook.Options, serve func(conn net.Conn)) *webhook.Sender {
	opts.Policy.AllowLocal = true
	s := newSender(t, opts)
	s.SetDial(func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			serve(server)
		}()
		return client, nil
	})
	return s
}

// dribble writes a byte a second until the other end has gone.
func dribble(conn net.Conn, text string) {
	for i := 0; ; i++ {
		if _, err := conn.Write([]byte{text[i%len(text)]}); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// hang waits until the other end has gone.
func hang(conn net.Conn) { io.Copy(io.Discard, conn) }

func TestSlowReceivers(t *testing.T) {
	const local, secure = "http://127.0.0.1:1/", "https://127.0.0.1:1/"
	tests := []struct {
		name, url string
		serve     func(conn net.Conn)
		want      webhook.Outcome
		after     time.Duration
	}{
		{"no handshake", secure, hang, webhook.Outcome{Reason: "took too long"}, 5 * time.Second},
		{"a slow handshake", secure, func(c net.Conn) { go io.Copy(io.Discard, c); dribble(c, "\x16\x03\x03\x40\x00\x02") }, webhook.Outcome{Reason: "took too long"}, 5 * time.Second},
		{"does not take the request", local, func(c net.Conn) { c.Read(make([]byte, 1)); time.Sleep(time.Hour) }, webhook.Outcome{Reason: "took too long"}, 30 * time.Second},
		{"no answer", local, hang, webhook.Outcome{Reason: "took too long"}, 25 * time.Second},
		{"a slow head", local, func(c net.Conn) { readRequest(c); dribble(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", 1000)) },
			webhook.Outcome{Reason: "took too long"}, 25 * time.Second},
		{"early hints again and again", local, func(c net.Conn) { readRequest(c); dribble(c, "HTTP/1.1 103 A\r\n\r\n") }, webhook.Outcome{Reason: "took too long"}, 25 * time.Second},
		{"an answer in time", local, func(c net.Conn) {
			readRequest(c)
			time.Sleep(24 * time.Second)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n")
			time.Sleep(5 * time.Second)
			io.WriteString(c, `{"done":true}`)
		}, webhook.Outcome{OK: true, Done: true, Status: 200}, 29 * time.Second},
		{"a slow body", local, func(c net.Conn) { readRequest(c); io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); dribble(c, " ") },
			webhook.Outcome{Status: 200, Reason: "broke off: took too long"}, 30 * time.Second},
		{"no body", local, func(c net.Conn) {
			readRequest(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
			hang(c)
		}, webhook.Outcome{Status: 200, Reason: "broke off: took too long"}, 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pipeTo(t, &webhook.Options{}, tt.serve)
				begin := time.Now()
				expect(t, s.Deliver(t.Context(), tt.url, []byte(body)), tt.want)
				if took := time.Since(begin); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestSlowNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go hang(server)
			return client, nil
		}}
		s := newSender(t, &webhook.Options{Resolver: resolver})
		begin := time.Now()
		out := s.Deliver(t.Context(), "https://slow.example/", []byte(body))
		if took := time.Since(begin); out.OK || out.Reason == "" || took != 5*time.Second {
			t.Errorf("%+v after %v", out, took)
		}
		time.Sleep(time.Hour)
	})
}

func TestCancelledDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipeTo(t, &webhook.Options{PerHost: 1}, hang)
		ctx, cancel := context.WithCancel(t.Context())
		outcomes := make(chan webhook.Outcome)
		for range 3 { // one under way, two waiting
			go func() { outcomes <- s.Deliver(ctx, "http://127.0.0.1:1/", []byte(body)) }()
		}
		time.Sleep(time.Second)
		cancel()
		for range 3 {
			expect(t, <-outcomes, webhook.Outcome{Reason: "called off"})
		}
		synctest.Wait()
		if n := s.Hosts(); n != 0 {
			t.Errorf("%d hosts are remembered", n)
		}
	})
}

// Who gives up while waiting for a common place gives back the place at its host.
func TestGivingUpGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipeTo(t, &webhook.Options{PerHost: 1, Concurrent: 1}, func(conn net.Conn) {
			readRequest(conn)
			time.Sleep(20 * time.Second)
			io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		})
		deliver := func(ctx context.Context, port int) <-chan webhook.Outcome {
			out := make(chan webhook.Outcome, 1)
			go func() { out <- s.Deliver(ctx, fmt.Sprintf("http://127.0.0.1:%d/", port), []byte(body)) }()
			synctest.Wait()
			return out
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := deliver(t.Context(), 1)
		impatient := deliver(ctx, 2)
		next := deliver(t.Context(), 2)
		expect(t, <-impatient, webhook.Outcome{Reason: "took too long"})
		expect(t, <-first, webhook.Outcome{OK: true, Status: 204})
		expect(t, <-next, webhook.Outcome{OK: true, Status: 204})
	})
}

// A slow host holds up its own deliveries only, and what waits does not use up its
// time.
func TestDeliveriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int32
		s := pipeTo(t, &webhook.Options{PerHost: 2, Concurrent: 3}, func(conn net.Conn) {
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			for readRequest(conn) == nil {
				time.Sleep(20 * time.Second)
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
		begin := time.Now()
		type result struct {
			out   webhook.Outcome
			after time.Duration
		}
		results := make(chan result)
		deliver := func(port int) {
			out := s.Deliver(t.Context(), fmt.Sprintf("http://127.0.0.1:%d/", port), []byte(body))
			results <- result{out, time.Since(begin)}
		}
		for range 6 {
			go deliver(1)
		}
		synctest.Wait()
		go deliver(2)
		counts := map[time.Duration]int{}
		for range 7 {
			r := <-results
			expect(t, r.out, webhook.Outcome{OK: true, Status: 200})
			counts[r.after]++
		}
		if counts[20*time.Second] != 3 || counts[40*time.Second] != 2 || counts[60*time.Second] != 2 {
			t.Errorf("deliveries ended after %v", counts)
		}
		if most.Load() > 3 {
			t.Errorf("%d connections were open at once", most.Load())
		}
		if n := s.Hosts(); n != 0 {
			t.Errorf("%d hosts are remembered", n)
		}
	})
}

// The bound on all deliveries holds over hosts, too.
func TestAllDeliveriesTogetherAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipeTo(t, &webhook.Options{PerHost: 2, Concurrent: 3}, func(conn net.Conn) {
			readRequest(conn)
			time.Sleep(20 * time.Second)
			io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		})
		begin := time.Now()
		ends := make(chan time.Duration)
		for port := range 7 {
			go func() {
				expect(t, s.Deliver(t.Context(), fmt.Sprintf("http://127.0.0.1:%d/", port+1), []byte(body)), webhook.Outcome{OK: true, Status: 204})
				ends <- time.Since(begin)
			}()
		}
		counts := map[time.Duration]int{}
		for range 7 {
			counts[<-ends]++
		}
		if counts[20*time.Second] != 3 || counts[40*time.Second] != 3 || counts[60*time.Second] != 1 {
			t.Errorf("deliveries ended after %v", counts)
		}
	})
}

// A kept connection is closed when nobody has used it for a while.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		s := pipeTo(t, &webhook.Options{}, func(conn net.Conn) {
			for readRequest(conn) == nil {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
			ended <- time.Now()
		})
		begin := time.Now()
		expect(t, s.Deliver(t.Context(), "http://127.0.0.1:1/", []byte(body)), webhook.Outcome{OK: true, Status: 200})
		if took := (<-ended).Sub(begin); took != 90*time.Second {
			t.Errorf("the connection was kept for %v", took)
		}
	})
}
