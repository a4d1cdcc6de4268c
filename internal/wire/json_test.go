package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"durablestreams/internal/wire"
)

func TestFrameJSON(t *testing.T) {
	tests := []struct {
		name, in, want string
	}{
		{"object", `{"a":1}`, "{\"a\":1},\n"},
		{"string", `"a"`, "\"a\",\n"},
		{"number", ` 1 `, "1,\n"},
		{"null", `null`, "null,\n"},
		{"array", `[1,"a",true]`, "1,\n\"a\",\ntrue,\n"},
		{"one level only", `[[1,2],[3,4]]`, "[1,2],\n[3,4],\n"},
		{"deep array", `[[[1,2,3]]]`, "[[1,2,3]],\n"},
		{"array inside", `[[]]`, "[],\n"},
		{"empty array", ` [ ] `, ""},
		{"empty object", ` { } `, "{},\n"},
		{"numbers", `[12345678901234567890123,1e400,1.0,1E2,-0,0.10e-0]`,
			"12345678901234567890123,\n1e400,\n1.0,\n1E2,\n-0,\n0.10e-0,\n"},
		{"duplicate names and escapes", `{"a":1,"a":2,"u":"\u2028\/\u0041"}`,
			"{\"a\":1,\"a\":2,\"u\":\"\\u2028\\/\\u0041\"},\n"},
		{"name order", `{"b":1,"a":2}`, "{\"b\":1,\"a\":2},\n"},
		{"lone surrogates", `["\ud83d","\ude00\ud83d","\uD83D\uDE00"]`,
			"\"\\ud83d\",\n\"\\ude00\\ud83d\",\n\"\\uD83D\\uDE00\",\n"},
		{"lone surrogate in a name", `{"\ud83d":1}`, "{\"\\ud83d\":1},\n"},
		{"raw unicode", "[\"\u2028\u00e9\U0001f600\"]", "\"\u2028\u00e9\U0001f600\",\n"},
		{"white space", "\r\n\t [ {\r\"a b\" :\n[ 1 ,\t2 ] } , \"x \\\" y\" ]\n", "{\"a b\":[1,2]},\n\"x \\\" y\",\n"},
		{"white space behind escapes", `[ "\\" , "\\\"" , "a\\\\" ]`, "\"\\\\\",\n\"\\\\\\\"\",\n\"a\\\\\\\\\",\n"},
		{"escaped newline", `"a\nb"`, "\"a\\nb\",\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, n, err := wire.FrameJSON([]byte("dst"), []byte(tt.in))
			if err != nil || string(got) != "dst"+tt.want {
				t.Fatalf("FrameJSON(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
			}
			if want := strings.Count(tt.want, ",\n"); n != want {
				t.Errorf("%d messages, want %d", n, want)
			}
		})
	}
}

