package conformance

import (
	"encoding/json"
	"strings"
)

func jsonTests() []test {
	return []test{
		{"one level of an array is flattened", jsonFlatten},
		{"B40 numbers keep their bytes", jsonNumbers},
		{"B41 keys, order and escapes are kept or refused", jsonVerbatim},
		{"B43 deep nesting is taken or refused, and never a crash", jsonDepth},
		{"B44 a byte order mark never gets into an array", jsonBOM},
		{"B46 white space between tokens does not count", jsonSpace},
		{"B47 +json types are bytes", jsonKin},
		{"N27 what is no JSON is refused and leaves nothing", jsonInvalid},
		{"empty arrays are refused on POST and fine on PUT", jsonEmptyArray},
		{"a read is an array from any message on", jsonFromOffsets},
		{"SSE carries whole arrays", jsonEvents},
	}
}

func jsonFlatten(c *client) {
	tests := []struct {
		body string
		want []string
	}{
		{`{"event":"created"}`, []string{`{"event":"created"}`}},
		{`[{"a":1},{"b":2}]`, []string{`{"a":1}`, `{"b":2}`}},
		{`[[1,2],[3,4]]`, []string{`[1,2]`, `[3,4]`}},
		{`[[[1,2,3]]]`, []string{`[[1,2,3]]`}},
		{`[[]]`, []string{`[]`}},
		{`[null,true,false,0,"",{},[]]`, []string{`null`, `true`, `false`, `0`, `""`, `{}`, `[]`}},
		{`"text"`, []string{`"text"`}},
		{`-1.5e-7`, []string{`-1.5e-7`}},
		{`null`, []string{`null`}},
		{`{"list":[1,2]}`, []string{`{"list":[1,2]}`}},
		{`["a,b","[","]","\"","\\","{,}"]`, []string{`"a,b"`, `"["`, `"]"`, `"\""`, `"\\"`, `"{,}"`}},
	}
	for _, tt := range tests {
		c.sub(tt.body, func(c *client) {
			p := c.create("post", jsonType, "")
			c.post(p, jsonType, tt.body).is(204)
			c.post(p, jsonType, tt.body).is(204)
			c.same("posted", c.messages(p), append(append([]string{}, tt.want...), tt.want...))
			c.same("put", c.messages(c.create("put", jsonType, tt.body)), tt.want)
			c.get(p, fromNow).is(200).body("[]")
		})
	}
}

func jsonNumbers(c *client) {
	numbers := []string{"12345678901234567890123", "1e400", "-1e-400", "1.0", "1E2", "1e+2", "-0", "-0.0", "0.1000", "9007199254740993", "123456789.123456789123456789", "0e0"}
	p := c.create("numbers", jsonType, "")
	c.post(p, jsonType, "["+strings.Join(numbers, ",")+"]").is(204)
	for _, n := range numbers {
		c.post(p, jsonType, `{"n":`+n+`}`).is(204)
	}
	want := numbers
	for _, n := range numbers {
		want = append(want, `{"n":`+n+`}`)
	}
	c.same("numbers", c.messages(p), want)
}

func jsonVerbatim(c *client) {
	for _, message := range []string{
		`{"a":1,"a":2,"u":"\u2028"}`, `{"b":1,"a":2,"10":3,"9":4}`, `"\u0041\/\b\f\n\r\t"`, `"` + "\u2028\u2029\u007f\u00e9\U0001F600" + `"`,
		`"\ud83d\ude00"`, `"\ud800"`, `"\udc00\ud800"`, `{"":""}`, `{"__proto__":{"x":1},"constructor":1}`, `"<script>&amp;</script>"`, `"\u0000"`,
		`{"n":1,"n":1}`,
	} {
		c.sub(message, func(c *client) {
			p := c.create("verbatim", jsonType, "")
			if c.post(p, jsonType, message).is(204, 400).Status == 400 {
				c.get(p, fromStart).is(200).body("[]")
				c.put(c.path("put"), jsonType, message).refused(400)
				return
			}
			c.same("message", c.messages(p), []string{message})
			c.same("created", c.messages(c.create("put", jsonType, message)), []string{message})
			e, _ := c.sse(p, fromStart).pair()
			list, err := split(e.data)
			if err != nil {
				c.Fatalf("SSE data %s: %v", short(e.data), err)
			}
			c.same("event", list, []string{message})
		})
	}
}

