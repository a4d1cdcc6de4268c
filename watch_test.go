package durablestreams_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"durablestreams"
)

// send writes a request as it stands and gives the answer.
func send(t *testing.T, url, request string) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.80q: %v", request, err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res
}

// line is one of the log in JSON.
type line struct {
	Msg, ID, Client, Method, Path, Kind, Code string
	Status                                    int
	Bytes                                     int64
	MS                                        float64
}

// logged gives the lines with a message once there are n, in order.
func logged(t *testing.T, log *lockedText, msg string, n int) (lines []line) {
	t.Helper()
	waitFor(t, func() bool {
		lines = nil
		for text := range strings.Lines(log.String()) {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatalf("%v: %q", err, text)
			}
			if l.Msg == msg {
				lines = append(lines, l)
			}
		}
		return len(lines) >= n
	})
	return lines
}

// Every answer has a line, on both adapters, with what an operator wants to know; the
// client finds its name there.
func TestAccessLog(t *testing.T) {
	log := &lockedText{}
	opts := durablestreams.Options{AccessLog: true, TrustedProxies: []string{"127.0.0.1"}, LongPollTimeout: 50 * time.Millisecond, SSEMaxAge: 50 * time.Millisecond,
		Logger: slog.New(slog.NewJSONHandler(log, nil))}
	overAdapters(t, opts, func(t *testing.T, s *durablestreams.Server, url string) {
		log.mu.Lock()
		log.b.Reset()
		log.mu.Unlock()
		for i, test := range []struct {
			request string // less HTTP/1.1 and Host
			want    line
		}{
			{"PUT a|Content-Type: text/plain|Content-Length: 5||hello", line{Method: "PUT", Kind: "create", Status: 201}},
			{"POST a|Content-Type: text/plain|Content-Length: 5||hello", line{Method: "POST", Kind: "append", Status: 204}},
			{"GET a|X-Forwarded-For: 203.0.113.9|X-Request-Id: from-the-proxy||", line{Method: "GET", Kind: "read", Status: 200, Bytes: 10, Client: "203.0.113.9", ID: "from-the-proxy"}},
			{"HEAD a||", line{Method: "HEAD", Kind: "head", Status: 200}},
			{"GET a?offset=now&live=long-poll|X-Forwarded-For: 203.0.113.9|X-Request-Id: waits||", line{Method: "GET", Kind: "long-poll", Status: 204, Client: "203.0.113.9", ID: "waits"}},
			{"GET a?offset=now&live=sse||", line{Method: "GET", Kind: "sse", Status: 200}},
			{"GET b||", line{Method: "GET", Path: "b", Kind: "read", Status: 404, Code: "not_found"}},
			{"DELETE a||", line{Method: "DELETE", Kind: "delete", Status: 204}},
			{"OPTIONS a||", line{Method: "OPTIONS", Kind: "other", Status: 204}},
		} {
			first, rest, _ := strings.Cut(test.request, "|")
			res := send(t, url, strings.Replace(first, " ", " /durable-streams/v1/stream/", 1)+" HTTP/1.1\r\nHost: ds\r\n"+strings.ReplaceAll(rest, "|", "\r\n"))
			got := logged(t, log, "request", i+1)[i]
			want := test.want
			if id := res.Header.Get("X-Request-Id"); id != got.ID || want.ID != "" && id != want.ID || id == "" {
				t.Errorf("%s: the answer is named %q and the line %q, want %q", test.request, id, got.ID, want.ID)
			}
			if want.Client == "" {
				want.Client = "127.0.0.1"
			}
			want.Path = "/durable-streams/v1/stream/" + cmp.Or(want.Path, "a")
			if got.MS < 0 || got.MS > 60_000 || want.Kind == "long-poll" && got.MS < 50 {
				t.Errorf("%s: it took %v ms", test.request, got.MS)
			}
			if want.Code != "" {
				want.Bytes = got.Bytes
			}
			want.Msg, want.ID, want.MS = "request", got.ID, got.MS
			if got != want || want.Code != "" && got.Bytes == 0 {
				t.Errorf("%s:\n%+v, want\n%+v", test.request, got, want)
			}
		}
	})
}

// Without the options there is no line, and no field in answers.
func TestNoAccessLog(t *testing.T) {
	log := &lockedText{}
	overAdapters(t, durablestreams.Options{Logger: slog.New(slog.NewJSONHandler(log, nil))}, func(t *testing.T, s *durablestreams.Server, url string) {
		for _, path := range []string{streamA, "/elsewhere"} {
			if res := send(t, url, "GET "+path+" HTTP/1.1\r\nHost: ds\r\nX-Request-Id: mine\r\n\r\n"); res.StatusCode != 404 || res.Header["X-Request-Id"] != nil {
				t.Errorf("%s: %s %v", path, res.Status, res.Header)
			}
		}
		if strings.Contains(log.String(), "request") {
			t.Errorf("the log has %s", log)
		}
	})
}

// Live reads are not slow because they wait, and what is slow is told without an access
// log too.
func TestSlowRequests(t *testing.T) {
	log := &lockedText{}
	opts := durablestreams.Options{SlowRequest: time.Nanosecond, LongPollTimeout: 20 * time.Millisecond, SSEMaxAge: 20 * time.Millisecond, Logger: slog.New(slog.NewJSONHandler(log, nil))}
	overAdapters(t, opts, func(t *testing.T, s *durablestreams.Server, url string) {
		before := strings.Count(log.String(), "\n")
		stream := url + streamA
		request(t, 201, "PUT", stream, "x", "Content-Type", "text/plain")
		for _, live := range []string{"long-poll", "sse"} {
			r, err := http.Get(stream + "?offset=now&live=" + live)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
			if r.Header["X-Request-Id"] != nil {
				t.Errorf("%s is called slow", live)
			}
		}
		request(t, 204, "DELETE", stream, "")
		waitFor(t, func() bool { return strings.Count(log.String(), `"kind":"delete"`) > 0 })
		lines := strings.SplitAfter(log.String(), "\n")[before:]
		text := strings.Join(lines, "")
		for want, n := range map[string]int{`"msg":"slow request"`: 2, `"kind":"create"`: 1, `"kind":"delete"`: 1, `"level":"WARN"`: 2, `"msg":"request"`: 0} {
			if strings.Count(text, want) != n {
				t.Errorf("%s: want %d in\n%s", want, n, text)
			}
		}
		log.mu.Lock()
		log.b.Reset()
		log.mu.Unlock()
	})
}

