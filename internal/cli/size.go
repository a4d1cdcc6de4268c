package cli

import "durablestreams/internal/bytesize"

// size is a number of bytes, written with or without a unit.
type size int64

// UnmarshalText reads "16MiB", "16 MiB", "1.5g" or "16777216".
func (s *size) UnmarshalText(text []byte) error {
	n, err := bytesize.Parse(string(text))
	*s = size(n)
	return err
}

// String gives the size in the largest unit of which it is a whole number.
func (s size) String() string { return bytesize.Format(int64(s)) }
