package protocol_test

import (
	"strconv"
	"testing"

	"durablestreams/stream"
)

func from(name string) string { return "Stream-Forked-From: /durable-streams/v1/stream/" + name }

func TestFork(t *testing.T) {
	c := newClient(t, nil)
	start := c.do("PUT s", textType, "=abc").next()
	c.do("POST s", textType, "=def").want(204)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"tail":   {nil, "abcdef"},
		"now":    {[]string{"Stream-Fork-Offset: now"}, "abcdef"},
		"start":  {[]string{"Stream-Fork-Offset: -1"}, ""},
		"zero":   {[]string{"Stream-Fork-Offset: " + stream.StartLiteral}, ""},
		"middle": {[]string{"Stream-Fork-Offset: " + start}, "abc"},
		"sub":    {[]string{"Stream-Fork-Offset: " + start, "Stream-Fork-Sub-Offset: 2"}, "abcde"},
		"suball": {[]string{"Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: 6"}, "abcdef"},
		"sub0":   {[]string{"Stream-Fork-Sub-Offset: 0"}, "abcdef"},
	} {
		args := append([]string{from("s"), "=X"}, tt.args...)
		a := c.do("PUT "+name, args...).want(201, "Content-Type: text/plain", "Stream-Closed:", "Stream-Forked-From:", "Stream-Fork-Offset:")
		c.do("PUT "+name, args...).want(200, "Stream-Next-Offset: "+a.next())
		c.do("GET " + name).want(200).text(tt.want + "X")
		c.do("POST s", textType, "=").want(400)
		c.do("POST "+name, textType, "=!").want(204)
		c.do("GET " + name + "?offset=" + a.next()).text("!")
	}
	c.do("GET s").text("abcdef")
	c.do("POST s", textType, "=ghi").want(204)
	c.do("PUT tail", from("s")).want(200) // the same, though the source grew
	c.do("DELETE s").want(204)
	c.do("GET s").want(410).code("gone")
	c.do("POST s", closedTrue).want(410)
	c.do("PUT s", textType).want(409).code("path_in_use")
	c.do("PUT other", from("s")).want(409).code("fork_source_gone")
	c.do("PUT sub", from("s"), "Stream-Fork-Offset: "+start, "Stream-Fork-Sub-Offset: 2").want(200) // though the source is gone
}

