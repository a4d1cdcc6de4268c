package durablestreams_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"durablestreams"
)

// A data directory of every format that a release has written is kept in testdata,
// with what a client reads from it. A later program has to open it and give the same
// answers. A new format gets a new name here and an own directory beside the old ones:
//
//	go test . -run TestGolden -rewrite
var rewrite = flag.Bool("rewrite", false, "make testdata of the current format again")

const goldenName = "format-1"

var goldenOptions = durablestreams.Options{SegmentSize: 256 << 10, WebhookAllowLocal: true}

// goldenRequest is one request and what it is sent with: path, headers, body.
type goldenRequest struct {
	method, path, body string
	headers            []string
}

func ofType(contentType string, more ...string) []string {
	return append([]string{"Content-Type", contentType}, more...)
}

func producer(epoch, seq string, more ...string) []string {
	return append([]string{"Producer-Id", "p", "Producer-Epoch", epoch, "Producer-Seq", seq}, more...)
}

const goldenRoot = "/durable-streams/v1/stream/"

// goldenLives is how the directory is made: each life but the last ends with a stop,
// so that what it did is in the archive.
var goldenLives = [][]goldenRequest{{
	{method: "PUT", path: "text/open", body: "hello ", headers: ofType("text/plain")},
	{method: "POST", path: "text/open", body: "wörld;", headers: ofType("text/plain", producer("0", "0")...)},
	{method: "POST", path: "text/open", body: "again;", headers: ofType("text/plain", producer("0", "1")...)},
	{method: "PUT", path: "text/closed", body: "a", headers: ofType("text/plain")},
	{method: "POST", path: "text/closed", body: "z", headers: ofType("text/plain", producer("3", "0", "Stream-Closed", "true")...)},
	{method: "PUT", path: "empty", headers: ofType("application/octet-stream")},
	{method: "PUT", path: "bytes", body: "\x00\xff\n\r\x80", headers: ofType("application/octet-stream")},
	{method: "PUT", path: "json", body: `[1, {"a" : "\u00e9"}]`, headers: ofType("application/json")},
	{method: "POST", path: "json", body: `{"b":[ 1e400 ]}`, headers: ofType("application/json")},
	{method: "PUT", path: "large", body: strings.Repeat("0123456789abcde\n", 3000), headers: ofType("text/plain")},
	{method: "PUT", path: "seq", body: "s", headers: ofType("text/plain")},
	{method: "POST", path: "seq", body: "t", headers: ofType("text/plain", "Stream-Seq", "0005")},
	{method: "PUT", path: "ttl/century", body: "long", headers: ofType("text/plain", "Stream-TTL", "3153600000")},
	{method: "PUT", path: "ttl/date", body: "date", headers: ofType("text/plain", "Stream-Expires-At", "2120-01-01T00:00:00Z")},
	{method: "PUT", path: "ttl/gone", body: "gone", headers: ofType("text/plain", "Stream-TTL", "1")},
	{method: "PUT", path: "fork/source", body: "from the source, ", headers: ofType("text/plain")},
	{method: "PUT", path: "fork/child", body: "from the child, ", headers: ofType("text/plain", "Stream-Forked-From", goldenRoot+"fork/source")},
	{method: "PUT", path: "fork/grandchild", headers: ofType("text/plain", "Stream-Forked-From", goldenRoot+"fork/child")},
	{method: "DELETE", path: "fork/source"},
	{method: "PUT", path: "deleted", body: "d", headers: ofType("text/plain")},
	{method: "DELETE", path: "deleted"},
	{method: "PUT", path: "wakes", headers: ofType("application/json")},
	{method: "PUT", path: "__ds/subscriptions/pulled", body: `{"type":"pull-wake","pattern":"users/*","wake_stream":"wakes","lease_ttl_ms":600000}`},
	{method: "PUT", path: "__ds/subscriptions/hook", body: `{"type":"webhook","pattern":"nothing/*","webhook":{"url":"http://127.0.0.1:9/hook"}}`},
	{method: "PUT", path: "users/ann", body: `["one"]`, headers: ofType("application/json")},
}, {
	{method: "POST", path: "text/open", body: "unflushed;", headers: ofType("text/plain", producer("1", "0")...)},
	{method: "PUT", path: "text/late", body: "late", headers: ofType("text/plain")},
	{method: "POST", path: "json", body: `"late"`, headers: ofType("application/json", "Stream-Closed", "true")},
	{method: "PUT", path: "fork/late", body: "of ", headers: ofType("text/plain", "Stream-Forked-From", goldenRoot+"text/open")},
	{method: "DELETE", path: "empty"},
	{method: "PUT", path: "users/bob", body: `["two"]`, headers: ofType("application/json")},
}}

