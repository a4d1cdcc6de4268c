package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/certs"
	"durablestreams/internal/dstest/process"
	"durablestreams/internal/dstest/relay"
)

// fetchedNginx is where "make tools" puts nginx, see get-nginx.sh.
const fetchedNginx = "../bin/nginx"

// startNginx puts nginx with the file of deploy/ in front of a server, and gives its
// address and what clients have to know.
func startNginx(t *testing.T, server string) (address string, trust *tls.Config) {
	t.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		if binary, err = filepath.Abs(fetchedNginx); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(binary); err != nil {
			t.Skip("nginx is not installed here, and make tools could not fetch it: deploy/nginx/ds.conf was not tried")
		}
	}
	dir := t.TempDir()
	address = "127.0.0.1:" + freePort(t)
	pair := certs.Write(t, dir, "streams")
	config, err := os.ReadFile("../deploy/nginx/ds.conf")
	if err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer("listen 443", "listen "+address, "127.0.0.1:8642;", server+";", "/etc/ssl/streams.example/", dir+"/")
	if err := os.WriteFile(filepath.Join(dir, "ds.conf"), []byte(replace.Replace(string(config))), 0o600); err != nil {
		t.Fatal(err)
	}
	var paths strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&paths, "%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	whole := fmt.Sprintf("daemon off; master_process off; pid %[1]s/pid; error_log stderr;\nevents {}\nhttp {\naccess_log off;\n%[2]sinclude %[1]s/ds.conf;\n}\n", dir, paths.String())
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	nginx := exec.Command(binary, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr")
	nginx.Stderr = &log
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = nginx.Process.Kill()
		_ = nginx.Wait()
		if t.Failed() {
			t.Logf("nginx says\n%s", &log)
		}
	})
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			return address, pair.Trust
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatal(err)
		}
	}
}

// TestNginx looks at what a proxy can spoil: paths, large bodies, answers that are held
// back, and the URL in Location.
func TestNginx(t *testing.T) {
	s := startServer(t, buildServer(t, false), "--data-dir", filepath.Join(t.TempDir(), "data"), "--trusted-proxies", "127.0.0.1", "--long-poll-timeout", "2s")
	address, trust := startNginx(t, s.streams.Host)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}, Timeout: 30 * time.Second}
	root := "https://" + address + s.streams.Path
	do := func(method, target, body string, headers ...string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, root+target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		content, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(content)
	}
	if res, _ := do(http.MethodPut, "/a%2Fb", "one", plain...); res.StatusCode != http.StatusCreated || res.Header.Get("Location") != root+"/a%2Fb" || res.ProtoMajor != 2 {
		t.Errorf("%s %s, Location %q, want %q over HTTP/2", res.Proto, res.Status, res.Header.Get("Location"), root+"/a%2Fb")
	}
	if res, content := do(http.MethodGet, "/a%2Fb", ""); content != "one" {
		t.Errorf("%s %q", res.Status, content)
	}
	if res, _ := do(http.MethodPut, "/a//b", "", plain...); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a path with an empty segment: %s", res.Status)
	}
	if res, content := do(http.MethodPut, "/large", strings.Repeat("x", 16<<20), plain...); res.StatusCode != http.StatusCreated {
		t.Errorf("16 MiB: %s %s", res.Status, content)
	}
	if res, _ := do(http.MethodPut, "/larger", strings.Repeat("x", 16<<20+1), plain...); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("more than 16 MiB: %s", res.Status)
	}
	if res, _ := do(http.MethodGet, "/a%2Fb?offset=now&live=long-poll", ""); res.StatusCode != http.StatusNoContent {
		t.Errorf("a long-poll without data: %s", res.Status)
	}

	live, err := client.Get(root + "/a%2Fb?offset=-1&live=sse")
	if err != nil {
		t.Fatal(err)
	}
	defer live.Body.Close()
	lines := bufio.NewScanner(live.Body)
	want := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("no %q in the live answer: %v", text, lines.Err())
	}
	want("data:one") // long before the answer ends
	for _, text := range []string{"two", "three"} {
		do(http.MethodPost, "/a%2Fb", text, plain...)
		want("data:" + text)
	}
	do(http.MethodPost, "/a%2Fb", "", "Stream-Closed", "true")
	want(`"streamClosed":true`)
}

