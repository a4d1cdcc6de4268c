package wire_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/wire"
)

func TestParseRFC3339(t *testing.T) {
	tests := []struct {
		in, want string // as time.RFC3339Nano in UTC; "" = refused
	}{
		{"2027-01-02T03:04:05Z", "2027-01-02T03:04:05Z"},
		{"2027-01-02t03:04:05z", "2027-01-02T03:04:05Z"},
		{"2027-01-02T03:04:05.5Z", "2027-01-02T03:04:05.5Z"},
		{"2027-01-02T03:04:05.123456789Z", "2027-01-02T03:04:05.123456789Z"},
		{"2027-01-02T03:04:05.1234567899999Z", "2027-01-02T03:04:05.123456789Z"},
		{"2027-01-02T03:04:05.000+01:30", "2027-01-02T01:34:05Z"},
		{"2027-01-02T03:04:05-23:59", "2027-01-03T03:03:05Z"},
		{"2027-01-02T03:04:05+23:59", "2027-01-01T03:05:05Z"},
		{"2027-01-02T03:04:05-00:00", "2027-01-02T03:04:05Z"},
		{"2028-02-29T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"},
		{"0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"},
		{"9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"},

		{"2027-02-30T00:00:00Z", ""},
		{"2027-02-29T00:00:00Z", ""},
		{"2100-02-29T00:00:00Z", ""},
		{"2027-04-31T00:00:00Z", ""},
		{"2027-01-32T00:00:00Z", ""},
		{"2027-01-00T00:00:00Z", ""},
		{"2027-00-01T00:00:00Z", ""},
		{"2027-13-01T00:00:00Z", ""},
		{"2027-01-01T24:00:00Z", ""},
		{"2027-01-01T00:60:00Z", ""},
		{"2027-01-01T00:00:60Z", ""},
		{"2026-12-31T23:59:60Z", ""},
		{"2027-01-02T03:04:05,5Z", ""},
		{"2027-01-02T03:04:05.Z", ""},
		{"2027-01-02T03:04:05.-5Z", ""},
		{"2027-01-02T3:04:05Z", ""},
		{"2027-1-02T03:04:05Z", ""},
		{"2027-01-2T03:04:05Z", ""},
		{"27-01-02T03:04:05Z", ""},
		{"12027-01-02T03:04:05Z", ""},
		{"+2027-01-02T03:04:05Z", ""},
		{"2027-01-02T03:04Z", ""},
		{"2027-01-02", ""},
		{"2027-01-02T03:04:05", ""},
		{"2027-01-02 03:04:05Z", ""},
		{"2027-01-02_03:04:05Z", ""},
		{"20270102T030405Z", ""},
		{"2027-01-02T03:04:05+24:00", ""},
		{"2027-01-02T03:04:05+23:60", ""},
		{"2027-01-02T03:04:05+01", ""},
		{"2027-01-02T03:04:05+0130", ""},
		{"2027-01-02T03:04:05+1:30", ""},
		{"2027-01-02T03:04:05+01:30x", ""},
		{"2027-01-02T03:04:05\u221201:30", ""},
		{"2027-01-02T03:04:05ZZ", ""},
		{"2027-01-02T03:04:05Z ", ""},
		{" 2027-01-02T03:04:05Z", ""},
		{"2027-01-02T03:04:05UTC", ""},
		{"Fri, 01 Jan 2027 00:00:00 GMT", ""},
		{"1798761600", ""},
		{"", ""},
		{"2027-01-02T03:0a:05Z", ""},
		{"0000-01-01T00:00:00+00:01", ""}, // in the year -1
		{"9999-12-31T23:59:59-00:01", ""}, // in the year 10000
	}
	for _, tt := range tests {
		got, ok := wire.ParseRFC3339(tt.in)
		if ok != (tt.want != "") {
			t.Errorf("ParseRFC3339(%q) = %v, %v", tt.in, got, ok)
		} else if ok && got.Format(time.RFC3339Nano) != tt.want {
			t.Errorf("ParseRFC3339(%q) = %v, want %v", tt.in, got.Format(time.RFC3339Nano), tt.want)
		} else if !ok && !got.IsZero() {
			t.Errorf("ParseRFC3339(%q) refuses with %v", tt.in, got)
		}
	}
}

// dateTime is the grammar of RFC 3339 §5.6 with the ranges of §5.7, less those of days.
var dateTime = regexp.MustCompile(
	`^\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

func FuzzParseRFC3339(f *testing.F) {
	for _, s := range []string{
		"2027-01-02T03:04:05.678+01:30", "2028-02-29t23:59:59z", "2027-02-30T00:00:00Z", "2027-01-02T3:04:05,5Z", "2027-01-02T03:04:05+24:00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := wire.ParseRFC3339(s)
		// time.Parse knows the calendar; it is lenient about the rest.
		want, err := time.Parse(time.RFC3339, strings.ToUpper(s))
		wantOK := err == nil && dateTime.MatchString(s) && want.UTC().Year() >= 0 && want.UTC().Year() <= 9999
		if ok != wantOK || ok && !got.Equal(want) {
			t.Fatalf("ParseRFC3339(%q) = %v, %v; want %v, %v", s, got, ok, want, wantOK)
		}
		if ok {
			again, ok := wire.ParseRFC3339(got.Format(time.RFC3339Nano))
			if !ok || !again.Equal(got) {
				t.Errorf("%v, written out, reads as %v, %v", got, again, ok)
			}
		}
	})
}

func BenchmarkParseRFC3339(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		wire.ParseRFC3339("2027-01-02T03:04:05.678+01:30")
	}
}
