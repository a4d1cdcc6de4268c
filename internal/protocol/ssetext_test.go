package protocol_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"
)

// drainSSE reads until the client is up to date or the answer ends, and resumes
// from each control event if resume is set.
func drainSSE(t *testing.T, c *client, name string, resume bool) (data []string, last control) {
	t.Helper()
	offset := "-1"
	l := c.open("GET " + name + "?live=sse&offset=" + offset)
	defer func() { l.feed.Close() }()
	for range 1000 {
		act := l.next()
		var d string
		if d, last = sse(t, act.Frame); d != "" {
			data = append(data, d)
		}
		if act.Done || last.UpToDate {
			return data, last
		}
		if resume {
			l.feed.Close()
			l = c.open("GET " + name + "?live=sse&offset=" + last.StreamNextOffset)
		}
	}
	t.Fatal("never up to date")
	return nil, last
}

func TestSSEHoldsAPartOfACharacterBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil)
		before := c.do("PUT a", textType, "=x").next()
		tail := c.do("POST a", textType, "=\xf0\x9f").next()
		l := c.open("GET a?offset=-1&live=sse")
		if data, ctl := sse(t, l.next().Frame); data != "x" || ctl.StreamNextOffset != before || ctl.UpToDate {
			t.Errorf("%q %+v", data, ctl)
		}
		m := c.open("GET a?live=sse&offset=" + before)
		if data, ctl := sse(t, m.next().Frame); data != "" || ctl.StreamNextOffset != before || ctl.UpToDate || ctl.StreamCursor == "" {
			t.Errorf("resumed: %q %+v", data, ctl)
		}
		if act := m.next(); string(act.Frame) != ":\n\n" {
			t.Errorf("a feed that holds back gives %q", act.Frame)
		}
		c.do("POST a", textType, "=\x98\x80!").want(204)
		for _, f := range []*live{l, m} {
			if data, ctl := sse(t, f.next().Frame); data != "😀!" || !ctl.UpToDate {
				t.Errorf("%q %+v", data, ctl)
			}
		}
		c.do("GET a?offset=" + tail).text("\x98\x80!") // other reads are bytes
		c.do("POST a", textType, "=\xe2\x82", closedTrue).want(204)
		for _, f := range []*live{l, m} {
			act := f.next()
			if data, ctl := sse(t, act.Frame); data != "\xe2\x82" || !ctl.StreamClosed || !act.Done {
				t.Errorf("at the end: %q %+v", data, ctl)
			}
		}
	})
}

func TestSSETextForgesNothing(t *testing.T) {
	for sent, want := range map[string]string{
		"a\rb":   "a\nb",
		"a\r\nb": "a\nb",
		"\n\nevent: control\ndata: {\"streamClosed\":true}\n\n": "\n\nevent: control\ndata: {\"streamClosed\":true}\n\n",
		"  x":   "  x",
		":c":    ":c",
		"a\n":   "a\n",
		"\n":    "\n",
		"\xff!": "\xff!",
	} {
		c := newClient(t, nil)
		c.do("PUT a", textType, "="+sent).want(201)
		data, ctl := drainSSE(t, c, "a", false)
		if strings.Join(data, "") != want || ctl.StreamClosed {
			t.Errorf("%q arrives as %q", sent, data)
		}
		c.do("GET a").text(sent)
	}
}

// A backlog comes in events of bounded size, and whole whether the client
// stays or resumes after each.
func TestSSEBacklog(t *testing.T) {
	var text, list strings.Builder
	for i := 0; text.Len() < 300<<10; i++ {
		fmt.Fprintf(&text, "%d zwölf 😀", i)
		fmt.Fprintf(&list, `,{"n":%d}`, i)
	}
	messages := `["` + strings.Repeat("m", 200<<10) + `"` + list.String() + "]"
	c := newClient(t, nil)
	c.store.BlockSize = 9973
	c.do("PUT text", textType, "="+text.String(), closedTrue).want(201)
	c.do("PUT json", jsonType, "="+messages, closedTrue).want(201)
	c.do("PUT bin", "="+text.String(), closedTrue).want(201)
	for _, resume := range []bool{false, true} {
		var whole strings.Builder
		data, _ := drainSSE(t, c, "text", resume)
		for _, d := range data {
			if whole.WriteString(d); !utf8.ValidString(d) || len(d) > 64<<10 {
				t.Errorf("an event of %d bytes, valid %v", len(d), utf8.ValidString(d))
			}
		}
		if whole.String() != text.String() {
			t.Error("text differs")
		}
		whole.Reset()
		if data, _ = drainSSE(t, c, "bin", resume); len(data) < 4 {
			t.Errorf("%d events", len(data))
		}
		for _, d := range data {
			b, err := base64.StdEncoding.DecodeString(d)
			if whole.Write(b); err != nil {
				t.Error(err)
			}
		}
		if whole.String() != text.String() {
			t.Error("bytes differ")
		}
		var all []string
		data, _ = drainSSE(t, c, "json", resume)
		for _, d := range data {
			var part []json.RawMessage
			if err := json.Unmarshal([]byte(d), &part); err != nil || len(part) == 0 {
				t.Errorf("an event of %d bytes: %v", len(d), err)
			}
			for _, m := range part {
				all = append(all, string(m))
			}
		}
		if "["+strings.Join(all, ",")+"]" != messages || len(data) < 4 {
			t.Errorf("%d messages in %d events differ from what was sent", len(all), len(data))
		}
	}
}