// Nothing that a client sends can forge a line of the log, blow one up, or get a secret
// into it, in either format.
func TestHostileRequestsInTheLog(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		log := &lockedText{}
		var handler slog.Handler = slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
		if format == "json" {
			handler = slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
		}
		opts := durablestreams.Options{AccessLog: true, SlowRequest: time.Nanosecond, TrustedProxies: []string{"127.0.0.1"}, Logger: slog.New(handler)}
		overAdapters(t, opts, func(t *testing.T, s *durablestreams.Server, url string) {
			const secret = "s3cr3tS3cr3t"
			long := strings.Repeat("x", 8<<10)
			path := "/durable-streams/v1/stream/"
			sent := 0
			for _, r := range []string{
				"GET " + path + "a?signature=99." + secret + "&offset=" + secret + " HTTP/1.1\r\nHost: ds\r\nAuthorization: Bearer " + secret + "\r\nCookie: " + secret + "\r\nX-Api-Key: " + secret + "\r\n\r\n",
				"GET " + path + "a%0d%0alevel=ERROR%20msg=forged HTTP/1.1\r\nHost: ds\r\n\r\n",
				"GET " + path + "a%1b[31mred HTTP/1.1\r\nHost: ds\r\n\r\n",
				"GET " + path + "a\xe2\x80\xaegnp.exe HTTP/1.1\r\nHost: ds\r\n\r\n",
				"GET " + path + "a\"quoted\"\\ HTTP/1.1\r\nHost: ds\r\n\r\n",
				"GET " + path + "a\x1b[31mred\x07 HTTP/1.1\r\nHost: ds\r\n\r\n",
				"GET " + path + long + " HTTP/1.1\r\nHost: ds\r\n\r\n",
				"PUT " + path + long + "?" + long + " HTTP/1.1\r\nHost: ds\r\nContent-Length: 0\r\n\r\n",
				"FORGED-" + long[:2000] + " " + path + "a HTTP/1.1\r\nHost: ds\r\n\r\n",
				"GET " + path + "a HTTP/1.1\r\nHost: ds\r\nX-Request-Id: a msg=forged\r\nX-Forwarded-For: 1.1.1.1 msg=forged\r\nTraceparent: forged\r\n\r\n",
				"GET " + path + "a HTTP/1.1\r\nHost: ds\r\nX-Request-Id: \x1b[31mred\r\nX-Forwarded-For: \x1b[31mred\r\n\r\n",
				"GET " + path + "a HTTP/1.1\r\nHost: " + long[:200] + "\r\nUser-Agent: \x1b[31mred\r\nReferer: http://x/?" + secret + "\r\n\r\n",
			} {
				send(t, url, r)
				sent++
			}
			send(t, url, "GET "+path+"the-last HTTP/1.1\r\nHost: ds\r\n\r\n")
			waitFor(t, func() bool { return strings.Contains(log.String(), "the-last") })
			starts := map[string]*regexp.Regexp{"text": regexp.MustCompile(`^time=\S+ level=(INFO|WARN|DEBUG) msg=`), "json": regexp.MustCompile(`^\{"time":"[^"]+","level":"(INFO|WARN|DEBUG)","msg":"`)}
			lines := 0
			for text := range strings.Lines(log.String()) {
				text = strings.TrimSuffix(text, "\n")
				lines++
				if !starts[format].MatchString(text) {
					t.Errorf("this line is forged: %q", text)
				}
				if len(text) > 1500 {
					t.Errorf("%d bytes in a line", len(text))
				}
				for i := range len(text) {
					if text[i] < ' ' || text[i] >= 0x7f {
						t.Errorf("byte %#x in %q", text[i], text)
						break
					}
				}
			}
			if lines < sent/2 {
				t.Errorf("only %d lines:\n%s", lines, log)
			}
			for _, bad := range []string{secret, "signature", "level=ERROR msg=forged", "msg=forged ", "exe HTTP"} {
				if strings.Contains(log.String(), bad) {
					t.Errorf("%q is in the log:\n%s", bad, log)
				}
			}
			log.mu.Lock()
			log.b.Reset()
			log.mu.Unlock()
		})
	}
}

// An event loop does not wait for a log that nobody reads.
func TestStuckAccessLog(t *testing.T) {
	goes := make(chan struct{})
	opts := durablestreams.Options{AccessLog: true, Logger: slog.New(slog.NewTextHandler(waits(goes), nil))}
	overAdapters(t, opts, func(t *testing.T, s *durablestreams.Server, url string) {
		request(t, 201, "PUT", url+streamA, "x", "Content-Type", "text/plain")
		for i := range 50 {
			request(t, 200, "GET", url+streamA, "", "X-Number", fmt.Sprint(i))
		}
		select {
		case <-goes:
		default:
			close(goes)
		}
	})
}

// waits is a log that takes no line about a request before it is closed.
type waits chan struct{}

func (w waits) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("msg=request ")) {
		<-w
	}
	return len(b), nil
}
