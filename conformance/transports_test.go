package conformance_test

import (
	"net/http"
	"testing"

	"durablestreams/conformance"
	"durablestreams/internal/dstest/certs"
)

// TestTransports runs the suite over HTTP/2 in the clear, whose connections the fast
// path hands over, and over TLS with both versions.
func TestTransports(t *testing.T) {
	pair := certs.Write(t, t.TempDir(), "ds")
	binary := buildServer(t, false) // TestServer looks for races
	args := []string{"--in-memory", "--long-poll-timeout", pollTimeout.String(), "--webhook-allow-local",
		"--access-log", "--slow-request", "1ns", "--log-level", "debug"} // see process.Secret
	clear := startServer(t, binary, args...)
	secure := startServer(t, binary, append(args, "--tls-cert", pair.Cert, "--tls-key", pair.Key)...)
	for _, tt := range []struct {
		name   string
		server *server
		set    func(*http.Protocols, bool)
	}{
		{"h2c", clear, (*http.Protocols).SetUnencryptedHTTP2},
		{"TLS, HTTP/2", secure, (*http.Protocols).SetHTTP2},
		{"TLS, HTTP/1.1", secure, (*http.Protocols).SetHTTP1},
	} {
		transport := &http.Transport{TLSClientConfig: pair.Trust.Clone(), DisableCompression: true, MaxIdleConnsPerHost: 64, Protocols: new(http.Protocols)}
		tt.set(transport.Protocols, true)
		t.Cleanup(transport.CloseIdleConnections)
		t.Run(tt.name, func(t *testing.T) {
			conformance.Run(t, conformance.Options{BaseURL: tt.server.origin(), StreamPath: tt.server.streams.Path, LongPollTimeout: pollTimeout,
				Subscriptions: true, Transport: transport, TLS: pair.Trust})
		})
	}
}
