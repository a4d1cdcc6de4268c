package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/control"
	"durablestreams/internal/protocol"
	"durablestreams/stream"
	"durablestreams/subscription"
)

// recorder notes calls and gives what it was told to.
type recorder struct {
	calls   []string
	err     error
	view    subscription.View
	created bool
	wake    subscription.Wake
	next    bool
	noKeys  error
}

func (r *recorder) call(format string, args ...any) error {
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
	return r.err
}

func (r *recorder) Create(_ context.Context, id, root string, c subscription.Config) (subscription.View, bool, error) {
	ttl := "default"
	if c.LeaseTTL != nil {
		ttl = fmt.Sprint(*c.LeaseTTL)
	}
	return r.view, r.created, r.call("create %s at %s: %s pattern=%q streams=%q url=%q wake=%q ttl=%s description=%q filter=%s",
		id, root, c.Type, c.Pattern, c.Streams, c.WebhookURL, c.WakeStream, ttl, c.Description, c.Filter)
}

func (r *recorder) Get(_ context.Context, id string) (subscription.View, error) {
	return r.view, r.call("get %s", id)
}

func (r *recorder) Delete(_ context.Context, id string) error { return r.call("delete %s", id) }

func (r *recorder) AddStreams(_ context.Context, id string, paths []string) error {
	return r.call("add %s %q", id, paths)
}

func (r *recorder) RemoveStream(_ context.Context, id, path string) error {
	return r.call("remove %s %s", id, path)
}

func (r *recorder) Claim(_ context.Context, id, worker string) (subscription.Wake, error) {
	return r.wake, r.call("claim %s %q", id, worker)
}

func (r *recorder) Ack(_ context.Context, id string, ref subscription.WakeRef, acks []subscription.Ack, done bool) (bool, error) {
	return r.next, r.call("ack %s %v %q %v", id, ref, acks, done)
}

func (r *recorder) Callback(_ context.Context, id string, ref subscription.WakeRef, acks []subscription.Ack, done bool) (bool, error) {
	return r.next, r.call("callback %s %v %q %v", id, ref, acks, done)
}

func (r *recorder) Release(_ context.Context, id string, ref subscription.WakeRef) error {
	return r.call("release %s %v", id, ref)
}

// KeyID and JWKS make it keys, too.
func (r *recorder) KeyID() (string, error) { return "ds_1", r.noKeys }
func (r *recorder) JWKS() ([]byte, error)  { return []byte(`{"keys":[]}`), r.noKeys }

type header map[string][]string

func (h header) Values(name string) []string { return h[name] }

const root = "https://ds.example/durable-streams/v1/stream"

func request(method, path, body string, authorization ...string) *protocol.ControlRequest {
	return &protocol.ControlRequest{Method: method, Path: path, Root: root, Header: header{"Authorization": authorization}, Body: []byte(body)}
}

// serve sends a request that the core would let through.
func serve(t *testing.T, r *recorder, req *protocol.ControlRequest) protocol.ControlAnswer {
	t.Helper()
	api := control.New(r, r)
	if !slices.Contains(api.Methods(req.Path), req.Method) {
		t.Fatalf("%s %s: there are %v", req.Method, req.Path, api.Methods(req.Path))
	}
	answer, err := api.Serve(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.Path, err)
	}
	return answer
}

// code gives the error code of an answer.
func code(a protocol.ControlAnswer) string {
	var e struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(a.Body, &e) != nil || e.Error.Message == "" {
		return fmt.Sprintf("no error: %s", a.Body)
	}
	return e.Error.Code
}

