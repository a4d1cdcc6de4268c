package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// endpoints is a control API that tells what it was asked for.
type endpoints struct {
	methods map[string][]string
	err     error
	answer  protocol.ControlAnswer
	asked   []string
}

func (e *endpoints) Methods(path string) []string { return e.methods[path] }

func (*endpoints) Needs(path string) (stream.Right, stream.Path) {
	if path == "open" {
		return 0, ""
	}
	return stream.MaySubscribe, stream.Path(path)
}

func (e *endpoints) Serve(r *protocol.ControlRequest) (protocol.ControlAnswer, error) {
	e.asked = append(e.asked, fmt.Sprintf("%s %s %s %q", r.Method, r.Path, r.Root, r.Body))
	return e.answer, e.err
}

func newControlled(t *testing.T, opt protocol.Options) (*client, *endpoints) {
	e := &endpoints{methods: map[string][]string{"thing": {"PUT", "GET", "HEAD"}, "a%2Fb": {"POST"}, "public": {"GET", "HEAD"}},
		answer: protocol.ControlAnswer{Status: 200, Type: "application/json", Body: []byte("{}")}}
	opt.Control = e
	return newClient(t, &opt), e
}

func TestControlGetsWhatIsItsOwn(t *testing.T) {
	c, e := newControlled(t, protocol.Options{})
	c.do("PUT __ds/thing", "={x}").want(200, "Content-Type: application/json", "Cache-Control: no-store", "Access-Control-Allow-Origin: *").text("{}")
	c.do("HEAD __ds/thing?x=y").want(200)
	c.do("POST __ds/a%2Fb").want(200)
	const url = "http://ds.example/durable-streams/v1/stream"
	want := []string{"PUT thing " + url + ` "{x}"`, "GET thing " + url + ` ""`, "POST a%2Fb " + url + ` ""`}
	if !slices.Equal(e.asked, want) {
		t.Errorf("asked for %q, want %q", e.asked, want)
	}

	e.asked = nil
	for _, path := range []string{
		"%5f%5fds/thing", "__ds%2Fthing", "__ds%2fthing", "_%5Fds/thing", "__d%73/thing", "__ds/a/b", "__ds/a%2fb", "__ds", "__ds/", "__ds//thing",
		"__ds/nothing", "__ds/thing/", "__DS/thing", "x/__ds/thing", "__dsx/thing", "./__ds/thing", "x/../__ds/thing", "/__ds/thing",
	} {
		for _, method := range []string{"PUT", "GET", "HEAD", "POST", "DELETE"} {
			c.do(method+" "+path, "Content-Type: text/plain", "=x")
		}
	}
	if e.asked != nil {
		t.Errorf("other paths reach control: %q", e.asked)
	}
	for _, path := range []string{"%5f%5fds/thing", "__ds%2Fthing", "__ds/nothing", "__ds"} {
		c.do("GET "+path).want(404, "Cache-Control: no-store").code("reserved_path")
	}
}

func TestControlMethods(t *testing.T) {
	c, e := newControlled(t, protocol.Options{})
	for _, method := range []string{"DELETE", "POST", "PATCH", "TRACE"} {
		c.do(method+" __ds/thing", "=x").want(405, "Allow: PUT, GET, HEAD, OPTIONS", "Cache-Control: no-store").code("method_not_allowed")
	}
	c.do("FOO __ds/thing").want(501, "Allow: PUT, GET, HEAD, OPTIONS")
	c.do("FOO __ds/nothing").want(501, "Allow: GET, HEAD, PUT, POST, DELETE, OPTIONS")
	res := c.do("OPTIONS __ds/thing").want(204, "Access-Control-Allow-Methods: PUT, GET, HEAD, OPTIONS", "Allow: PUT, GET, HEAD, OPTIONS")
	if !strings.Contains(res.field("Access-Control-Allow-Headers"), "Authorization") {
		t.Error("a page may not send its token")
	}
	c.do("OPTIONS __ds/nothing").want(204, "Allow: GET, HEAD, PUT, POST, DELETE, OPTIONS")
	if e.asked != nil {
		t.Errorf("refused requests reach control: %q", e.asked)
	}
}

func TestControlAnswers(t *testing.T) {
	c, e := newControlled(t, protocol.Options{AllowedOrigins: []string{"https://a.example"}})
	e.answer = protocol.ControlAnswer{Status: 204}
	c.do("PUT __ds/thing", "Origin: https://a.example").want(204, "Cache-Control: no-store", "Content-Type:", "Access-Control-Allow-Origin: https://a.example", "WWW-Authenticate:").text("")
	e.answer = protocol.ControlAnswer{Status: 401}
	c.do("PUT __ds/thing").want(401, "WWW-Authenticate: Bearer")
	e.answer = protocol.ControlAnswer{Status: 200, Type: "text/x", Cache: "public, max-age=300", Body: []byte("key")}
	c.do("GET __ds/public").want(200, "Cache-Control: public, max-age=300", "Content-Type: text/x", "Vary: Origin").text("key")
	e.err = &stream.Error{Kind: stream.ShuttingDown, Message: "bye"}
	c.do("GET __ds/public").want(503, "Cache-Control: no-store", "Retry-After: 1").code("shutting_down")
	e.err = errors.New("secret cause")
	if res := c.do("GET __ds/public").want(500).code("internal"); strings.Contains(res.body, "secret") || !strings.Contains(c.log.String(), "secret cause") {
		t.Errorf("body %q, log %q", res.body, c.log)
	}
}