func TestFrameJSONRefuses(t *testing.T) {
	tests := []struct {
		in     string
		offset int
		reason string
	}{
		{"", 0, "empty body"},
		{" \r\n\t ", 0, "empty body"},
		{"\xef\xbb\xbf{\"a\":1}", 0, "byte order mark"},
		{"\xef\xbb\xbf", 0, "byte order mark"},
		{"\"a\xffb\"", 2, "invalid UTF-8"},
		{"\"\xed\xa0\xbd\"", 1, "invalid UTF-8"}, // a surrogate in UTF-8
		{"\"\xc0\x80\"", 1, "invalid UTF-8"},
		{"[1,2", 4, "unexpected end"},
		{`{"a"`, 4, "unexpected end"},
		{`"a`, 2, "unexpected end"},
		{`tru`, 3, "unexpected end"},
		{`-`, 1, "unexpected end"},
		{`[`, 1, "unexpected end"},
		{`1 2`, 2, "data after the value"},
		{`{} {}`, 3, "data after the value"},
		{"{}\n{}\n", 3, "data after the value"},
		{`[1]]`, 3, "data after the value"},
		{`1,`, 1, "data after the value"},
		{"1\x00", 1, "data after the value"},
		{"\"a\nb\"", 2, "unexpected control character"},
		{"\"a\x00\"", 2, "unexpected control character"},
		{"[\"a\tb\"]", 3, "unexpected control character"},
		{"\x001", 0, "unexpected control character"},
		{`{bad`, 1, "syntax error"},
		{`{'a':1}`, 1, "syntax error"},
		{`[1,]`, 2, "syntax error"},
		{`[,1]`, 1, "syntax error"},
		{`[1 2]`, 3, "syntax error"},
		{`{"a":1,}`, 7, "syntax error"},
		{`{"a" 1}`, 5, "syntax error"},
		{`01`, 1, "data after the value"},
		{`[01]`, 2, "syntax error"},
		{`+1`, 0, "syntax error"},
		{`NaN`, 0, "syntax error"},
		{`"\x"`, 1, "syntax error"},
		{`"\u12g4"`, 1, "syntax error"},
		{`]`, 0, "syntax error"},
		{`}`, 0, "syntax error"},
		{`,`, 0, "syntax error"},
		{`// c`, 0, "syntax error"},
		{"\u00a01", 0, "syntax error"}, // a space, but none of JSON's
	}
	for _, tt := range tests {
		dst := []byte("dst")
		got, n, err := wire.FrameJSON(dst, []byte(tt.in))
		je, ok := errors.AsType[*wire.JSONError](err)
		if !ok || string(got) != "dst" || n != 0 {
			t.Errorf("FrameJSON(%q) = %q, %d, %v; want a *JSONError", tt.in, got, n, err)
			continue
		}
		if je.Reason != tt.reason || je.Offset != tt.offset {
			t.Errorf("FrameJSON(%q): %q at %d, want %q at %d", tt.in, je.Reason, je.Offset, tt.reason, tt.offset)
		}
	}
}

