package bench

import (
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	probeWrites = 200
	probeBlock  = 4 << 10
)

// probeSync measures what the disk takes to make 4 KiB durable: appends to a file that
// was written and synced before, each followed by fdatasync. This is the least that a
// durable write can cost there.
func probeSync(dir string) (q Quantiles, err error) {
	file, err := os.CreateTemp(dir, "ds-bench-*.probe")
	if err != nil {
		return q, fmt.Errorf("probe the disk: %w", err)
	}
	defer func() {
		err = errors.Join(err, file.Close(), os.Remove(file.Name()))
	}()
	block := make([]byte, probeBlock)
	for i := range block {
		block[i] = letters[(i*7+i>>6)&63]
	}
	for i := range probeWrites {
		if _, err := file.WriteAt(block, int64(i)*probeBlock); err != nil {
			return q, fmt.Errorf("probe the disk: %w", err)
		}
	}
	if err := file.Sync(); err != nil {
		return q, fmt.Errorf("probe the disk: %w", err)
	}
	var h histogram
	for i := range probeWrites {
		block[0] ^= 1
		start := time.Now()
		if _, err := file.WriteAt(block, int64(i)*probeBlock); err != nil {
			return q, fmt.Errorf("probe the disk: %w", err)
		}
		if err := syncData(file); err != nil {
			return q, fmt.Errorf("probe the disk: %w", err)
		}
		h.record(int64(time.Since(start)))
	}
	return h.quantiles(), nil
}
