package wire_test

import (
	"strconv"
	"testing"
	"time"

	"durablestreams/internal/wire"
)

// at returns a moment in the given interval.
func at(interval int64) time.Time {
	return time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC).Add(time.Duration(interval) * 20 * time.Second)
}

func TestNextCursor(t *testing.T) {
	const safe = wire.MaxSafeInteger
	smallest := func(uint64) uint64 { return 0 }
	largest := func(n uint64) uint64 { return n - 1 }
	tests := []struct {
		name   string
		now    time.Time
		client string
		jitter func(uint64) uint64
		want   string
	}{
		{"first interval", at(0), "", largest, "0"},
		{"its last moment", at(1).Add(-1), "", largest, "0"},
		{"the next", at(1), "", largest, "1"},
		{"before the epoch", at(-5), "", largest, "0"},
		{"client behind", at(1000), "999", largest, "1000"},
		{"client here", at(1000), "1000", smallest, "1001"},
		{"client here, largest step", at(1000), "1000", largest, "1180"},
		{"client ahead", at(1000), "5000", smallest, "5001"},
		{"no jitter", at(1000), "1000", nil, "1001"},
		{"jitter out of range", at(1000), "1000", func(uint64) uint64 { return 1<<64 - 1 }, "1016"},
		{"largest usable", at(1000), strconv.Itoa(safe - 180), largest, strconv.Itoa(safe)},
		{"beyond", at(1000), strconv.Itoa(safe - 179), largest, "1000"},
		{"2^53-1", at(1000), "9007199254740991", smallest, "1000"},
		{"2^53", at(1000), "9007199254740992", smallest, "1000"},
		{"2^63-1", at(1000), "9223372036854775807", smallest, "1000"},
		{"2^64", at(1000), "18446744073709551616", smallest, "1000"},
		{"23 digits", at(1000), "99999999999999999999999", smallest, "1000"},
		{"negative", at(1000), "-5", smallest, "1000"},
		{"word", at(1000), "abc", smallest, "1000"},
		{"exponent", at(1000), "1e30", smallest, "1000"},
		{"float", at(1000), "2000.5", smallest, "1000"},
		{"space", at(1000), " 2000", smallest, "1000"},
		{"plus", at(1000), "+2000", smallest, "1000"},
		{"leading zero", at(1000), "02000", smallest, "1000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := wire.NextCursor(tt.now, tt.client, tt.jitter); got != tt.want {
				t.Errorf("NextCursor(%v, %q) = %q, want %q", tt.now, tt.client, got, tt.want)
			}
		})
	}
}

func TestNextCursorClimbs(t *testing.T) {
	// A client that always sends the last cursor back never sees one twice.
	last, cursor := uint64(0), ""
	for i := range uint64(1000) {
		cursor = wire.NextCursor(at(1000), cursor, func(n uint64) uint64 { return i % n })
		c, err := strconv.ParseUint(cursor, 10, 64)
		if err != nil || c <= last || i > 0 && c-last > 180 {
			t.Fatalf("cursor %q after %d: %v", cursor, last, err)
		}
		last = c
	}
}

func FuzzNextCursor(f *testing.F) {
	f.Add(int64(1760000000), "3212345", uint64(17))
	f.Add(int64(-1), "9007199254740991", uint64(0))
	f.Add(int64(1<<62), "", uint64(0))
	f.Fuzz(func(t *testing.T, unix int64, client string, step uint64) {
		jitter := func(uint64) uint64 { return step }
		plain := wire.NextCursor(time.Unix(unix, 0), "", jitter)
		got := wire.NextCursor(time.Unix(unix, 0), client, jitter)
		g, ok := wire.ParseDigits(got, 1<<63)
		current, okPlain := wire.ParseDigits(plain, 1<<63)
		if !ok || !okPlain || g < current {
			t.Fatalf("NextCursor(%d, %q) = %q, without a client cursor %q", unix, client, got, plain)
		}
		if c, ok := wire.ParseDigits(client, wire.MaxSafeInteger-3600); ok && g <= c {
			t.Errorf("NextCursor(%d, %q) = %q is not beyond the client's", unix, client, got)
		}
	})
}

func BenchmarkNextCursor(b *testing.B) {
	now := at(3212345)
	b.ReportAllocs()
	for b.Loop() {
		wire.NextCursor(now, "3212344", nil)
	}
}