func jsonDepth(c *client) {
	for _, depth := range []int{50, 5_000, 20_000, 1_000_000} {
		for _, shape := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
			body := strings.Repeat(shape[0], depth) + strings.Repeat(shape[1], depth)
			if shape[0] != "[" {
				body = strings.Repeat(shape[0], depth) + "1" + strings.Repeat(shape[1], depth)
			}
			if int64(len(body)) > c.MaxBody {
				continue
			}
			p := c.create("deep", jsonType, "")
			got := c.post(p, jsonType, body).is(204, 400)
			created := c.put(c.path("put"), jsonType, body).is(201, 400)
			if (got.Status == 204) != (created.Status == 201) {
				c.Errorf("depth %d of %s: POST answers %d, PUT %d", depth, shape[0], got.Status, created.Status)
			}
			if depth == 50 && got.Status != 204 {
				c.Errorf("%d levels of %s are refused", depth, shape[0])
			}
			if got.Status == 400 {
				c.get(p, fromStart).is(200).body("[]")
			}
			c.post(p, jsonType, strings.Repeat("[", depth)).refused(400)
			c.post(p, jsonType, `"next"`).is(204)
		}
	}
}

func jsonBOM(c *client) {
	const bom = "\ufeff"
	p := c.create("bom", jsonType, "")
	for _, body := range []string{bom + `{"a":1}`, bom + `[1,2]`, " " + bom + "1", "[1," + bom + "2]", bom, "1" + bom} {
		c.post(p, jsonType, body).is(400, 204)
	}
	for _, m := range c.messages(p) {
		if strings.Contains(m, bom) {
			c.Errorf("message %q holds a byte order mark", m)
		}
	}
	inside := `"` + bom + `"`
	p = c.create("inside", jsonType, inside)
	c.same("a mark inside a string is content", c.messages(p), []string{inside})
}

func jsonSpace(c *client) {
	p := c.create("space", jsonType, "")
	for _, empty := range []string{" [ ] ", "[\n]", "\r\n[\t]\r\n", " ", "\n", "\r\n\t"} {
		c.post(p, jsonType, empty).refused(400)
	}
	c.post(p, jsonType, "{\r\"a\":1\r\n}").is(204)
	c.post(p, jsonType, "\n[ 1 ,\r\n\t{ \"b\" : [ 2 , 3 ] } ]\n").is(204)
	c.post(p, jsonType, "  \"a  b\"  ").is(204)
	want := []string{`{"a":1}`, `1`, `{"b":[2,3]}`, `"a  b"`}
	var compact []string
	for _, m := range c.messages(p) {
		compact = append(compact, squeeze(c, m))
	}
	c.same("messages", compact, want)

	var got []string
	f := c.sse(p, fromStart)
	for len(got) < len(want) {
		e, _ := f.pair()
		list, err := split(e.data)
		if err != nil {
			c.Fatalf("SSE data %s: %v", short(e.data), err)
		}
		for _, m := range list {
			got = append(got, squeeze(c, m))
		}
	}
	c.same("events", got, want)
}

// squeeze takes the white space out of a message, and nothing else.
func squeeze(c *client, message string) string {
	var b strings.Builder
	inString, escaped := false, false
	for i := range len(message) {
		ch := message[i]
		switch {
		case escaped:
			escaped = false
		case inString && ch == '\\':
			escaped = true
		case ch == '"':
			inString = !inString
		case !inString && strings.IndexByte(" \t\r\n", ch) >= 0:
			continue
		}
		b.WriteByte(ch)
	}
	if !json.Valid([]byte(b.String())) {
		c.Errorf("message %s is no JSON", short(message))
	}
	return b.String()
}

