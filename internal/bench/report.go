package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrFailed is what Run's error wraps when a server broke a promise or refused
// requests: the report is complete, but the figures are not worth having.
var ErrFailed = errors.New("the run failed")

// Report is what a run found.
type Report struct {
	Scenario string    `json:"scenario"`
	Started  time.Time `json:"started"`
	Options  Summary   `json:"options"`
	Results  []Result  `json:"results"`
	Ratios   []Ratio   `json:"ratios,omitempty"`
}

// Summary is the part of the options that a reader of figures has to know.
type Summary struct {
	Connections int           `json:"connections"`
	Streams     int           `json:"streams"`
	Counts      []int         `json:"counts,omitempty"` // of the streams scenario
	Subscribers int           `json:"subscribers,omitempty"`
	Rate        float64       `json:"rate_target,omitempty"`
	Duration    time.Duration `json:"duration_ns"`
	Size        int           `json:"size"`
	ReadSize    int64         `json:"read_size,omitempty"`
	JSON        bool          `json:"json"`
	Producers   bool          `json:"producers"`
	Loops       int           `json:"loops"`
}

// Result is one measured phase against one server.
type Result struct {
	Name    string        `json:"name"` // of the phase, unique within a round
	URL     string        `json:"url"`
	Run     string        `json:"run"` // part of every stream's name
	Round   int           `json:"round"`
	Unit    string        `json:"unit"` // what is counted
	Count   int64         `json:"count"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Bytes   int64         `json:"bytes,omitempty"`
	Latency Quantiles     `json:"latency"`

	Errors      []ErrorCount `json:"errors,omitempty"`
	Duplicates  int64        `json:"duplicates"`
	Retries     int64        `json:"retries"`
	Reconnects  int64        `json:"reconnects"`
	Unsent      int64        `json:"unsent"` // due by the schedule and never sent
	Unsolicited int64        `json:"unsolicited"`
	Lateness    Quantiles    `json:"lateness"` // of the generator itself

	Server  *Server       `json:"server,omitempty"`
	Own     Cost          `json:"generator"`
	Disk    *Disk         `json:"disk,omitempty"`
	Verify  *Verification `json:"verification,omitempty"`
	Metrics []Metric      `json:"metrics,omitempty"`
	Samples []Sample      `json:"samples,omitempty"`
	Notes   []string      `json:"notes,omitempty"`

	start int64 // of the phase, by the bed's clock
}

// Cost is CPU time, the kernel's part apart.
type Cost struct {
	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
}

// Total is user and system time together.
func (c Cost) Total() time.Duration { return c.User + c.System }

// Server is what the server's process used during the phase.
type Server struct {
	CPU       Cost  `json:"cpu"`
	RSSBefore int64 `json:"rss_before"`
	RSSAfter  int64 `json:"rss_after"`
}

// Disk is the disk's fdatasync time right before and after.
type Disk struct {
	Before Quantiles `json:"before"`
	After  Quantiles `json:"after"`
}

// Metric is a figure that only some scenarios have.
type Metric struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"` // "ns" and "B" are printed in sensible multiples
	Value float64 `json:"value"`
}

// Rate is the number of counted things a second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Count) / r.Elapsed.Seconds()
}

// each divides a time by the count.
func (r *Result) each(d time.Duration) float64 {
	if r.Count == 0 {
		return 0
	}
	return float64(d) / float64(r.Count)
}

// errorsTotal is the number of requests without a good answer.
func (r *Result) errorsTotal() int64 {
	n := r.Unsolicited
	for _, e := range r.Errors {
		n += e.Count
	}
	return n
}

// failure tells why the result cannot be believed, or nil.
func (r *Result) failure(allowErrors bool) error {
	var errs []error
	if v := r.Verify; v != nil && v.violations() > 0 {
		errs = append(errs, fmt.Errorf("%w: %s at %s: %d lost, %d doubled, %d reordered, %d refused but there, %d alien, %d unreadable",
			ErrFailed, r.Name, r.URL, v.Lost, v.Doubled, v.Reordered, v.Refused, v.Alien, v.Unreadable))
	}
	if n := r.errorsTotal(); n > 0 && !allowErrors {
		errs = append(errs, fmt.Errorf("%w: %s at %s: %d requests without a good answer", ErrFailed, r.Name, r.URL, n))
	}
	if r.Count == 0 {
		errs = append(errs, fmt.Errorf("%w: %s at %s: nothing succeeded", ErrFailed, r.Name, r.URL))
	}
	return errors.Join(errs...)
}

// write prints a report in the wanted format.
func (r *Report) write(out io.Writer, format string) error {
	switch format {
	case "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	case "benchstat":
		return r.writeBenchstat(out)
	default:
		return r.writeText(out)
	}
}
