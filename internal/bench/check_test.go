package bench

import (
	"slices"
	"testing"
)

func TestCheck(t *testing.T) {
	// Connections 0 and 2 write to stream 0, connection 1 to stream 1.
	l := layout{conns: 3, streams: 2}
	p := func(conn int, seq int64) place { return place{conn, seq} }
	all := []place{p(0, 0), p(2, 0), p(2, 1), p(0, 1), p(0, 2), p(0, 3)}
	without := func(drop ...place) []place {
		return slices.DeleteFunc(slices.Clone(all), func(q place) bool { return slices.Contains(drop, q) })
	}
	tests := []struct {
		name    string
		odd     map[int64]outcome // of connection 0
		records []place
		want    Verification
	}{
		{"all as acknowledged", nil, all, Verification{}},
		{"other connections in another order", nil, []place{p(2, 0), p(2, 1), p(0, 0), p(0, 1), p(0, 2), p(0, 3)}, Verification{}},
		{"one lost in the middle", nil, without(p(0, 1)), Verification{Lost: 1}},
		{"the last lost", nil, without(p(0, 3)), Verification{Lost: 1}},
		{"the first lost", nil, without(p(2, 0)), Verification{Lost: 1}},
		{"all lost", nil, nil, Verification{Lost: 6}},
		{"one there twice", nil, append(slices.Clone(all), p(0, 1)), Verification{Doubled: 1}},
		{"one there twice in a row", nil, append(slices.Clone(all), p(0, 3)), Verification{Doubled: 1}},
		{"two changed places", nil, []place{p(0, 0), p(2, 0), p(2, 1), p(0, 2), p(0, 1), p(0, 3)}, Verification{Reordered: 1}},
		{"one reordered and there again", nil, []place{p(0, 0), p(2, 0), p(2, 1), p(0, 2), p(0, 1), p(0, 1), p(0, 3)}, Verification{Reordered: 1, Doubled: 1}},
		{"one that was never sent", nil, append(slices.Clone(all), p(0, 4)), Verification{Alien: 1}},
		{"one of another stream", nil, append(slices.Clone(all), p(1, 0)), Verification{Alien: 1}},
		{"one of an unknown connection", nil, append(slices.Clone(all), p(3, 0)), Verification{Alien: 1}},
		{"in doubt and there", map[int64]outcome{1: doubtful}, all, Verification{Doubtful: 1}},
		{"in doubt and not there", map[int64]outcome{1: doubtful}, without(p(0, 1)), Verification{}},
		{"in doubt, last and not there", map[int64]outcome{3: doubtful}, without(p(0, 3)), Verification{}},
		{"in doubt and carried out late", map[int64]outcome{1: doubtful}, append(without(p(0, 1)), p(0, 1)), Verification{Doubtful: 1}},
		{"in doubt and there twice", map[int64]outcome{1: doubtful}, append(slices.Clone(all), p(0, 1)), Verification{Doubtful: 1, Doubled: 1}},
		{"in doubt, late, twice", map[int64]outcome{1: doubtful}, append(without(p(0, 1)), p(0, 1), p(0, 1)), Verification{Doubtful: 1, Doubled: 1}},
		{"refused and not there", map[int64]outcome{1: refused}, without(p(0, 1)), Verification{}},
		{"refused and there", map[int64]outcome{1: refused}, all, Verification{Refused: 1}},
		{"refused and there late", map[int64]outcome{1: refused}, append(without(p(0, 1)), p(0, 1)), Verification{Refused: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			total := Verification{}
			c := check{layout: l, ledgers: []ledger{{sent: 4, odd: tt.odd}, {sent: 9}, {sent: 2}}, total: &total}
			c.begin(0)
			for _, q := range tt.records {
				c.record(q.conn, q.seq)
			}
			c.end()
			if (total.violations() > 0) != (len(total.First) > 0) {
				t.Errorf("%d violations, told are %q", total.violations(), total.First)
			}
			tt.want.Streams, tt.want.Records = 1, int64(len(tt.records))
			total.First = nil
			if got := total; !equalCounts(got, tt.want) {
				t.Errorf("found %+v, want %+v", got, tt.want)
			}
		})
	}
}

func equalCounts(a, b Verification) bool {
	return a.Streams == b.Streams && a.Records == b.Records && a.Doubtful == b.Doubtful && a.Lost == b.Lost && a.Doubled == b.Doubled &&
		a.Reordered == b.Reordered && a.Refused == b.Refused && a.Alien == b.Alien && a.Unreadable == b.Unreadable
}

func TestLedgerKeepsDoubt(t *testing.T) {
	var l ledger
	l.note(3, doubtful)
	l.note(3, refused)
	if l.outcome(3) != doubtful {
		t.Error("a refused repetition ended the doubt about the first try")
	}
	l.note(3, acknowledged)
	if l.outcome(3) != acknowledged || len(l.odd) != 0 {
		t.Error("an acknowledged repetition did not end the doubt")
	}
}
