package tenant_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/tenant"
	"durablestreams/stream"
)

const none = tenant.Unlimited

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // the limits of "a" and of "b", or the error
	}{
		{"", "-1 -1 -1 -1 -1|-1 -1 -1 -1 -1"},
		{"# nothing\n\n", "-1 -1 -1 -1 -1|-1 -1 -1 -1 -1"},
		{"tenant a streams=1 bytes=2KiB appends=3 append-bytes=4kb live=5\n", "1 2048 3 4000 5|-1 -1 -1 -1 -1"},
		{"others streams=0\ntenant a\tlive=7", "-1 -1 -1 -1 7|0 -1 -1 -1 -1"},
		{"tenant a", "-1 -1 -1 -1 -1|-1 -1 -1 -1 -1"},
		{"tenant a/b streams=1", `1: a tenant is the first segment of its streams' paths: "a/b" is not one`},
		{"\n tenant a/ streams=1", `2: "a/" is not the first segment of a stream's path`},
		{"tenant ..", `1: ".." is not the first segment of a stream's path`},
		{"tenant", "1: want: tenant NAME and its limits"},
		{"tenant a\ntenant a", "2: tenant a stands in an earlier line, too"},
		{"others\nothers", "2: others stands in an earlier line, too"},
		{"streams=1", "1: a line begins with tenant or others"},
		{"tenant a streams", `1: "streams": want streams=N, bytes=SIZE, appends=N, append-bytes=SIZE or live=N`},
		{"tenant a strems=1", `1: "strems=1": want streams=N, bytes=SIZE, appends=N, append-bytes=SIZE or live=N`},
		{"tenant a streams=-1", `1: "streams=-1": want a whole number`},
		{"tenant a streams=1 streams=2", "1: streams is given twice"},
		{"tenant a bytes=much", `1: "much" is not a size: want a number and perhaps a unit, such as 512KiB, 16MiB or 1GiB`},
		{"tenant a bytes=-1", `1: "-1" is not a size: want a number and perhaps a unit, such as 512KiB, 16MiB or 1GiB`},
	} {
		table, err := tenant.Parse(tt.text)
		if err != nil {
			if err.Error() != tt.want {
				t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
			}
			continue
		}
		l := tenant.NewLedger(table)
		var got []string
		for _, name := range []stream.Path{"a", "b"} {
			l.Found(name, 0)
			u, _ := l.Usage(string(name))
			got = append(got, fmt.Sprint(u.Limits.Streams, u.Limits.Bytes, u.Limits.Appends, u.Limits.AppendBytes, u.Limits.Live))
		}
		if s := strings.Join(got, "|"); s != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, s, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("tenant a streams=1 bytes=2KiB\nothers live=3\n")
	f.Add("tenant %61 bytes=1e9g")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := tenant.Parse(text)
		if err != nil {
			return
		}
		for _, u := range tenant.NewLedger(table).Listed() {
			if u.Name == "" || strings.Contains(u.Name, "/") || u.Limits.Streams < none || u.Limits.Bytes < none || u.Limits.Live < none {
				t.Errorf("%+v", u)
			}
		}
	})
}

func TestReadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants")
	if _, err := tenant.ReadFile(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(file, []byte("tenant a\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.ReadFile(file); err == nil || err.Error() != file+":2: a line begins with tenant or others" {
		t.Errorf("wrong file: %v", err)
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("#\n", 2<<20+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.ReadFile(file); err == nil || !strings.HasSuffix(err.Error(), "is larger than 4 MiB") {
		t.Errorf("large file: %v", err)
	}
}

// A rate lets a second's worth in at once and then goes on evenly; what is larger is let
// in when nothing is owed and paid off. A refusal says when to come back, and then it is
// let in.
func TestRates(t *testing.T) {
	for _, tt := range []struct {
		name, limits string
		bytes        int
		first        int           // appends that are let in at once
		then         time.Duration // what the next one is told
		steady       time.Duration // between those after it
	}{
		{"requests", "appends=10", 0, 10, 100 * time.Millisecond, 100 * time.Millisecond},
		{"one in a second", "appends=1", 5, 1, time.Second, time.Second},
		{"bytes", "append-bytes=1000", 250, 4, 250 * time.Millisecond, 250 * time.Millisecond},
		{"more bytes than in a second", "append-bytes=1000", 3000, 1, 3 * time.Second, 3 * time.Second},
		{"both, bytes are short", "appends=100 append-bytes=1000", 500, 2, 500 * time.Millisecond, 500 * time.Millisecond},
		{"both, requests are short", "appends=2 append-bytes=1000000", 500, 2, 500 * time.Millisecond, 500 * time.Millisecond},
		{"no divisor of a second", "appends=3", 0, 3, 333333333, 333333333},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := tenant.NewLedger(parse(t, "tenant a "+tt.limits))
				l.Found("a/1", 0)
				a := l.Account("a/1")
				time.Sleep(time.Hour) // which saves nothing up
				for i := range tt.first {
					if err := a.Append(tt.bytes, true); err != nil {
						t.Fatalf("question %d: %v", i, err)
					}
					if err := a.Append(tt.bytes, false); err != nil {
						t.Fatalf("append %d: %v", i, err)
					}
				}
				wait := tt.then
				for i := range 5 {
					for _, dry := range []bool{true, false} {
						if err := a.Append(tt.bytes, dry); err == nil || err.Kind != stream.QuotaAppends || (err.Retry-wait).Abs() > time.Microsecond {
							t.Fatalf("append %d too early: %v, retry in %v, want %v", i, err, err.Retry, wait)
						}
					}
					time.Sleep(wait + time.Microsecond)
					if err := a.Append(tt.bytes, false); err != nil {
						t.Fatalf("append %d: %v", i, err)
					}
					wait = tt.steady - time.Microsecond
				}
				if u, _ := l.Usage("a"); u.Bytes != int64((tt.first+5)*tt.bytes) || u.Refused.Appends != 5 {
					t.Errorf("%d bytes, %+v", u.Bytes, u.Refused)
				}
			})
		})
	}
}

