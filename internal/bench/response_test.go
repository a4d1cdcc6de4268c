package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// answer is one parsed response, for comparison.
type answer struct {
	status int
	body   string
	offset string
	close  bool
}

// parseAll reads answers from pieces of at most step bytes, until the input ends.
func parseAll(input string, step int, headOnly bool) (all []answer, err error) {
	var r response
	r.reset(headOnly)
	var body []byte
	began := false
	for at := 0; at < len(input); {
		p := []byte(input[at:min(at+step, len(input))])
		began = true
		n, piece, err := r.feed(p)
		if err != nil {
			return all, err
		}
		if n == 0 {
			return all, errors.New("no progress")
		}
		body = append(body, piece...)
		clear(p) // what was handed out must not be needed any more
		at += n
		if r.state == complete {
			all = append(all, answer{r.status, string(body), string(r.offset), r.close})
			r.reset(headOnly)
			body, began = body[:0], false
		}
	}
	if began {
		if err := r.eof(); err != nil {
			return all, err
		}
		all = append(all, answer{r.status, string(body), string(r.offset), r.close})
	}
	return all, nil
}

func TestResponse(t *testing.T) {
	tests := []struct {
		name     string
		input    string
		headOnly bool
		want     []answer
	}{
		{"no content", "HTTP/1.1 204 No Content\r\nStream-Next-Offset: 0_1\r\n\r\n", false, []answer{{204, "", "0_1", false}}},
		{"names in any case, white space around values", "HTTP/1.1 200 OK\r\ncontent-LENGTH: \t3 \r\nSTREAM-next-offset:5\r\n\r\nabc", false,
			[]answer{{200, "abc", "5", false}}},
		{"no reason", "HTTP/1.1 204\r\n\r\n", false, []answer{{204, "", "", false}}},
		{"no reason but its space", "HTTP/1.1 204 \r\n\r\n", false, []answer{{204, "", "", false}}},
		{"length zero", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, []answer{{200, "", "", false}}},
		{"length said twice alike", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", false, []answer{{200, "x", "", false}}},
		{"pipelined", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", false,
			[]answer{{204, "", "", false}, {200, "hi", "", false}, {404, "", "", false}}},
		{"state does not leak into the next", "HTTP/1.1 204 No Content\r\nStream-Next-Offset: 1\r\nConnection: close\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false,
			[]answer{{204, "", "1", true}, {204, "", "", false}}},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", false, []answer{{200, "abc0123456789", "", false}}},
		{"chunked with trailers, then another", "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\nZ: w\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false,
			[]answer{{200, "a", "", false}, {204, "", "", false}}},
		{"interim answers", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz", false,
			[]answer{{200, "z", "", false}}},
		{"ended by close", "HTTP/1.1 200 OK\r\n\r\nall of it", false, []answer{{200, "all of it", "", true}}},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nz", false, []answer{{200, "z", "", true}}},
		{"HTTP/1.0 that stays", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nz", false, []answer{{200, "z", "", false}}},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", true, []answer{{200, "", "", false}}},
		{"HEAD of chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, []answer{{200, "", "", false}}},
		{"not modified with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false,
			[]answer{{304, "", "", false}, {204, "", "", false}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, 5, 7, 16, 64, 1 << 20} {
				got, err := parseAll(tt.input, step, tt.headOnly)
				if err != nil || fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("in pieces of %d: %v, %v; want %v", step, got, err, tt.want)
				}
			}
		})
	}
}

