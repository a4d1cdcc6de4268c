package protocol_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/protocol"
	"durablestreams/stream"
)

// peer is a connection's other end.
type peer string

func (p peer) Peer() string { return string(p) }

const (
	trace  = "0af7651916cd43dd8448eb211c80319c"
	parent = "00-" + trace + "-b7ad6b7169203331-01"
)

// told gives what is told of an answer with a status, and the answer.
func told(t *testing.T, w protocol.Watch, trusted []string, req *protocol.Request, err error, took time.Duration, from peer) (*protocol.Answer, *protocol.Response) {
	t.Helper()
	var got *protocol.Answer
	w.Tell = func(a protocol.Answer) { got = &a }
	core, bad := protocol.New(nil, &protocol.Options{Watch: &w, TrustedProxies: trusted})
	if bad != nil {
		t.Fatal(bad)
	}
	req.Proxied = core.Proxied(from.Peer)
	res := core.Refuse(req, err)
	core.NewMeter().Answered(req, res, took, from)
	return got, res
}

var errOfTest = &stream.Error{Kind: stream.NotFound, Message: "no"}

var someID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// Who is told, and under which name: a name, and an address of a client, count from a
// trusted proxy only, and only if they are one.
func TestOriginOfRequests(t *testing.T) {
	proxy := []string{"10.0.0.0/8", "unix"}
	tests := map[string]struct {
		trusted    []string
		peer       peer
		header     fields
		client, id string // id "": a new one
	}{
		"nobody":                    {nil, "192.0.2.1:5", fields{}, "192.0.2.1", ""},
		"a mapped address":          {nil, "[::ffff:192.0.2.1]:5", fields{}, "192.0.2.1", ""},
		"a socket":                  {nil, "@", fields{}, "unix", ""},
		"another transport":         {nil, "pipe\n", fields{}, "pipe%0A", ""},
		"a stranger":                {proxy, "192.0.2.1:5", fields{"X-Forwarded-For": {"203.0.113.9"}, "X-Request-Id": {"mine"}, "Traceparent": {parent}}, "192.0.2.1", ""},
		"a proxy":                   {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"203.0.113.9"}, "X-Request-Id": {"req-1_A.b:c/d+e=@"}}, "203.0.113.9", "req-1_A.b:c/d+e=@"},
		"a proxy by a socket":       {proxy, "@", fields{"X-Forwarded-For": {"203.0.113.9"}}, "203.0.113.9", ""},
		"a proxy that says nothing": {proxy, "10.0.0.1:5", fields{}, "10.0.0.1", ""},
		"two proxies":               {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"203.0.113.9, 10.0.0.2"}}, "203.0.113.9", ""},
		"two fields":                {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"203.0.113.9", "10.0.0.2"}}, "203.0.113.9", ""},
		"what a client has made up": {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"1.1.1.1, 203.0.113.9"}}, "203.0.113.9", ""},
		"made up as a proxy's":      {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"1.1.1.1, 10.9.9.9, 203.0.113.9, 10.0.0.2"}}, "203.0.113.9", ""},
		"only proxies":              {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"10.0.0.3, 10.0.0.2"}}, "10.0.0.3", ""},
		"no address":                {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"203.0.113.9, <script>"}}, "10.0.0.1", ""},
		"no address further on":     {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"evil\x1b[31m, 10.0.0.2"}}, "10.0.0.2", ""},
		"IPv6 with a port":          {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"[2001:db8::1]:80"}}, "2001:db8::1", ""},
		"IPv6":                      {proxy, "10.0.0.1:5", fields{"X-Forwarded-For": {"2001:db8::1"}}, "2001:db8::1", ""},
		"Forwarded":                 {proxy, "10.0.0.1:5", fields{"Forwarded": {`for=1.1.1.1, for="[2001:db8::1]:80";proto=https`, "For=10.0.0.2"}}, "2001:db8::1", ""},
		"hidden":                    {proxy, "10.0.0.1:5", fields{"Forwarded": {"for=_hidden"}}, "10.0.0.1", ""},
		"a trace":                   {proxy, "10.0.0.1:5", fields{"Traceparent": {parent}}, "10.0.0.1", trace},
		"a trace and a name":        {proxy, "10.0.0.1:5", fields{"Traceparent": {parent}, "X-Request-Id": {"n"}}, "10.0.0.1", "n"},
		"two names":                 {proxy, "10.0.0.1:5", fields{"X-Request-Id": {"a", "b"}}, "10.0.0.1", ""},
		"an empty name":             {proxy, "10.0.0.1:5", fields{"X-Request-Id": {""}}, "10.0.0.1", ""},
		"a long name":               {proxy, "10.0.0.1:5", fields{"X-Request-Id": {strings.Repeat("a", 129)}}, "10.0.0.1", ""},
		"a line break":              {proxy, "10.0.0.1:5", fields{"X-Request-Id": {"a\nb"}}, "10.0.0.1", ""},
		"a name with room":          {proxy, "10.0.0.1:5", fields{"X-Request-Id": {"a b"}}, "10.0.0.1", ""},
		"a name with quotes":        {proxy, "10.0.0.1:5", fields{"X-Request-Id": {`a"b`}}, "10.0.0.1", ""},
	}
	for name, test := range tests {
		req := &protocol.Request{Method: "GET", Path: "/x", Header: test.header}
		a, res := told(t, protocol.Watch{All: true}, test.trusted, req, errOfTest, time.Second, test.peer)
		if a == nil {
			t.Errorf("%s: not told", name)
			continue
		}
		if a.Client != test.client {
			t.Errorf("%s: the client is %q, want %q", name, a.Client, test.client)
		}
		if test.id == "" && !someID.MatchString(a.ID) || test.id != "" && a.ID != test.id {
			t.Errorf("%s: its name is %q, want %q", name, a.ID, test.id)
		}
		if got := res.Get("X-Request-Id"); got != a.ID {
			t.Errorf("%s: the client is told %q, the log has %q", name, got, a.ID)
		}
		if exposed := res.Get("Access-Control-Expose-Headers"); !strings.HasSuffix(exposed, ", X-Request-Id") {
			t.Errorf("%s: pages cannot read the name: %q", name, exposed)
		}
	}
}

