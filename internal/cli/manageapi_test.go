package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"durablestreams/internal/cli"
)

// paged has 12 streams and lists 5 at a time, whatever is asked for, and sometimes none.
func paged(asked *[]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.RequestURI())
		after := r.URL.Query().Get("after")
		if after == "s04" {
			none := map[string]string{http.MethodGet: "[]", http.MethodDelete: "0"}[r.Method]
			fmt.Fprintf(w, `{"streams":%s,"next":"s04x"}`, none)
			return
		}
		var list []string
		next := ""
		for i := range 12 {
			path := fmt.Sprintf("s%02d", i)
			if path <= after {
				continue
			}
			if len(list) == 5 {
				next = fmt.Sprintf(`,"next":"s%02d"`, i-1)
				break
			}
			list = append(list, fmt.Sprintf(`{"path":"%s","bytes":%d}`, path, i))
		}
		if r.Method == http.MethodDelete {
			fmt.Fprintf(w, `{"streams":%d,"bytes":10%s}`, len(list), next)
			return
		}
		fmt.Fprintf(w, `{"streams":[%s]%s}`, strings.Join(list, ","), next)
	}
}

func runAt(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), args, &cli.Env{LookupEnv: unset, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

// Lists and deletions go on until the server says that it is the end, and not further
// than they should.
func TestAllPagesAreAskedFor(t *testing.T) {
	for _, test := range []struct {
		args  string
		lines int
		asked []string
	}{
		{"streams list --json", 12, []string{"GET /api/v1/streams?limit=5000", "GET /api/v1/streams?after=s04&limit=5000", "GET /api/v1/streams?after=s04x&limit=5000", "GET /api/v1/streams?after=s09&limit=5000"}},
		{"streams list s --json --limit 5", 5, []string{"GET /api/v1/streams?limit=5&prefix=s"}},
		{"streams list --json --after s09 --limit 5", 2, []string{"GET /api/v1/streams?after=s09&limit=5"}},
		{"ls", 12, []string{"GET /api/v1/streams?limit=5000", "GET /api/v1/streams?after=s04&limit=5000", "GET /api/v1/streams?after=s04x&limit=5000", "GET /api/v1/streams?after=s09&limit=5000"}},
		{"streams delete s --yes --json", 5, []string{"DELETE /api/v1/streams?limit=5000&prefix=s", "DELETE /api/v1/streams?after=s04&limit=5000&prefix=s", "DELETE /api/v1/streams?after=s04x&limit=5000&prefix=s", "DELETE /api/v1/streams?after=s09&limit=5000&prefix=s"}},
	} {
		var asked []string
		s := httptest.NewServer(paged(&asked))
		code, stdout, stderr := runAt(t, append(strings.Fields(test.args), "--admin-url", s.URL+"/")...)
		s.Close()
		if code != 0 || stderr != "" || strings.Count(stdout, "\n") != test.lines || fmt.Sprint(asked) != fmt.Sprint(test.asked) {
			t.Errorf("%s: code %d, asked for %q\n%s%s", test.args, code, asked, stdout, stderr)
		}
	}
}

// What answers is not always ds.
func TestOtherAnswers(t *testing.T) {
	for _, test := range []struct {
		status       int
		body, stderr string
		code         int
	}{
		{404, "404 page not found\n", "there is no management API", 1},
		{200, "<html>hello", "there is no management API", 1},
		{200, `{"streams":[{"path":"a"}],"next":""}`, "", 0},
		{200, `{"streams":[],"next":"a"}`, "does not come to an end", 1},
		{200, `{"streams":[7]}`, "does not list streams", 1},
		{502, "<html>\x1b[31mproxy\n", "502 Bad Gateway: <html> [31mproxy", 5},
		{401, `{"error":{"code":"unauthenticated","message":"a \u001b token"}}`, "401 unauthenticated: a   token", 6},
		{503, `{"error":{"code":"busy","message":"later"}}`, "503 busy: later", 5},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		}))
		code, _, stderr := runAt(t, "streams", "list", "--admin-url", s.URL)
		s.Close()
		if code != test.code || !strings.Contains(stderr, test.stderr) || test.stderr == "" && stderr != "" {
			t.Errorf("%d %q: code %d, %s", test.status, test.body, code, stderr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := cli.Run(ctx, []string{"ls"}, &cli.Env{LookupEnv: unset, Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)}); code != 5 {
		t.Errorf("given up: %d", code)
	}
}

// Only the default URL leads to the default admin address: another server's would list
// other streams.
func TestLsAtTheDefaultAddresses(t *testing.T) {
	var beside, admin []string
	for address, h := range map[string]http.HandlerFunc{
		"127.0.0.1:8642": func(w http.ResponseWriter, r *http.Request) {
			beside = append(beside, r.URL.Path)
			w.WriteHeader(404)
			fmt.Fprint(w, `{"error":{"code":"reserved_path","message":"no"}}`)
		},
		"127.0.0.1:8643": paged(&admin),
	} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Skipf("somebody else has the port: %v", err)
		}
		s := httptest.NewUnstartedServer(h)
		s.Listener.Close()
		s.Listener = ln
		s.Start()
		t.Cleanup(s.Close)
	}
	if code, stdout, stderr := runAt(t, "ls"); code != 0 || strings.Count(stdout, "\n") != 12 || len(beside) != 1 || beside[0] != "/durable-streams/v1/stream/__ds/api/v1/streams" {
		t.Errorf("code %d, asked for %q and %q\n%s%s", code, beside, admin, stdout, stderr)
	}
	admin = nil
	code, _, stderr := runAt(t, "ls", "--url", "http://localhost:8642/durable-streams/v1/stream")
	if code != 1 || len(admin) != 0 || !strings.Contains(stderr, "the protocol has no listing") {
		t.Errorf("at another URL: code %d, asked for %q\n%s", code, admin, stderr)
	}
}
