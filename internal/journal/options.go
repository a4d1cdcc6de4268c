package journal

import "fmt"

// Defaults and limits, in bytes.
const (
	defaultSegmentSize = 64 << 20
	minSegmentSize     = 4 << 10
	smallSegmentSize   = 256 << 10 // a nearly full disk never pushes segments below this
	pageSize           = 4 << 10   // segment sizes are multiples of this
	defaultMaxFree     = 2
)

// Options tune a journal. The zero value, or nil, means the defaults.
type Options struct {
	// SegmentSize is the size of a segment file in bytes, rounded up to 4 KiB.
	// Default 64 MiB, least 4 KiB. When the file system says that less than
	// eight segments' worth of space is left, new segments become smaller,
	// down to 256 KiB. Segments are filled with zeros when they are made, so
	// an in-memory file system wants a small size.
	SegmentSize int64
	// MaxFree is how many files are kept for reuse after Release. Default 2;
	// negative means none.
	MaxFree int
}

// Validate says what is wrong with the options, if anything. Nil is valid.
func (o *Options) Validate() error {
	if o != nil && o.SegmentSize < 0 {
		return fmt.Errorf("journal: segment size %d is negative", o.SegmentSize)
	}
	if o != nil && o.SegmentSize > maxFrame {
		return fmt.Errorf("journal: segment size %d is above %d", o.SegmentSize, int64(maxFrame))
	}
	return nil
}

// withDefaults returns a copy of o with every field filled in.
func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.SegmentSize == 0 {
		out.SegmentSize = defaultSegmentSize
	}
	out.SegmentSize = roundUp(max(out.SegmentSize, minSegmentSize), pageSize)
	switch {
	case out.MaxFree == 0:
		out.MaxFree = defaultMaxFree
	case out.MaxFree < 0:
		out.MaxFree = 0
	}
	return out
}

// roundUp is n rounded up to a multiple of unit, a power of two.
func roundUp(n, unit int64) int64 { return (n + unit - 1) &^ (unit - 1) }
