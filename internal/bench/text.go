package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// page collects lines, so that printing has one place where it can fail.
type page struct{ bytes.Buffer }

func (p *page) line(label, format string, args ...any) {
	fmt.Fprintf(p, "  %-10s %s\n", label, fmt.Sprintf(format, args...))
}

func (r *Report) writeText(out io.Writer) error {
	var p page
	o := r.Options
	kind := "bytes"
	if o.JSON {
		kind = "JSON"
	}
	if o.Producers {
		kind += " with producers"
	}
	loop := "closed loop"
	if o.Rate > 0 {
		loop = fmt.Sprintf("%.0f/s by schedule", o.Rate)
	}
	streams := fmt.Sprint(o.Streams)
	if len(o.Counts) > 0 {
		streams = strings.Trim(fmt.Sprint(o.Counts), "[]")
	}
	fmt.Fprintf(&p, "%s: %d connections, %s streams, %d B %s, %s, %v\n",
		r.Scenario, o.Connections, streams, o.Size, kind, loop, o.Duration)
	for i := range r.Results {
		r.Results[i].text(&p)
	}
	r.ratioText(&p)
	_, err := out.Write(p.Bytes())
	return err
}

// text prints one result.
func (r *Result) text(p *page) {
	fmt.Fprintf(p, "\n%s  %s  run %s", r.Name, r.URL, r.Run)
	if r.Round > 0 {
		fmt.Fprintf(p, "  round %d", r.Round)
	}
	p.WriteByte('\n')
	p.line("rate", "%s %s/s   %s in %v", number(r.Rate()), r.Unit, number(float64(r.Count)), r.Elapsed.Round(time.Millisecond))
	if r.Bytes > 0 && r.Elapsed > 0 {
		p.line("", "%s/s   %s", size(float64(r.Bytes)/r.Elapsed.Seconds()), size(float64(r.Bytes)))
	}
	if l := r.Latency; l.Count > 0 {
		p.line("latency", "p50 %s  p90 %s  p99 %s  p99.9 %s  max %s  mean %s",
			span(l.P50), span(l.P90), span(l.P99), span(l.P999), span(l.Max), span(int64(l.Mean)))
	}
	if l := r.Lateness; l.Count > 0 {
		p.line("", "the generator itself was late by p50 %s  p99 %s  max %s", span(l.P50), span(l.P99), span(l.Max))
	}
	r.countsText(p)
	if s := r.Server; s != nil {
		p.line("server", "%s CPU each (%s user + %s kernel), %.2f cores, RSS %s -> %s",
			span(int64(r.each(s.CPU.Total()))), span(int64(r.each(s.CPU.User))), span(int64(r.each(s.CPU.System))),
			s.CPU.Total().Seconds()/r.Elapsed.Seconds(), size(float64(s.RSSBefore)), size(float64(s.RSSAfter)))
	}
	p.line("generator", "%s user + %s kernel each, %.2f cores",
		span(int64(r.each(r.Own.User))), span(int64(r.each(r.Own.System))), r.Own.Total().Seconds()/r.Elapsed.Seconds())
	if d := r.Disk; d != nil {
		p.line("disk", "fdatasync p50 %s  p99 %s before,  p50 %s  p99 %s after",
			span(d.Before.P50), span(d.Before.P99), span(d.After.P50), span(d.After.P99))
	}
	for _, m := range r.Metrics {
		p.line("", "%s: %s", m.Name, m.text())
	}
	for _, note := range r.Notes {
		p.line("", "%s", note)
	}
	r.samplesText(p)
	r.verifyText(p)
}

// samplesText prints some of the samples of a sustained run.
func (r *Result) samplesText(p *page) {
	const rows = 12
	for i, s := range r.Samples {
		if i%((len(r.Samples)+rows-1)/rows) != 0 {
			continue
		}
		width := s.At
		if i > 0 {
			width -= r.Samples[i-1].At
		}
		line := fmt.Sprintf("at %8v  %10s/s", s.At.Round(10*time.Millisecond), number(math.Round(float64(s.Count)/width.Seconds())))
		if s.RSS > 0 {
			line += "  RSS " + size(float64(s.RSS))
		}
		p.line("", "%s", line)
	}
}

// countsText prints what was not plain success.
func (r *Result) countsText(p *page) {
	total := r.errorsTotal()
	p.line("errors", "%d   duplicates %d   retries %d   reconnects %d   due but unsent %d",
		total, r.Duplicates, r.Retries, r.Reconnects, r.Unsent)
	for _, e := range r.Errors {
		p.line("", "%d x %s", e.Count, e.What)
	}
	if r.Unsolicited > 0 {
		p.line("", "%d x bytes that nobody asked for", r.Unsolicited)
	}
}

func (r *Result) verifyText(p *page) {
	v := r.Verify
	if v == nil {
		return
	}
	if v.violations() == 0 {
		p.line("verified", "%s records in %s streams are exactly what was acknowledged (and %d in doubt)",
			number(float64(v.Records)), number(float64(v.Streams)), v.Doubtful)
		return
	}
	p.line("BROKEN", "of %s acknowledged: %d lost, %d doubled, %d reordered, %d refused but there, %d alien, %d streams unreadable",
		number(float64(v.Acknowledged)), v.Lost, v.Doubled, v.Reordered, v.Refused, v.Alien, v.Unreadable)
	for _, finding := range v.First {
		p.line("", "%s", finding)
	}
}

func (m *Metric) text() string {
	switch m.Unit {
	case "ns":
		return span(int64(m.Value))
	case "B":
		return size(m.Value)
	case "%":
		return fmt.Sprintf("%.1f %%", m.Value)
	default:
		return strings.TrimSpace(number(m.Value) + " " + m.Unit)
	}
}

// span prints nanoseconds with three digits that matter.
func span(ns int64) string {
	v := float64(ns)
	switch {
	case v < 0:
		return "-" + span(-ns)
	case v < 1e3:
		return fmt.Sprintf("%d ns", ns)
	case v < 1e6:
		return digits(v/1e3) + " µs"
	case v < 1e9:
		return digits(v/1e6) + " ms"
	default:
		return digits(v/1e9) + " s"
	}
}

// size prints bytes.
func size(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for math.Abs(v) >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	return digits(v) + " " + units[i]
}

func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// number prints a count with commas, or a small figure with three digits that matter.
func number(v float64) string {
	if math.Abs(v) < 1000 && v != math.Trunc(v) {
		return digits(v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
