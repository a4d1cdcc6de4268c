//go:build linux

package fastpath_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"durablestreams/httpapi"
	"durablestreams/internal/dstest/fakestore"
	"durablestreams/internal/fastpath"
	"durablestreams/internal/protocol"
)

// shape is what a client sends, and what it is good for.
type shape struct {
	name string
	raw  string
}

// pipeline joins requests: %R stands for the root.
func pipeline(requests ...string) string {
	return strings.ReplaceAll(strings.Join(requests, ""), "%R", root)
}

const (
	putA   = "PUT %Ra HTTP/1.1\r\nHost: x\r\n" + text + "\r\n\r\n"
	postA  = "POST %Ra HTTP/1.1\r\nHost: x\r\n" + text + "\r\nContent-Length: 3\r\n\r\nabc"
	getA   = "GET %Ra HTTP/1.1\r\nHost: x\r\n\r\n"
	headA  = "HEAD %Ra HTTP/1.1\r\nHost: x\r\n\r\n"
	delA   = "DELETE %Ra HTTP/1.1\r\nHost: x\r\n\r\n"
	chunkA = "POST %Ra HTTP/1.1\r\nHost: x\r\n" + text + "\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nchu\r\n2\r\nnk\r\n0\r\nT: v\r\n\r\n"
	closeA = "GET %Ra HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

	controlA = "PUT %R__ds/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
)