func TestTraceParent(t *testing.T) {
	for value, want := range map[string]bool{
		parent:                  true,
		parent[:54]:             false,
		parent + "-x":           false,
		"01" + parent[2:]:       false,
		strings.ToUpper(parent): false,
		strings.Replace(parent, trace, trace[:31]+"g", 1):          false,
		strings.Replace(parent, trace, strings.Repeat("0", 32), 1): false,
		"00-" + trace + "-0000000000000000-01":                     false,
		"00-" + trace + "_b7ad6b7169203331-01":                     false,
		"":                                                         false,
	} {
		req := &protocol.Request{Method: "GET", Path: "/x", Header: fields{"Traceparent": {value}}}
		a, _ := told(t, protocol.Watch{All: true}, nil, req, errOfTest, 0, "192.0.2.1:5")
		if got := a.Parent == value && value != ""; got != want {
			t.Errorf("%q: %q", value, a.Parent)
		}
	}
}

// Slow is what the server took too long for, not the client.
func TestSlow(t *testing.T) {
	const at = time.Second
	for name, test := range map[string]struct {
		method, query string
		took, body    time.Duration
		want          bool
	}{
		"fast":                   {"GET", "", at - 1, 0, false},
		"slow":                   {"GET", "", at, 0, true},
		"a slow client":          {"POST", "", 9 * at, 8*at + 1, false},
		"slow and a slow client": {"POST", "", 9 * at, 8 * at, true},
		"a long-poll":            {"GET", "offset=-1&live=long-poll", 30 * at, 0, false},
		"SSE":                    {"GET", "offset=-1&live=sse", 30 * at, 0, false},
		"no live read":           {"GET", "offset=-1&live=forever", 30 * at, 0, true},
	} {
		var all []protocol.Answer
		c := newClient(t, &protocol.Options{Watch: &protocol.Watch{Slow: at, Tell: func(a protocol.Answer) { all = append(all, a) }}})
		req, _ := c.request(test.method+" a?"+test.query, []string{"Content-Type: text/plain"})
		if op, _ := c.core.Begin(req); op != nil && op.Mode() == protocol.Live {
			defer op.Open(func() {}).Close()
		}
		req.BodyTook = test.body
		res := c.core.Refuse(req, c.core.Busy())
		c.core.NewMeter().Answered(req, res, test.took, peer("192.0.2.1:5"))
		if got := len(all) == 1 && all[0].Slow && all[0].Took == test.took; got != test.want {
			t.Errorf("%s: %+v", name, all)
		}
		if named := res.Get("X-Request-Id") != ""; named != test.want {
			t.Errorf("%s: X-Request-Id: %v", name, named)
		}
	}
}

