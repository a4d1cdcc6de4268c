// Package faultproxy is an HTTP proxy that treats what passes it as a bad network and
// bad middleboxes do: it drops, delays, cuts, repeats and refuses, by a seed. What it
// passes on whole is never changed.
package faultproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"durablestreams/internal/dstest"
)

// fault is what happens to one request.
type fault string

const (
	none      fault = "passed"
	drop      fault = "dropped"           // the server never sees it
	lose      fault = "answer lost"       // the server has done it
	cut       fault = "answer cut"        // some of the answer comes
	repeat    fault = "repeated"          // the server sees it twice, the client the last answer
	late      fault = "late"              // dropped, and the server sees it some time later
	refuse    fault = "refused"           // 429 or 503 of the proxy
	fail      fault = "failed afterwards" // 502 of the proxy, and the server has done it
	slow      fault = "delayed"
	maxDelay        = 5 * time.Millisecond
	cutWithin       = 4 << 10
)

// faults has one entry for each chance out of len(faults).
var faults = []fault{none, none, none, none, none, none, none, none, drop, lose, cut, cut, repeat, late, refuse, fail, slow, slow}

// Proxy stands in front of a server.
type Proxy struct {
	// URL is where the proxy is; behind it the paths are those of the server.
	URL string

	target *url.URL
	http   *http.Client

	mu     sync.Mutex
	random *rand.Rand
	calm   bool
	counts map[fault]int
	late   sync.WaitGroup
}

// New starts a proxy in front of the server at target, until the test ends.
func New(t testing.TB, target string, seed uint64) *Proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: u, random: rand.New(rand.NewPCG(seed, 0)), counts: map[fault]int{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	s := httptest.NewServer(p)
	p.URL = s.URL
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		p.late.Wait()
		p.http.CloseIdleConnections()
	})
	return p
}

// Calm ends the faults.
func (p *Proxy) Calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calm = true
}

// String counts what has happened.
func (p *Proxy) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.counts)
}

// choose decides about one request: the fault, a number below n and a pause.
func (p *Proxy) choose() (f fault, at int, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, at, pause = faults[p.random.IntN(len(faults))], p.random.IntN(cutWithin), time.Duration(p.random.Int64N(int64(maxDelay)))
	if p.calm {
		f = none
	}
	p.counts[f]++
	return f, at, pause
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	f, at, pause := p.choose()
	switch f {
	case drop:
		panic(http.ErrAbortHandler)
	case late:
		again := r.Clone(context.WithoutCancel(r.Context()))
		p.late.Go(func() {
			dstest.Pause(pause)
			if r.Method == http.MethodPost {
				p.discard(again, body)
			}
		})
		panic(http.ErrAbortHandler)
	case refuse:
		if at%2 == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case lose:
		p.discard(r, body)
		panic(http.ErrAbortHandler)
	case fail:
		p.discard(r, body)
		w.WriteHeader(http.StatusBadGateway)
		return
	case repeat:
		if r.Method == http.MethodPost {
			p.discard(r, body)
		}
	case slow:
		dstest.Pause(pause)
	}
	p.forward(w, r, body, f == cut, at)
}

// send passes a request on.
func (p *Proxy) send(r *http.Request, body []byte) (*http.Response, error) {
	u := *p.target
	u.Path, u.RawPath, u.RawQuery = r.URL.Path, r.URL.RawPath, r.URL.RawQuery
	req, err := http.NewRequestWithContext(r.Context(), r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = r.Header.Clone()
	return p.http.Do(req)
}

// discard passes a request on and throws the beginning of the answer away.
func (p *Proxy) discard(r *http.Request, body []byte) {
	ctx, cancel := context.WithTimeout(r.Context(), 50*time.Millisecond) // live reads go on for long
	defer cancel()
	res, err := p.send(r.WithContext(ctx), body)
	if err != nil {
		return
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
}

// forward passes request and answer on; with broken the answer ends within its first
// bytes.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, body []byte, broken bool, at int) {
	res, err := p.send(r, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	buf := make([]byte, cutWithin)
	for {
		n, err := res.Body.Read(buf)
		if broken {
			n = min(n, at)
			at -= n
		}
		if _, werr := w.Write(buf[:n]); werr != nil {
			return
		}
		_ = flush()
		switch {
		case broken && at == 0, err != nil && err != io.EOF:
			panic(http.ErrAbortHandler)
		case err != nil:
			return
		}
	}
}