// oddShapes are answered by net/http, or in part.
func oddShapes() []shape {
	shapes := []shape{
		{"chunked", pipeline(putA, chunkA, getA)},
		{"chunked in the middle", pipeline(putA, postA, chunkA, postA, getA)},
		{"close in the middle", pipeline(putA, postA, closeA, postA, getA)},
		{"odd after many", pipeline(putA, strings.Repeat(postA+getA, 100), "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", postA, getA, closeA)},
		{"1.0", pipeline(putA, "GET %Ra HTTP/1.0\r\n\r\n", getA)},
		{"1.0 keep-alive", pipeline(putA, "GET %Ra HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", getA)},
		{"absolute", pipeline(putA, "GET http://y%Ra HTTP/1.1\r\nHost: x\r\n\r\n", "PUT http://y.example%Rb HTTP/1.1\r\nHost: x\r\n"+text+"\r\n\r\n", getA)},
		{"authority", pipeline("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", getA)},
		{"bare LF", pipeline(putA, "GET %Ra HTTP/1.1\nHost: x\n\n", getA)},
		{"smuggling", pipeline(putA, "POST %Ra HTTP/1.1\r\nHost: x\r\n"+text+"\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", postA, getA)},
		{"GET with a body", pipeline(putA, "GET %Ra HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", getA)},
		{"DELETE with a body", pipeline(putA, "DELETE %Ra HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", getA)},
		{"leading CRLF", pipeline(putA, "\r\n", getA, "\r\n\r\n", headA)},
		{"blank lines after a POST", pipeline(putA, postA, "\r\n", getA, postA, "\n\n\r\n", postA, "\r\n\r\n\r\n", getA)},
		{"one blank after a POST", pipeline(putA, postA, "\n")},
		{"blank lines before a large one", pipeline(putA, postA, "\r\nPUT", strings.TrimPrefix(largePost(300_000), "POST"), getA)},
		{"blank lines before a broken one", pipeline(putA, postA, "\r\nPUT", strings.TrimPrefix(postA, "POST")[:len(postA)-5])},
		{"blank lines before an odd one", pipeline(putA, postA, "\r\n", closeA)},
		{"expect", pipeline(putA, "POST %Ra HTTP/1.1\r\nHost: x\r\n"+text+"\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc", getA)},
		{"expect, doomed", pipeline("POST %Rnone HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + text + "\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")},
		{"expect something else", pipeline(putA, "POST %Ra HTTP/1.1\r\nHost: x\r\n"+text+"\r\nContent-Length: 3\r\nExpect: cake\r\n\r\nabc", getA)},
		{"upgrade", pipeline(putA, "GET %Ra HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", getA)},
		{"large body", pipeline(putA, largePost(300_000), getA, headA)},
		{"body at the limit", pipeline(putA, largePost(256<<10-1), largePost(256<<10), largePost(256<<10+1), headA)},
		{"too large", pipeline(putA, "POST %Ra HTTP/1.1\r\nHost: x\r\n"+text+"\r\nContent-Length: 99999999999\r\n\r\nabc")},
		{"half an HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM"},
		{"a broken HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n\x00\x00"},
		{"TLS hello", "\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03" + strings.Repeat("\x07", 37)},
		{"garbage", "\x00\xff\x01\x02garbage\r\n\r\n"},
		{"broken line", pipeline("GET nonsense\r\n")},
		{"half a head", pipeline(putA, getA[:20])},
		{"half a line", pipeline(putA, getA[:4])},
		{"three letters", pipeline(putA, getA[:3])},
		{"three odd letters", pipeline(putA, "PAT")},
		{"three letters first", getA[:3]},
		{"half a body", pipeline(putA, postA[:len(postA)-1])},
		{"no body", pipeline(putA, postA[:len(postA)-3])},
		{"half a body for nobody", pipeline("POST %Rx/../y HTTP/1.1\r\nHost: x\r\n" + text + "\r\nContent-Length: 3\r\n\r\na")},
		{"nothing", ""},
		{"control", pipeline(putA, controlA, getA, controlA, strings.Replace(controlA, "PUT", "GET", 1), postA, getA)},
		{"control first and in pieces", pipeline(controlA, controlA, putA)},
		{"control, half a body", pipeline(putA, controlA[:len(controlA)-1])},
		{"control, too large", pipeline(putA, "PUT %R__ds/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nabc")},
		{"control, chunked", pipeline("PUT %R__ds/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", getA)},
		{"control that is none", pipeline(putA, strings.Replace(controlA, "echo", "nothing", 1), strings.Replace(controlA, "__ds/", "__ds%2F", 1), strings.Replace(controlA, "PUT", "DELETE", 1), getA)},
		{"delete and again", pipeline(putA, postA, delA, getA, putA, getA, delA, delA)},
	}
	// Whether net/http goes on after it refused an Expect depends on how fast the
	// body came: so such a request is the last.
	for _, h := range slices.Concat(plainHeads, oddHeads, []string{long(fastpath.MaxHead - 1), long(64 << 10), long(200 << 10)}) {
		h = strings.Replace(h, "Expect:", "Connection: close\r\nExpect:", 1)
		shapes = append(shapes, shape{fmt.Sprintf("head %.40q", h), h + pipeline(putA, getA)})
	}
	return shapes
}

func largePost(n int) string {
	return fmt.Sprintf("POST %%Ra HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", text, n, strings.Repeat("x", n))
}

// Every shape gets from the fast path what it gets from net/http alone, however
// it is cut to pieces.
func TestOddShapesAreAnsweredAlike(t *testing.T) {
	for i, sh := range oddShapes() {
		t.Run(fmt.Sprintf("%d %s", i, sh.name), func(t *testing.T) {
			half, third := len(sh.raw)/2, len(sh.raw)/3
			variants := [][]int{nil, {half}, {third, half}}
			if len(sh.raw) < 500 {
				variants = append(variants, everyByte(len(sh.raw)))
			}
			for _, cuts := range variants {
				fast, slow := start(t, config{}), start(t, config{plain: true})
				talk := talk{raw: sh.raw, cuts: cuts, methods: methodsOf(sh.raw), half: true}
				compare(t, fast.converse(t, talk), slow.converse(t, talk))
				fast.stopNow()
				slow.stopNow()
			}
		})
	}
}

// Plain requests stay on the fast path, the others do not.
func TestWhoServes(t *testing.T) {
	serves := func(raw string) (fast bool) {
		s := start(t, config{})
		defer s.stopNow()
		s.converse(t, talk{raw: raw, methods: methodsOf(raw), half: true})
		return s.slow.highest() == 0
	}
	for _, h := range append(plainHeads, pipeline(putA, strings.Repeat(postA+getA+headA, 20), delA), pipeline(putA, largePost(256<<10))) {
		if h += strings.Repeat("x", 3*strings.Count(h, "003")); strings.Contains(h, "length:3") {
			h += "xyz"
		}
		if !serves(h) {
			t.Errorf("net/http gets %.100q", h)
		}
	}
	for _, h := range append(oddHeads, pipeline(controlA), pipeline(putA, controlA, getA), pipeline(putA, largePost(256<<10+1)), long(64<<10), pipeline(putA, postA, "\r\n", getA)) {
		if serves(h) {
			t.Errorf("the fast path keeps %.100q", h)
		}
	}
}

// slowEcho answers when it is told to.
type slowEcho struct {
	echo
	arrived, let chan struct{}
}

func (e slowEcho) Serve(r *protocol.ControlRequest) (protocol.ControlAnswer, error) {
	e.arrived <- struct{}{}
	<-e.let
	return e.echo.Serve(r)
}

// A control request that waits holds up nobody but its own connection, however many
// there are.
func TestWaitingControlRequests(t *testing.T) {
	slow := slowEcho{arrived: make(chan struct{}), let: make(chan struct{})}
	s := start(t, config{fast: fastpath.Options{Loops: 1}, protocol: protocol.Options{MaxReads: 1, Control: slow}})
	var waiting []*conn
	for range 20 {
		waiting = append(waiting, s.dial().send("%s", pipeline(strings.Replace(controlA, "PUT", "POST", 1))))
		<-slow.arrived
	}
	s.do(201, "PUT", "a", "x", text)
	s.do(204, "POST", "a", "y", text)
	s.do(200, "GET", "a", "")
	for _, c := range waiting {
		slow.let <- struct{}{}
		defer func() {
			if _, body := c.answer("POST", 200); body != "echo of abc" {
				t.Errorf("answer %q", body)
			}
		}()
	}
}

// What becomes of a connection that was handed over is nothing to the one that
// has its descriptor's number now.
func TestHandedOverConnectionsAreForgotten(t *testing.T) {
	var low [2]*os.File // numbers for the next client and the next accept
	for i := range low {
		var err error
		if low[i], err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
	}
	s, g := startGated(t, config{fast: fastpath.Options{Loops: 1}})
	s.do(201, "PUT", "a", "", text)
	s.do(201, "PUT", "cold", "", text)
	g.armed.Store(0)
	odd := s.dial().send("GET %scold HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", root)
	<-g.arrived // net/http has it
	for _, f := range low {
		f.Close()
	}
	_, body := s.sse("a?offset=-1&live=sse", "upToDate")
	odd.CloseWrite()
	s.do(204, "POST", "a", "all", text)
	waitFor(t, body, "data:all")
	g.let <- struct{}{}
}

// When net/http has ended, what would be handed over to it is closed.
func TestHandOverToNobody(t *testing.T) {
	s := start(t, config{})
	c := s.dial().get("none")
	c.answer("GET", 404)
	if err := s.http.Close(); err != nil {
		t.Fatal(err)
	}
	c.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").closed()
}

// The bytes that are no HTTP/1.1 reach who understands them untouched.
func TestTLSAndHTTP2BehindTheFastPath(t *testing.T) {
	core, err := protocol.New(&fakestore.Store{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fast, err := fastpath.New(core, nil)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(nil)
	ts.Config = httpapi.NewServer(httpapi.Handler(core, nil), nil)
	ts.Config.Protocols = new(http.Protocols)
	ts.Config.Protocols.SetHTTP1(true)
	ts.Config.Protocols.SetHTTP2(true)
	ts.Config.Protocols.SetUnencryptedHTTP2(true)
	ln := fastpath.Split(ts.Listener, fast, func(int64) {})
	ts.Listener = ln
	ts.Start()
	defer ts.Close()
	defer fast.Shutdown(context.Background())
	defer core.Drain()
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	defer h2.CloseIdleConnections()
	req, err := http.NewRequest("PUT", ts.URL+root+"a", strings.NewReader(strings.Repeat("x", 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	res, err := h2.RoundTrip(req)
	if err != nil || res.StatusCode != 201 || res.ProtoMajor != 2 {
		t.Fatalf("%v %v", res, err)
	}
	res.Body.Close()

	cert := httptest.NewTLSServer(nil)
	defer cert.Close()
	secure := httptest.NewUnstartedServer(httpapi.Handler(core, nil))
	plainLn, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure.Listener.Close()
	fast2, err := fastpath.New(core, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fast2.Shutdown(context.Background())
	secure.Listener = tls.NewListener(fastpath.Split(plainLn, fast2, func(int64) {}), cert.TLS)
	secure.Start()
	defer secure.Close()
	defer core.Drain()
	client := cert.Client()
	defer client.CloseIdleConnections()
	res, err = client.Get("https://" + plainLn.Addr().String() + root + "a")
	if err != nil || res.StatusCode != 200 || res.ContentLength != 100_000 {
		t.Fatalf("%v %v", res, err)
	}
	res.Body.Close()
}

func everyByte(n int) []int {
	cuts := make([]int, n)
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

// methodsOf finds the methods of the requests in raw: the answer to a HEAD has no
// body.
func methodsOf(raw string) (methods []string) {
	for _, m := range requestStarts.FindAllString(raw, -1) {
		methods = append(methods, strings.Fields(m)[0])
	}
	return methods
}

var requestStarts = regexp.MustCompile(`(GET|HEAD|PUT|POST|DELETE|OPTIONS) (/|\*|http)`)
