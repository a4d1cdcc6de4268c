package wire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"durablestreams/internal/wire"
)

// An event is what a client sees of an SSE stream.
type event struct{ name, data string }

// parseSSE reads an event stream as the WHATWG HTML standard says (section
// "Interpreting an event stream"), and is strict beyond it: an unknown field or
// an unfinished event is an error, as no encoder here may write one.
func parseSSE(stream []byte) (events []event, err error) {
	name, data, fields := "", "", 0
	for len(stream) > 0 {
		i := bytes.IndexAny(stream, "\r\n")
		if i < 0 {
			return nil, errors.New("unfinished line")
		}
		line := string(stream[:i])
		if bytes.HasPrefix(stream[i:], []byte("\r\n")) {
			i++
		}
		stream = stream[i+1:]
		if line == "" {
			if data != "" {
				events = append(events, event{name, strings.TrimSuffix(data, "\n")})
			}
			name, data, fields = "", "", 0
			continue
		}
		if line[0] == ':' {
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		fields++
		switch field {
		case "event":
			name = value
		case "data":
			data += value + "\n"
		default:
			return nil, fmt.Errorf("unknown field %q", field)
		}
	}
	if fields > 0 {
		return nil, errors.New("unfinished event")
	}
	return events, nil
}

// oneEvent parses a stream that must be a single event of the given name.
func oneEvent(t *testing.T, stream []byte, name string) string {
	t.Helper()
	events, err := parseSSE(stream)
	if err != nil || len(events) != 1 || events[0].name != name {
		t.Fatalf("%q parses to %q, %v; want one %s event", stream, events, err, name)
	}
	return events[0].data
}

// normalLines is the text a client gets: every kind of line break becomes LF.
func normalLines(s string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
}

func TestAppendTextEvent(t *testing.T) {
	tests := []struct {
		name, in, wire string
	}{
		{"plain", "hello", "data:hello\n"},
		{"empty", "", "data:\n"},
		{"lines", "line1\nline2\r\nline3", "data:line1\ndata:line2\ndata:line3\n"},
		{"CR", "a\rb", "data:a\ndata:b\n"},
		{"CR CR LF", "a\r\r\nb", "data:a\ndata:\ndata:b\n"},
		{"LF CR", "a\n\rb", "data:a\ndata:\ndata:b\n"},
		{"final LF", "a\n", "data:a\ndata:\n"},
		{"final CR", "a\r", "data:a\ndata:\n"},
		{"final CRLF", "a\r\n", "data:a\ndata:\n"},
		{"only LF", "\n", "data:\ndata:\n"},
		{"one space", " x", "data:  x\n"},
		{"two spaces", "  x", "data:   x\n"},
		{"spaces on each line", "a\n b\r c\r\n d", "data:a\ndata:  b\ndata:  c\ndata:  d\n"},
		{"only a space", " ", "data:  \n"},
		{"tab", "\tx", "data:\tx\n"},
		{"colon", ":c", "data::c\n"},
		{"forged event", "\n\nevent: control\ndata: {\"streamClosed\":true}\n\n",
			"data:\ndata:\ndata:event: control\ndata:data: {\"streamClosed\":true}\ndata:\ndata:\n"},
		{"forged with CR", "start\r\revent: control\rdata: x\r\rend",
			"data:start\ndata:\ndata:event: control\ndata:data: x\ndata:\ndata:end\n"},
		{"other separators stay", "a\u2028b\u0085c\vd\fe\x00f", "data:a\u2028b\u0085c\vd\fe\x00f\n"},
		{"not UTF-8", "\xff\xf0\x9f", "data:\xff\xf0\x9f\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(wire.AppendTextEvent([]byte("dst"), []byte(tt.in)))
			if want := "dstevent: data\n" + tt.wire + "\n"; got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
			if data := oneEvent(t, []byte(got[3:]), "data"); data != normalLines(tt.in) {
				t.Errorf("a client reads %q", data)
			}
		})
	}
}

