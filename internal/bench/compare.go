package bench

import (
	"slices"
)

// Ratio compares a figure of two servers, the first one's divided by the second one's,
// over the rounds in which both were measured one after the other.
type Ratio struct {
	Name   string  `json:"name"`
	Figure string  `json:"figure"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// figures are the numbers that are compared. One that is zero on a side is left out.
var figures = []struct {
	name string
	of   func(*Result) float64
}{
	{"rate", (*Result).Rate},
	{"latency p50", func(r *Result) float64 { return float64(r.Latency.P50) }},
	{"latency p99", func(r *Result) float64 { return float64(r.Latency.P99) }},
	{"server CPU each", func(r *Result) float64 {
		if r.Server == nil {
			return 0
		}
		return r.each(r.Server.CPU.Total())
	}},
	{"server RSS after", func(r *Result) float64 {
		if r.Server == nil {
			return 0
		}
		return float64(r.Server.RSSAfter)
	}},
}

// compare pairs the results of both servers by name and round.
func compare(results []Result, first, second string) []Ratio {
	if second == "" {
		return nil
	}
	half := splitSides(results, first)
	var ratios []Ratio
	for _, name := range half.names {
		for _, f := range figures {
			var all []float64
			a, b := half.a[name], half.b[name]
			for i := range min(len(a), len(b)) {
				if x, y := f.of(a[i]), f.of(b[i]); x > 0 && y > 0 {
					all = append(all, x/y)
				}
			}
			if len(all) > 0 {
				slices.Sort(all)
				ratios = append(ratios, Ratio{name, f.name, median(all), all[0], all[len(all)-1], len(all)})
			}
		}
	}
	return ratios
}

// median of sorted numbers, of which there is at least one.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

type sides struct {
	names []string
	a, b  map[string][]*Result
}

// splitSides sorts results by name and server. Rounds run first, second, first,
// second, so the order tells the sides apart even if their URLs are equal.
func splitSides(results []Result, first string) sides {
	s := sides{a: map[string][]*Result{}, b: map[string][]*Result{}}
	for i := range results {
		r := &results[i]
		if !slices.Contains(s.names, r.Name) {
			s.names = append(s.names, r.Name)
		}
		if r.URL == first && len(s.a[r.Name]) < r.Round {
			s.a[r.Name] = append(s.a[r.Name], r)
		} else {
			s.b[r.Name] = append(s.b[r.Name], r)
		}
	}
	return s
}

// ratioText prints the comparison as a table.
func (r *Report) ratioText(p *page) {
	if len(r.Ratios) == 0 {
		return
	}
	p.WriteString("\nfirst / second server, median of rounds (least .. most)\n")
	for _, q := range r.Ratios {
		p.line("", "%-24s %-18s %8.3f  (%.3f .. %.3f, %d rounds)", q.Name, q.Figure, q.Median, q.Min, q.Max, q.Rounds)
	}
}
