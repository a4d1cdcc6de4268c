package bytesize_test

import (
	"testing"

	"durablestreams/internal/bytesize"
)

func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int64 // -1: it is none
		back string
	}{
		{"0", 0, "0B"}, {"16777216", 16 << 20, "16MiB"}, {" 1.5 GiB ", 3 << 29, "1536MiB"}, {"4kb", 4000, "4000B"}, {"4K", 4096, "4KiB"}, {"7b", 7, "7B"},
		{"", -1, ""}, {"-1", -1, ""}, {"1.5", -1, ""}, {"1TiB", -1, ""}, {"9999999999GiB", -1, ""}, {"1e3", -1, ""}, {"much", -1, ""}, {"1..2k", -1, ""},
	} {
		n, err := bytesize.Parse(tt.text)
		if (err != nil) != (tt.n < 0) || err == nil && (n != tt.n || bytesize.Format(n) != tt.back) {
			t.Errorf("%q: %d %s %v, want %d %s", tt.text, n, bytesize.Format(n), err, tt.n, tt.back)
		}
	}
}