func TestAppendJSONEvent(t *testing.T) {
	for body, want := range map[string]string{
		`[]`:                        `[]`,
		"{\r\"a\":1\r\n}":           `[{"a":1}]`,
		`[1, "a b\n\nevent: x", 3]`: `[1,"a b\n\nevent: x",3]`,
	} {
		framed, _, err := wire.FrameJSON(nil, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := oneEvent(t, wire.AppendJSONEvent(nil, framed), "data"); got != want {
			t.Errorf("%q: a client reads %q, want %q", body, got, want)
		}
	}
	if got := wire.AppendJSONEvent([]byte("dst"), []byte("1,\n2,\n")); string(got) != "dstevent: data\ndata:[1,2]\n\n" {
		t.Errorf("got %q", got)
	}
}

func TestAppendBase64Event(t *testing.T) {
	got := string(wire.AppendBase64Event([]byte("dst"), []byte("\x00\xff\xfe\xfb")))
	if want := "dstevent: data\ndata:AP/++w==\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAppendControlEvent(t *testing.T) {
	tests := []struct {
		name string
		in   wire.Control
		want string
	}{
		{"behind", wire.Control{NextOffset: "1_a", Cursor: "7"}, `{"streamNextOffset":"1_a","streamCursor":"7"}`},
		{"up to date", wire.Control{NextOffset: "1_a", Cursor: "7", UpToDate: true},
			`{"streamNextOffset":"1_a","streamCursor":"7","upToDate":true}`},
		{"closed", wire.Control{NextOffset: "1_a", Cursor: "7", Closed: true},
			`{"streamNextOffset":"1_a","upToDate":true,"streamClosed":true}`},
		{"closed and up to date", wire.Control{NextOffset: "1_a", UpToDate: true, Closed: true},
			`{"streamNextOffset":"1_a","upToDate":true,"streamClosed":true}`},
		{"no cursor", wire.Control{NextOffset: "1_a"}, `{"streamNextOffset":"1_a"}`},
		{"odd bytes", wire.Control{NextOffset: "\"\\\r\n\x00é"}, `{"streamNextOffset":"\u0022\u005c\u000d\u000a\u0000é"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(wire.AppendControlEvent([]byte("dst"), tt.in))
			if want := "dstevent: control\ndata:" + tt.want + "\n\n"; got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
			if data := oneEvent(t, []byte(got[3:]), "control"); !json.Valid([]byte(data)) {
				t.Errorf("%q is not JSON", data)
			}
		})
	}
}

func TestAppendComment(t *testing.T) {
	stream := wire.AppendComment(nil)
	stream = wire.AppendTextEvent(stream, []byte("a"))
	stream = wire.AppendComment(stream)
	if stream[0] != ':' {
		t.Errorf("%q does not start with a comment", stream)
	}
	if data := oneEvent(t, stream, "data"); data != "a" {
		t.Errorf("a client reads %q", data)
	}
}

func TestHoldBackUTF8(t *testing.T) {
	for in, held := range map[string]int{
		"": 0, "abc": 0, "é": 0, "\U0001f600": 0,
		"\xc3": 1, "a\xc3": 1,
		"\xe2": 1, "\xe2\x82": 2,
		"\xf0": 1, "\xf0\x9f": 2, "\xf0\x9f\x98": 3, "a\xf0\x9f\x98": 3,
		"\U0001f600\xf0\x9f\x98": 3,
		"\xff":                   0, "\x80": 0, "\x80\x80\x80\x80": 0, // no character starts here
		"\xc0": 0, "\xc1": 0, "\xf5": 0,
		"\xe0\x80": 0, "\xed\xa0": 0, "\xf4\x90": 0, "\xf0\x80\x80": 0, // already lost
		"\xe2a": 0, "\xf0\x9fa": 0, "\xf0\x9f\xc3": 1,
	} {
		if got := wire.HoldBackUTF8([]byte(in)); got != len(in)-held {
			t.Errorf("HoldBackUTF8(%q) = %d, want %d", in, got, len(in)-held)
		}
	}
}

func TestCutText(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit int
		want  int
	}{
		{"abcdef", 4, 4},
		{"abcd", 4, 4},
		{"abc", 4, 3},
		{"", 4, 0},
		{"abc\r\n", 4, 3},
		{"abc\r", 4, 4},
		{"abc\rd", 4, 4},
		{"abcd\n", 4, 4},
		{"ab\r\nd", 4, 4},
		{"abc\xf0\x9f\x98\x80", 4, 3},
		{"a\U0001f600", 4, 1},
		{"\U0001f600b", 4, 4},
		{"ab\xf0\x9f", 4, 4}, // all there is: the end is not a cut
		{"\x80\x80\x80\x80\x80", 4, 4},
		{"\U0001f600", 3, 0},
		{"\r\n", 1, 0},
		{"abc", 0, 0},
		{"abc", -1, 0},
	} {
		if got := wire.CutText([]byte(tt.in), tt.limit); got != tt.want {
			t.Errorf("CutText(%q, %d) = %d, want %d", tt.in, tt.limit, got, tt.want)
		}
	}
}

func FuzzTextEvent(f *testing.F) {
	for _, s := range []string{"a\r\nb\r", " \n  x\n:c", "\n\nevent: control\ndata: x\n\n", "\xf0\x9f\x98\x80\r\r\n\xf0\x9f"} {
		f.Add([]byte(s), 4)
	}
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		if got, want := oneEvent(t, wire.AppendTextEvent(nil, text), "data"), normalLines(string(text)); got != want {
			t.Errorf("a client reads %q, want %q", got, want)
		}
		// The same in pages, a control behind each.
		limit = 4 + max(0, limit)%64
		var stream []byte
		for rest := text; len(rest) > 0; {
			n := wire.CutText(rest, limit)
			if n <= 0 || n > limit {
				t.Fatalf("CutText(%q, %d) = %d", rest, limit, n)
			}
			if utf8.Valid(text) && !utf8.Valid(rest[:n]) {
				t.Fatalf("CutText(%q, %d) = %d is inside a character", rest, limit, n)
			}
			stream = wire.AppendTextEvent(stream, rest[:n])
			stream = wire.AppendControlEvent(stream, wire.Control{NextOffset: "x"})
			rest = rest[n:]
		}
		events, err := parseSSE(stream)
		var joined strings.Builder
		for i, e := range events {
			if want := []string{"data", "control"}[i%2]; e.name != want {
				t.Errorf("event %d is %q, want %s", i, e, want)
			}
			if e.name == "data" {
				joined.WriteString(e.data)
			}
		}
		if want := normalLines(string(text)); err != nil || joined.String() != want {
			t.Errorf("pages read %q, %v; want %q", joined.String(), err, want)
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`[1, {"a" : "\n"}]`), "1_a", "7")
	f.Add([]byte("\x00\n\n"), "\"\n\nevent: x\n", "\r")
	f.Fuzz(func(t *testing.T, body []byte, offset, cursor string) {
		b64, err := base64.StdEncoding.DecodeString(oneEvent(t, wire.AppendBase64Event(nil, body), "data"))
		if err != nil || !bytes.Equal(b64, body) {
			t.Errorf("base64: %q, %v", b64, err)
		}
		if framed, _, err := wire.FrameJSON(nil, body); err == nil {
			data := oneEvent(t, wire.AppendJSONEvent(nil, framed), "data")
			if got, want := decode(t, []byte(data)), decode(t, asArray(body)); !reflect.DeepEqual(got, want) {
				t.Errorf("a client reads %v, want %v", got, want)
			}
		}
		if !utf8.ValidString(offset) || !utf8.ValidString(cursor) {
			return // JSON cannot carry it; neither is ever minted
		}
		data := oneEvent(t, wire.AppendControlEvent(nil, wire.Control{NextOffset: offset, Cursor: cursor}), "control")
		var c struct{ StreamNextOffset, StreamCursor string }
		if err := json.Unmarshal([]byte(data), &c); err != nil || c.StreamNextOffset != offset || c.StreamCursor != cursor {
			t.Errorf("control %q reads %+v, %v", data, c, err)
		}
	})
}

func FuzzHoldBackUTF8(f *testing.F) {
	f.Add([]byte("a\xf0\x9f"), []byte("\x98\x80"))
	f.Fuzz(func(t *testing.T, data, more []byte) {
		n := wire.HoldBackUTF8(data)
		if n < 0 || n > len(data) || len(data)-n > 3 {
			t.Fatalf("HoldBackUTF8(%q) = %d", data, n)
		}
		// Decoding in two pieces gives the same characters as decoding at once.
		whole := append(bytes.Clone(data), more...)
		if got := string([]rune(string(whole[:n]))) + string([]rune(string(whole[n:]))); got != string([]rune(string(whole))) {
			t.Errorf("cut at %d of %q gives %q", n, whole, got)
		}
	})
}

func BenchmarkTextEvent(b *testing.B) {
	token, page := []byte(" hello"), bytes.Repeat([]byte("a line of some sixty bytes, as logs and answers often have it\n"), 1000)
	for name, text := range map[string][]byte{"token": token, "page": page} {
		dst := make([]byte, 0, 2*len(text)+64)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				wire.AppendTextEvent(dst, text)
			}
		})
	}
}

func BenchmarkJSONEvent(b *testing.B) {
	token, _, batch := jsonBodies()
	for name, body := range map[string][]byte{"token": token, "batch": batch} {
		framed, _, err := wire.FrameJSON(nil, body)
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, 0, len(framed)+64)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(framed)))
			b.ReportAllocs()
			for b.Loop() {
				wire.AppendJSONEvent(dst, framed)
			}
		})
	}
}

func BenchmarkControlEvent(b *testing.B) {
	c := wire.Control{NextOffset: "0000000000001234_00112233445566ff", Cursor: "3212345", UpToDate: true}
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		wire.AppendControlEvent(dst, c)
	}
}
