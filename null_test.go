package durablestreams_test

import (
	"net/http"
	"strings"
	"testing"

	"durablestreams"
)

// TestNullServer shows that the yardstick answers like a server, with all its
// headers, and keeps nothing.
func TestNullServer(t *testing.T) {
	addr, stop, err := durablestreams.NullServer()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	url := "http://" + addr + "/durable-streams/v1/stream/a"
	for range 2 {
		res, err := http.Post(url, "application/octet-stream", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 204 || res.Header.Get("Stream-Next-Offset") == "" || res.Header.Get("X-Content-Type-Options") == "" {
			t.Errorf("status %d, %v", res.StatusCode, res.Header)
		}
	}
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 || res.ContentLength != 0 {
		t.Errorf("read: status %d, %d bytes", res.StatusCode, res.ContentLength)
	}
}