func TestResponseRefuses(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\n"
	tests := map[string]struct {
		input string
		want  error
	}{
		"another protocol":         {"SSH-2.0-OpenSSH_9.6\r\n\r\n", errHead},
		"HTTP/2":                   {"HTTP/2.0 200 OK\r\n\r\n", errHead},
		"status of two digits":     {"HTTP/1.1 20 OK\r\n\r\n", errHead},
		"status that is no number": {"HTTP/1.1 2x0 OK\r\n\r\n", errHead},
		"status below 100":         {"HTTP/1.1 099 OK\r\n\r\n", errHead},
		"switching protocols":      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", errHead},
		"lines that end in LF":     {"HTTP/1.1 200 OK\nContent-Length: 0\n\n\r\n\r\n", errHead},
		"bare LF in a field":       {ok + "A: b\nContent-Length: 5\r\n\r\n", errHead},
		"bare CR in a field":       {ok + "A: b\rc\r\n\r\n", errHead},
		"folded line":              {ok + "A: b\r\n c\r\n\r\n", errHead},
		"space before the colon":   {ok + "A : b\r\n\r\n", errHead},
		"field without colon":      {ok + "A\r\n\r\n", errHead},
		"field without name":       {ok + ": b\r\n\r\n", errHead},
		"length and chunked":       {ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", errHead},
		"two lengths":              {ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", errHead},
		"list of lengths":          {ok + "Content-Length: 1, 1\r\n\r\n", errHead},
		"negative length":          {ok + "Content-Length: -1\r\n\r\n", errHead},
		"length with a sign":       {ok + "Content-Length: +1\r\n\r\n", errHead},
		"empty length":             {ok + "Content-Length: \r\n\r\n", errHead},
		"endless length":           {ok + "Content-Length: 99999999999999999999\r\n\r\n", errHead},
		"chunked in HTTP/1.0":      {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", errHead},
		"unknown coding":           {ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", errHead},
		"endless head":             {ok + strings.Repeat("A: b\r\n", maxHead/6+1), errHead},
		"chunk size of nothing":    {ok + "Transfer-Encoding: chunked\r\n\r\n\r\n", errChunk},
		"chunk size with 0x":       {ok + "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n", errChunk},
		"negative chunk size":      {ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", errChunk},
		"endless chunk size":       {ok + "Transfer-Encoding: chunked\r\n\r\nfffffffffffff\r\n", errChunk},
		"chunk longer than said":   {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", errChunk},
		"chunk lines that end LF":  {ok + "Transfer-Encoding: chunked\r\n\r\n1\na\n", errChunk},
		"endless chunk extension":  {ok + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", maxHead), errChunk},
		"cut in the head":          {"HTTP/1.1 200", errTruncated},
		"cut in the body":          {ok + "Content-Length: 5\r\n\r\nabc", errTruncated},
		"cut in a chunk":           {ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nabc", errTruncated},
		"cut before the last":      {ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", errTruncated},
		"cut in the trailer":       {ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n", errTruncated},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, 7, 1 << 20} {
				if got, err := parseAll(tt.input, step, false); !errors.Is(err, tt.want) {
					t.Errorf("in pieces of %d: %v, %v; want %v", step, got, err, tt.want)
				}
			}
		})
	}
}

// FuzzResponse: pieces never matter, nothing panics, and whatever is accepted net/http
// reads the same.
func FuzzResponse(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 204 No Content\r\n\r\n", uint8(3))
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n", uint8(1))
	f.Add("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nrest", uint8(4))
	f.Add("HTTP/1.0 404 Not Found\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", uint8(9))
	f.Fuzz(func(t *testing.T, input string, step uint8) {
		whole, wholeErr := parseAll(input, max(len(input), 1), false)
		split, splitErr := parseAll(input, int(step)+1, false)
		if fmt.Sprint(whole) != fmt.Sprint(split) || (wholeErr == nil) != (splitErr == nil) {
			t.Fatalf("whole %v, %v\nsplit %v, %v", whole, wholeErr, split, splitErr)
		}
		src := bufio.NewReader(strings.NewReader(input))
		for _, want := range whole {
			status, body, err := reference(src)
			if err != nil {
				return // net/http is stricter in places that do not steer the framing
			}
			if status != want.status || !bytes.Equal(body, []byte(want.body)) {
				t.Fatalf("%d %q, but net/http reads %d %q", want.status, want.body, status, body)
			}
		}
	})
}

// reference reads the next answer that is not interim, as net/http does.
func reference(src *bufio.Reader) (status int, body []byte, err error) {
	for {
		r, err := http.ReadResponse(src, &http.Request{Method: "GET"})
		if err != nil {
			return 0, nil, err
		}
		if r.StatusCode >= 100 && r.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(r.Body)
		return r.StatusCode, body, err
	}
}

func TestResponseAllocatesNothing(t *testing.T) {
	input := []byte("HTTP/1.1 204 No Content\r\nDate: Sun, 29 Nov 2026 21:00:00 GMT\r\nStream-Next-Offset: 0000000000000256_00000000deadbeef\r\n\r\n")
	var r response
	allocs := testing.AllocsPerRun(100, func() {
		r.reset(false)
		if n, _, err := r.feed(input); err != nil || n != len(input) || r.state != complete {
			t.Fatalf("%d, %v", n, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for an answer", allocs)
	}
}

func BenchmarkResponse(b *testing.B) {
	input := []byte("HTTP/1.1 204 No Content\r\nCache-Control: no-store\r\nStream-Next-Offset: 0000000000000256_00000000deadbeef\r\n" +
		"X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: cross-origin\r\nDate: Sun, 29 Nov 2026 21:00:00 GMT\r\n\r\n")
	var r response
	for b.Loop() {
		r.reset(false)
		r.feed(input)
	}
}
