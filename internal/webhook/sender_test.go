package webhook_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams/internal/webhook"
)

const body = `{"subscription_id":"s","callback_token":"hunter2"}`

// receiver is an HTTPS server on the loopback.
type receiver struct {
	*httptest.Server
	addr     string
	accepted atomic.Int32
}

func newReceiver(t *testing.T, handler http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{Server: httptest.NewUnstartedServer(handler)}
	r.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			r.accepted.Add(1)
		}
	}
	r.Config.ErrorLog = quiet()
	r.StartTLS()
	t.Cleanup(r.Close)
	r.addr = r.Listener.Addr().String()
	return r
}

func (r *receiver) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(r.Certificate())
	return pool
}

func (r *receiver) port() string {
	_, port, _ := net.SplitHostPort(r.addr)
	return port
}

func newSender(t *testing.T, opts *webhook.Options) *webhook.Sender {
	t.Helper()
	s := webhook.NewSender(openKeys(t, newDisk(t)), opts)
	t.Cleanup(s.Close)
	return s
}

// rawReceiver writes what it is told to every request on every connection and closes.
func rawReceiver(t *testing.T, cert *receiver, write func(w io.Writer)) (url string, requests *atomic.Int32) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: cert.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	requests = new(atomic.Int32)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				if err := readRequest(conn); err != nil {
					return
				}
				requests.Add(1)
				write(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		group.Wait()
	})
	return "https://" + listener.Addr().String() + "/hook?key=hunter2", requests
}

// readRequest reads exactly the head and the body of a request.
func readRequest(conn net.Conn) error {
	buf := make([]byte, 0, 4096)
	for {
		n, err := conn.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
		if head, rest, ok := bytes.Cut(buf, []byte("\r\n\r\n")); ok && len(head) > 0 && len(rest) >= len(body) {
			return nil
		}
	}
}

func TestDelivery(t *testing.T) {
	type request struct {
		*http.Request
		body []byte
	}
	got := make(chan request, 2)
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		all, _ := io.ReadAll(req.Body)
		got <- request{req, all}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		fmt.Fprint(w, `{"done":true}`)
	})
	keys := openKeys(t, newDisk(t))
	s := webhook.NewSender(keys, &webhook.Options{Policy: webhook.Policy{AllowLocal: true}, RootCAs: r.pool()})
	defer s.Close()
	for range 2 {
		before := time.Now().Unix()
		if out := s.Deliver(t.Context(), r.URL+"/hook%2F?a=b", []byte(body)); out != (webhook.Outcome{OK: true, Done: true, Status: 200}) {
			t.Fatalf("%+v", out)
		}
		req := <-got
		_, set := jwks(t, keys, time.Now())
		header := req.Header.Get("Webhook-Signature")
		if !verifies(t, header, req.body, set) {
			t.Errorf("the signature %q does not verify", header)
		}
		if at, _ := strconv.ParseInt(headerForm.FindStringSubmatch(header)[1], 10, 64); at < before || at > time.Now().Unix() {
			t.Errorf("signed at %d, sent at %d", at, before)
		}
		if string(req.body) != body || req.Method != "POST" || req.RequestURI != "/hook%2F?a=b" || req.ContentLength != int64(len(body)) || req.ProtoMajor != 1 {
			t.Errorf("the request is %s %s %s with %q", req.Method, req.RequestURI, req.Proto, req.body)
		}
		want := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"durable-streams"}, "Webhook-Signature": {header}, "Content-Length": {strconv.Itoa(len(body))}}
		if fmt.Sprint(req.Header) != fmt.Sprint(want) {
			t.Errorf("the headers are %v", req.Header)
		}
	}
	if n := r.accepted.Load(); n != 1 {
		t.Errorf("two deliveries took %d connections", n)
	}
}