// goldenAsks is what is asked of it, after the time of ttl/gone. Answers are kept.
func goldenAsks() (asks []goldenRequest) {
	for _, path := range []string{"text/open", "text/closed", "empty", "bytes", "json", "large", "seq", "ttl/century", "ttl/date", "ttl/gone",
		"fork/source", "fork/child", "fork/grandchild", "fork/late", "deleted", "wakes", "users/ann", "users/bob", "text/late", "never"} {
		asks = append(asks, goldenRequest{method: "HEAD", path: path}, goldenRequest{method: "GET", path: path + "?offset=-1"})
	}
	return append(asks,
		goldenRequest{method: "GET", path: "text/closed?offset=-1&live=sse"},
		goldenRequest{method: "GET", path: "json?offset=-1&live=sse"},
		goldenRequest{method: "GET", path: "__ds/subscriptions/pulled"},
		goldenRequest{method: "GET", path: "__ds/subscriptions/hook"},
		goldenRequest{method: "GET", path: "__ds/jwks.json"},
		goldenRequest{method: "POST", path: "__ds/subscriptions/pulled/claim", body: `{"worker":"w"}`},
		// What producers, sequences and forks remember.
		goldenRequest{method: "POST", path: "text/open", body: "unflushed;", headers: ofType("text/plain", producer("1", "0")...)},
		goldenRequest{method: "POST", path: "text/open", body: "x", headers: ofType("text/plain", producer("0", "2")...)},
		goldenRequest{method: "POST", path: "text/open", body: "x", headers: ofType("text/plain", producer("1", "3")...)},
		goldenRequest{method: "POST", path: "text/open", body: "next;", headers: ofType("text/plain", producer("1", "1")...)},
		goldenRequest{method: "POST", path: "text/closed", body: "z", headers: ofType("text/plain", producer("3", "0", "Stream-Closed", "true")...)},
		goldenRequest{method: "POST", path: "text/closed", body: "y", headers: ofType("text/plain")},
		goldenRequest{method: "POST", path: "seq", body: "u", headers: ofType("text/plain", "Stream-Seq", "0005")},
		goldenRequest{method: "POST", path: "seq", body: "u", headers: ofType("text/plain", "Stream-Seq", "0006")},
		goldenRequest{method: "POST", path: "fork/child", body: "more, ", headers: ofType("text/plain")},
		goldenRequest{method: "PUT", path: "fork/source", headers: ofType("text/plain")},
		goldenRequest{method: "DELETE", path: "fork/child"},
		goldenRequest{method: "GET", path: "fork/grandchild?offset=-1"},
		goldenRequest{method: "DELETE", path: "fork/grandchild"},
		goldenRequest{method: "GET", path: "fork/source"},
		goldenRequest{method: "GET", path: "text/open?offset=-1"},
		goldenRequest{method: "GET", path: "fork/late?offset=-1"},
	)
}

// changing is what differs from one time to the next.
var changing = regexp.MustCompile(`"(wake_id|token)":"[^"]*"`)

// answer asks a server and gives the answer as text.
func (a *goldenRequest) answer(s *durablestreams.Server) string {
	r := httptest.NewRequest(a.method, goldenRoot+a.path, strings.NewReader(a.body))
	for i := 0; i+1 < len(a.headers); i += 2 {
		r.Header.Add(a.headers[i], a.headers[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %.60q\n%d\n", a.method, a.path, a.body, w.Code)
	for _, name := range []string{"Content-Type", "ETag", "Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Closed", "Stream-TTL", "Stream-Expires-At",
		"Producer-Epoch", "Producer-Seq", "Producer-Expected-Seq", "Producer-Received-Seq"} {
		if v := w.Header().Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	body := changing.ReplaceAllString(w.Body.String(), `"$1":"..."`)
	if len(body) > 4<<10 {
		body = fmt.Sprintf("%d bytes, SHA-256 %x", len(body), sha256.Sum256([]byte(body)))
	}
	fmt.Fprintf(&b, "%q\n\n", body)
	return b.String()
}

func conversation(s *durablestreams.Server) string {
	var b strings.Builder
	for _, a := range goldenAsks() {
		b.WriteString(a.answer(s))
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	if *rewrite {
		writeGolden(t)
	}
	archives, err := filepath.Glob("testdata/format-*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("%v, %v", archives, err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(archive, ".tar.gz")
		t.Run(filepath.Base(name), func(t *testing.T) {
			want, err := os.ReadFile(name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			dir := unpack(t, archive)
			if report, err := durablestreams.Check(dir); err != nil || !report.OK() {
				t.Fatalf("check: %+v, %v", report, err)
			}
			s := open(t, dir, &goldenOptions)
			compare(t, conversation(s), string(want))
			if err := s.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if report, err := durablestreams.Check(dir); err != nil || !report.OK() {
				t.Errorf("check at the end: %+v, %v", report, err)
			}
			last := goldenRequest{method: "GET", path: "text/open?offset=-1"}
			if got := last.answer(open(t, dir, &goldenOptions)); !strings.Contains(string(want), got) || !strings.Contains(got, "next;") {
				t.Errorf("after a restart: %s", got)
			}
		})
	}
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n\n"), strings.Split(want, "\n\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Errorf("answer %d:\n%s\nwant:\n%s", i, at(g, i), at(w, i))
		}
	}
}

func at(list []string, i int) string {
	if i >= len(list) {
		return "nothing"
	}
	return list[i]
}

// writeGolden makes the directory as a crash of its last life leaves it, and asks a copy.
func writeGolden(t *testing.T) {
	dir := t.TempDir()
	for i, life := range goldenLives {
		s := open(t, dir, &goldenOptions)
		for _, a := range life {
			if got := a.answer(s); !strings.Contains(got, "\n20") {
				t.Fatal(got)
			}
		}
		<-time.After(2500 * time.Millisecond) // ttl/gone goes, and the journal's note is written
		if i == len(goldenLives)-1 {
			pack(t, dir, "testdata/"+goldenName+".tar.gz")
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	said := conversation(open(t, unpack(t, "testdata/"+goldenName+".tar.gz"), &goldenOptions))
	if err := os.WriteFile("testdata/"+goldenName+".txt", []byte(said), 0o644); err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, dir, file string) {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, file string) (dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil || !fs.ValidPath(strings.TrimSuffix(h.Name, "/")) {
			t.Fatalf("%v, %+v", err, h)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