func jsonKin(c *client) {
	for _, ctype := range []string{"application/vnd.api+json", "application/ld+json", "application/x-ndjson", "application/json-seq", "text/json", "application/jsonl"} {
		c.sub(ctype, func(c *client) {
			p := c.create("kin", ctype, "[1,2]")
			c.post(p, ctype, "{not json").is(204)
			c.post(p, ctype, "[]").is(204)
			const want = "[1,2]{not json[]"
			c.get(p, fromStart).is(200).header("Content-Type", ctype).body(want)
			c.get(p, fromNow).is(200).body("")
			f := c.sse(p, fromStart)
			if strings.HasPrefix(ctype, "text/") {
				f.until(want, plain)
				return
			}
			if got := f.Header.Get("Stream-SSE-Data-Encoding"); got != "base64" {
				c.Errorf("SSE without stream-sse-data-encoding: base64, but %q", got)
			}
			f.until(want, unbase64)
		})
	}
}

func jsonInvalid(c *client) {
	for _, body := range []string{
		"{bad", "{", "[", "[1,", "[1,]", "[,1]", "{\"a\":1,}", "{\"a\"}", "{a:1}", "{1:1}", "'a'", "1 2", "{}{}", "[1][2]", "[1]x", "x[1]",
		"NaN", "Infinity", "-", "01", "1.", ".5", "+1", "0x10", "1e", "tru", "True", "nul", "undefined",
		"\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"a\nb\"", "\"\t\"", "\"\x00\"", "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\xff",
		"// c\n1", "1 /* c */", "# 1", "\x00", "1\x00", "[1 2]", "[1:2]", "{\"a\":1 \"b\":2}", "]", "}", ",", ":",
	} {
		c.sub(body, func(c *client) {
			p := c.create("post", jsonType, "")
			tail := c.head(p).tail()
			c.post(p, jsonType, body).refused(400)
			c.post(p, jsonType, "["+body).refused(400)
			c.post(p, jsonType, body, closing()...).refused(400)
			c.get(p, fromStart).is(200).header("Stream-Next-Offset", tail).without("Stream-Closed").body("[]")
			q := c.path("put")
			c.put(q, jsonType, body).refused(400)
			c.head(q).is(404)
		})
	}
}

func jsonEmptyArray(c *client) {
	for _, body := range []string{"[]", "[ ]", "[\n]"} {
		p := c.create("empty", jsonType, body)
		c.put(p, jsonType, body).is(200)
		c.get(p, fromStart).is(200).body("[]").header("Stream-Up-To-Date", "true")
		c.post(p, jsonType, body).refused(400)
		c.post(p, jsonType, body, producer("p", 0, 0)...).refused(400)
		c.post(p, jsonType, "1", producer("p", 0, 0)...).is(200)
		c.same("messages", c.messages(p), []string{"1"})
	}
}

func jsonFromOffsets(c *client) {
	p := c.create("offsets", jsonType, "")
	offsets := []string{c.head(p).tail()}
	want := []string{`{"n":0}`, `[1]`, `"two"`, `3`}
	for _, m := range want {
		body := m
		if strings.HasPrefix(m, "[") {
			body = "[" + m + "]"
		}
		offsets = append(offsets, c.add(p, jsonType, body))
	}
	for i, offset := range offsets {
		r := c.get(p, from(offset)).is(200).header("Stream-Next-Offset", offsets[len(want)]).header("Content-Type", jsonType)
		c.same("from "+offset, r.messages(), want[i:])
	}
	c.get(p, from(offsets[len(want)])).is(200).body("[]")
}

func jsonEvents(c *client) {
	p := c.create("events", jsonType, `[{"a":1},{"b":2}]`)
	f := c.sse(p, fromStart)
	if got := f.Header.Values("Stream-SSE-Data-Encoding"); len(got) > 0 {
		c.Errorf("JSON over SSE has the encoding %q", got)
	}
	want := []string{`{"a":1}`, `{"b":2}`}
	e, _ := f.pair()
	list, err := split(e.data)
	if err != nil {
		c.Fatalf("SSE data %s is no array: %v", short(e.data), err)
	}
	c.same("history", list, want)
	tail := c.add(p, jsonType, `[3,[4]]`)
	e, ctl := f.pair()
	list, err = split(e.data)
	if err != nil {
		c.Fatalf("SSE data %s is no array: %v", short(e.data), err)
	}
	c.same("append", list, []string{"3", "[4]"})
	if ctl.StreamNextOffset != tail {
		c.Errorf("the control leads to %q, the append to %q", ctl.StreamNextOffset, tail)
	}
}
