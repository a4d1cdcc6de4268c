package stream_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"durablestreams/stream"
)

// records of every kind and with every field.
func sampleRecords() []stream.Record {
	lineage := []stream.Ancestor{{ID: 1, Incarnation: 11, End: 5}, {ID: 2, Incarnation: 1<<48 - 1, End: 9}}
	meta := func(l stream.Lifetime, f *stream.Fork) *stream.Meta {
		return &stream.Meta{ID: 7, CreatedAt: 1234, Incarnation: 99, Path: "a/b%2Fc", ContentType: "text/plain; charset=utf-8", Lifetime: l, Fork: f}
	}
	fork := &stream.Fork{Source: 2, SourcePath: "s", Point: 9, AskedOffset: "o", AskedSub: 3, Depth: 2, Lineage: lineage}
	base := stream.Record{ID: 7, Time: 1234}
	create := func(m *stream.Meta, data string, closed bool) stream.Record {
		r := base
		r.Kind, r.Meta, r.Data, r.Close, r.Pos = stream.RecordCreate, m, []byte(data), closed, m.Base()
		return r
	}
	list := []stream.Record{
		create(meta(stream.Lifetime{}, nil), "", false),
		create(meta(stream.Sliding(math.MaxUint64), nil), "hello", true),
		create(meta(stream.Sliding(0), fork), "x", false),
		create(meta(stream.Until(fixedTime(), "2030-01-01T00:00:00.5Z"), &stream.Fork{SourcePath: "z", Depth: 1}), "", false),
	}
	for i := range 16 {
		r := base
		r.Kind, r.Pos, r.Data = stream.RecordAppend, math.MaxUint64-uint64(i), bytes.Repeat([]byte{byte(i)}, i)
		if i&1 != 0 {
			r.HasProducer, r.Producer = true, stream.Producer{ID: "päd", Epoch: stream.MaxProducerInt, Seq: uint64(i)}
		}
		if i&2 != 0 {
			r.HasSeq, r.Seq = true, string(bytes.Repeat([]byte("q"), i-2))
		}
		r.Close = i&4 != 0
		list = append(list, r)
	}
	for i := range 4 {
		r := base
		r.Kind, r.Soft, r.Expired = stream.RecordDelete, i&1 != 0, i&2 != 0
		if i == 2 {
			r.Collected, r.Unref = []stream.ID{1, math.MaxUint64}, 3
		}
		list = append(list, r)
	}
	touch, drop := base, base
	touch.Kind, touch.Time = stream.RecordTouch, math.MinInt64
	drop.Kind, drop.Path = stream.RecordDrop, "a/b"
	return append(list, touch, drop)
}

func TestRecordRoundTrip(t *testing.T) {
	for i, r := range sampleRecords() {
		b := r.AppendTo([]byte("before"))
		if !bytes.HasPrefix(b, []byte("before")) || !bytes.HasSuffix(b, r.Data) {
			t.Errorf("record %d: the data are not the last bytes", i)
		}
		got, err := stream.DecodeRecord(r.Kind, b[len("before"):])
		if err != nil {
			t.Errorf("record %d: %v", i, err)
			continue
		}
		got.Data, r.Data = append([]byte{}, got.Data...), append([]byte{}, r.Data...)
		if !reflect.DeepEqual(got, r) {
			t.Errorf("record %d:\n%+v\nis read as\n%+v", i, r, got)
		}
		// Every cut is noticed, unless it only takes data.
		body := b[len("before"):]
		for n := range len(body) - len(r.Data) {
			if _, err := stream.DecodeRecord(r.Kind, body[:n]); err == nil {
				t.Errorf("record %d cut to %d of %d bytes was taken", i, n, len(body))
			}
		}
	}
	if _, err := stream.DecodeRecord(5, []byte{1, 0, 0}); err == nil {
		t.Error("a record of an unknown kind was taken")
	}
}

// Folding a record that went through the journal gives the same state, whatever
// becomes of the buffer that it lay in.
func TestFoldOfDecoded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		s := plain(t, 1, "start")
		direct, replayed := *s, *s
		for now := int64(1); now < 40; now++ {
			a := text(fmt.Sprint("data", now))
			if rng.IntN(2) == 0 {
				by(a, fmt.Sprint("p", rng.IntN(5)), uint64(rng.IntN(3)), uint64(rng.IntN(3)))
			}
			if rng.IntN(4) == 0 {
				withSeq(a, fmt.Sprintf("%03d", now))
			}
			a.Close = now == 39
			r, _, err := stream.DecideAppend(&direct, a, same, now)
			if err != nil || r.Kind == 0 {
				continue
			}
			buf := r.AppendTo(nil)
			back, derr := stream.DecodeRecord(r.Kind, buf)
			if derr != nil {
				t.Fatal(derr)
			}
			direct.Fold(&r)
			replayed = *reread(t, &replayed)
			replayed.Fold(&back)
			for i := range buf {
				buf[i] = '#'
			}
		}
		if image(&direct) != image(&replayed) {
			t.Fatalf("direct   %q\nreplayed %q", image(&direct), image(&replayed))
		}
	}
}

