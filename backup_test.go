package durablestreams_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams"
	"durablestreams/auth"
	"durablestreams/internal/backup"
)

// restoreTar makes a data directory of a backup in one tar, checks it and opens it.
func restoreTar(t *testing.T, b []byte) *durablestreams.Server {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.RestoreTar(vfs.Default, bytes.NewReader(b), dir); err != nil {
		t.Fatal(err)
	}
	r, err := durablestreams.Check(dir)
	if err != nil || !r.OK() {
		t.Fatalf("check: %+v, %v", r, err)
	}
	return open(t, dir, nil)
}

// A backup of a server with streams, forks, subscriptions and keys, on a disk and in memory.
func TestBackupAPI(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		t.Run(fmt.Sprint("in memory ", inMemory), func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "data"), &durablestreams.Options{InMemory: inMemory})
			h := s.Admin()
			must := func(status int, method, target, body string, headers ...string) {
				t.Helper()
				if w := operator(h, method, target, body, headers...); w.Code != status {
					t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
				}
			}
			const text, typ = "text/plain", "Content-Type"
			must(201, "PUT", s.Root()+"a/1", "hello", typ, text)
			must(201, "PUT", s.Root()+"b", "", "Stream-Forked-From", s.Root()+"a/1")
			must(204, "POST", s.Root()+"b", " world", typ, text)
			must(201, "PUT", s.Root()+"__ds/subscriptions/work", `{"type":"pull-wake","pattern":"a/**","wake_stream":"wakes"}`, typ, "application/json")
			must(200, "GET", s.Root()+"__ds/jwks.json", "")
			keys := operator(h, "GET", s.Root()+"__ds/jwks.json", "").Body.String()

			whole := operator(h, "GET", "/api/v1/backup", "")
			if whole.Code != 200 || whole.Header().Get(typ) != "application/x-tar" || whole.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("%d %v", whole.Code, whole.Header())
			}
			r := restoreTar(t, whole.Body.Bytes())
			for path, want := range map[string]string{"a/1": "hello", "b": "hello world"} {
				if got := operator(r.Admin(), "GET", r.Root()+path, "").Body.String(); got != want {
					t.Errorf("%s is %q after the restore", path, got)
				}
			}
			if got := operator(r.Admin(), "GET", r.Root()+"__ds/jwks.json", "").Body.String(); got != keys {
				t.Errorf("other keys after the restore: %s, %s", got, keys)
			}
			if w := operator(r.Admin(), "GET", r.Root()+"__ds/subscriptions/work", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"a/**"`) {
				t.Errorf("the subscription after the restore: %d %s", w.Code, w.Body)
			}

			for _, test := range []struct {
				method, body string
				status       int
				want         string
			}{
				{"POST", "", 200, ""},
				{"POST", `{"have":[]}`, 200, ""},
				{"POST", `{"have":[{"name":"archive/x","size":1,"sha256":"` + strings.Repeat("a", 64) + `"}]}`, 200, ""},
				{"POST", `{"have":[{"name":"../x","size":1,"sha256":"` + strings.Repeat("a", 64) + `"}]}`, 400, "file 1 of the list"},
				{"POST", `{"have":[{"name":"archive/x","size":1,"sha256":"ABC"}]}`, 400, "checksum"},
				{"POST", `{"have":`, 400, "invalid_json"},
				{"POST", `[]`, 400, "invalid_json"},
				{"PUT", "", 405, "method_not_allowed"},
				{"DELETE", "", 405, "method_not_allowed"},
				{"HEAD", "", 405, ""},
			} {
				w := operator(h, test.method, "/api/v1/backup", test.body)
				if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
					t.Errorf("%s %s: %d %.200s, want %d %s", test.method, test.body, w.Code, w.Body, test.status, test.want)
				}
			}
			if status, _ := do(s.Handler(), "GET", "/api/v1/backup", nil); status != 404 {
				t.Errorf("clients of streams get one: %d", status)
			}
		})
	}
}

// Where access is controlled, a backup is for those who may operate everything.
func TestBackupAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access")
	text := keyLine("boss", "dsk_boss", "admin:**") + keyLine("half", "dsk_half", "admin:a/**") + keyLine("low", "dsk_low", "read,append:**")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, filepath.Join(t.TempDir(), "data"), &durablestreams.Options{Access: &auth.Options{File: file}})
	for token, want := range map[string]int{"": 401, "dsk_nobody": 401, "dsk_half": 403, "dsk_low": 403, "dsk_boss": 200} {
		for _, method := range []string{"GET", "POST"} {
			var headers []string
			if token != "" {
				headers = []string{"Authorization", "Bearer " + token}
			}
			if w := operator(s.Admin(), method, "/api/v1/backup", "", headers...); w.Code != want {
				t.Errorf("%s with %q: %d %.100s, want %d", method, token, w.Code, w.Body, want)
			}
		}
	}
	restored := operator(s.Admin(), "GET", "/api/v1/backup", "", "Authorization", "Bearer dsk_boss").Body.Bytes()
	restoreTar(t, restored) // the key for signed URLs is in it
	if !bytes.Contains(restored, []byte("keys/urls")) {
		t.Error("the key for signed URLs is not in the backup")
	}
}

// stuckWriter is a client that takes the first bytes of an answer and then none.
type stuckWriter struct {
	*httptest.ResponseRecorder
	first   chan struct{}
	release chan struct{}
	once    sync.Once
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.once.Do(func() {
		close(w.first)
		<-w.release
	})
	return w.ResponseRecorder.Write(p)
}

// While one backup is under way there is no second one, and the end of the server ends it:
// what was sent is known for less than a backup.
func TestBackupUnderWay(t *testing.T) {
	s, err := durablestreams.Open(filepath.Join(t.TempDir(), "data"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := operator(s.Admin(), "PUT", s.Root()+"a", "hello", "Content-Type", "text/plain"); w.Code != 201 {
		t.Fatal(w.Code)
	}
	w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), first: make(chan struct{}), release: make(chan struct{})}
	ended := make(chan any)
	go func() {
		defer func() { ended <- recover() }()
		s.Admin().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/api/v1/backup", nil))
	}()
	<-w.first
	second := operator(s.Admin(), "GET", "/api/v1/backup", "")
	if second.Code != 503 || !strings.Contains(second.Body.String(), `"busy"`) || second.Header().Get("Retry-After") == "" {
		t.Errorf("a second one: %d %v %s", second.Code, second.Header(), second.Body)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("the server waits for the backup, or %v", err)
	}
	close(w.release)
	if got := <-ended; got != http.ErrAbortHandler {
		t.Errorf("the answer ends with %v", got)
	}
	if _, err := backup.RestoreTar(vfs.NewMem(), bytes.NewReader(w.Body.Bytes()), "r"); !errors.Is(err, backup.ErrNoBackup) {
		t.Errorf("what was sent: %v", err)
	}
	if w := operator(s.Admin(), "GET", "/api/v1/backup", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "shutting_down") {
		t.Errorf("after the end: %d %s", w.Code, w.Body)
	}
}

// A connection that is cut in the middle of a backup gives the client an error.
func TestBackupCutOff(t *testing.T) {
	ln := listen(t)
	s := open(t, filepath.Join(t.TempDir(), "data"), &durablestreams.Options{AdminListener: ln})
	if w := operator(s.Admin(), "PUT", s.Root()+"a", strings.Repeat("x", 8<<20), "Content-Type", "text/plain"); w.Code != 201 {
		t.Fatal(w.Code)
	}
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /api/v1/backup HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	// The server lets go of it, so that the next one is served.
	deadline := time.Now().Add(30 * time.Second)
	for {
		res, err := http.Get("http://" + ln.Addr().String() + "/api/v1/backup")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode == 200 && err == nil {
			restoreTar(t, b)
			return
		}
		if res.StatusCode != 503 || time.Now().After(deadline) {
			t.Fatalf("%d %v %.100s", res.StatusCode, err, b)
		}
	}
}

// Backups over HTTP under load, into one destination: in each of them is everything that
// was acknowledged before it was asked for, and each stream is a beginning of what was sent.
func TestBackupUnderLoad(t *testing.T) {
	const writers, backups = 6, 4
	s := open(t, filepath.Join(t.TempDir(), "data"), &durablestreams.Options{SegmentSize: 256 << 10, TailMemory: 1 << 20})
	admin := httptest.NewServer(s.Admin())
	defer admin.Close()
	acked := make([]int, writers)
	var mu sync.Mutex
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range writers {
		if w := operator(s.Admin(), "PUT", fmt.Sprint(s.Root(), "w", i), "", "Content-Type", "text/plain"); w.Code != 201 {
			t.Fatal(w.Code)
		}
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if status, body := do(s.Handler(), "POST", fmt.Sprint(s.Root(), "w", i), strings.NewReader(lineOf(n)), "Content-Type", "text/plain"); status != 204 {
					t.Errorf("append: %d %s", status, body)
					return
				}
				mu.Lock()
				acked[i] = n + 1
				mu.Unlock()
			}
		})
	}
	to := filepath.Join(t.TempDir(), "backups")
	d, err := backup.Open(vfs.Default, to)
	if err != nil {
		t.Fatal(err)
	}
	var before [backups][]int
	for i := range backups {
		mu.Lock()
		before[i] = append(before[i], acked...)
		mu.Unlock()
		have, err := d.Have()
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(map[string]any{"have": have})
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(admin.URL+"/api/v1/backup", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Take(res.Body); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	stop()
	wg.Wait()
	for i := range backups {
		e, err := d.Find(i + 1)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "r")
		if err := d.Restore(e, dir); err != nil {
			t.Fatal(err)
		}
		if r, err := durablestreams.Check(dir); err != nil || !r.OK() {
			t.Fatalf("check: %+v, %v", r, err)
		}
		r := open(t, dir, nil)
		for w, least := range before[i] {
			got := readAll(t, r, fmt.Sprint("w", w))
			n := 0
			for ; got != ""; n++ {
				var ok bool
				if got, ok = strings.CutPrefix(got, lineOf(n)); !ok {
					t.Fatalf("backup %d, stream %d: after %d appends there is %.40q", i+1, w, n, got)
				}
			}
			if n < least {
				t.Errorf("backup %d, stream %d: %d appends, %d were acknowledged before", i+1, w, n, least)
			}
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// readAll reads a stream to its tail.
func readAll(t *testing.T, s *durablestreams.Server, path string) string {
	t.Helper()
	var all strings.Builder
	for offset := "-1"; ; {
		w := operator(s.Admin(), "GET", s.Root()+path+"?offset="+offset, "")
		if w.Code != 200 {
			t.Fatalf("read %s: %d %s", path, w.Code, w.Body)
		}
		all.Write(w.Body.Bytes())
		if offset = w.Header().Get("Stream-Next-Offset"); w.Header().Get("Stream-Up-To-Date") == "true" {
			return all.String()
		}
	}
}

// lineOf is the n-th append to a stream.
func lineOf(n int) string { return fmt.Sprintf("%0*d\n", 8+n%300, n) }
