package conformance

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func sseTests() []test {
	return []test{
		{"B06 the first control has the real tail and is up to date", sseFirstControl},
		{"B02 B03 a final append comes before the end, and its control says closed", sseFinal},
		{"B08 B09 a delete ends live reads cleanly", sseDelete},
		{"a closed stream is told to its end at once", sseClosed},
		{"every data event is followed by its own control in the same write", ssePairs},
		{"the events after an offset, and no others", sseFromOffset},
		{"many readers see the same", sseMany},
		{"control offsets lead on without loss", sseResume},
		{"live reads need an offset and a stream", sseRefused},
	}
}

func sseFirstControl(c *client) {
	for _, body := range []string{"", "x"} {
		for _, start := range []string{fromStart, fromNow, ""} {
			p := c.create("first", text, body)
			tail := c.head(p).tail()
			if start == "" {
				start = from(tail)
			}
			f := c.sse(p, start)
			var ctl control
			if body != "" && start == fromStart {
				var e event
				if e, ctl = f.pair(); e.data != body {
					c.Errorf("data %q, want %q", e.data, body)
				}
			} else {
				ctl = f.control()
			}
			if ctl.StreamNextOffset != tail || !ctl.UpToDate || ctl.StreamClosed {
				c.Errorf("from %s of %q: control %+v, want the tail %s and upToDate", start, body, ctl, tail)
			}
		}
	}
}

func sseFinal(c *client) {
	for round := range 50 {
		p := c.create("final", text, "")
		f := c.sse(p, []string{fromStart, fromNow}[round/5%2])
		if round%2 == 0 {
			f.control()
		}
		if wait := []time.Duration{0, 1, 5, 20, 80}[round%5] * time.Millisecond; wait > 0 {
			c.pause(wait)
		}
		tail := c.post(p, text, "final", closing()...).is(204).tail()
		e, ctl := f.pair()
		if e.data != "final" || !ctl.StreamClosed || ctl.StreamNextOffset != tail {
			c.Fatalf("round %d: %q and %+v, want final, closed at %s", round, e.data, ctl, tail)
		}
		if rest := f.ends(patience); len(rest) > 0 {
			c.Errorf("round %d: %d more events after the end: %+v", round, len(rest), rest[0])
		}
	}
	// A close alone is a control of its own.
	p := c.create("alone", text, "x")
	f := c.sse(p, fromStart)
	f.until("x", plain)
	tail := c.closes(p)
	if ctl := f.control(); !ctl.StreamClosed || ctl.StreamNextOffset != tail {
		c.Errorf("control %+v, want closed at %s", ctl, tail)
	}
	if rest := f.ends(patience); len(rest) > 0 {
		c.Errorf("%d more events after the end", len(rest))
	}
}

func sseDelete(c *client) {
	for _, ctype := range []string{text, octet, jsonType} {
		p := c.create("delete", ctype, "1")
		idle, fresh := c.sse(p, fromNow), c.sse(p, fromStart)
		idle.control()
		fresh.pair()
		c.delete(p).is(204)
		begin := time.Now()
		for _, f := range []*feed{idle, fresh} {
			for _, e := range f.ends(patience) {
				if e.kind == "data" || e.control.StreamClosed {
					c.Errorf("after the delete came %s %s", e.kind, short(e.data))
				}
			}
		}
		if took := time.Since(begin); took > 5*time.Second {
			c.Errorf("the delete took %s to end the readers", took)
		}
		c.get(p, fromStart+sse).refused(404)
	}
}

func sseClosed(c *client) {
	p := c.create("closed", text, "all")
	tail := c.closes(p)
	f := c.sse(p, fromStart)
	if e, ctl := f.pair(); e.data != "all" || !ctl.StreamClosed || ctl.StreamNextOffset != tail {
		c.Errorf("%q and %+v, want all, closed at %s", e.data, ctl, tail)
	}
	f.ends(patience)
	for _, offset := range []string{from(tail), fromNow} {
		f = c.sse(p, offset)
		if ctl := f.control(); !ctl.StreamClosed || ctl.StreamNextOffset != tail {
			c.Errorf("control %+v, want closed at %s", ctl, tail)
		}
		if rest := f.ends(patience); len(rest) > 0 {
			c.Errorf("%d events after the end", len(rest))
		}
	}
}

