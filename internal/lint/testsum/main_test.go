package main

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	const (
		ok    = `{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"
		passA = `{"Action":"run","Package":"p","Test":"A"}` + "\n" + `{"Action":"output","Package":"p","Test":"A","Output":"noise\n"}` + "\n" + `{"Action":"pass","Package":"p","Test":"A"}` + "\n"
		failB = `{"Action":"output","Package":"p","Test":"B","Output":"b_test.go:1: wrong\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"B"}` + "\n"
		skipC = `{"Action":"skip","Package":"p","Test":"C"}` + "\n"
		skipD = `{"Action":"output","Package":"p","Test":"D","Output":"=== RUN   D\n"}` + "\n" + `{"Action":"output","Package":"p","Test":"D","Output":"    d_test.go:7: no: network\n"}` + "\n" +
			`{"Action":"output","Package":"p","Test":"D","Output":"--- SKIP: D (0.00s)\n"}` + "\n" + `{"Action":"skip","Package":"p","Test":"D"}` + "\n"
		fail    = `{"Action":"fail","Package":"p"}` + "\n"
		start   = `{"Action":"start","Package":"p"}` + "\n"
		cut     = `{"Action":"output","Package":"p","Test":"D","Output":"half\n"}` + "\n"
		crash   = `{"Action":"output","Package":"p","Output":"panic: oh\n"}` + "\n" + fail
		noBuild = `{"ImportPath":"p","Action":"build-output","Output":"x.go:1: syntax\n"}` + "\n" + `{"ImportPath":"p","Action":"build-fail"}` + "\n" + fail
		noTests = `{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}` + "\n" + `{"Action":"skip","Package":"q"}` + "\n"
	)
	tests := []struct {
		name, in string
		last     string
		has      string
		err      string
	}{
		{"good", passA + ok, "1 passed, 0 failed", "ok  \tp", ""},
		{"failed", passA + failB + fail, "1 passed, 1 failed", "b_test.go:1: wrong", "failed"},
		{"skipped", passA + skipC + ok + noTests, "1 passed, 0 failed, 1 skipped", "SKIP p C: no reason given\n", ""},
		{"skipped with a reason", passA + skipD + ok, "1 passed, 0 failed, 1 skipped", "SKIP p D: no: network\n", ""},
		{"crash outside a test", passA + crash, "1 passed, 0 failed", "panic: oh", "failed"},
		{"crash inside a test", passA + cut + fail, "1 passed, 0 failed", "half\n", "failed"},
		{"cut off", start + passA + cut, "1 passed, 0 failed", "half\n", "failed"},
		{"does not build", passA + ok + noBuild, "1 passed, 0 failed", "x.go:1: syntax", "failed"},
		{"no test", noTests, "0 passed, 0 failed", "", "no test ran"},
		{"only skipped", skipC + ok, "0 passed, 0 failed, 1 skipped", "", "no test ran"},
		{"nothing at all", "", "0 passed, 0 failed", "", "no test ran"},
		{"plain text", "go: cannot find module\n" + passA + ok, "1 passed, 0 failed", "cannot find module", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := newSummary(&out).run(strings.NewReader(tt.in))
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("run: %v, want %q", err, tt.err)
			}
			if !strings.HasSuffix(out.String(), "\n"+tt.last+"\n") {
				t.Errorf("ends %q, want %q", out.String(), tt.last)
			}
			if !strings.Contains(out.String(), tt.has) {
				t.Errorf("%q does not hold %q", out.String(), tt.has)
			}
			if strings.Contains(out.String(), "noise") {
				t.Errorf("prints the output of a test that passed: %q", out.String())
			}
		})
	}
}
