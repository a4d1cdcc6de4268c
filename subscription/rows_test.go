package subscription

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/glob"
	"durablestreams/stream"
)

func sampleState() *state {
	pattern, _ := glob.Parse("e/*")
	return &state{id: "sub 1", own: 0xabc, root: "https://ds.example/v1/stream", created: 1_700_000_000_000_000_000,
		hash:     [32]byte{1, 31: 2},
		settings: settings{typ: Webhook, pattern: pattern, url: "https://w.example/", ttl: 30 * time.Second, description: "d"},
		run:      run{generation: 7, wakeID: "w_1", phase: held, holder: "h", lease: 1000, retries: 3, retryAt: 2000}}
}

// TestStoredForm: what was written by this version stays readable.
func TestStoredForm(t *testing.T) {
	s := sampleState()
	for _, tt := range []struct {
		row        stream.Row
		key, value string
	}{
		{s.mainRow(), "sub/0000000000000abc/a",
			"010573756220311c68747470733a2f2f64732e6578616d706c652f76312f73747265616d8080d0e2c6bfce972f" +
				"0100000000000000000000000000000000000000000000000000000000000002" +
				"07776562686f6f6b03652f2a1268747470733a2f2f772e6578616d706c652f00b0ea010164"},
		{s.runRow(), "sub/0000000000000abc/r", "01070203775f310168d00f03a01f"},
		{s.markRow("e/a", stream.Offset{Pos: 300, Inc: 9}), "sub/0000000000000abc/me/a", "01ac0209"},
	} {
		if got := hex.EncodeToString(tt.row.Value); string(tt.row.Key) != tt.key || got != tt.value {
			t.Errorf("key %q, value %s\nwant %q, %s", tt.row.Key, got, tt.key, tt.value)
		}
	}
}

func TestDecode(t *testing.T) {
	s := sampleState()
	got, err := decodeMain(s.own, s.mainRow().Value)
	if err != nil {
		t.Fatal(err)
	}
	if got.run, err = decodeRun(s.runRow().Value); err != nil {
		t.Fatal(err)
	}
	if string(got.mainRow().Value) != string(s.mainRow().Value) || got.run != s.run || got.ttl != s.ttl || !got.pattern.Match("e/x") {
		t.Errorf("read back %+v", got)
	}
	for _, row := range []stream.Row{s.mainRow(), s.runRow(), s.markRow("p", stream.Offset{Pos: 1, Inc: 2})} {
		_, kind, _, _ := parseKey(row.Key)
		for n := range row.Value {
			if decodeAny(kind, row.Value[:n]) == nil {
				t.Errorf("kind %c: %d bytes of %d are enough", kind, n, len(row.Value))
			}
		}
		longer := append(append([]byte{}, row.Value...), 0)
		newer := append([]byte{rowVersion + 1}, row.Value[1:]...)
		if decodeAny(kind, longer) == nil || decodeAny(kind, newer) == nil {
			t.Errorf("kind %c: read with a byte too many, or of another version", kind)
		}
	}
	for name, spoil := range map[string]func(*state){
		"type":           func(s *state) { s.typ = "x" },
		"lease":          func(s *state) { s.ttl = time.Hour },
		"phase":          func(s *state) { s.phase = 3 },
		"idle with wake": func(s *state) { s.phase = idle },
		"held without":   func(s *state) { s.wakeID = "" },
	} {
		s := sampleState()
		spoil(s)
		if decodeAny(mainRow, s.mainRow().Value) == nil && decodeAny(runRows, s.runRow().Value) == nil {
			t.Errorf("%s: read", name)
		}
	}
}

func decodeAny(kind rowKind, value []byte) error {
	switch kind {
	case mainRow:
		_, err := decodeMain(1, value)
		return err
	}
	return new(state).restore(kind, "p", value)
}

func TestParseKey(t *testing.T) {
	own := strings.Repeat("0", ownLen)
	for key, ok := range map[string]bool{
		rowPrefix + own + "/a":      true,
		rowPrefix + own + "/r":      true,
		rowPrefix + own + "/mp/q":   true,
		rowPrefix + own + "/lp":     true,
		rowPrefix + own + "/ax":     false,
		rowPrefix + own + "/m":      false,
		rowPrefix + own + "/l":      false,
		rowPrefix + own + "/x":      false,
		rowPrefix + own + "/":       false,
		rowPrefix + own:             false,
		rowPrefix + own[1:] + "g/a": false,
		"other/" + own + "/a":       false,
		"":                          false,
	} {
		if _, _, _, err := parseKey([]byte(key)); (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// FuzzRows: no row makes the decoders fail otherwise than with an error, and what
// they take comes out of the encoders as what it means.
func FuzzRows(f *testing.F) {
	s := sampleState()
	for _, row := range []stream.Row{s.mainRow(), s.runRow(), s.markRow("p", stream.Offset{Pos: 1, Inc: 2}), {Key: s.key(linkRows, "p"), Value: []byte{rowVersion}}} {
		f.Add(row.Key, row.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		own, kind, path, err := parseKey(key)
		if err != nil {
			return
		}
		if kind == mainRow {
			s, err := decodeMain(own, value)
			if err != nil {
				return
			}
			again, err := decodeMain(own, s.mainRow().Value)
			if err != nil || string(again.mainRow().Value) != string(s.mainRow().Value) || string(s.key(mainRow, "")) != strings.ToLower(string(key)) {
				t.Errorf("read %+v, again %+v, %v", s, again, err)
			}
			return
		}
		s := &state{own: own}
		if s.restore(kind, path, value) != nil {
			return
		}
		again := &state{own: own}
		switch kind {
		case runRows:
			err = again.restore(kind, path, s.runRow().Value)
		case markRows:
			err = again.restore(kind, path, s.markRow(path, s.marks.get(path).acked).Value)
		}
		if err != nil || again.run != s.run || kind == markRows && again.marks.get(path).acked != s.marks.get(path).acked {
			t.Errorf("read %+v, again %+v, %v", s, again, err)
		}
	})
}