func TestControlBodyLimit(t *testing.T) {
	for _, tt := range []struct{ max, want int64 }{{100, 100}, {64 << 20, 2 << 20}} {
		c, _ := newControlled(t, protocol.Options{MaxBody: tt.max})
		req, _ := c.request("PUT __ds/thing", nil)
		for length, refused := range map[int64]bool{tt.want: false, tt.want + 1: true, -1: false} {
			req.ContentLength = length
			op, res := c.core.Begin(req)
			if refused != (op == nil) || refused && res.Status != 413 {
				t.Errorf("%d of %d bytes: %v, %+v", length, tt.max, op, res)
			}
			if op != nil && (op.MaxBody() != tt.want || !op.WantsBody()) {
				t.Errorf("%d bytes: reads %d, wants %v", length, op.MaxBody(), op.WantsBody())
			}
		}
		req, _ = c.request("GET __ds/thing", nil)
		req.ContentLength = 1 << 40
		if op, _ := c.core.Begin(req); op == nil || op.WantsBody() {
			t.Error("the body of a GET counts")
		}
	}
}

func TestControlRoot(t *testing.T) {
	for _, tt := range []struct {
		public, base, host string
		secure             bool
		want               string
	}{
		{host: "h:1", want: "http://h:1/durable-streams/v1/stream"},
		{host: "h", secure: true, base: "/", want: "https://h/v1/stream"},
		{host: "h", public: "https://p.example/x/", want: "https://p.example/x/durable-streams/v1/stream"},
		{public: "https://p.example", want: "https://p.example/durable-streams/v1/stream"},
		{want: ""},
	} {
		c, e := newControlled(t, protocol.Options{PublicURL: tt.public, BasePath: tt.base})
		req, _ := c.request("GET __ds/public", nil)
		req.Host, req.Secure = tt.host, tt.secure
		op, res := c.core.Begin(req)
		if op == nil {
			t.Fatalf("%+v", res)
		}
		op.Serve(nil)
		if want := fmt.Sprintf(`GET public %s ""`, tt.want); !slices.Equal(e.asked, []string{want}) {
			t.Errorf("asked for %q, want %q", e.asked, want)
		}
	}
}

func TestWithoutControlNothingIsThere(t *testing.T) {
	c := newClient(t, nil)
	c.do("GET __ds/thing").want(404).code("reserved_path")
	if c.core.Controls(c.core.Root() + "__ds/thing") {
		t.Error("it is said to be there")
	}
}

// What control answers is counted until clients have taken it. Looking is refused for
// lack of room; what has been done is told in any case.
func TestControlAnswersAreCounted(t *testing.T) {
	c, e := newControlled(t, protocol.Options{MaxUnsent: 1 << 20})
	e.answer.Body = make([]byte, 700<<10)
	serve := func(line string) *protocol.Response {
		req, body := c.request(line, nil)
		op, res := c.core.Begin(req)
		if op == nil {
			t.Fatalf("%s: %+v", line, res)
		}
		return op.Serve([]byte(body))
	}
	first := serve("GET __ds/public")
	second := serve("GET __ds/public")
	third := serve("POST __ds/a%2Fb")
	if first.Status != 200 || second.Status != 503 || third.Status != 200 || len(third.Body) != 700<<10 {
		t.Errorf("answered %d, %d, %d", first.Status, second.Status, third.Status)
	}
	if use := c.core.Use(); use.Unsent != 1400<<10 || use.DiskReads != 0 {
		t.Errorf("in use: %+v", use)
	}
	for _, res := range []*protocol.Response{first, second, third} {
		res.Close()
		res.Close()
	}
	c.do("GET __ds/public").want(200)
	c.idle()
}

// waitingControl serves when it is told to.
type waitingControl struct {
	endpoints
	let chan struct{}
}

func (w *waitingControl) Serve(*protocol.ControlRequest) (protocol.ControlAnswer, error) {
	<-w.let
	return w.answer, nil
}

// Who looks takes a place of those who read the disk; who acts does not.
func TestControlTakesPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &waitingControl{let: make(chan struct{})}
		w.methods, w.answer = map[string][]string{"x": {"GET", "PUT", "POST"}}, protocol.ControlAnswer{Status: 204}
		c := newClient(t, &protocol.Options{MaxReads: 2, Control: w})
		var wg sync.WaitGroup
		for _, line := range []string{"GET __ds/x", "GET __ds/x", "PUT __ds/x", "PUT __ds/x", "POST __ds/x"} {
			wg.Go(func() { c.do(line).want(204) })
		}
		synctest.Wait()
		if n := c.core.Use().DiskReads; n != 2 {
			t.Errorf("%d places are taken", n)
		}
		c.do("GET __ds/x").busy()
		close(w.let)
		wg.Wait()
		c.do("GET __ds/x").want(204)
		c.idle()
	})
}
