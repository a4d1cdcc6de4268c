package journal_test

import (
	"bytes"
	"testing"

	"durablestreams/internal/journal"
)

const fuzzSalt = 0x1234567890abcdef

func FuzzHeader(f *testing.F) {
	f.Add([]byte("ds.jrnl\n"), uint64(1))
	f.Add(bytes.Repeat([]byte{0}, 64), uint64(1))
	fl := newFiles(f)
	f.Add(fl.read(fl.path(0))[:64], uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, number uint64) {
		again, err := journal.DecodeHeader(b, number)
		if err == nil && !bytes.Equal(clearReserved(b[:64]), clearReserved(again)) {
			t.Fatalf("%x became %x", b[:64], again)
		}
	})
}

// clearReserved clears the reserved fields and the checksum over them.
func clearReserved(b []byte) []byte {
	c := bytes.Clone(b)
	clear(c[12:16])
	clear(c[48:64])
	return c
}

// FuzzFrames reads arbitrary bytes.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{})
	f.Add(journal.Frames(fuzzSalt, []byte("a"), nil, []byte("longer than the others")))
	f.Fuzz(func(t *testing.T, file []byte) {
		raw, _ := journal.ReadFrames(file, fuzzSalt)
		off := 64
		for _, r := range raw {
			if !bytes.Equal(file[off:off+len(r)], r) {
				t.Fatalf("frame at %d is not what the file holds", off)
			}
			off += (len(r) + 7) &^ 7
		}
	})
}

// FuzzDamage changes good frames: what comes before the change is read, what
// is changed is not, and if a good frame follows it is found.
func FuzzDamage(f *testing.F) {
	f.Add([]byte("one"), []byte("two"), []byte("three"), uint16(90), []byte{1}, uint16(0))
	f.Add([]byte("one"), []byte("two"), []byte("three"), uint16(120), []byte{1, 2, 3}, uint16(70))
	f.Fuzz(func(t *testing.T, a, b, c []byte, at uint16, xor []byte, salt uint16) {
		good := journal.Frames(fuzzSalt, a, b, c)
		ends := []int{0, 0, 0}
		end := 64
		for i, body := range [][]byte{a, b, c} {
			ends[i] = end + 45 + len(body)
			end = (ends[i] + 7) &^ 7
		}
		bad := bytes.Clone(good)
		for i, x := range xor {
			if k := int(at) + i; k >= 64 && k < len(bad) {
				bad[k] ^= x
			}
		}
		whole := 0 // frames without a change, up to the first changed one
		for whole < 3 && bytes.Equal(bad[:ends[whole]][64:], good[:ends[whole]][64:]) {
			whole++
		}
		raw, later := journal.ReadFrames(bad, fuzzSalt)
		if !samePadding(good, bad, ends) {
			return // padding is not covered
		}
		if len(raw) != whole {
			t.Fatalf("%d frames read, %d are whole", len(raw), whole)
		}
		lastIsGood := bytes.Equal(bad[(ends[1]+7)&^7:], good[(ends[1]+7)&^7:])
		if want := whole < 2 && lastIsGood; want && !later {
			t.Fatal("a later frame was not found")
		}
		if raw, later := journal.ReadFrames(good, fuzzSalt^(uint64(salt)+1)); len(raw) > 0 || later {
			t.Fatal("frames of another salt were read")
		}
	})
}

// samePadding reports whether only frames were changed.
func samePadding(good, bad []byte, ends []int) bool {
	for _, end := range ends {
		if !bytes.Equal(good[end:(end+7)&^7], bad[end:(end+7)&^7]) {
			return false
		}
	}
	return true
}

func FuzzNote(f *testing.F) {
	f.Add(journal.SampleNote())
	f.Add([]byte("ds.head\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if again := journal.DecodeNote(b); again != nil && (!bytes.Equal(again[:12], b[:12]) || !bytes.Equal(again[16:40], b[16:40])) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}