// reread writes a state and reads it back.
func reread(t testing.TB, s *stream.State) *stream.State {
	t.Helper()
	got, err := stream.DecodeState(s.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := got.DecodeProducers(s.AppendProducers(nil)); err != nil {
		t.Fatal(err)
	}
	return got
}

func sampleStates(t testing.TB) []*stream.State {
	a := plain(t, 1, "hello")
	b := forkOf(t, a, 2, 3, "x")
	add(t, b, withSeq(by(text("y"), "p", 1, 0), ""), 5)
	add(t, b, by(text("y"), "q", stream.MaxProducerInt, 0), 6)
	add(t, b, closing(by(text("z"), "p", 1, 1)), 7)
	a.Fold(&stream.Record{Kind: stream.RecordDelete, Time: 9})
	c := made(t, &stream.Create{Path: "c", Lifetime: stream.Sliding(5), ID: 3, Incarnation: 3, Closed: true}, nil)
	d := made(t, &stream.Create{Path: "d", Lifetime: stream.Until(fixedTime(), "x"), ID: 4, Incarnation: 4}, nil)
	d.TouchedAt, d.WrittenAt = -5, math.MinInt64
	return []*stream.State{a, b, c, d}
}

func TestStateRoundTrip(t *testing.T) {
	for i, s := range sampleStates(t) {
		got := reread(t, s)
		if image(got) != image(s) || !reflect.DeepEqual(got.Meta, s.Meta) {
			t.Errorf("state %d changes when it is read back", i)
		}
		row := s.AppendTo(nil)
		for n := range row {
			if _, err := stream.DecodeState(row[:n]); err == nil {
				t.Errorf("state %d cut to %d of %d bytes was taken", i, n, len(row))
			}
		}
		if _, err := stream.DecodeState(append(row, 0)); err == nil {
			t.Errorf("state %d with a byte too many was taken", i)
		}
		if _, err := stream.DecodeState(make([]byte, len(row))); err == nil {
			t.Errorf("zeros were taken for state %d", i)
		}
	}
}

func TestDecodeProducersRefuses(t *testing.T) {
	s := plain(t, 1, "")
	add(t, s, by(text("y"), "a", 1, 0), 5)
	add(t, s, by(text("y"), "b", 1, 0), 6)
	row := s.AppendProducers(nil)
	swapped := bytes.Clone(row)
	i, j := bytes.IndexByte(row, 'a'), bytes.IndexByte(row, 'b')
	swapped[i], swapped[j] = 'b', 'a'
	for _, bad := range [][]byte{nil, {0}, {2, 0}, row[:len(row)-1], append(bytes.Clone(row), 0), swapped, {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}} {
		before := image(s)
		if err := s.DecodeProducers(bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
		if image(s) != before {
			t.Errorf("%v was refused, but changed the state", bad)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, r := range sampleRecords() {
		f.Add(byte(r.Kind), r.AppendTo(nil))
	}
	f.Add(byte(1), binary.AppendUvarint([]byte{1, 0, 0}, math.MaxUint64))
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		before := allocated()
		r, err := stream.DecodeRecord(stream.RecordKind(kind), b)
		bounded(t, before, len(b))
		if err != nil {
			return
		}
		again, err := stream.DecodeRecord(r.Kind, r.AppendTo(nil))
		if err != nil || string(again.AppendTo(nil)) != string(r.AppendTo(nil)) {
			t.Errorf("%+v is read back as %+v, %v", r, again, err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	for _, s := range sampleStates(f) {
		f.Add(s.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := allocated()
		s, err := stream.DecodeState(b)
		bounded(t, before, len(b))
		if err == nil && image(reread(t, s)) != image(s) {
			t.Errorf("%+v changes when it is read back", s)
		}
	})
}

func FuzzDecodeProducers(f *testing.F) {
	for _, s := range sampleStates(f) {
		f.Add(s.AppendProducers(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := plain(t, 1, "")
		before := allocated()
		err := s.DecodeProducers(b)
		bounded(t, before, len(b))
		if err == nil && image(reread(t, s)) != image(s) {
			t.Errorf("%q changes when it is read back", b)
		}
	})
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// bounded checks that a decoder took no more memory than its input explains.
func bounded(t *testing.T, before uint64, size int) {
	t.Helper()
	if n := allocated() - before; n > uint64(100*size+1<<20) {
		t.Errorf("%d bytes were allocated for %d bytes of input", n, size)
	}
}
