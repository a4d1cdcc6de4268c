package bench

import (
	"context"
	"fmt"
)

// runStreams is the scenario of that name: the same appends over more and more
// streams. Each number has names of its own.
func runStreams(ctx context.Context, b *bed) ([]Result, error) {
	var results []Result
	for _, count := range b.opts.Counts {
		res, err := b.appends(ctx, fmt.Sprintf("streams-%d", count), count)
		if err != nil {
			return nil, err
		}
		if len(results) > 0 && results[0].Rate() > 0 {
			name := fmt.Sprintf("rate against %s streams", number(float64(b.opts.Counts[0])))
			res.Metrics = append(res.Metrics, Metric{name, "%", 100 * res.Rate() / results[0].Rate()})
		}
		results = append(results, res)
	}
	return results, nil
}
