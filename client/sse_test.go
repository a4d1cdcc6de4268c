package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"durablestreams/client"
	"durablestreams/internal/wire"
)

// events are the events of a text, written out.
func events(r io.Reader) (list []string, err error) {
	err = client.Events(r, 1<<20, func(name string, data []byte) { list = append(list, fmt.Sprintf("%s=%q", name, data)) })
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return list, err
}

func TestEvents(t *testing.T) {
	tests := []struct{ in, want string }{
		{"event: data\ndata: a\n\n", `data="a"`},
		{"event:data\ndata:a\ndata:b\n\nevent: control\ndata: {}\n\n", `data="a\nb" control="{}"`},
		{"data:a\r\n\r\ndata:b\r\rdata:c\n\r\n", `="a" ="b" ="c"`},
		{"data:  two spaces\n\n", `=" two spaces"`},
		{"data:\n\n", `=""`},
		{"data\n\n", `=""`},
		{"data:a\ndata:\n\n", `="a\n"`},
		{": comment\n\ndata:a\n:\nid: 1\nretry: 5\nother\ndata:b\n\n", `="a\nb"`},
		{"event: lost\n\ndata:a\n\n", `="a"`},
		{"\xef\xbb\xbfdata:a\n\n", `="a"`},
		{"data:a\n\ndata: cut off\n", `="a"`},
		{"data:a\n\nevent: da", `="a"`},
		{"data:a:b\n\n", `="a:b"`},
		{" data:a\n\n", ``},
		{"", ``},
	}
	for _, tt := range tests {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(tt.in), "in bytes": iotest.OneByteReader(strings.NewReader(tt.in))} {
			got, err := events(r)
			if err != nil || strings.Join(got, " ") != tt.want {
				t.Errorf("%s, %q: %v, %v, want %s", name, tt.in, got, err, tt.want)
			}
		}
	}
}

func TestEventTooLarge(t *testing.T) {
	for _, text := range []string{"data:" + strings.Repeat("x", 100), strings.Repeat("data:0123456789\n", 10), strings.Repeat("x", 100)} {
		err := client.Events(strings.NewReader(text), 50, func(string, []byte) { t.Error("an event") })
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%.20q...: %v", text, err)
		}
	}
}

func TestParseControl(t *testing.T) {
	for text, want := range map[string]wire.Control{
		`{"streamNextOffset":"1_2","streamCursor":"9","upToDate":true}`: {NextOffset: "1_2", Cursor: "9", UpToDate: true},
		`{"streamNextOffset":"1_2","streamClosed":true}`:                {NextOffset: "1_2", UpToDate: true, Closed: true},
		`{"streamNextOffset":"1_2","new":[1]}`:                          {NextOffset: "1_2"},
	} {
		if got, err := client.ParseControl([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{``, `{}`, `[]`, `{"streamNextOffset":1}`, `{"streamNextOffset":"a"`} {
		if got, err := client.ParseControl([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestDecodeBase64(t *testing.T) {
	for text, want := range map[string]string{"": "", "YQ==": "a", "YWJj\nZGVm": "abcdef", "Y\nW\nJ\nj": "abc"} {
		if got, err := client.DecodeBase64([]byte(text)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"YQ", "YQ=", "Y Q=", "a-b_", "YR=="} {
		if got, err := client.DecodeBase64([]byte(text)); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestJoinArrays(t *testing.T) {
	for _, tt := range []struct{ a, b, want string }{
		{"", "[1]", "[1]"}, {"[]", "[1]", "[1]"}, {"[1]", "[ ]", "[1]"}, {"[1]\n", " [2,3]", "[1,2,3]"}, {"[[]]", "[[1]]", "[[],[1]]"},
	} {
		if got := client.JoinArrays([]byte(tt.a), []byte(tt.b)); string(got) != tt.want {
			t.Errorf("%q and %q: %q, want %q", tt.a, tt.b, got, tt.want)
		}
	}
	if got := client.JoinArrays([]byte("[1]"), []byte("2")); json.Valid(got) {
		t.Errorf("no array was hidden: %s", got)
	}
}

// FuzzEvents: however the bytes arrive the events are the same, and what the server
// writes is read as it was meant.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"event: data\ndata:a\n\n", "data:a\r\n\r\n", ":\n\n", "\xef\xbb\xbfdata: x\r\rdata\n\n", "event:control\ndata:{}\n\nx"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, err := events(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		cut, err := events(iotest.OneByteReader(bytes.NewReader(text)))
		if err != nil || !reflect.DeepEqual(whole, cut) {
			t.Fatalf("%q: %v, in bytes %v, %v", text, whole, cut, err)
		}
		lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text))
		sent := wire.AppendControlEvent(wire.AppendComment(wire.AppendBase64Event(wire.AppendTextEvent(nil, text), text)), wire.Control{NextOffset: "7"})
		var got [][]byte
		_ = client.Events(bytes.NewReader(sent), 1<<20, func(_ string, data []byte) { got = append(got, bytes.Clone(data)) })
		if len(got) != 3 || string(got[0]) != lines {
			t.Fatalf("%q is read as %q", text, got)
		}
		if plain, err := client.DecodeBase64(got[1]); err != nil || !bytes.Equal(plain, text) {
			t.Fatalf("%q is decoded as %q, %v", text, plain, err)
		}
		if c, err := client.ParseControl(got[2]); err != nil || c.NextOffset != "7" {
			t.Fatalf("control event %+v, %v", c, err)
		}
	})
}
