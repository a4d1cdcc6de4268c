package conformance

import (
	"fmt"
	"net/http"
	"strings"
)

func controlTests() []test {
	return []test{
		{"B66 other spellings of the reserved prefix do not reach it", spelledOtherwise},
		{"unknown addresses are 404", unknownControl},
		{"every endpoint has its methods", controlMethods},
		{"bodies are bounded and read whole", controlBodies},
		{"pages of other origins may use it", controlBrowser},
		{"the key set is public", keySet},
		{"control and streams share a connection", sharedConnection},
	}
}

func spelledOtherwise(c *client) {
	s := c.subscription("spelled")
	o := `{"type":"pull-wake","pattern":"` + c.path("x") + `","wake_stream":"w"}`
	put := func(path string) *reply {
		k := c.dial()
		return k.exchange("PUT", c.rawHead("PUT", path, plainType(jsonType), fmt.Sprintf("Content-Length: %d", len(o)))+o)
	}
	for _, prefix := range []string{"%5f%5fds/", "%5F_ds/", "_%5fds/", "__%64s/", "__d%73/", "__ds%2F", "__ds%2f", "__DS/", "x/__ds/", "__ds//", "__ds/./", "__ds/../__ds/", "/__ds/", "__ds/%2e/"} {
		path := prefix + s.path()
		r := put(path)
		if strings.HasPrefix(path, "__DS/") || strings.HasPrefix(path, "x/") {
			r.is(201) // a stream like others
			c.delete(path).is(204)
		} else {
			r.is(400, 404)
		}
		c.get(path, "").is(400, 404)
	}
	c.control(http.MethodGet, s.path(), nil).code(404, "SUBSCRIPTION_NOT_FOUND")
	put("__ds/" + s.path()).is(201)
	for _, path := range []string{"__ds/subscriptions%2F" + s.id, "__ds/%73ubscriptions/" + s.id, "__ds/Subscriptions/" + s.id, "__ds/" + s.path() + "/", "__ds/" + s.path() + "/cl%61im"} {
		for _, method := range []string{"GET", "POST", "DELETE", "PUT"} {
			k := c.dial()
			k.exchange(method, c.rawHead(method, path, plainType(jsonType), "Content-Length: 2")+"{}").is(400, 404)
		}
	}
	s.show() // it is still there
}

func unknownControl(c *client) {
	for _, path := range []string{"", "x", "subscriptions", "schedules/x", "jwks", "jwks.json/x", "subscriptions/x/other", "subscriptions/x/claim/y", "subscriptions/x/streams/%zz", "streams"} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "HEAD"} {
			k := c.dial()
			body := ""
			if method == "PUT" || method == "POST" {
				body = "{}"
			}
			k.exchange(method, c.rawHead(method, "__ds/"+path, plainType(jsonType), fmt.Sprintf("Content-Length: %d", len(body)))+body).is(404, 400)
		}
	}
}

func controlMethods(c *client) {
	s, _ := c.pull(c.path("none"), 1000)
	for path, methods := range map[string]string{
		"jwks.json":             "GET HEAD OPTIONS",
		s.path():                "PUT GET HEAD DELETE OPTIONS",
		s.path() + "/streams":   "POST OPTIONS",
		s.path() + "/streams/a": "DELETE OPTIONS",
		s.path() + "/claim":     "POST OPTIONS",
		s.path() + "/ack":       "POST OPTIONS",
		s.path() + "/release":   "POST OPTIONS",
		s.path() + "/callback":  "POST OPTIONS",
	} {
		allowed := strings.Fields(methods)
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH", "TRACE", "FOO"} {
			if strings.Contains(" "+methods+" ", " "+method+" ") {
				continue
			}
			k := c.dial()
			k.exchange(method, c.rawHead(method, "__ds/"+path, "Content-Length: 0")).is(405, 501).lists("Allow", allowed...).header("Cache-Control", "no-store")
		}
		c.control(http.MethodOptions, path, nil).is(204).lists("Allow", allowed...).lists("Access-Control-Allow-Methods", allowed...).
			lists("Access-Control-Allow-Headers", "Authorization", "Content-Type")
	}
	s.show()
}

