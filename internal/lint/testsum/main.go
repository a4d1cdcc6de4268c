// Command testsum reads the stream of `go test -json` on standard input, prints
// what a person wants to see of it (a line for each package, the whole output of
// what failed, what was skipped and why) and ends with the line "N passed, N failed",
// in which a test with subtests counts once, and so does each of them. It exits with 1 if anything
// failed, did not build or did not end, or if no test ran at all.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// event is a line of test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

// summary is what has been seen so far.
type summary struct {
	out            io.Writer
	passed, failed int
	skipped        []string // tests, with their reasons
	broken         []string
	output         map[string][]string // by package and test, until it ends
	running        map[string]bool     // packages that have not ended
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string][]string{}, running: map[string]bool{}}
}

func main() {
	s := newSummary(os.Stdout)
	if err := s.run(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
}

// run copies the events to the end and reports whether the run was a good one.
func (s *summary) run(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			s.line(line)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(s.running)) {
		s.flush(pkg)
		s.broken = append(s.broken, pkg+" did not end")
	}
	fmt.Fprintln(s.out)
	for _, skipped := range s.skipped {
		fmt.Fprintln(s.out, "SKIP", skipped)
	}
	for _, b := range s.broken {
		fmt.Fprintln(s.out, "FAIL", b)
	}
	fmt.Fprintf(s.out, "%d passed, %d failed", s.passed, s.failed)
	if len(s.skipped) > 0 {
		fmt.Fprintf(s.out, ", %d skipped", len(s.skipped))
	}
	fmt.Fprintln(s.out)
	switch {
	case s.failed > 0 || len(s.broken) > 0:
		return errors.New("the run failed")
	case s.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}

func (s *summary) line(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
		fmt.Fprint(s.out, line)
		return
	}
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		if e.Test == "" && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "ok\t")) {
			fmt.Fprint(s.out, e.Output)
			return
		}
		s.output[key] = append(s.output[key], e.Output)
	case "start":
		s.running[e.Package] = true
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "build-fail":
		s.broken = append(s.broken, e.ImportPath+" does not build")
	case "pass", "skip", "fail":
		s.ended(e, key)
	}
}

func (s *summary) ended(e event, key string) {
	if e.Test == "" {
		if e.Action == "fail" {
			s.flush(e.Package)
			s.broken = append(s.broken, e.Package)
		}
		delete(s.output, key)
		delete(s.running, e.Package)
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped = append(s.skipped, e.Package+" "+e.Test+": "+reason(s.output[key]))
	case "fail":
		s.failed++
		for _, out := range s.output[key] {
			fmt.Fprint(s.out, out)
		}
	}
	delete(s.output, key)
}

// reason finds in the output of a skipped test what it says last, behind its place:
// "    a_test.go:7: no network".
func reason(output []string) string {
	said := "no reason given"
	for _, line := range output {
		if place, text, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.Contains(place, ".go:") {
			said = text
		}
	}
	return said
}

// flush prints what is left of a package: of tests that a crash cut short too.
func (s *summary) flush(pkg string) {
	for _, key := range slices.Sorted(maps.Keys(s.output)) {
		if !strings.HasPrefix(key, pkg+"\x00") {
			continue
		}
		for _, out := range s.output[key] {
			fmt.Fprint(s.out, out)
		}
		delete(s.output, key)
	}
}
