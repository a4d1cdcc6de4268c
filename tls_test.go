package durablestreams_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/internal/dstest/certs"
)

// serveTLS serves on a free port.
func serveTLS(t *testing.T, opts *durablestreams.Options) (s *durablestreams.Server, address string) {
	t.Helper()
	opts.InMemory = true
	s = open(t, "", opts)
	ln := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context(), ln) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, ln.Addr().String()
}

// handshake gives the name in the certificate that a new connection is shown.
func handshake(t *testing.T, address string) string {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestCertificateFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	var log syncBuffer
	pair := certs.Write(t, dir, "one")
	s, address := serveTLS(t, &durablestreams.Options{TLSCert: pair.Cert, TLSKey: pair.Key, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	at := time.Now()
	changed := func(files ...string) { // however coarse the file system's clock is
		t.Helper()
		for _, file := range files {
			at = at.Add(time.Second)
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	shows := func(want string) {
		t.Helper()
		for range 3 {
			durablestreams.CheckCertificate(s)
			if got := handshake(t, address); got != want {
				t.Errorf("the certificate is that of %s, want %s", got, want)
			}
		}
	}
	shows("one")
	certs.Write(t, dir, "two")
	changed(pair.Cert, pair.Key)
	if got := handshake(t, address); got != "one" {
		t.Errorf("the files are read with every handshake: %s", got)
	}
	shows("two")

	// Half of a new pair, and half of none at all, leave the old one in use.
	key, err := os.ReadFile(pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	certs.Write(t, dir, "three")
	newKey, err := os.ReadFile(pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pair.Key, key, 0o600); err != nil {
		t.Fatal(err)
	}
	changed(pair.Cert, pair.Key)
	shows("two")
	if n := strings.Count(log.String(), "does not load"); n != 1 {
		t.Errorf("half a pair is told %d times: %s", n, log.String())
	}
	if err := os.Remove(pair.Key); err != nil {
		t.Fatal(err)
	}
	shows("two")
	if err := os.WriteFile(pair.Key, newKey, 0o600); err != nil {
		t.Fatal(err)
	}
	changed(pair.Key)
	shows("three")
	if l := log.String(); strings.Count(l, "certificate replaced") != 2 || strings.Contains(l, "PRIVATE") {
		t.Errorf("log: %s", l)
	}
}

func TestBadCertificate(t *testing.T) {
	dir := t.TempDir()
	pair := certs.Write(t, dir, "one")
	for _, opts := range []durablestreams.Options{
		{TLSCert: pair.Cert}, {TLSKey: pair.Key}, {TLSCert: pair.Key, TLSKey: pair.Cert}, {TLSCert: dir + "/none", TLSKey: pair.Key},
	} {
		opts.InMemory = true
		if s, err := durablestreams.Open("", &opts); err == nil {
			t.Errorf("%+v opens", opts)
			_ = s.Shutdown(t.Context())
		}
	}
}

// Who speaks HTTP to a port with TLS is told.
func TestPlainRequestOnTLSPort(t *testing.T) {
	pair := certs.Write(t, t.TempDir(), "ds")
	_, address := serveTLS(t, &durablestreams.Options{TLSCert: pair.Cert, TLSKey: pair.Key})
	res, err := http.Get("http://" + address + streamA)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "HTTPS") {
		t.Errorf("%s %s %v", res.Status, body, err)
	}
}

// Connections beyond the limit get their answer within TLS.
func TestConnectionLimitWithTLS(t *testing.T) {
	pair := certs.Write(t, t.TempDir(), "ds")
	_, address := serveTLS(t, &durablestreams.Options{TLSCert: pair.Cert, TLSKey: pair.Key, MaxConnections: 1})
	first, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: pair.Trust, DisableKeepAlives: true, ForceAttemptHTTP2: true}, Timeout: 20 * time.Second}
	waitFor(t, func() bool {
		res, err := client.Get("https://" + address + streamA)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusNotFound {
			return false // the first connection has not been taken yet
		}
		if res.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("status %s", res.Status)
		}
		checkRefusal(t, res.Header)
		return true
	})
	first.Close()
	waitFor(t, func() bool {
		res, err := client.Get("https://" + address + streamA)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusNotFound
	})
}

// syncBuffer is a log that several goroutines write and the test reads.
type syncBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