func controlBodies(c *client) {
	s := c.subscription("bodies")
	o := `{"type":"pull-wake","pattern":"` + c.path("x") + `","wake_stream":"w"}`
	k := c.dial()
	k.exchange("PUT", c.rawHead("PUT", "__ds/"+s.path(), plainType(jsonType), chunked)+fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", 10, o[:10], len(o)-10, o[10:])).is(201)
	k = c.dial()
	k.write(c.rawHead("PUT", "__ds/"+s.path(), plainType(jsonType), fmt.Sprintf("Content-Length: %d", len(o)), "Expect: 100-continue"))
	k.answer("PUT").is(100)
	k.exchange("PUT", o).is(200)
	for _, n := range []string{"99999999999", fmt.Sprint(c.MaxBody + 1)} {
		k = c.dial()
		k.exchange("PUT", c.rawHead("PUT", "__ds/"+s.path(), plainType(jsonType), "Content-Length: "+n)).is(413)
	}
	large := c.dial()
	go func() {
		large.write(c.rawHead("POST", "__ds/"+s.path()+"/streams", plainType(jsonType), chunked))
		for range c.MaxBody/(64<<10) + 2 {
			large.write("10000\r\n" + strings.Repeat(" ", 64<<10) + "\r\n")
		}
	}()
	if r := large.answer("POST"); r.Err == nil {
		r.is(413)
	}
	large.Close()
	// What breaks off does nothing.
	k = c.dial()
	k.write(c.rawHead("POST", "__ds/"+s.path()+"/streams", plainType(jsonType), "Content-Length: 100") + `{"streams":["a"]}`)
	k.Close()
	k = c.dial()
	k.write(c.rawHead("POST", "__ds/"+s.path()+"/streams", plainType(jsonType), chunked) + "11\r\n" + `{"streams":["a"]}` + "\r\n")
	k.Close()
	c.pause(settle)
	if v := s.show(); len(v.Streams) != 0 {
		c.Errorf("half a request has added %+v", v.Streams)
	}
	// The type of a body and a query do not matter.
	c.send(http.MethodPost, "__ds/"+s.path()+"/streams", "x=y", `{"streams":["a"]}`, "Content-Type", text).is(204)
	many := make([]string, 10_001)
	for i := range many {
		many[i] = fmt.Sprintf("m/%d", i)
	}
	c.control(http.MethodPost, s.path()+"/streams", config{"streams": many}).code(429, "LIMIT_EXCEEDED")
	c.control(http.MethodPost, s.path()+"/streams", config{"streams": many[:5000]}).is(204)
}

func controlBrowser(c *client) {
	origin := []string{"Origin", c.origin()}
	s := c.subscription("browser")
	o := config{"type": "pull-wake", "pattern": c.path("x"), "wake_stream": "w"}
	for _, r := range []*reply{
		c.control(http.MethodPut, s.path(), o, origin...).is(201),
		c.control(http.MethodGet, s.path(), nil, origin...).is(200),
		c.control(http.MethodGet, "jwks.json", nil, origin...).is(200),
		c.control(http.MethodPost, s.path()+"/claim", config{"worker": "w"}, origin...).is(409),
		c.control(http.MethodPost, s.path()+"/ack", config{}, origin...).is(401),
		c.control(http.MethodOptions, s.path(), nil, append([]string{"Access-Control-Request-Method", "PUT"}, origin...)...).is(204),
		c.control(http.MethodGet, c.subscription("none").path(), nil, origin...).is(404),
		c.control(http.MethodDelete, s.path(), nil, origin...).is(204),
	} {
		r.allows(c.origin()).header("X-Content-Type-Options", "nosniff").lists("Access-Control-Expose-Headers", "Retry-After")
	}
}

func keySet(c *client) {
	keys := c.publicKeys()
	for kid := range keys {
		if c.publicKeys()[kid] == nil {
			c.Errorf("the key %s is gone", kid)
		}
	}
	r := c.control(http.MethodGet, "jwks.json", nil)
	if strings.Contains(r.Body, `"d"`) {
		c.Errorf("a private key is public: %s", r.Body)
	}
	c.control(http.MethodHead, "jwks.json", nil).is(200).body("").header("Content-Type", "application/jwk-set+json").header("Cache-Control", "public, max-age=300")
}

func sharedConnection(c *client) {
	prefix, pattern := c.group("mixed")
	s, _ := c.pull(pattern, 5000)
	k := c.dial()
	k.write(c.rawHead("PUT", prefix+"a", plainType(text), "Content-Length: 1") + "x")
	k.write(c.rawHead("GET", "__ds/"+s.path()))
	k.write(c.rawHead("POST", prefix+"a", plainType(text), "Content-Length: 1") + "y")
	k.write(c.rawHead("POST", "__ds/"+s.path()+"/claim", plainType(jsonType), "Content-Length: 14") + `{"worker":"w"}`)
	k.write(c.rawHead("GET", prefix+"a"))
	k.answer("PUT").is(201)
	k.answer("GET").is(200)
	tail := k.answer("POST").is(204).tail()
	var w wake
	k.answer("POST").is(200).decode(&w)
	if l := w.stream(c, prefix+"a"); l.Tail != tail {
		c.Errorf("the claim knows %+v, the tail is %s", l, tail)
	}
	k.answer("GET").is(200).body("xy")
}
