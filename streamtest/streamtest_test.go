package streamtest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/streamtest"
)

func send(t *testing.T, method, url, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

func TestStart(t *testing.T) {
	var url string
	t.Run("inside", func(t *testing.T) {
		s, other := streamtest.Start(t, nil), streamtest.Start(t, &durablestreams.Options{BasePath: "/events"})
		url = s.URL("a/b%2Fc")
		if !strings.HasSuffix(other.URL("x"), "/events/v1/stream/x") {
			t.Errorf("URL %s", other.URL("x"))
		}
		if status, _ := send(t, "PUT", url, "hello"); status != 201 {
			t.Errorf("create: %d", status)
		}
		if _, got := send(t, "GET", url, ""); got != "hello" {
			t.Errorf("read %q", got)
		}
		if status, _ := send(t, "GET", other.URL("a/b%2Fc"), ""); status != 404 {
			t.Errorf("the other server has it too: %d", status)
		}
		around := httptest.NewServer(s.Handler())
		defer around.Close()
		if _, got := send(t, "GET", around.URL+url[strings.Index(url, "/durable"):], ""); got != "hello" {
			t.Errorf("by the handler: %q", got)
		}
	})
	if _, err := http.Get(url); err == nil {
		t.Error("it answers after its test")
	}
}

// A live reader that a test has left behind does not hold up its end.
func TestStopsUnderReaders(t *testing.T) {
	begin := time.Now()
	var left *http.Response
	t.Run("inside", func(t *testing.T) {
		s := streamtest.Start(t, &durablestreams.Options{SSEMaxAge: time.Hour, ShutdownGrace: time.Hour})
		send(t, "PUT", s.URL("a"), "x")
		var err error
		if left, err = http.Get(s.URL("a") + "?offset=-1&live=sse"); err != nil {
			t.Fatal(err)
		}
	})
	defer left.Body.Close()
	if text, err := io.ReadAll(left.Body); err != nil || !strings.Contains(string(text), "data:x") {
		t.Errorf("the reader got %q, %v", text, err)
	}
	if time.Since(begin) > time.Minute {
		t.Error("the end came late")
	}
}