// Behind nginx a long-poll ends with what is appended, the server hears when a reader
// goes, connections to it are used again, and it knows who asks and under which name,
// whatever clients make up about that.
func TestNginxConnections(t *testing.T) {
	log := &process.Tail{}
	s := process.Start(t, process.Command{Binary: buildServer(t, false), Log: log,
		Args: []string{"--in-memory", "--trusted-proxies", "127.0.0.1", "--access-log", "--long-poll-timeout", "25s"}})
	host, path, _ := strings.Cut(strings.TrimPrefix(s.Streams, "http://"), "/")
	way := relay.To(t, host)
	address, trust := startNginx(t, way.Addr)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}} // which no proxy has
	client := &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		}}}
	t.Cleanup(client.CloseIdleConnections)
	url := "https://" + address + "/" + path + "/a"
	ask := func(status int, method, url, body string, headers ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		if res.StatusCode != status {
			t.Fatalf("%s %s: %s, want %d", method, url, res.Status, status)
		}
		return res
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for begin := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Since(begin) > 20*time.Second {
				t.Fatalf("not so: %s\n%s", what, log)
			}
		}
	}
	readers := func(n int) {
		t.Helper()
		eventually(fmt.Sprint(n, " live readers"), func() bool {
			sum := 0
			metrics := expect(t, 200, http.MethodGet, s.Admin+"/metrics", "")
			for _, m := range regexp.MustCompile(`(?m)^ds_live_readers\{kind="[a-z-]+"\} (\d+)$`).FindAllStringSubmatch(metrics, -1) {
				var k int
				if _, err := fmt.Sscan(m[1], &k); err != nil {
					t.Fatal(err)
				}
				sum += k
			}
			return sum == n
		})
	}
	ask(201, http.MethodPut, url, "", plain...)
	next := ask(200, http.MethodHead, url, "").Header.Get("Stream-Next-Offset")
	sse := ask(200, http.MethodGet, url+"?live=sse&offset=-1", "")
	polled := make(chan string, 1)
	go func() {
		res, err := client.Get(url + "?live=long-poll&offset=" + next)
		if err != nil {
			polled <- err.Error()
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		polled <- fmt.Sprint(res.StatusCode, " ", string(text), " ", err)
	}()
	readers(2)
	begin := time.Now()
	ask(204, http.MethodPost, url, "hello", plain...)
	if got := <-polled; got != "200 hello <nil>" || time.Since(begin) > 20*time.Second {
		t.Errorf("the long-poll gets %q after %v", got, time.Since(begin))
	}
	_ = sse.Body.Close()
	readers(0)

	before := way.Taken()
	for range 200 {
		ask(200, http.MethodHead, url, "")
		ask(204, http.MethodPost, url, "x", plain...)
	}
	if n := way.Taken() - before; n > 2 {
		t.Errorf("400 requests on %d more connections", n)
	}

	made := []string{"X-Forwarded-For", "203.0.113.9", "Forwarded", "for=203.0.113.9;host=evil.example", "X-Request-Id", "forged", "X-Forwarded-Host", "evil.example", "Content-Type", "text/plain"}
	if got := ask(201, http.MethodPut, url+"b", "", made...).Header.Get("Location"); got != url+"b" {
		t.Errorf("Location: %q, want %q", got, url+"b")
	}
	line := regexp.MustCompile(`msg=request id=([0-9a-f]{32}) client=127\.0\.0\.2 method=PUT path=/` + path + `/ab kind=create status=201`)
	eventually("nginx says who asks", func() bool { return line.MatchString(log.String()) })
	if strings.Contains(log.String(), "203.0.113.9") || strings.Contains(log.String(), "forged") {
		t.Errorf("the log believes a client:\n%s", log)
	}
}