func TestRoutes(t *testing.T) {
	api := control.New(&recorder{}, nil)
	for path, want := range map[string]string{
		"jwks.json":                       "GET HEAD",
		"subscriptions/a":                 "PUT GET HEAD DELETE",
		"subscriptions/a%2Fb":             "PUT GET HEAD DELETE",
		"subscriptions/streams":           "PUT GET HEAD DELETE",
		"subscriptions/...":               "PUT GET HEAD DELETE",
		"subscriptions/a/streams":         "POST",
		"subscriptions/a/streams/x":       "DELETE",
		"subscriptions/a/streams/x/y":     "DELETE",
		"subscriptions/a/streams/x%2Fy":   "DELETE",
		"subscriptions/a/streams/a/claim": "DELETE",
		"subscriptions/a/claim":           "POST",
		"subscriptions/a/ack":             "POST",
		"subscriptions/a/release":         "POST",
		"subscriptions/a/callback":        "POST",
		"":                                "",
		"jwks.json/":                      "",
		"jwks%2Ejson":                     "",
		"JWKS.json":                       "",
		"jwks":                            "",
		"subscriptions":                   "",
		"subscriptions/":                  "",
		"subscriptions//claim":            "",
		"subscriptions/a/":                "",
		"subscriptions/a%zz":              "",
		"subscriptions/%":                 "",
		"subscriptions/.":                 "",
		"subscriptions/..":                "",
		"subscriptions/%2e%2E":            "",
		"subscriptions/../ack":            "",
		"subscriptions/a/streams/":        "",
		"subscriptions/a/streams/%2":      "",
		"subscriptions/a/claim/":          "",
		"subscriptions/a/claim/x":         "",
		"subscriptions/a/cl%61im":         "",
		"subscriptions/a/Claim":           "",
		"subscriptions/a/other":           "",
		"Subscriptions/a":                 "",
		"subscription/a":                  "",
		"schedules/a":                     "",
		"x/subscriptions/a":               "",
		"/subscriptions/a":                "",
		"subscriptions%2Fa":               "",
	} {
		if got := strings.Join(api.Methods(path), " "); got != want {
			t.Errorf("%q has %q, want %q", path, got, want)
		}
	}
}

func TestCalls(t *testing.T) {
	const full = `{"type":"webhook","pattern":"e/*","streams":["a","b"],"webhook":{"url":"https://w.example/","secret":1},"wake_stream":"w",
		"filter":{"language":"cel"},"lease_ttl_ms":1e3,"description":"d","more":{"type":1},"Type":"x"}`
	tests := []struct {
		method, path, body, authorization string
		status                            int
		call                              string
	}{
		{"PUT", "subscriptions/s", full, "", 200,
			`create s at ` + root + `: webhook pattern="e/*" streams=["a" "b"] url="https://w.example/" wake="w" ttl=1000 description="d" filter={"language":"cel"}`},
		{"PUT", "subscriptions/a%2Fb%20c", `{"type":"pull-wake","pattern":null,"streams":[],"webhook":null,"wake_stream":"w","filter":null,"lease_ttl_ms":null,"description":null}`, "", 200,
			`create a/b c at ` + root + `: pull-wake pattern="" streams=[] url="" wake="w" ttl=default description="" filter=`},
		{"PUT", "subscriptions/s", "", "", 200, `create s at ` + root + `:  pattern="" streams=[] url="" wake="" ttl=default description="" filter=`},
		{"GET", "subscriptions/s", "", "", 200, "get s"},
		{"DELETE", "subscriptions/s", "", "", 204, "delete s"},
		{"POST", "subscriptions/s/streams", `{"streams":["x/y","x%2Fy"]}`, "", 204, `add s ["x/y" "x%2Fy"]`},
		{"POST", "subscriptions/s/streams", `{"streams":[]}`, "", 204, `add s []`},
		{"DELETE", "subscriptions/s/streams/x%2Fy", "", "", 204, "remove s x/y"},
		{"DELETE", "subscriptions/s/streams/x/y", "", "", 204, "remove s x/y"},
		{"DELETE", "subscriptions/s/streams/x%252Fy", "", "", 204, "remove s x%2Fy"},
		{"POST", "subscriptions/s/claim", `{"worker":"w1"}`, "", 200, `claim s "w1"`},
		{"POST", "subscriptions/s/claim", `{"worker":"w1"}`, "Bearer service", 200, `claim s "w1"`},
		{"POST", "subscriptions/s/ack", `{"wake_id":"w_1","generation":7,"acks":[{"stream":"a","offset":"1","x":[]}],"done":true}`, "Bearer t.1", 200,
			`ack s {t.1 w_1 7} [{"a" "1"}] true`},
		{"POST", "subscriptions/s/callback", `{"wake_id":"w_1","generation":7}`, "bEARER  t.1", 200, `callback s {t.1 w_1 7} [] false`},
		{"POST", "subscriptions/s/release", `{"wake_id":"w_1","generation":7}`, "Bearer t", 204, `release s {t w_1 7}`},
		{"POST", "subscriptions/s/release", ``, "Bearer t", 204, `release s {t  0}`},
		{"POST", "subscriptions/s/ack", `{"generation":-1,"acks":null,"done":null}`, "Bearer t", 200, `ack s {t  0} [] false`},
	}
	for _, tt := range tests {
		r := &recorder{view: subscription.View{ID: "s", Type: subscription.PullWake}}
		a := serve(t, r, request(tt.method, tt.path, tt.body, slices.DeleteFunc([]string{tt.authorization}, func(s string) bool { return s == "" })...))
		if a.Status != tt.status || !slices.Equal(r.calls, []string{tt.call}) {
			t.Errorf("%s %s: %d %s\n%q, want\n%q", tt.method, tt.path, a.Status, a.Body, r.calls, tt.call)
		}
		if a.Cache != "" {
			t.Errorf("%s %s may be kept: %s", tt.method, tt.path, a.Cache)
		}
	}
}

