// Package bytesize reads and writes numbers of bytes as people do: 16MiB. It holds nothing.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units by name, in lower case. A bare letter is binary, as the memory of a
// machine is.
var units = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
}

// Parse reads "16MiB", "16 MiB", "1.5g" or "16777216".
func Parse(text string) (int64, error) {
	number := strings.TrimSpace(text)
	digits := strings.TrimLeft(number, "0123456789.")
	unit, known := units[strings.ToLower(strings.TrimSpace(digits))]
	n, err := strconv.ParseFloat(number[:len(number)-len(digits)], 64)
	if err != nil || !known || n*unit > math.MaxInt64/2 || n*unit != math.Trunc(n*unit) {
		return 0, fmt.Errorf("%q is not a size: want a number and perhaps a unit, such as 512KiB, 16MiB or 1GiB", text)
	}
	return int64(n * unit), nil
}

// Format gives a size in the largest unit of which it is a whole number.
func Format(n int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