func TestAnswers(t *testing.T) {
	answer := func(head, body string) string {
		return "HTTP/1.1 " + head + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	const done = `{"done":true}`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, done+strings.Repeat(" ", 10<<20))
	z.Close()
	ok := webhook.Outcome{OK: true, Status: 200}
	isDone := webhook.Outcome{OK: true, Done: true, Status: 200}
	tests := []struct {
		name, raw string
		want      webhook.Outcome // Reason: what it must contain
	}{
		{"done", answer("200 OK", done), isDone},
		{"done, with white space and more", answer("200 OK", " {\r\n\"a\": [1], \"done\" : true } \n"), isDone},
		{"done, 201", answer("201 Created", done), webhook.Outcome{OK: true, Done: true, Status: 201}},
		{"done, chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{\"done\r\n7\r\n\":true}\r\n0\r\n\r\n", isDone},
		{"done, until the end", "HTTP/1.1 200 OK\r\n\r\n" + done, isDone},
		{"done after early hints", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer("200 OK", done), isDone},
		{"done in the last possible byte", answer("200 OK", done+strings.Repeat(" ", 64<<10-len(done))), isDone},
		{"done in a longer answer", answer("200 OK", done+strings.Repeat(" ", 64<<10-len(done)+1)), ok},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", webhook.Outcome{OK: true, Status: 204}},
		{"empty", answer("200 OK", ""), ok},
		{"no JSON", answer("200 OK", "OK"), ok},
		{"other spelling", answer("200 OK", `{"Done":true}`), ok},
		{"a text", answer("200 OK", `{"done":"true"}`), ok},
		{"a number", answer("200 OK", `{"done":1}`), ok},
		{"false", answer("200 OK", `{"done":false}`), ok},
		{"taken back", answer("200 OK", `{"done":true,"done":false}`), ok},
		{"an array", answer("200 OK", `[{"done":true}]`), ok},
		{"deeper", answer("200 OK", `{"result":{"done":true}}`), ok},
		{"two values", answer("200 OK", done+done), ok},
		{"null", answer("200 OK", "null"), ok},
		{"deep nesting", answer("200 OK", `{"done":true,"a":`+strings.Repeat("[", 60<<10)), ok},
		{"gzip bomb", answer("200 OK\r\nContent-Encoding: gzip", packed.String()), ok},

		{"continue for ever", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10000), webhook.Outcome{Reason: "proper HTTP"}},
		{"switching protocols", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", webhook.Outcome{Status: 101, Reason: "answered 101"}},
		{"moved", answer("302 Found\r\nLocation: https://10.0.0.1/", done), webhook.Outcome{Status: 302, Reason: "redirects are not followed"}},
		{"keeps the method", answer("307 Temporary Redirect\r\nLocation: /elsewhere", done), webhook.Outcome{Status: 307, Reason: "redirects are not followed"}},
		{"no location", answer("308 Permanent Redirect", done), webhook.Outcome{Status: 308, Reason: "redirects are not followed"}},
		{"not modified", "HTTP/1.1 304 Not Modified\r\n\r\n", webhook.Outcome{Status: 304, Reason: "answered 304"}},
		{"bad request", answer("400 hunter2", done), webhook.Outcome{Status: 400, Reason: "answered 400"}},
		{"wants a password", answer("401 Unauthorized\r\nWWW-Authenticate: Basic", done), webhook.Outcome{Status: 401, Reason: "answered 401"}},
		{"gone", answer("410 Gone", done), webhook.Outcome{Status: 410, Reason: "answered 410"}},
		{"too many", answer("429 Too Many Requests\r\nRetry-After: 1", done), webhook.Outcome{Status: 429, Reason: "answered 429"}},
		{"failed", answer("500 Internal Server Error", done), webhook.Outcome{Status: 500, Reason: "answered 500"}},
		{"no such status", answer("600 Odd", done), webhook.Outcome{Status: 600, Reason: "answered 600"}},

		{"closes at once", "", webhook.Outcome{Reason: "closed too early"}},
		{"closes in the head", "HTTP/1.1 200 OK\r\nContent-", webhook.Outcome{Reason: "the connection"}},
		{"closes in the body", "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n" + done, webhook.Outcome{Status: 200, Reason: "broke off: the connection was closed too early"}},
		{"closes in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + done, webhook.Outcome{Status: 200, Reason: "broke off"}},
		{"closes before the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + done + "\r\n", webhook.Outcome{Status: 200, Reason: "broke off"}},
		{"broken chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhunter2\r\n", webhook.Outcome{Status: 200, Reason: "broke off"}},
		{"chunk of the wrong size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhunter2\r\n0\r\n\r\n", webhook.Outcome{Status: 200, Reason: "broke off"}},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 13\r\n\r\n" + done, webhook.Outcome{Reason: "proper HTTP"}},
		{"another protocol", "SSH-2.0-hunter2\r\n", webhook.Outcome{Reason: "proper HTTP"}},
		{"no status", "HTTP/1.1 hunter2\r\n\r\n", webhook.Outcome{Reason: "proper HTTP"}},
		{"no header", "HTTP/1.1 200 OK\r\nhunter2\r\n\r\n", webhook.Outcome{Reason: "proper HTTP"}},
		{"huge header", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", webhook.Outcome{Reason: "proper HTTP"}},
		{"many headers", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: a\r\n", 64<<10) + "\r\n", webhook.Outcome{Reason: "proper HTTP"}},
	}
	cert := newReceiver(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url, requests := rawReceiver(t, cert, func(w io.Writer) { io.WriteString(w, tt.raw) })
			s := newSender(t, &webhook.Options{Policy: webhook.Policy{AllowLocal: true}, RootCAs: cert.pool()})
			expect(t, s.Deliver(t.Context(), url, []byte(body)), tt.want)
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests were made", n)
			}
		})
	}
}

// expect compares an outcome; of the reason a part is enough.
func expect(t *testing.T, got, want webhook.Outcome) {
	t.Helper()
	if strings.Contains(got.Reason, "hunter2") {
		t.Errorf("the reason %q has a secret in it", got.Reason)
	}
	if (got.Reason == "") != (want.Reason == "") || !strings.Contains(got.Reason, want.Reason) {
		t.Errorf("the reason is %q, want %q", got.Reason, want.Reason)
	}
	got.Reason, want.Reason = "", ""
	if got != want {
		t.Errorf("the outcome is %+v, want %+v", got, want)
	}
}

func TestAnswerWithoutEndIsLeft(t *testing.T) {
	cert := newReceiver(t, nil)
	left := make(chan error, 1)
	url, _ := rawReceiver(t, cert, func(w io.Writer) {
		_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\n\r\n")
		for err == nil {
			_, err = io.WriteString(w, strings.Repeat("a", 4096))
		}
		left <- err
	})
	s := newSender(t, &webhook.Options{Policy: webhook.Policy{AllowLocal: true}, RootCAs: cert.pool()})
	expect(t, s.Deliver(t.Context(), url, []byte(body)), webhook.Outcome{OK: true, Status: 200})
	<-left
}

// A redirect to a place that nobody may call is never followed.
func TestRedirectIsNotFollowed(t *testing.T) {
	inside := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	outside := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, inside.URL, http.StatusTemporaryRedirect)
	})
	s := newSender(t, &webhook.Options{Policy: webhook.Policy{AllowLocal: true}, RootCAs: outside.pool()})
	expect(t, s.Deliver(t.Context(), outside.URL, []byte(body)), webhook.Outcome{Status: 307, Reason: "redirects are not followed"})
	if n := inside.accepted.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// What a name leads to is decided when the connection is made.
