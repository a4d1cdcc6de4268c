package conformance_test

import (
	"context"
	"encoding/json"
	"net"
	"os/exec"
	"testing"
	"time"

	"durablestreams/internal/dstest/certs"
	"durablestreams/internal/dstest/node"
	"durablestreams/internal/dstest/relay"
)

// TestNodeHTTP2 has a client of Node.js hold 50 live reads on one connection, over TLS
// and in the clear, and append on that too: each reader gets each message once.
func TestNodeHTTP2(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("node is not installed: the tests need Node.js 20 or newer")
	}
	binary := buildServer(t, false)
	pair := certs.Write(t, t.TempDir(), "ds")
	for _, tt := range []struct {
		name, scheme string
		args, env    []string
	}{
		{"h2c", "http", []string{"--in-memory"}, nil},
		{"TLS", "https", []string{"--in-memory", "--tls-cert", pair.Cert, "--tls-key", pair.Key}, []string{"DS_CA=" + pair.Cert}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, binary, append(tt.args, "--long-poll-timeout", pollTimeout.String())...)
			way := relay.To(t, s.streams.Host)
			_, port, err := net.SplitHostPort(way.Addr)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			const streams, rounds = 50, 5
			out, err := node.Run(ctx, ".", append(tt.env, "DS_ORIGIN="+tt.scheme+"://localhost:"+port, "DS_STREAM="+s.streams.Path+"/node",
				"STREAMS=50", "ROUNDS=5"), "node", "http2client.mjs")
			if err != nil {
				t.Fatalf("the client: %v\n%s", err, out)
			}
			var said struct {
				Wrong, Closed int
				Statuses      map[string]int
				Example       []string
			}
			if err := json.Unmarshal([]byte(out), &said); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for status := range said.Statuses {
				if status != "200" && status != "204" {
					t.Errorf("a live read is answered %s", status)
				}
			}
			if said.Wrong != 0 || said.Closed != 204 || said.Statuses["200"] != streams/2*rounds+streams/2 {
				t.Errorf("%+v", said)
			}
			if n := way.Taken(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}