func TestBadBodies(t *testing.T) {
	tests := map[string][]string{
		"PUT subscriptions/s": {
			"x", "null", "1", `"s"`, "[]", "[{}]", "{", "{}{}", "{} x", `{"type":"webhook",}`, "\xef\xbb\xbf{}", `{"description":"` + "\xff" + `"}`,
			`{"type":1}`, `{"type":["webhook"]}`, `{"pattern":1}`, `{"streams":"a"}`, `{"streams":{}}`, `{"streams":[1]}`, `{"streams":[null]}`, `{"streams":[["a"]]}`,
			`{"webhook":"https://x"}`, `{"webhook":[]}`, `{"webhook":{"url":1}}`, `{"wake_stream":{}}`, `{"lease_ttl_ms":"1000"}`, `{"lease_ttl_ms":1000.5}`,
			`{"lease_ttl_ms":1e300}`, `{"lease_ttl_ms":true}`, `{"description":1}`, `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
		},
		"POST subscriptions/s/streams": {"", "{}", "[]", `{"streams":null}`, `{"streams":"a"}`, `{"streams":[{}]}`, `{"Streams":["a"]}`},
		"POST subscriptions/s/claim":   {"x", `{"worker":1}`, `["worker"]`},
		"POST subscriptions/s/ack": {"x", "[]", `{"wake_id":1}`, `{"generation":"7"}`, `{"generation":7.5}`, `{"done":"true"}`, `{"done":1}`, `{"acks":{}}`, `{"acks":[1]}`,
			`{"acks":[null]}`, `{"acks":[{"stream":"a"}]}`, `{"acks":[{"offset":"1"}]}`, `{"acks":[{"stream":"a","offset":1}]}`, `{"acks":[{"path":"a","offset":"1"}]}`},
	}
	for line, bodies := range tests {
		method, path, _ := strings.Cut(line, " ")
		for _, body := range bodies {
			r := &recorder{}
			a := serve(t, r, request(method, path, body, "Bearer t"))
			if a.Status != 400 || code(a) != "INVALID_REQUEST" || len(r.calls) > 0 {
				t.Errorf("%s %.80s: %d %s, calls %q", line, body, a.Status, a.Body, r.calls)
			}
		}
	}
	long := `{"streams":["a"` + strings.Repeat(`,"a"`, subscription.MaxLinks) + `]}`
	for _, line := range []string{"PUT subscriptions/s", "POST subscriptions/s/streams"} {
		method, path, _ := strings.Cut(line, " ")
		if a := serve(t, &recorder{}, request(method, path, long)); a.Status != 429 || code(a) != "LIMIT_EXCEEDED" {
			t.Errorf("%s with a long list: %d %.200s", line, a.Status, a.Body)
		}
	}
	req := request("PUT", "subscriptions/s", `{"type":"webhook"}`)
	req.Root = ""
	if a := serve(t, &recorder{}, req); a.Status != 400 || code(a) != "INVALID_REQUEST" {
		t.Errorf("without a host: %d %s", a.Status, a.Body)
	}
}

// Without keys nothing is done that would need them later.
func TestKeysComeFirst(t *testing.T) {
	for path, req := range map[string]*protocol.ControlRequest{
		"create": request("PUT", "subscriptions/s", `{"type":"webhook","pattern":"x","webhook":{"url":"https://w.example/"}}`),
		"claim":  request("POST", "subscriptions/s/claim", `{"worker":"w"}`),
	} {
		r := &recorder{noKeys: errors.New("no disk")}
		if _, err := control.New(r, r).Serve(req); !errors.Is(err, r.noKeys) || len(r.calls) > 0 {
			t.Errorf("%s: %v after %q", path, err, r.calls)
		}
	}
}

func TestTokensAreNeeded(t *testing.T) {
	for _, action := range []string{"ack", "callback", "release"} {
		for _, values := range [][]string{nil, {""}, {"Bearer"}, {"Bearer "}, {"Basic abc"}, {"t"}, {"Bearert"}, {"Bearer a", "Bearer b"}} {
			r := &recorder{}
			a := serve(t, r, request("POST", "subscriptions/s/"+action, "not even JSON", values...))
			if a.Status != 401 || code(a) != "TOKEN_INVALID" || len(r.calls) > 0 {
				t.Errorf("%s with %q: %d %s", action, values, a.Status, a.Body)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for c, status := range map[subscription.Code]int{
		"INVALID_REQUEST": 400, "FILTER_UNSUPPORTED": 400, "WEBHOOK_URL_REJECTED": 400, "INVALID_OFFSET": 400, "TOKEN_INVALID": 401, "TOKEN_EXPIRED": 401,
		"SUBSCRIPTION_NOT_FOUND": 404, "SUBSCRIPTION_ALREADY_EXISTS": 409, "FENCED": 409, "NO_PENDING_WORK": 409, "LIMIT_EXCEEDED": 429, "NEVER_HEARD_OF": 500,
	} {
		r := &recorder{err: fmt.Errorf("around: %w", &subscription.Refusal{Code: c, Message: "why <not>"})}
		for _, req := range []*protocol.ControlRequest{request("GET", "subscriptions/s", ""), request("DELETE", "subscriptions/s", ""),
			request("POST", "subscriptions/s/claim", "{}"), request("POST", "subscriptions/s/ack", "{}", "Bearer t")} {
			a := serve(t, r, req)
			if want := fmt.Sprintf(`{"error":{"code":"%s","message":"why <not>"}}`+"\n", c); a.Status != status || string(a.Body) != want || a.Type != "application/json" {
				t.Errorf("%s: %d %s, want %d %s", c, a.Status, a.Body, status, want)
			}
		}
	}
	r := &recorder{err: &subscription.Refusal{Code: subscription.AlreadyClaimed, Message: "m", Holder: "w2", Generation: 7}}
	if a := serve(t, r, request("POST", "subscriptions/s/claim", `{"worker":"w"}`)); a.Status != 409 ||
		string(a.Body) != `{"error":{"code":"ALREADY_CLAIMED","message":"m","current_holder":"w2","generation":7}}`+"\n" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	// What the engine says goes on to the core.
	r.err = &stream.Error{Kind: stream.ShuttingDown}
	if _, err := control.New(r, r).Serve(request("GET", "subscriptions/s", "")); !errors.Is(err, stream.ShuttingDown) {
		t.Errorf("%v", err)
	}
}

func TestAnswers(t *testing.T) {
	at := func(pos uint64) stream.Offset { return stream.Offset{Pos: pos, Inc: 0xabc} }
	links := []subscription.Link{{Path: "e/1", Acked: at(5), Tail: at(9), Pending: true}, {Path: `m/"<`, Explicit: true}}
	hook := subscription.View{ID: "s<", Type: subscription.Webhook, Pattern: "e/*", Streams: links[1:], WebhookURL: "https://w.example/?a&b", LeaseTTL: 30 * time.Second,
		CreatedAt: time.Unix(1778324210, 5e6), Root: root, Generation: 3, Failed: true}
	pull := subscription.View{ID: "p", Type: subscription.PullWake, WakeStream: "w", LeaseTTL: time.Second, CreatedAt: time.Unix(0, 0), Description: "d", Problem: "gone", Truncated: true}
	zero := stream.Offset{}.String()
	tests := []struct {
		r      *recorder
		req    *protocol.ControlRequest
		status int
		body   string
	}{
		{&recorder{view: hook, created: true}, request("PUT", "subscriptions/s", `{"type":"webhook"}`), 201,
			`{"id":"s<","subscription_id":"s<","type":"webhook","pattern":"e/*","streams":[{"path":"m/\"<","link_type":"explicit","acked_offset":"` + zero + `","has_pending":false}],` +
				`"webhook":{"url":"https://w.example/?a&b","signing":{"alg":"ed25519","kid":"ds_1","jwks_url":"` + root + `/__ds/jwks.json"}},"wake_stream":null,"filter":null,` +
				`"lease_ttl_ms":30000,"created_at":"2026-05-09T10:56:50.005Z","status":"failed","description":null,"generation":3}`},
		{&recorder{view: pull}, request("GET", "subscriptions/p", ""), 200,
			`{"id":"p","subscription_id":"p","type":"pull-wake","pattern":null,"streams":[],"webhook":null,"wake_stream":"w","filter":null,` +
				`"lease_ttl_ms":1000,"created_at":"1970-01-01T00:00:00.000Z","status":"active","description":"d","generation":0,"problem":"gone","streams_truncated":true}`},
		{&recorder{wake: subscription.Wake{ID: "w_1", Generation: 7, Token: "t", Streams: links[:1], LeaseTTL: 1000}}, request("POST", "subscriptions/p/claim", "{}"), 200,
			`{"wake_id":"w_1","generation":7,"token":"t","streams":[{"path":"e/1","link_type":"glob","acked_offset":"` + at(5).String() + `","tail_offset":"` + at(9).String() + `","has_pending":true}],"lease_ttl_ms":1000}`},
		{&recorder{next: true}, request("POST", "subscriptions/p/ack", "{}", "Bearer t"), 200, `{"ok":true,"next_wake":true}`},
		{&recorder{}, request("POST", "subscriptions/p/callback", "{}", "Bearer t"), 200, `{"ok":true,"next_wake":false}`},
	}
	for _, tt := range tests {
		a := serve(t, tt.r, tt.req)
		if a.Status != tt.status || a.Type != "application/json" || string(a.Body) != tt.body+"\n" {
			t.Errorf("%s %s: %d %s\n%s, want\n%s", tt.req.Method, tt.req.Path, a.Status, a.Type, a.Body, tt.body)
		}
	}
	a := serve(t, &recorder{}, request("GET", "jwks.json", ""))
	if a.Status != 200 || a.Type != "application/jwk-set+json" || a.Cache != "public, max-age=300" || string(a.Body) != `{"keys":[]}` {
		t.Errorf("%+v", a)
	}
}

// FuzzBodies compares what is taken from a body with what encoding/json makes of it.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"type":"webhook","streams":["a"],"x":{"type":1},"type":null,"acks":[{"stream":"a","offset":"1"}]}`))
	f.Add([]byte(" {\"wake_id\" : \"\\u0000\" , \"generation\":1e2,\"done\":true}\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = control.ParseConfig(body)
		_, _, _, _ = control.ParseWork(request("POST", "", string(body), "Bearer t"))
		members, err := control.Members(body)
		var want map[string]json.RawMessage
		if plainErr := json.Unmarshal(body, &want); (plainErr != nil || want == nil) && err == nil && len(body) > 0 {
			t.Fatalf("%q is taken", body)
		}
		if err != nil {
			return
		}
		for name, value := range want {
			got, there := members[name]
			if there != (control.Known(name) && string(value) != "null") || there && got != string(value) {
				t.Errorf("%q: %q is %q, %v", body, name, got, there)
			}
		}
		if len(members) > len(want) {
			t.Errorf("%q: members %q", body, members)
		}
	})
}