// 0 lets nothing in, and a limit that is passed already lets nothing more in.
func TestReloadedLimits(t *testing.T) {
	l := tenant.NewLedger(parse(t, "others bytes=100"))
	if _, err := l.Create("a/1", 100, false); err != nil {
		t.Fatal(err)
	}
	for _, changed := range []bool{true, false} {
		if got := l.Reload(parse(t, "tenant a streams=0 bytes=50 live=0\ntenant b appends=0 streams=9")); got != changed {
			t.Errorf("reloaded: changed %v, want %v", got, changed)
		}
	}
	for _, tt := range []struct {
		name string
		ask  func() error
		want error
	}{
		{"a stream", func() error { _, err := l.Create("a/2", 0, false); return kind(err) }, stream.QuotaStreams},
		{"bytes", func() error { return kind(l.Account("a/1").Append(1, false)) }, stream.QuotaBytes},
		{"a close", func() error { return kind(l.Account("a/1").Append(0, false)) }, nil},
		{"a reader", func() error { return l.Follow("a/1") }, stream.QuotaLive},
		{"an append", func() error { _, err := l.Create("b/1", 0, false); return kind(err) }, stream.QuotaAppends},
		{"another tenant", func() error { _, err := l.Create("c/1", 1000, false); return kind(err) }, nil},
	} {
		if err := tt.ask(); !errors.Is(err, tt.want) && (err != nil || tt.want != nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if u, _ := l.Usage("a"); u.Streams != 1 || u.Bytes != 100 || u.Live != 0 {
		t.Errorf("%+v", u)
	}
	if u, ok := l.Usage("b"); u.Streams != 0 || u.Bytes != 0 || !ok {
		t.Errorf("%+v", u)
	}
	if _, ok := l.Usage("d"); ok {
		t.Error("a tenant that nobody knows")
	}
}

func kind(err *stream.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// While a tenant's streams are being deleted it gets no new ones, and then it does.
func TestPurgeKeepsOut(t *testing.T) {
	l := tenant.NewLedger(parse(t, ""))
	one, two := l.Purge("a"), l.Purge("a")
	for i, done := range []func(){one, one, two} {
		if _, err := l.Create("a/1", 0, false); err == nil || err.Kind != stream.Busy {
			t.Errorf("%d: %v", i, err)
		}
		done()
	}
	if _, err := l.Create("a/1", 0, false); err != nil {
		t.Error(err)
	}
}

// Lists are in order, in pages, and without those who use nothing.
func TestList(t *testing.T) {
	l := tenant.NewLedger(parse(t, "tenant m05\ntenant zz\n"))
	var want []string
	for i := range 500 {
		p := stream.Path(fmt.Sprintf("m%03d/x", i))
		l.Found(p, 1)
		if i%3 == 0 {
			l.Account(p).GiveBack(1, 1)
			continue
		}
		want = append(want, tenant.Name(p))
	}
	want = append(want, "m05", "zz")
	slices.Sort(want)
	for _, max := range []int{1, 7, 1000} {
		var got []string
		for after := ""; ; {
			page := l.List(after, max)
			for _, u := range page {
				got = append(got, u.Name)
			}
			if len(page) < max {
				break
			}
			after = page[len(page)-1].Name
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v", max, got)
		}
	}
	if listed := l.Listed(); len(listed) != 2 || listed[0].Name != "m05" || listed[1].Name != "zz" {
		t.Errorf("%+v", listed)
	}
}

// Tenants who come and go are forgotten, but for what they still owe.
func TestIdleAccountsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tenant.NewLedger(parse(t, "others append-bytes=10"))
		if _, err := l.Create("owes/1", 1000, false); err != nil {
			t.Fatal(err)
		}
		l.Account("owes/1").GiveBack(1, 1000)
		for i := range 100_000 {
			p := stream.Path(fmt.Sprint("t", i))
			if _, err := l.Create(p, 1, false); err != nil {
				t.Fatal(err)
			}
			l.Account(p).GiveBack(1, 1)
			if i%1000 == 0 {
				time.Sleep(500 * time.Millisecond)
			}
		}
		if n := l.Accounts(); n > 10_000 {
			t.Errorf("%d accounts", n)
		}
		if _, err := l.Create("owes/1", 1, false); err == nil || err.Kind != stream.QuotaAppends {
			t.Errorf("who owes is let in: %v", err)
		}
	})
}

// An append is charged without memory.
func TestAppendDoesNotAllocate(t *testing.T) {
	l := tenant.NewLedger(parse(t, "tenant a streams=5 bytes=1GiB appends=1000000000 append-bytes=1GiB"))
	a, err := l.Create("a/1", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = a.Append(10, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
