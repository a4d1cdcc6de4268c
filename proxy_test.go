package durablestreams_test

import (
	"net/http"
	"testing"

	"durablestreams"
)

// What trusted proxies say of a request's origin counts, on both adapters; nobody
// else's word does.
func TestForwardedOrigin(t *testing.T) {
	const path = streamA
	for _, noFastPath := range []bool{false, true} {
		for _, trusted := range []bool{true, false} {
			opts := &durablestreams.Options{InMemory: true, NoFastPath: noFastPath}
			if trusted {
				opts.TrustedProxies = []string{"127.0.0.0/8"}
			}
			s := open(t, "", opts)
			ln := listen(t)
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(t.Context(), ln) }()
			own := "http://" + ln.Addr().String()
			for _, tt := range []struct {
				headers []string
				want    string // "" is as the request came
			}{
				{nil, ""},
				{[]string{"X-Forwarded-Proto", "https"}, "https://" + ln.Addr().String()},
				{[]string{"X-Forwarded-Proto", "HTTPS", "X-Forwarded-Host", "a.example:8443"}, "https://a.example:8443"},
				{[]string{"X-Forwarded-Host", "a.example"}, "http://a.example"},
				{[]string{"X-Forwarded-Host", "evil.example, a.example"}, "http://a.example"},
				{[]string{"X-Forwarded-Host", "evil.example", "X-Forwarded-Host", "[::1]:80"}, "http://[::1]:80"},
				{[]string{"X-Forwarded-Host", "a.example/path"}, ""},
				{[]string{"X-Forwarded-Host", "user@a.example"}, ""},
				{[]string{"X-Forwarded-Proto", "javascript", "X-Forwarded-Host", ""}, ""},
				{[]string{"Forwarded", `for=192.0.2.1;Proto=https;host="a.example:1"`}, "https://a.example:1"},
				{[]string{"Forwarded", `host=evil.example, for=1.2.3.4 ; host=a.example; proto=https`}, "https://a.example"},
				{[]string{"Forwarded", `for=1.2.3.4`, "X-Forwarded-Proto", "https"}, "https://" + ln.Addr().String()},
				{[]string{"Forwarded", `;;=;proto;host=`}, ""},
			} {
				req, err := http.NewRequest("PUT", own+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "text/plain")
				for i := 0; i < len(tt.headers); i += 2 {
					req.Header.Add(tt.headers[i], tt.headers[i+1])
				}
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				want := own
				if tt.want != "" && trusted {
					want = tt.want
				}
				if got := res.Header.Get("Location"); got != want+path {
					t.Errorf("%q, trusted %v: Location %q, want %q", tt.headers, trusted, got, want+path)
				}
				mustDo(t, s, http.StatusNoContent, "DELETE", path, "")
			}
		}
	}
}
