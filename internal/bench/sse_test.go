package bench

import (
	"fmt"
	"strings"
	"testing"
)

// collect reads events from pieces of at most step bytes.
func collect(input string, step int) []string {
	var e events
	got := []string{}
	for at := 0; at < len(input); at += step {
		p := []byte(input[at:min(at+step, len(input))])
		e.write(p, func(name, data []byte) { got = append(got, string(name)+"="+string(data)) })
		clear(p)
	}
	return got
}

func TestEvents(t *testing.T) {
	tests := []struct{ name, input, want string }{
		{"nothing", "", "[]"},
		{"one", "event: data\ndata:x\n\n", "[data=x]"},
		{"one space is taken off", "event:data\ndata:  x\n\n", "[data= x]"},
		{"CR LF", "event: data\r\ndata:x\r\n\r\nevent: control\r\ndata: {}\r\n\r\n", "[data=x control={}]"},
		{"several lines", "event: data\ndata:[\ndata:a,\ndata:\ndata:]\n\n", "[data=[\na,\n\n]]"},
		{"several lines twice", "data:a\ndata:b\n\ndata:c\ndata:d\n\n", "[=a\nb =c\nd]"},
		{"comment", ": keep-alive\n\nevent: data\n: in between\ndata:x\n\n", "[data=x]"},
		{"other fields", "id: 4\nretry: 5\nevent: data\ndata:x\n\n", "[data=x]"},
		{"unfinished", "event: data\ndata:x\n", "[]"},
		{"pairs", "event: data\ndata:x\n\nevent: control\ndata:y\n\n", "[data=x control=y]"},
		{"data that looks like an end", "data:a\\n\\nb\n\n", "[=a\\n\\nb]"},
		{"two empty lines", "data:a\n\n\ndata:b\n\n", "[=a =b]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, 5, 1000} {
				if got := fmt.Sprint(collect(tt.input, step)); got != tt.want {
					t.Errorf("in pieces of %d: %s, want %s", step, got, tt.want)
				}
			}
		})
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("event: data\ndata:x\n\nevent: control\r\ndata:y\r\n\r\n", uint8(3))
	f.Add(": c\n\ndata\ndata:\n\n", uint8(1))
	f.Fuzz(func(t *testing.T, input string, step uint8) {
		whole, split := fmt.Sprint(collect(input, max(len(input), 1))), fmt.Sprint(collect(input, int(step)+1))
		if whole != split {
			t.Fatalf("whole %q, split %q", whole, split)
		}
	})
}

func TestMember(t *testing.T) {
	for object, want := range map[string]string{
		`{"streamNextOffset":"1_2","upToDate":true}`: "1_2",
		`{ "a": "b", "streamNextOffset" : "9" }`:     "9",
		`{"streamNextOffset":7}`:                     "",
		`{"streamNextOffset":"9`:                     "",
		`{"streamNextOffset"`:                        "",
		`{}`:                                         "",
	} {
		if got := string(member([]byte(object), "streamNextOffset")); got != want {
			t.Errorf("%s: %q, want %q", object, got, want)
		}
	}
}

func TestAlarms(t *testing.T) {
	var h alarms
	var got []string
	for i, due := range []int64{5, 3, 9, 1, 1, 7, 3, 8, 2} {
		h.push(alarm{due, i})
		if i%4 == 3 {
			got = append(got, fmt.Sprint(h.pop().due))
		}
	}
	for len(h) > 0 {
		got = append(got, fmt.Sprint(h.pop().due))
	}
	if s := strings.Join(got, " "); s != "1 1 2 3 3 5 7 8 9" {
		t.Error(s)
	}
}

func TestPace(t *testing.T) {
	var tl tally
	p := pace{conn: 1, conns: 4}
	p.enter(&phase{start: 1000, end: 2000, interval: 100})
	// Due at 1025, 1125, ... 1925.
	if _, m := p.next(1000, &tl); m.kind != wait || m.due != 1025 {
		t.Errorf("before the first: %+v", m)
	}
	start, m := p.next(1030, &tl)
	if m.kind != send || start != 1025 || tl.lateness.count != 1 || tl.lateness.max != 5 {
		t.Errorf("first: %d, %+v, late %d", start, m, tl.lateness.max)
	}
	p.k++
	if start, m = p.next(1500, &tl); m.kind != send || start != 1125 || tl.lateness.count != 1 {
		t.Errorf("second, behind: latency counts from %d, %+v", start, m)
	}
	p.k++
	if _, m = p.next(2000, &tl); m.kind != stop || tl.unsent != 8 {
		t.Errorf("at the end: %+v, %d unsent", m, tl.unsent)
	}
	p.enter(&phase{start: 1000, end: 2000, limit: 6}) // 2, 2, 1, 1
	for k := range 3 {
		if _, m := p.next(1000, &tl); (m.kind == send) != (k < 2) {
			t.Errorf("request %d of at most 2: %+v", k, m)
		}
		p.k++
	}
}
