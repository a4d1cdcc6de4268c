package bench

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// writeBenchstat prints results in the format that benchstat reads. A comparison has
// its server in the name.
func (r *Report) writeBenchstat(out io.Writer) error {
	var p page
	p.WriteString("pkg: durablestreams/bench\n")
	for i := range r.Results {
		res := &r.Results[i]
		name := "Benchmark" + benchmarkName(res.Name)
		if len(r.Ratios) > 0 {
			if u, err := url.Parse(res.URL); err == nil {
				name += "/server=" + u.Host
			}
		}
		fmt.Fprintf(&p, "%s %d %.1f ns/op", name, max(res.Count, 1), res.each(res.Elapsed))
		fmt.Fprintf(&p, " %.1f %s/s", res.Rate(), res.Unit)
		if res.Latency.Count > 0 {
			fmt.Fprintf(&p, " %d p50-ns %d p99-ns", res.Latency.P50, res.Latency.P99)
		}
		if res.Bytes > 0 {
			fmt.Fprintf(&p, " %.1f MB/s", float64(res.Bytes)/1e6/max(res.Elapsed, time.Nanosecond).Seconds())
		}
		if s := res.Server; s != nil {
			fmt.Fprintf(&p, " %.1f server-cpu-ns/op %d server-rss-B", res.each(s.CPU.Total()), s.RSSAfter)
		}
		fmt.Fprintf(&p, " %.1f own-cpu-ns/op", res.each(res.Own.Total()))
		for _, m := range res.Metrics {
			fmt.Fprintf(&p, " %g %s", m.Value, strings.ReplaceAll(m.Name, " ", "-")+"-"+strings.ReplaceAll(m.Unit, " ", "-"))
		}
		p.WriteByte('\n')
	}
	_, err := out.Write(p.Bytes())
	return err
}

// benchmarkName makes "append" "Append", as benchmarks are called.
func benchmarkName(name string) string {
	name = strings.ReplaceAll(name, " ", "-")
	return strings.ToUpper(name[:1]) + name[1:]
}
