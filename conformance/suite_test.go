package conformance_test

import (
	"net/url"
	"os"
	"testing"
	"time"

	"durablestreams/conformance"
)

// pollTimeout is long enough for tests to meet a waiting long-poll and short
// enough to wait for its end.
const pollTimeout = 3 * time.Second

// TestServer runs the suite of this package against the real binary, which is
// itself built with the race detector when the test is.
func TestServer(t *testing.T) {
	for _, setup := range setups(t) {
		t.Run(setup.name, func(t *testing.T) {
			s := startServer(t, buildServer(t, raceEnabled), append(setup.args, "--long-poll-timeout", pollTimeout.String(), "--webhook-allow-local")...)
			conformance.Run(t, conformance.Options{
				BaseURL:         s.origin(),
				StreamPath:      s.streams.Path,
				LongPollTimeout: pollTimeout,
				Subscriptions:   true,
				Long:            os.Getenv("DS_LONG") != "",
			})
		})
	}
}

// TestAllowedOrigins runs the browser part against a server with an allow-list.
func TestAllowedOrigins(t *testing.T) {
	s := startServer(t, buildServer(t, raceEnabled), "--in-memory", "--cors-origins", "https://a.example,https://b.example")
	conformance.Run(t, conformance.Options{
		BaseURL:        s.origin(),
		StreamPath:     s.streams.Path,
		AllowedOrigins: []string{"https://a.example", "https://b.example"},
		Topics:         []string{"browser"},
	})
}

// TestAnyServer runs the suite against the server whose stream URL is in
// DS_CONFORMANCE_URL, for instance http://127.0.0.1:8642/durable-streams/v1/stream.
// DS_CONFORMANCE_POLL is that server's long-poll timeout, such as 3s. With
// DS_CONFORMANCE_LOOSE=1 errors only need the right status, for other servers; with
// DS_CONFORMANCE_SUBSCRIPTIONS=1 it has to call webhooks on this machine.
func TestAnyServer(t *testing.T) {
	target := os.Getenv("DS_CONFORMANCE_URL")
	if target == "" {
		t.Skip("DS_CONFORMANCE_URL is not set")
	}
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	o := conformance.Options{
		BaseURL:     u.Scheme + "://" + u.Host,
		StreamPath:  u.Path,
		LooseErrors: os.Getenv("DS_CONFORMANCE_LOOSE") != "",

		Subscriptions: os.Getenv("DS_CONFORMANCE_SUBSCRIPTIONS") != "",
		Long:          os.Getenv("DS_LONG") != "",
	}
	if poll := os.Getenv("DS_CONFORMANCE_POLL"); poll != "" {
		if o.LongPollTimeout, err = time.ParseDuration(poll); err != nil {
			t.Fatal(err)
		}
	}
	conformance.Run(t, o)
}