// A request that fails has the same name in the log of its cause and in its answer, also
// where nobody watches; the other ones have none.
func TestFailuresAreNamed(t *testing.T) {
	c := newClient(t, &protocol.Options{TrustedProxies: []string{"10.0.0.0/8"}})
	meter := c.core.NewMeter()
	for _, id := range []string{"", "from-the-proxy"} {
		header := fields{}
		if id != "" {
			header["X-Request-Id"] = []string{id}
		}
		req := &protocol.Request{Method: "GET", Path: "/x", Header: header, Proxied: true}
		c.log.Reset()
		res := c.core.Refuse(req, errors.New("the cause"))
		meter.Answered(req, res, 0, peer("10.0.0.1:1"))
		got := res.Get("X-Request-Id")
		if id == "" && !someID.MatchString(got) || id != "" && got != id || !strings.Contains(c.log.String(), "id="+got+" ") {
			t.Errorf("the answer says %q, the log %s", got, c.log)
		}
		res = c.core.Refuse(req, c.core.Busy())
		meter.Answered(req, res, 0, peer("10.0.0.1:1"))
		if res.Get("X-Request-Id") != "" {
			t.Errorf("an answer of which no log knows: %q", res.Fields)
		}
	}
}

// A detached live read forgets its head, but not what it said of where it comes from.
func TestDetachedOrigin(t *testing.T) {
	var all []protocol.Answer
	c := newClient(t, &protocol.Options{TrustedProxies: []string{"10.0.0.0/8"}, Watch: &protocol.Watch{All: true, Tell: func(a protocol.Answer) { all = append(all, a) }}})
	c.do("PUT a", "Content-Type: text/plain")
	req, _ := c.request("GET a?offset=now&live=long-poll", []string{"X-Request-Id: r", "X-Forwarded-For: 203.0.113.9", "Traceparent: " + parent})
	req.Proxied = true
	op, _ := c.core.Begin(req)
	feed := op.Open(func() {})
	defer feed.Close()
	if _, err := feed.Step(time.Now()); err != nil {
		t.Fatal(err)
	}
	feed.Detach()
	c.core.NewMeter().Answered(req, c.core.Refuse(req, c.core.Busy()), time.Hour, peer("10.0.0.1:1"))
	if len(all) != 1 || all[0].ID != "r" || all[0].Client != "203.0.113.9" || all[0].Parent != parent || all[0].Kind != protocol.LongPoll {
		t.Errorf("%+v", all)
	}
	// The connection's next request is another one.
	if _, res := c.core.Begin(req); res != nil {
		t.Fatal(res.Status)
	}
	all = nil
	c.core.NewMeter().Answered(req, c.core.Refuse(req, c.core.Busy()), 0, peer("10.0.0.1:1"))
	if len(all) != 1 || all[0].ID == "r" || all[0].Client != "10.0.0.1" {
		t.Errorf("the next request: %+v", all)
	}
}

func TestClip(t *testing.T) {
	for _, test := range []struct{ s, want string }{
		{"", ""},
		{"/a/b-c_d~e.f%20g", "/a/b-c_d~e.f%20g"},
		{"12345678901234567890", "12345678901234567890"},
		{"123456789012345678901", "12345678901234567890..."},
		{"a\r\nb", "a%0D%0Ab"},
		{"\x1b[31mred", "%1B[31mred"},
		{"ä b", "%C3%A4%20b"},
		{"\x00\x7f\xff", "%00%7F%FF"},
		{"1234567890123456789\n", "1234567890123456789%..."},
	} {
		if got := protocol.Clip(test.s, 20); got != test.want {
			t.Errorf("%q: %q, want %q", test.s, got, test.want)
		}
	}
}

// Watching costs requests nothing as long as there is nothing to tell.
func TestUnwatchedAnswersCostNothing(t *testing.T) {
	for name, watch := range map[string]*protocol.Watch{"off": nil, "slow ones only": {Slow: time.Hour, Tell: func(protocol.Answer) {}}} {
		core, err := protocol.New(nil, &protocol.Options{Watch: watch})
		if err != nil {
			t.Fatal(err)
		}
		meter, req, res := core.NewMeter(), &protocol.Request{Method: "GET", Path: "/x", Header: fields{}}, &protocol.Response{Status: 200}
		from := peer("192.0.2.1:5")
		if n := testing.AllocsPerRun(100, func() { meter.Answered(req, res, time.Millisecond, &from) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
