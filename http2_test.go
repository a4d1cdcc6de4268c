package durablestreams_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/internal/dstest/certs"
)

// version is a server and a client that speak one kind of HTTP/2.
type version struct {
	*durablestreams.Server
	addr, base string
	client     *http.Client
	stop       context.CancelFunc
	ended      chan error
}

// overHTTP2 runs a test over HTTP/2 in the clear, which the fast path hands over, and
// over TLS. The client has one connection, with a small window for each answer.
func overHTTP2(t *testing.T, opts durablestreams.Options, test func(t *testing.T, v *version)) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "h2c", true: "TLS"}[secure], func(t *testing.T) {
			opts := opts
			opts.InMemory = true
			tr := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, StrictMaxConcurrentRequests: true}}
			defer tr.CloseIdleConnections()
			scheme := "http://"
			tr.Protocols.SetUnencryptedHTTP2(!secure)
			if secure {
				pair := certs.Write(t, t.TempDir(), "ds")
				opts.TLSCert, opts.TLSKey = pair.Cert, pair.Key
				tr.TLSClientConfig, scheme = pair.Trust, "https://"
				tr.Protocols.SetHTTP2(true)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ln := listen(t)
			v := &version{Server: open(t, "", &opts), addr: ln.Addr().String(), client: &http.Client{Transport: tr}, stop: stop, ended: make(chan error, 1)}
			v.base = scheme + v.addr
			go func() { v.ended <- v.Serve(ctx, ln) }()
			test(t, v)
		})
	}
}

// do makes a request and gives the answer, whose body is closed with the test.
func (v *version) do(t *testing.T, status int, method, target, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, v.base+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != status || res.ProtoMajor != 2 {
		t.Fatalf("%s %s: %s over %s, want %d", method, target, res.Status, res.Proto, status)
	}
	return res
}

// until reads a body until a text has come.
func until(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("%v before %q", err, text)
		}
	}
}

// Live readers beyond their limit, and requests beyond that of connections, are told
// so, also when all of them come on one connection.
func TestHTTP2Limits(t *testing.T) {
	overHTTP2(t, durablestreams.Options{MaxConnections: 4, MaxLive: 2}, func(t *testing.T, v *version) {
		v.do(t, 201, "PUT", streamA, "")
		for range 2 {
			v.do(t, 200, "GET", streamA+"?offset=-1&live=sse", "")
		}
		res := v.do(t, 503, "GET", streamA+"?offset=-1&live=sse", "")
		if res.Header.Get("Retry-After") == "" {
			t.Errorf("a live reader too many: %v", res.Header)
		}
		// Two requests more, which send no body.
		for range 2 {
			pr, pw := io.Pipe()
			t.Cleanup(func() { pw.Close() })
			go v.client.Post(v.base+streamA, "text/plain", pr)
		}
		waitFor(t, func() bool { return durablestreams.StreamsUnderWay(v.Server) == 4 })
		res = v.do(t, 503, "HEAD", streamA, "")
		if res.Header.Get("Retry-After") != "1" {
			t.Errorf("a request too many: %v", res.Header)
		}
	})
}

// What ends a connection of HTTP/1.1 ends a request alone.
func TestRefusalsKeepTheConnection(t *testing.T) {
	overHTTP2(t, durablestreams.Options{MaxBody: 10, MaxLive: 1}, func(t *testing.T, v *version) {
		v.do(t, 201, "PUT", streamA, "")
		sse := bufio.NewReader(v.do(t, 200, "GET", streamA+"?offset=-1&live=sse", "").Body)
		until(t, sse, "upToDate")
		v.do(t, 413, "POST", streamA, "12345678901")
		v.do(t, 503, "GET", streamA+"?offset=-1&live=sse", "")
		again := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { again = i.Reused }})
		req, err := http.NewRequestWithContext(ctx, "HEAD", v.base+streamA, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := v.client.Do(req)
		if err != nil || res.StatusCode != 200 || !again {
			t.Errorf("after the refusals: %v, %v, the same connection: %v", res, err, again)
		}
		v.do(t, 204, "POST", streamA, "still\n")
		until(t, sse, "data:still")
	})
}

