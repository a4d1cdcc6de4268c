package subscription

import (
	"strings"
	"testing"
	"time"

	"durablestreams/stream"
)

func TestDescribe(t *testing.T) {
	hook := sampleState()
	pull := sampleState()
	pull.settings = settings{typ: PullWake, wakeStream: "w", ttl: time.Minute}
	pull.run = run{}
	under := sampleState()
	under.run = run{generation: 2, wakeID: "w_secret", phase: woken, lease: int64(time.Minute)}
	for _, tt := range []struct {
		row  stream.Row
		want string
	}{
		{hook.mainRow(), `subscription "sub 1"  webhook  lease 30s  pattern e/*  of 0000000000000abc`},
		{hook.runRow(), `wake  generation 7  held by "h"  lease until 1970-01-01T00:00:00Z  3 failures, retry at 1970-01-01T00:00:00Z  of 0000000000000abc`},
		{pull.mainRow(), `subscription "sub 1"  pull-wake  lease 1m0s  wakes by w  of 0000000000000abc`},
		{pull.runRow(), `wake  generation 0  over  of 0000000000000abc`},
		{under.runRow(), `wake  generation 2  under way  lease until 1970-01-01T00:01:00Z  of 0000000000000abc`},
		{hook.markRow("e/a", stream.Offset{Pos: 300, Inc: 9}), `pending  e/a  acked ` + stream.Offset{Pos: 300, Inc: 9}.String() + `  of 0000000000000abc`},
		{stream.Row{Key: hook.key(linkRows, "x/y"), Value: []byte{rowVersion}}, `linked  x/y  of 0000000000000abc`},
		{stream.Row{Key: []byte("other"), Value: []byte("x")}, ""},
		{stream.Row{Key: hook.key(mainRow, ""), Value: []byte{9}}, ""},
		{stream.Row{Key: hook.key(runRows, ""), Value: nil}, ""},
		{stream.Row{Key: hook.key(markRows, "a"), Value: []byte{1}}, ""},
	} {
		got, ok := Describe(tt.row)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q is %q, %v\nwant %q", tt.row.Key, got, ok, tt.want)
		}
		if strings.Contains(got, "https://") || strings.Contains(got, "w_") {
			t.Errorf("%q shows a secret: %s", tt.row.Key, got)
		}
	}
}
