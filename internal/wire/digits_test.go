package wire_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"durablestreams/internal/wire"
)

func TestParseDigits(t *testing.T) {
	const safe = uint64(wire.MaxSafeInteger)
	tests := []struct {
		in         string
		max        uint64
		want       uint64
		ok, padded bool // taken by ParseDigits, by ParsePaddedDigits
	}{
		{"0", 0, 0, true, true},
		{"1", 0, 0, false, false},
		{"7", 7, 7, true, true},
		{"8", 7, 0, false, false},
		{"9007199254740991", safe, safe, true, true},
		{"9007199254740992", safe, 0, false, false},
		{"18446744073709551615", math.MaxUint64, math.MaxUint64, true, true},
		{"18446744073709551616", math.MaxUint64, 0, false, false},
		{"18446744073709551620", math.MaxUint64, 0, false, false},
		{"99999999999999999999999", math.MaxUint64, 0, false, false},
		{"00", 9, 0, false, true},
		{"07", 9, 7, false, true},
		{"000000000000000000000000000007", 9, 7, false, true},
		{"", 9, 0, false, false},
		{"-1", 9, 0, false, false},
		{"+1", 9, 0, false, false},
		{" 1", 9, 0, false, false},
		{"1 ", 9, 0, false, false},
		{"1.0", 9, 0, false, false},
		{"1e3", 9999, 0, false, false},
		{"1_0", 99, 0, false, false},
		{"0x1", 99, 0, false, false},
		{"1abc", 99, 0, false, false},
		{"1\x00", 99, 0, false, false},
		{"\u0661", 9, 0, false, false}, // an Arabic digit
		{"/", 99, 0, false, false},     // the neighbours of the digits
		{":", 99, 0, false, false},
	}
	for _, tt := range tests {
		n, ok := wire.ParseDigits(tt.in, tt.max)
		if ok != tt.ok || ok && n != tt.want {
			t.Errorf("ParseDigits(%q, %d) = %d, %v; want %d, %v", tt.in, tt.max, n, ok, tt.want, tt.ok)
		}
		n, ok = wire.ParsePaddedDigits(tt.in, tt.max)
		if ok != tt.padded || ok && n != tt.want {
			t.Errorf("ParsePaddedDigits(%q, %d) = %d, %v; want %d, %v", tt.in, tt.max, n, ok, tt.want, tt.padded)
		}
	}
}

func FuzzParseDigits(f *testing.F) {
	f.Add("0", uint64(0))
	f.Add("0018446744073709551615", uint64(math.MaxUint64))
	f.Add("+5", uint64(10))
	f.Fuzz(func(t *testing.T, s string, limit uint64) {
		want, err := strconv.ParseUint(s, 10, 64)
		wantOK := err == nil && want <= limit
		n, ok := wire.ParsePaddedDigits(s, limit)
		if ok != wantOK || ok && n != want {
			t.Errorf("ParsePaddedDigits(%q, %d) = %d, %v; want %d, %v", s, limit, n, ok, want, wantOK)
		}
		if len(s) > 1 && strings.HasPrefix(s, "0") {
			wantOK = false
		}
		n, ok = wire.ParseDigits(s, limit)
		if ok != wantOK || ok && n != want {
			t.Errorf("ParseDigits(%q, %d) = %d, %v; want %d, %v", s, limit, n, ok, want, wantOK)
		}
	})
}

func BenchmarkParseDigits(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		wire.ParseDigits("9007199254740991", wire.MaxSafeInteger)
	}
}