func TestForkRefusals(t *testing.T) {
	c := newClient(t, nil)
	tail := c.do("PUT s", textType, "=abc").next()
	inc := mustOffset(t, tail).Inc
	other := c.do("PUT o", textType, "=abcd").next()
	for _, tt := range []struct {
		args   []string
		status int
		code   string
	}{
		{[]string{from("none")}, 404, "fork_source_not_found"},
		{[]string{"Stream-Forked-From: /v1/stream/s"}, 404, "fork_source_not_found"},
		{[]string{"Stream-Forked-From: /elsewhere/__ds"}, 404, "fork_source_not_found"},
		{[]string{"Stream-Forked-From: s"}, 400, "invalid_header"},
		{[]string{"Stream-Forked-From:"}, 400, "invalid_header"},
		{[]string{"Stream-Forked-From: /"}, 400, "invalid_path"},
		{[]string{"Stream-Forked-From: /else%zz"}, 400, "invalid_path"},
		{[]string{"Stream-Forked-From: /elsewhere?x"}, 400, "invalid_path"},
		{[]string{"Stream-Forked-From: /durable-streams/v1/stream/"}, 400, "invalid_path"},
		{[]string{"Stream-Forked-From: /durable-streams/v1/stream/a//b"}, 400, "invalid_path"},
		{[]string{"Stream-Forked-From: http://ds.example/durable-streams/v1/stream/s"}, 400, "invalid_header"},
		{[]string{from("../s")}, 400, "invalid_path"},
		{[]string{from("s?x")}, 400, "invalid_path"},
		{[]string{from("__ds/x")}, 404, "reserved_path"},
		{[]string{from("s"), "Content-Type: text/html"}, 409, "content_type_mismatch"},
		{[]string{from("s"), "Stream-Fork-Offset: 9999999999999999_9999999999999999"}, 400, "invalid_offset"},
		{[]string{from("s"), "Stream-Fork-Offset:"}, 400, "invalid_offset"},
		{[]string{from("s"), "Stream-Fork-Offset: 3"}, 400, "invalid_offset"},
		{[]string{from("s"), "Stream-Fork-Offset: " + stream.Offset{Pos: 4, Inc: inc}.String()}, 400, "invalid_offset"},
		{[]string{from("s"), "Stream-Fork-Offset: " + other}, 410, "offset_gone"},
		{[]string{from("s"), "Stream-Fork-Sub-Offset: 1"}, 400, "invalid_header"},
		{[]string{from("s"), "Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: 4"}, 400, "invalid_offset"},
		{[]string{from("s"), "Stream-Fork-Offset: " + tail, "Stream-Fork-Sub-Offset: 1"}, 400, "invalid_offset"},
		{[]string{from("s"), "Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: 01"}, 400, "invalid_header"},
		{[]string{from("s"), "Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: -1"}, 400, "invalid_header"},
		{[]string{from("s"), "Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: 18446744073709551615"}, 400, "invalid_header"},
		{[]string{from("s"), "Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: 9999999999999998"}, 400, "invalid_offset"},
		{[]string{from("s"), "Stream-TTL: 01"}, 400, "invalid_header"},
	} {
		c.do("PUT f", tt.args...).want(tt.status).code(tt.code)
		c.do("HEAD f").want(404)
	}
	c.do("DELETE s").want(204) // no refused fork left a reference
	c.do("HEAD s").want(404)
}

func TestForkJSON(t *testing.T) {
	c := newClient(t, nil)
	first := c.do("PUT s", jsonType, "=[1,2,3]").next()
	c.do("POST s", jsonType, "=[4,[5]]").want(204)
	for i, want := range []string{"[]", "[1]", "[1,\n2]", "[1,\n2,\n3]", "[1,\n2,\n3,\n4]", "[1,\n2,\n3,\n4,\n[5]]"} {
		name := "f" + strconv.Itoa(i)
		args := []string{from("s"), "Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: " + strconv.Itoa(i)}
		c.do("PUT "+name, args...).want(201, "Content-Type: application/json")
		c.do("GET " + name).text(want)
		c.do("PUT "+name, args...).want(200)
	}
	c.do("PUT f", from("s"), "Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: 6").want(400).code("invalid_offset")
	c.do("PUT f", from("s"), "Stream-Fork-Offset: "+first, "Stream-Fork-Sub-Offset: 3").want(400)
	c.do("PUT g", from("s"), "Stream-Fork-Offset: "+first, "Stream-Fork-Sub-Offset: 1", "=[ 9 ]").want(201)
	c.do("GET g").text("[1,\n2,\n3,\n4,\n9]") // framed by the inherited type
	c.do("PUT h", from("s"), "={bad").want(400).code("invalid_json")
	c.do("PUT i", from("g"), "Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: 5", jsonType).want(201)
	c.do("GET i").text("[1,\n2,\n3,\n4,\n9]")
	inside := stream.Offset{Pos: 1, Inc: mustOffset(t, first).Inc}.String()
	c.do("PUT j", from("s"), "Stream-Fork-Offset: "+inside).want(400).code("invalid_offset")
}

func TestForkOfClosed(t *testing.T) {
	c := newClient(t, nil)
	c.do("PUT s", textType, "=abc", closedTrue).want(201)
	c.do("PUT f", from("s")).want(201, "Stream-Closed:")
	c.do("PUT g", from("s"), closedTrue, "=!").want(201, closedTrue)
	c.do("POST f", textType, "=d").want(204)
	c.do("GET f").want(200, "Stream-Closed:").text("abcd")
	c.do("GET g").want(200, closedTrue).text("abc!")
}