// A reader that takes nothing of its answer is dropped, and the others of its
// connection go on.
func TestHTTP2StuckReader(t *testing.T) {
	overHTTP2(t, durablestreams.Options{StallTimeout: 300 * time.Millisecond}, func(t *testing.T, v *version) {
		v.do(t, 201, "PUT", streamA, "")
		stuck := v.do(t, 200, "GET", streamA+"?offset=-1&live=sse", "")
		good := bufio.NewReader(v.do(t, 200, "GET", streamA+"?offset=-1&live=sse", "").Body)
		for i := range 8 {
			v.do(t, 204, "POST", streamA, fmt.Sprintf("%s\nmark %d!\n", strings.Repeat("x", 100_000), i))
			until(t, good, fmt.Sprintf("mark %d!", i))
		}
		waitFor(t, func() bool { return durablestreams.LiveReaders(v.Server) == 1 })
		if n, err := io.Copy(io.Discard, stuck.Body); err == nil || n > 200_000 {
			t.Errorf("the stuck reader gets %d bytes and ends with %v", n, err)
		}
		v.do(t, 204, "POST", streamA, "last!\n")
		until(t, good, "last!")
	})
}

// At the end the client is told to go elsewhere (GOAWAY), what is under way is
// answered, and live answers end properly.
func TestHTTP2Shutdown(t *testing.T) {
	overHTTP2(t, durablestreams.Options{}, func(t *testing.T, v *version) {
		v.do(t, 201, "PUT", streamA, "")
		sse := v.do(t, 200, "GET", streamA+"?offset=-1&live=sse", "")
		until(t, bufio.NewReader(sse.Body), "upToDate")
		pr, pw := io.Pipe()
		posted := make(chan error, 1)
		go func() {
			res, err := v.client.Post(v.base+streamA, "text/plain", pr)
			if err == nil && res.StatusCode != 204 {
				err = fmt.Errorf("status %d", res.StatusCode)
			}
			posted <- err
		}()
		io.WriteString(pw, "la")
		waitFor(t, func() bool { return durablestreams.StreamsUnderWay(v.Server) == 2 })
		v.stop()
		if _, err := io.Copy(io.Discard, sse.Body); err != nil {
			t.Errorf("the live answer ends with %v", err)
		}
		io.WriteString(pw, "te")
		pw.Close()
		if err := <-posted; err != nil {
			t.Errorf("the append under way: %v", err)
		}
		if err := <-v.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// Frames of RFC 9113 §6.
const (
	frameHeaders  = 0x1
	frameReset    = 0x3
	frameSettings = 0x4
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := append(make([]byte, 9), payload...)
	binary.BigEndian.PutUint32(b, uint32(len(payload))<<8)
	b[3], b[4] = kind, flags
	binary.BigEndian.PutUint32(b[5:], stream)
	return b
}

// A client that opens requests and takes them back at once (CVE-2023-44487) costs its
// own connection and nobody else's.
func TestRapidReset(t *testing.T) {
	overHTTP2(t, durablestreams.Options{}, func(t *testing.T, v *version) {
		v.do(t, 201, "PUT", streamA, "")
		nc, err := net.Dial("tcp", v.addr)
		if err != nil {
			t.Fatal(err)
		}
		if config := v.client.Transport.(*http.Transport).TLSClientConfig; config != nil {
			config = config.Clone()
			config.ServerName, config.NextProtos = "127.0.0.1", []string{"h2"}
			nc = tls.Client(nc, config)
		}
		defer nc.Close()
		heads := make(chan int, 1)
		go countFrames(nc, frameHeaders, heads)
		path := streamA + "?offset=now&live=long-poll"
		// :method GET, :scheme https, :path and :authority as literals (RFC 7541 §6).
		head := append([]byte{0x82, 0x87, 0x04, byte(len(path))}, path...)
		head = append(append(head, 0x01, 1), 'x')
		attack := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		attack = append(attack, frame(frameSettings, 0, 0, nil)...)
		const requests = 5_000
		for i := range uint32(requests) {
			attack = append(attack, frame(frameHeaders, 0x5, 2*i+1, head)...) // the whole request
			attack = append(attack, frame(frameReset, 0, 2*i+1, []byte{0, 0, 0, 8})...)
		}
		worst := make(chan int64)
		go func() {
			var most int64
			for {
				select {
				case worst <- most:
					return
				case <-time.After(time.Millisecond):
					most = max(most, durablestreams.StreamsUnderWay(v.Server))
				}
			}
		}()
		_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = nc.Write(attack)
		v.do(t, 204, "POST", streamA, "served meanwhile")
		nc.Close()
		<-heads
		waitFor(t, func() bool {
			return durablestreams.StreamsUnderWay(v.Server) == 0 && durablestreams.LiveReaders(v.Server) == 0
		})
		if most := <-worst; most > 251 {
			t.Errorf("%d requests of one connection at once", most)
		}
	})
}

// countFrames counts frames of a kind until the connection ends.
func countFrames(r io.Reader, kind byte, total chan<- int) {
	n := 0
	defer func() { total <- n }()
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
			return
		}
		if head[3] == kind {
			n++
		}
	}
}
