package conformance_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/certs"
)

// TestNginx puts nginx with the file of deploy/ in front of ds, and looks at what a proxy
// can spoil: paths, large bodies, answers that are held back, and the URL in Location.
func TestNginx(t *testing.T) {
	binary, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("nginx is not installed here: deploy/nginx/ds.conf was not tried")
	}
	s := startServer(t, buildServer(t, false), "--data-dir", filepath.Join(t.TempDir(), "data"), "--trusted-proxies", "127.0.0.1", "--long-poll-timeout", "2s")
	dir, address := t.TempDir(), "127.0.0.1:"+freePort(t)
	pair := certs.Write(t, dir, "streams")
	config, err := os.ReadFile("../deploy/nginx/ds.conf")
	if err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer("listen 443", "listen "+address, "127.0.0.1:8642;", s.streams.Host+";", "/etc/ssl/streams.example/", dir+"/")
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
	nginx := exec.CommandContext(t.Context(), binary, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr")
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
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: pair.Trust, ForceAttemptHTTP2: true}, Timeout: 30 * time.Second}
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
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		res, err := client.Get(root + "/none")
		if err == nil {
			_ = res.Body.Close()
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatal(err)
		}
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
