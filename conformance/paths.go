package conformance

import (
	"fmt"
	"net/http"
	"strings"
)

func pathTests() []test {
	return []test{
		{"B62 an encoded slash is no slash", encodedSlash},
		{"B63 doubled slashes and dots are refused, never redirected", dotSegments},
		{"B66 N35 the reserved prefix is out of reach, however it is written", reservedPrefix},
		{"paths are compared as sent", comparedAsSent},
		{"every other path is a stream", anyPath},
		{"long paths are taken or refused", longPaths},
		{"nothing outside the streams is served", outside},
	}
}

func encodedSlash(c *client) {
	for _, enc := range []string{"%2F", "%2f", "%5C"} {
		dir := c.path("x")
		p, slash := dir+enc+"b", dir+"/b"
		if c.put(p, text, "one").is(201, 400).Status == 201 {
			c.get(p, fromStart).is(200).body("one")
		}
		c.get(slash, fromStart).refused(404)
		c.put(slash, text, "two").is(201)
		c.get(slash, fromStart).is(200).body("two")
		c.get(p, fromStart).is(200, 400, 404)
		c.delete(slash).is(204)
		c.get(slash, fromStart).refused(404)
	}
}

func dotSegments(c *client) {
	x := c.path("x")
	y := c.create("y", text, "target")
	odd := []string{
		x + "//y", x + "/../" + y, x + "/./y", "./" + x, "../" + x, x + "/..", x + "/.", x + "/", "/" + x, x + "///y", x + "//",
		x + "/%2e%2e/" + y, x + "/%2E%2E/" + y, x + "/.%2e/" + y, x + "/%2e/y", x + "/%2e%2E", "%2e%2e/%2e%2e/etc/passwd", "..", ".", "", "/",
	}
	for _, p := range odd {
		for _, method := range []string{"PUT", "POST", "GET", "HEAD", "DELETE"} {
			body := ""
			if method == "PUT" || method == "POST" {
				body = "q"
			}
			k := c.dial()
			r := k.exchange(method, c.rawHead(method, p, plainType(text), fmt.Sprint("Content-Length: ", len(body)))+body)
			r.is(400, 404)
			if r.Status == 404 && strings.Trim(p, "/") != "" {
				c.Errorf("%s %q answers 404, want 400", method, p)
			}
			if l := r.Header.Get("Location"); l != "" {
				c.Errorf("%s %q sends to %q", method, p, l)
			}
		}
	}
	c.get(y, fromStart).is(200).body("target")
	for _, p := range []string{x + "/...", x + "/.hidden", x + "/a..b", x + "/a.", x + "/%2e%2e%2e", x + "/..a", x + "/~"} {
		c.put(p, text, p).is(201)
		c.get(p, fromStart).is(200).body(p)
	}
}

func reservedPrefix(c *client) {
	name := c.path("x")
	for _, p := range []string{
		"__ds/" + name, "__ds", "%5f%5fds/" + name, "%5F_ds/" + name, "_%5Fds/" + name, "__%64s/" + name, "__d%73/" + name, "%5f%5f%64%73", "__ds/a/b/" + name, "__ds/streams",
	} {
		for _, method := range []string{"PUT", "POST", "DELETE"} {
			r := c.send(method, p, "", "x", "Content-Type", text)
			r.is(400, 404, 405)
		}
		c.get(p, fromStart).is(400, 404, 405)
		c.put(c.path("fork"), text, "", "Stream-Forked-From", c.full(p)).refused(400, 404)
	}
	for _, p := range []string{"__DS/" + name, "__dsx/" + name, "_ds/" + name, name + "/__ds", "__d/" + name, "x__ds/" + name} {
		c.put(p, text, "mine").is(201)
		c.get(p, fromStart).is(200).body("mine")
	}
}

func comparedAsSent(c *client) {
	base := c.path("case")
	paths := []string{base + "/a", base + "/A", base + "/a%20b", base + "/a+b", base + "/a/b", base + "/a/B", base + "/é", base + "/e%CC%81", base + "/a;v=1", base + "/a=1"}
	for _, p := range paths {
		c.put(p, text, p).is(201)
	}
	for _, p := range paths {
		c.get(p, fromStart).is(200).body(p)
	}
	c.delete(paths[0]).is(204)
	c.get(paths[0], fromStart).refused(404)
	for _, p := range paths[1:] {
		c.get(p, fromStart).is(200).body(p)
	}
}

func anyPath(c *client) {
	base := c.path("any")
	for _, name := range []string{"a", "a/b/c/d/e/f", "%00", "%0A%0D", "%F0%9F%98%80", "%FF%FE", "a%25b", "%25", "CON", "nul.txt", "a%3Fb%23c", "a:b", "C:%5Cx", "*", "a'b\"c", "$(id)", "-rf", "a%2F..%2Fb", "%2e%2e%2fetc%2fpasswd"} {
		p := base + "/" + name
		k := c.dial()
		r := k.exchange("PUT", c.rawHead("PUT", p, plainType(text), "Content-Length: 1")+"x").is(201, 400)
		if r.Status == 201 {
			c.dial().exchange("GET", c.rawHead("GET", p)).is(200).body("x")
			c.dial().exchange("DELETE", c.rawHead("DELETE", p)).is(204)
			c.dial().exchange("GET", c.rawHead("GET", p)).is(404)
		}
	}
	for _, name := range []string{"a", "a/b/c/d/e/f", "%F0%9F%98%80", "a%25b"} {
		c.put(base+"/must/"+name, text, "x").is(201)
	}
}

func longPaths(c *client) {
	for _, n := range []int{200, 1000, 4000, 60_000} {
		for _, p := range []string{c.path(strings.Repeat("p", n)), c.path("") + strings.Repeat("/d", n)} {
			r := c.put(p, text, "x")
			if r.Err != nil && strings.Contains(r.Err.Error(), "advertised limit") {
				continue // over HTTP/2 the server says beforehand how large a head may be
			}
			r.is(201, 400, 414, 431)
			if len(p) <= 250 {
				r.is(201)
			}
			if r.Status == 201 {
				c.get(p, fromStart).is(200).body("x")
			}
		}
	}
}

func outside(c *client) {
	base := strings.TrimSuffix(c.StreamPath, "/v1/stream")
	for _, target := range []string{
		c.StreamPath, c.StreamPath + "/", c.StreamPath + "s/x", base + "/v2/stream/x", base + "/V1/stream/x", base + "/v1/Stream/x", "/etc/passwd", base + "/v1/x",
		strings.Replace(c.StreamPath, "/v1/", "//v1/", 1) + "/x", strings.Replace(c.StreamPath, "/v1/", "/x/../v1/", 1) + "/x", "/debug/pprof/", "/debug/vars",
	} {
		for _, method := range []string{http.MethodPut, http.MethodGet} {
			r := c.sendURL(method, c.BaseURL+target, "", "Content-Type", text).is(400, 404, 405)
			if l := r.Header.Get("Location"); l != "" {
				c.Errorf("%s %s sends to %q", method, target, l)
			}
		}
	}
	c.sendURL(http.MethodPut, c.BaseURL+c.full(c.path("inside")), "", "Content-Type", text).is(201)
}
