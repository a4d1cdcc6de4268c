package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a number of bytes, written with or without a unit.
type size int64

// units by name, in lower case. A bare letter is binary, as the memory of a
// machine is.
var units = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
}

// UnmarshalText reads "16MiB", "16 MiB", "1.5g" or "16777216".
func (s *size) UnmarshalText(text []byte) error {
	number := strings.TrimSpace(string(text))
	digits := strings.TrimLeft(number, "0123456789.")
	unit, known := units[strings.ToLower(strings.TrimSpace(digits))]
	n, err := strconv.ParseFloat(number[:len(number)-len(digits)], 64)
	if err != nil || !known || n*unit > math.MaxInt64/2 || n*unit != math.Trunc(n*unit) {
		return fmt.Errorf("%q is not a size: want a number and perhaps a unit, such as 512KiB, 16MiB or 1GiB", text)
	}
	*s = size(n * unit)
	return nil
}

// String gives the size in the largest unit of which it is a whole number.
func (s size) String() string {
	for _, unit := range []struct {
		name  string
		bytes size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s >= unit.bytes && s%unit.bytes == 0 {
			return strconv.FormatInt(int64(s/unit.bytes), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