// ssePairs looks at the chunks on the wire, which are what the server wrote.
func ssePairs(c *client) {
	p := c.create("pairs", text, "history")
	k := c.dial()
	k.write(c.rawTarget("GET", c.full(p)+"?"+fromStart+sse, "Accept: text/event-stream"))
	k.SetReadDeadline(time.Now().Add(patience))
	resp, err := http.ReadResponse(k.r, nil)
	if err != nil || resp.StatusCode != 200 {
		c.Fatalf("SSE over a socket: %v %v", resp, err)
	}
	if len(resp.TransferEncoding) == 0 {
		c.Skip("not chunked")
	}
	chunk := func() string {
		line, err := k.r.ReadString('\n')
		if err != nil {
			c.Fatalf("read a chunk: %v", err)
		}
		n, err := strconv.ParseInt(strings.TrimRight(line, "\r\n"), 16, 32)
		if err != nil {
			c.Fatalf("chunk of length %q", line)
		}
		b := make([]byte, n+2)
		for got := 0; got < len(b); {
			m, err := k.r.Read(b[got:])
			if err != nil {
				c.Fatalf("read a chunk: %v", err)
			}
			got += m
		}
		return string(b[:n])
	}
	for i, want := range []string{"history", "one", "two"} {
		if i > 0 {
			c.add(p, text, want)
		}
		for {
			got := chunk()
			if !strings.Contains(got, "event: data") && !strings.Contains(got, "event:data") {
				continue
			}
			_, after, _ := strings.Cut(got, "data:"+want+"\n\n")
			if !strings.HasPrefix(after, "event: control\ndata:") || !strings.HasSuffix(after, "\n\n") {
				c.Errorf("a write holds %s, want the data with its control", short(got))
			}
			break
		}
	}
}

func sseFromOffset(c *client) {
	p := c.create("from", text, "")
	mid := ""
	for i := range 10 {
		tail := c.add(p, text, fmt.Sprint(i, ";"))
		if i == 4 {
			mid = tail
		}
	}
	f := c.sse(p, from(mid))
	f.until("5;6;7;8;9;", plain)
	c.add(p, text, "live;")
	f.until("live;", plain)
}

func sseMany(c *client) {
	p := c.create("many", jsonType, "")
	feeds := make([]*feed, 40)
	for i := range feeds {
		feeds[i] = c.sse(p, []string{fromStart, fromNow}[i%2])
		feeds[i].control()
	}
	want := []string{}
	for i := range 50 {
		c.add(p, jsonType, fmt.Sprintf(`{"i":%d}`, i))
		want = append(want, fmt.Sprintf(`{"i":%d}`, i))
	}
	tail := c.post(p, jsonType, "[50,51]", closing()...).is(204).tail()
	want = append(want, "50", "51")
	for i, f := range feeds {
		var got []string
		var last control
		for last.StreamClosed = false; !last.StreamClosed; {
			e := f.next()
			if e.kind == "control" {
				last = e.control
				continue
			}
			list, err := split(e.data)
			if err != nil {
				c.Fatalf("reader %d: %s: %v", i, short(e.data), err)
			}
			got = append(got, list...)
		}
		c.same(fmt.Sprint("reader ", i), got, want)
		if last.StreamNextOffset != tail {
			c.Errorf("reader %d ends at %s, want %s", i, last.StreamNextOffset, tail)
		}
		f.ends(patience)
	}
}

func sseResume(c *client) {
	p := c.create("resume", text, "")
	done := make(chan string, 1)
	go func() {
		for i := range 60 {
			if r := c.post(p, text, fmt.Sprint(i, ";")); r.Status != 204 {
				break
			}
		}
		done <- c.post(p, text, "end", closing()...).Header.Get("Stream-Next-Offset")
	}()
	want := ""
	for i := range 60 {
		want += fmt.Sprint(i, ";")
	}
	want += "end"
	got, offset := "", "-1"
	for ended := false; !ended; {
		f := c.sse(p, from(offset))
		for range 4 { // then break off and take up the thread
			e := f.next()
			if e.kind == "data" {
				got += e.data
				e = f.next()
			}
			offset = e.control.StreamNextOffset
			if ended = e.control.StreamClosed; ended {
				break
			}
		}
		f.cancel()
	}
	if got != want || offset != <-done {
		c.Errorf("got %s up to %s, want %s", short(got), offset, short(want))
	}
}

func sseRefused(c *client) {
	p := c.create("refused", text, "x")
	c.get(p, "live=sse").refused(400)
	c.get(p, "live=long-poll").refused(400)
	c.get(p, "offset=&live=sse").refused(400)
	c.get(p, "offset=abc&live=sse").refused(400)
	c.get(c.path("missing"), fromStart+sse).refused(404)
	c.get(p, fromStart+"&live=websocket").refused(400)
}
