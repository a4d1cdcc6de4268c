package wire_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"durablestreams/internal/wire"
)

func TestParseQuery(t *testing.T) {
	tests := []struct {
		in   string
		want wire.Query
	}{
		{"", wire.Query{}},
		{"&&", wire.Query{}},
		{"offset=-1", wire.Query{Offset: "-1", HasOffset: true}},
		{"offset=", wire.Query{HasOffset: true}},
		{"offset", wire.Query{HasOffset: true}},
		{"cursor=7&live=sse&offset=1_a", wire.Query{"1_a", "sse", "7", true, true, true}},
		{"live=long-poll&x=1&offset=now", wire.Query{Offset: "now", Live: "long-poll", HasOffset: true, HasLive: true}},
		{"offset=a=b", wire.Query{Offset: "a=b", HasOffset: true}},
		{"offset=a%20b+c", wire.Query{Offset: "a b c", HasOffset: true}},
		{"offset=%2B%3d%3D%00", wire.Query{Offset: "+==\x00", HasOffset: true}},
		{"%6fff%73et=1", wire.Query{Offset: "1", HasOffset: true}},
		{"cursor=%31", wire.Query{Cursor: "1", HasCursor: true}},
		{"offset=%c3%A9\xff", wire.Query{Offset: "\u00e9\xff", HasOffset: true}},
		{"offset=1;live=sse", wire.Query{Offset: "1;live=sse", HasOffset: true}},
		{"x=%zz&y=%&%=1&off%73et%=2&offset=1", wire.Query{Offset: "1", HasOffset: true}},
		{"x=1&x=2", wire.Query{}},
		{"Offset=1&LIVE=sse& cursor=1&offset+=1&=offset", wire.Query{}},
	}
	for _, tt := range tests {
		if got, err := wire.ParseQuery(tt.in); err != nil || got != tt.want {
			t.Errorf("ParseQuery(%q) = %+v, %v; want %+v", tt.in, got, err, tt.want)
		}
	}
}

func TestParseQueryRefuses(t *testing.T) {
	tests := []struct {
		in, want string
	}{
		{"offset=1&offset=1", "query parameter offset: given more than once"},
		{"offset&live=sse&offset=", "query parameter offset: given more than once"},
		{"offset=1&%6Fffset=2", "query parameter offset: given more than once"},
		{"live=sse&live=sse", "query parameter live: given more than once"},
		{"cursor=1&x=1&cursor=2", "query parameter cursor: given more than once"},
		{"offset=%", "query parameter offset: broken percent escape"},
		{"offset=%4", "query parameter offset: broken percent escape"},
		{"offset=%4&live=sse", "query parameter offset: broken percent escape"},
		{"live=%zz", "query parameter live: broken percent escape"},
		{"cursor=1%4g", "query parameter cursor: broken percent escape"},
		{"cursor=%+1", "query parameter cursor: broken percent escape"},
		{"cursor=%G0", "query parameter cursor: broken percent escape"},
		{"cursor=%@0", "query parameter cursor: broken percent escape"},
	}
	for _, tt := range tests {
		q, err := wire.ParseQuery(tt.in)
		if _, ok := errors.AsType[*wire.QueryError](err); !ok || err.Error() != tt.want || q != (wire.Query{}) {
			t.Errorf("ParseQuery(%q) = %+v, %v; want %s", tt.in, q, err, tt.want)
		}
	}
}

func TestParseQueryDoesNotAllocate(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		if _, err := wire.ParseQuery("cursor=7&live=sse&offset=0000000000001234_00112233445566ff&x=y"); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"cursor=7&live=sse&offset=1_a", "offset=%2b+&x=%zz", "%6Fffset=1&offset", "live=%&live"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if strings.Contains(raw, ";") {
			t.Skip("net/url refuses semicolons")
		}
		q, err := wire.ParseQuery(raw)
		values, urlErr := url.ParseQuery(raw)
		if err != nil {
			qe, ok := errors.AsType[*wire.QueryError](err)
			if !ok || len(values[qe.Param]) < 2 && urlErr == nil {
				t.Fatalf("ParseQuery(%q): %v, but net/url gives %q", raw, err, values)
			}
			return
		}
		for _, p := range []struct {
			name, value string
			has         bool
		}{
			{wire.ParamOffset, q.Offset, q.HasOffset},
			{wire.ParamLive, q.Live, q.HasLive},
			{wire.ParamCursor, q.Cursor, q.HasCursor},
		} {
			if n := len(values[p.name]); p.value != values.Get(p.name) || p.has != (n > 0) || n > 1 {
				t.Errorf("ParseQuery(%q): %s is %q, net/url gives %q", raw, p.name, p.value, values[p.name])
			}
		}
	})
}

func BenchmarkParseQuery(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.ParseQuery("cursor=3212345&live=long-poll&offset=0000000000001234_00112233445566ff"); err != nil {
			b.Fatal(err)
		}
	}
}
