package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestRecord(t *testing.T) {
	for _, f := range []*format{
		newFormat("abcdefgh", minBytes, false), newFormat("abcdefgh", 256, false),
		newFormat("abcdefgh", minJSON, true), newFormat("abcdefgh", 1000, true),
	} {
		t.Run(fmt.Sprintf("%d bytes, JSON %v", f.size, f.json), func(t *testing.T) {
			var scratch []byte
			for _, p := range []place{{0, 0}, {1, 0}, {0, 1}, {65534, 1<<32 - 1}, {77, 123456789}} {
				record := f.appendTo(nil, p.conn, p.seq)
				if len(record) != f.size || f.json && !json.Valid(record) {
					t.Fatalf("%d bytes: %s", len(record), record)
				}
				conn, seq, after, ok := f.parse(record, scratch)
				scratch = after
				if !ok || conn != p.conn || seq != p.seq {
					t.Errorf("%v is read as %d, %d, %v", p, conn, seq, ok)
				}
				for i := range record {
					damaged := bytes.Clone(record)
					damaged[i] ^= 1
					if c, s, _, ok := f.parse(damaged, nil); ok {
						t.Errorf("with byte %d changed it is taken for %d, %d", i, c, s)
					}
				}
				if _, _, _, ok := f.parse(record[:len(record)-1], nil); ok {
					t.Error("a record that is cut is taken for one")
				}
			}
		})
	}
}

func TestLayout(t *testing.T) {
	for _, l := range []layout{{1, 1}, {4, 1}, {4, 4}, {5, 3}, {3, 5}, {3, 7}, {2, 100}, {16, 16}} {
		t.Run(fmt.Sprintf("%d over %d", l.conns, l.streams), func(t *testing.T) {
			const requests = 300
			got := map[int][]place{}
			for conn := range l.conns {
				for seq := range int64(requests) {
					s := l.streamOf(conn, seq)
					if s < 0 || s >= l.streams {
						t.Fatalf("request %d of connection %d goes to stream %d", seq, conn, s)
					}
					got[s] = append(got[s], place{conn, seq})
				}
			}
			for stream := range l.streams {
				var want []place
				conns, first, step := l.writers(stream)
				for _, conn := range conns {
					for seq := first; seq < requests; seq += step {
						want = append(want, place{conn, seq})
					}
				}
				if fmt.Sprint(got[stream]) != fmt.Sprint(want) {
					t.Errorf("stream %d gets %v, expected are %v", stream, got[stream], want)
				}
			}
		})
	}
}

// sheet collects what a scan finds.
type sheet struct{ lines []string }

func (s *sheet) record(conn int, seq int64) { s.lines = append(s.lines, fmt.Sprint(conn, "/", seq)) }
func (s *sheet) alien(string)               { s.lines = append(s.lines, "alien") }

func TestScan(t *testing.T) {
	plain, object := newFormat("abcdefgh", 40, false), newFormat("abcdefgh", 70, true)
	b := func(n int64) string { return string(plain.appendTo(nil, 1, n)) }
	j := func(n int64) string { return string(object.appendTo(nil, 1, n)) }
	spaced := strings.NewReplacer(":", ": ", ",", " , ").Replace(j(3))
	tests := []struct {
		name   string
		format *format
		pages  []string
		want   string
	}{
		{"nothing", plain, []string{""}, "[]"},
		{"records", plain, []string{b(1) + b(2)}, "[1/1 1/2]"},
		{"a record over two pages", plain, []string{b(1)[:11], b(1)[11:] + b(2)}, "[1/1 1/2]"},
		{"an unfinished record", plain, []string{b(1) + b(2)[:39]}, "[1/1 alien]"},
		{"something else", plain, []string{b(1) + strings.Repeat("x", 40) + b(2)}, "[1/1 alien]"},
		{"a byte lost", plain, []string{b(1)[1:] + b(2)}, "[alien]"},
		{"empty array", object, []string{"[]"}, "[]"},
		{"array", object, []string{"[" + j(1) + "," + j(2) + "]"}, "[1/1 1/2]"},
		{"white space", object, []string{" [\n" + j(1) + " ,\r\n\t" + spaced + " ]\n"}, "[1/1 1/3]"},
		{"two pages", object, []string{"[" + j(1) + "]", "[" + j(2) + "]"}, "[1/1 1/2]"},
		{"two arrays on a page", object, []string{"[" + j(1) + "][" + j(2) + "]"}, "[1/1 alien]"},
		{"no comma", object, []string{"[" + j(1) + j(2) + "]"}, "[1/1 alien]"},
		{"two commas", object, []string{"[" + j(1) + ",," + j(2) + "]"}, "[1/1 alien]"},
		{"comma at the end", object, []string{"[" + j(1) + ",]"}, "[1/1 alien]"},
		{"no bracket", object, []string{j(1)}, "[alien]"},
		{"array not closed", object, []string{"[" + j(1)}, "[1/1 alien]"},
		{"value cut", object, []string{"[" + j(1)[:20] + "]"}, "[alien]"},
		{"an empty page", object, []string{""}, "[alien]"},
		{"another value", object, []string{`[{"i":"x"}]`}, "[alien]"},
		{"an endless value", object, []string{"[{" + strings.Repeat("x", 200)}, "[alien]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 3, 16, 1000} {
				s := scan{format: tt.format}
				s.reset()
				got := sheet{lines: []string{}}
				for _, page := range tt.pages {
					for at := 0; at < len(page); at += step {
						s.write([]byte(page[at:min(at+step, len(page))]), &got)
					}
					s.endPage(&got)
				}
				s.end(&got)
				if fmt.Sprint(got.lines) != tt.want {
					t.Errorf("in pieces of %d: %v, want %v", step, got.lines, tt.want)
				}
			}
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	bed := &bed{host: "127.0.0.1:8642", path: "/durable-streams/v1/stream", run: "abcdefgh"}
	run := newAppendRun(bed, "append", newFormat("abcdefgh", 256, false), layout{64, 64}, false)
	var buf []byte
	seq := int64(0)
	for b.Loop() {
		buf = run.request(buf[:0], 7, seq)
		seq++
	}
}