func TestNamesThatLeadInside(t *testing.T) {
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	var dns names
	s := newSender(t, &webhook.Options{RootCAs: r.pool(), Resolver: dns.resolver(t)})
	tests := []struct {
		addrs []string
		says  string
	}{
		{[]string{"127.0.0.1"}, "of this machine"},
		{[]string{"::1"}, "of this machine"},
		{[]string{"::ffff:127.0.0.1"}, "of this machine"},
		{[]string{"64:ff9b::7f00:1"}, "of this machine"},
		{[]string{"10.0.0.1"}, "private"},
		{[]string{"::ffff:10.0.0.1"}, "private"},
		{[]string{"192.168.1.1", "172.16.0.1"}, "private"},
		{[]string{"fd00::1"}, "private"},
		{[]string{"169.254.169.254"}, "reserved"},
		{[]string{"fe80::1"}, "reserved"},
		{[]string{"0.0.0.0"}, "reserved"},
		{[]string{"::"}, "reserved"},
		{[]string{"255.255.255.255"}, "reserved"},
		{[]string{"10.0.0.1", "::1", "127.0.0.1"}, "not connected to"},
		{nil, "cannot be resolved"},
	}
	for _, tt := range tests {
		dns.set("rebind.example", tt.addrs...)
		expect(t, s.Deliver(t.Context(), "https://rebind.example:"+r.port()+"/", []byte(body)), webhook.Outcome{Reason: tt.says})
	}
	expect(t, s.Deliver(t.Context(), "https://unknown.example/", []byte(body)), webhook.Outcome{Reason: "cannot be resolved"})
	if n := r.accepted.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// A name that led to an allowed address is refused once it leads to another one.
func TestRebinding(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	var dns names
	dns.set("example.com", "127.0.0.1")
	s := newSender(t, &webhook.Options{Policy: webhook.Policy{Allow: rules(t, "127.0.0.1")}, RootCAs: r.pool(), Resolver: dns.resolver(t)})
	url := "https://example.com:" + r.port() + "/"
	expect(t, s.Deliver(t.Context(), url, []byte(body)), webhook.Outcome{OK: true, Status: 200})
	dns.set("example.com", "127.0.0.2")
	expect(t, s.Deliver(t.Context(), url, []byte(body)), webhook.Outcome{Reason: "of this machine"})
	dns.set("example.com", "127.0.0.1")
	expect(t, s.Deliver(t.Context(), url, []byte(body)), webhook.Outcome{OK: true, Status: 200})
}

func TestWhomPoliciesLetThrough(t *testing.T) {
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	var dns names
	dns.set("example.com", "127.0.0.1")
	dns.set("localhost", "10.0.0.1")
	good := webhook.Outcome{OK: true, Status: 200}
	tests := []struct {
		name   string
		policy webhook.Policy
		host   string
		want   webhook.Outcome
	}{
		{"nothing", webhook.Policy{}, "127.0.0.1", webhook.Outcome{Reason: "rejected: the address is of this machine"}},
		{"nothing, by name", webhook.Policy{}, "example.com", webhook.Outcome{Reason: "not connected to 127.0.0.1: the address is of this machine"}},
		{"this machine", webhook.Policy{AllowLocal: true}, "127.0.0.1", good},
		{"this machine, but not by other names", webhook.Policy{AllowLocal: true}, "example.com", webhook.Outcome{Reason: "of this machine"}},
		{"the host", webhook.Policy{Allow: rules(t, "example.com")}, "example.com", good},
		{"the host in capitals", webhook.Policy{Allow: rules(t, "example.com")}, "EXAMPLE.com", good},
		{"another host", webhook.Policy{Allow: rules(t, "example.net")}, "example.com", webhook.Outcome{Reason: "of this machine"}},
		{"the range", webhook.Policy{Allow: rules(t, "127.0.0.0/8")}, "example.com", good},
		{"only the range", webhook.Policy{Allow: rules(t, "127.0.0.0/8"), OnlyAllowed: true}, "example.com", good},
		{"only another range", webhook.Policy{Allow: rules(t, "128.0.0.0/8"), OnlyAllowed: true}, "example.com", webhook.Outcome{Reason: "not on the list"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSender(t, &webhook.Options{Policy: tt.policy, RootCAs: r.pool(), Resolver: dns.resolver(t)})
			expect(t, s.Deliver(t.Context(), "https://"+tt.host+":"+r.port()+"/", []byte(body)), tt.want)
		})
	}
}

func TestTrust(t *testing.T) {
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	old := httptest.NewUnstartedServer(nil)
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.Config.ErrorLog = quiet()
	old.StartTLS()
	defer old.Close()
	var dns names
	dns.set("other.test", "127.0.0.1")
	policy := webhook.Policy{AllowLocal: true, Allow: rules(t, "other.test")}
	tests := []struct {
		name, url string
		roots     *x509.CertPool
		says      string
	}{
		{"unknown authority", r.URL, nil, "the certificate is not trusted"},
		{"other name", "https://other.test:" + r.port(), r.pool(), "the certificate is not trusted"},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), r.pool(), "does not speak TLS"},
		{"old TLS", old.URL, r.pool(), "the connection failed: remote error: tls"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSender(t, &webhook.Options{Policy: policy, RootCAs: tt.roots, Resolver: dns.resolver(t)})
			expect(t, s.Deliver(t.Context(), tt.url, []byte(body)), webhook.Outcome{Reason: tt.says})
		})
	}
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	s := newSender(t, &webhook.Options{Policy: webhook.Policy{AllowLocal: true}})
	expect(t, s.Deliver(t.Context(), "http://"+listener.Addr().String()+"/hunter2", []byte(body)), webhook.Outcome{Reason: "connection refused"})
}

// A proxy would connect in our place, and redirects, cookies or HTTP/2 would each be a
// way around a bound.
func TestClientHasNothingOfTheEnvironment(t *testing.T) {
	s := newSender(t, nil)
	tr := s.Transport()
	if tr.Proxy != nil || tr.TLSClientConfig.InsecureSkipVerify || !tr.DisableCompression || tr.Protocols.HTTP2() || tr.DialTLSContext != nil {
		t.Errorf("the transport is %+v", tr)
	}
	if tr.MaxIdleConns <= 0 || tr.MaxIdleConnsPerHost <= 0 || tr.MaxConnsPerHost <= 0 || tr.IdleConnTimeout <= 0 {
		t.Errorf("connections are unbounded: %+v", tr)
	}
}

func TestDeliveryWithoutKeys(t *testing.T) {
	disk := newDisk(t)
	disk.SetCapacity(1)
	s := webhook.NewSender(openKeys(t, disk), &webhook.Options{Policy: webhook.Policy{AllowLocal: true}})
	defer s.Close()
	expect(t, s.Deliver(context.Background(), "http://127.0.0.1:1/", []byte(body)), webhook.Outcome{Reason: "cannot sign"})
}