func TestFrameJSONErrorText(t *testing.T) {
	_, _, err := wire.FrameJSON(nil, []byte(`{"secret": tru}`))
	if want := "invalid JSON at byte 14: syntax error"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestFrameJSONDepth(t *testing.T) {
	nest := func(open, mid, shut string, n int) string {
		return strings.Repeat(open, n) + mid + strings.Repeat(shut, n)
	}
	const depth = wire.MaxJSONDepth
	tests := []struct {
		name, in string
		ok       bool
	}{
		{"5000 arrays", nest("[", "", "]", 5000), true},
		{"as deep as allowed", nest("[", "", "]", depth), true},
		{"one too deep", nest("[", "", "]", depth+1), false},
		{"objects as deep as allowed", nest(`{"[":`, "1", "}", depth), true},
		{"objects one too deep", nest(`{"[":`, "1", "}", depth+1), false},
		{"20000", nest("[", "", "]", 20000), false},
		{"a million", nest("[", "", "]", 1_000_000), false},
		{"behind closed brackets and strings", `[[[]],{"a\"[[":[]},` + nest("[", "", "]", depth) + "]", false},
		{"a million, not closed", strings.Repeat("[", 1_000_000), false},
		{"a million objects", strings.Repeat(`{"":`, 1_000_000), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			framed, _, err := wire.FrameJSON(nil, []byte(tt.in))
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
			if tt.ok {
				if err != nil {
					t.Fatal(err)
				}
				if doc := wire.AppendJSONArray(nil, framed); !json.Valid(doc) && tt.in[0] == '[' {
					t.Error("what was taken cannot be read again")
				}
				return
			}
			je, ok := errors.AsType[*wire.JSONError](err)
			if !ok || !strings.HasPrefix(je.Reason, "nested deeper") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestFrameJSONClosedAndQuotedBracketsAreNoDepth(t *testing.T) {
	body := `["\"` + strings.Repeat("[", wire.MaxJSONDepth) + `",` + strings.Repeat("[],", wire.MaxJSONDepth) + `1 [`
	_, _, err := wire.FrameJSON(nil, []byte(body))
	if je, ok := errors.AsType[*wire.JSONError](err); !ok || je.Reason != "syntax error" || je.Offset != len(body)-1 {
		t.Errorf("error %v", err)
	}
}

func TestFrameJSONDecoderIsClean(t *testing.T) {
	// A pooled decoder must not remember the body before.
	for range 3 {
		for _, in := range []string{`{"a":[1,{"b":`, `[1,2,`, `1`, `[`, "", `{"a":1}`} {
			_, n, err := wire.FrameJSON(nil, []byte(in))
			if ok := json.Valid([]byte(in)); ok != (err == nil) || ok && n != 1 {
				t.Errorf("FrameJSON(%q): %d, %v", in, n, err)
			}
		}
	}
}

func FuzzFrameJSON(f *testing.F) {
	for _, s := range []string{
		`[1,{"a":[true,null]},"\ud83d"]`, ` [ ] `, "\xef\xbb\xbf1", `{"a":1,"a":2}`, "[1e400, -0.0]", `[1,]`, "\"\xff\"",
		"{\"a\" :\r\n[ 1 ,\t{ } ] }", `"\\\""`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		saved := bytes.Clone(body)
		framed, n, err := wire.FrameJSON(nil, body)
		if !bytes.Equal(body, saved) {
			t.Fatal("body was changed")
		}
		// The depth bounds of both packages are the same.
		if valid := utf8.Valid(body) && json.Valid(body); valid != (err == nil) {
			t.Fatalf("FrameJSON(%q): %v, encoding/json says valid=%v", body, err, valid)
		}
		if err != nil {
			je, ok := errors.AsType[*wire.JSONError](err)
			if !ok || je.Offset < 0 || je.Offset > len(body) || je.Reason == "" {
				t.Fatalf("error %#v", err)
			}
			return
		}
		want := messagesOf(t, body)
		got := bytes.SplitAfter(framed, []byte{'\n'})
		got = got[:len(got)-1]
		if len(got) != len(want) || n != len(want) {
			t.Fatalf("%d messages in %d lines, want %d", n, len(got), len(want))
		}
		for i, m := range got {
			if string(m) != want[i]+",\n" {
				t.Errorf("message %d is %q, want %q", i, m, want[i])
			}
		}
		// The answer to a reader decodes to the values that were sent.
		if got, want := decode(t, wire.AppendJSONArray(nil, framed)), decode(t, asArray(body)); !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %v, want %v", got, want)
		}
	})
}

// messagesOf says by encoding/json what FrameJSON should give for a valid body.
func messagesOf(t *testing.T, body []byte) (messages []string) {
	var raw []json.RawMessage
	if err := json.Unmarshal(asArray(body), &raw); err != nil {
		t.Fatal(err)
	}
	for _, m := range raw {
		var b bytes.Buffer
		if err := json.Compact(&b, m); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, b.String())
	}
	return messages
}

func asArray(body []byte) []byte {
	if bytes.HasPrefix(bytes.TrimLeft(body, " \r\n\t"), []byte("[")) {
		return body
	}
	return append(append([]byte{'['}, body...), ']')
}

func decode(t *testing.T, doc []byte) (v any) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil && !strings.Contains(err.Error(), "exceeded max depth") {
		t.Fatalf("decode %q: %v", doc, err)
	}
	return v
}

// jsonBodies are a token of a model, an event and a batch of events.
func jsonBodies() (token, object, batch []byte) {
	token = []byte(`{"type":"token","text":" hello","i":123}`)
	object = []byte(`{"id":"0192f0c1-7a4e-7f3a-9b1a-2f6d1c9a0e11","type":"message.delta","role":"assistant",` +
		`"index":17,"created":1760000000.125,"delta":{"text":"The quick brown fox jumps over the lazy dog` +
		` \u2014 twice.\n"},"usage":{"in":1024,"out":33},"flags":[true,false,null]}`)
	batch = append(batch, '[')
	for len(batch) < 1<<20 {
		batch = append(append(batch, object...), ',')
	}
	batch[len(batch)-1] = ']'
	return token, object, batch
}

func BenchmarkFrameJSON(b *testing.B) {
	token, object, batch := jsonBodies()
	for _, bb := range []struct {
		name string
		body []byte
	}{{"token", token}, {"object", object}, {"batch", batch}} {
		dst := make([]byte, 0, 2*len(bb.body))
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := wire.FrameJSON(dst, bb.body); err != nil {
					b.Fatal(err)
				}
			}
		})
		// The same work less the cutting into messages, with the standard library.
		b.Run(bb.name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(bb.body)))
			b.ReportAllocs()
			for b.Loop() {
				out := bytes.NewBuffer(dst)
				if !utf8.Valid(bb.body) || !json.Valid(bb.body) || json.Compact(out, bb.body) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}
