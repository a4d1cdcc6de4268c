package archive_test

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/archive"
	"durablestreams/stream"
)

// A repair makes the chunks of each stream what they must be: without overlaps,
// nothing beyond the ends, nothing of nobody; and it says what is missing.
func TestRepairStraightens(t *testing.T) {
	content := func(id stream.ID, from, to uint64) []byte {
		b := make([]byte, to-from)
		for i := range b {
			b[i] = byte(id) ^ byte((from+uint64(i))*7)
		}
		return b
	}
	type chunk struct{ from, to uint64 }
	streams := []struct {
		name   string
		tail   uint64
		chunks []chunk
		want   []chunk
		lost   []chunk
	}{
		{"whole", 100, []chunk{{0, 60}, {60, 100}}, []chunk{{0, 60}, {60, 100}}, nil},
		{"twice", 150, []chunk{{0, 100}, {0, 150}}, []chunk{{0, 150}}, nil},
		{"overlapping", 150, []chunk{{0, 100}, {40, 150}}, []chunk{{0, 100}, {100, 150}}, nil},
		{"one in the other", 150, []chunk{{0, 150}, {20, 60}}, []chunk{{0, 150}}, nil},
		{"beyond the tail", 100, []chunk{{0, 60}, {60, 120}, {120, 140}}, []chunk{{0, 60}, {60, 100}}, nil},
		{"beyond the tail, and another up to it", 100, []chunk{{40, 120}, {50, 100}, {0, 40}}, []chunk{{0, 40}, {40, 100}}, nil},
		{"a hole", 100, []chunk{{0, 20}, {60, 100}}, []chunk{{0, 20}, {60, 100}}, []chunk{{20, 60}}},
		{"no beginning and no end", 100, []chunk{{20, 60}}, []chunk{{20, 60}}, []chunk{{0, 20}, {60, 100}}},
		{"nothing", 100, nil, nil, []chunk{{0, 100}}},
		{"empty", 0, nil, nil, nil},
	}
	fs := vfs.NewMem()
	a, err := archive.Open(fs, "archive", archive.Options{Mirror: "mirror"})
	if err != nil {
		t.Fatal(err)
	}
	w := a.NewBatch()
	for i, s := range streams {
		state := &stream.State{Meta: &stream.Meta{ID: stream.ID(i + 1), Incarnation: 1, Path: stream.Path(s.name), ContentType: "text/plain"}, Tail: s.tail}
		w.PutName(state.Meta)
		w.PutRow(state.ID, archive.AppendRow(nil, state, 1), stream.Never)
		for _, c := range s.chunks {
			w.PutChunk(state.ID, c.from, content(state.ID, c.from, c.to))
		}
	}
	w.PutChunk(99, 0, []byte("nobody's"))
	w.PutChunk(99, 8, []byte(" data"))
	w.SetApplied(1, 100)
	if err := w.Apply(); err != nil {
		t.Fatal(err)
	}
	if err := a.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		done, err := archive.Plan{Aside: "aside"}.Run(fs, "archive", "mirror", nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		lost := map[stream.ID][]chunk{}
		for _, l := range done.Lost {
			lost[l.ID] = append(lost[l.ID], chunk{l.From, l.To})
		}
		if a, err = archive.Open(fs, "archive", archive.Options{Mirror: "mirror"}); err != nil {
			t.Fatal(err)
		}
		got := map[stream.ID][]chunk{}
		err = a.AllChunks(func(c archive.Chunk, data []byte) error {
			got[c.ID] = append(got[c.ID], chunk{c.Pos, c.Pos + uint64(c.Len)})
			if !bytes.Equal(data, content(c.ID, c.Pos, c.Pos+uint64(c.Len))) {
				t.Errorf("chunk of stream %d at %d has other data", c.ID, c.Pos)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range streams {
			id := stream.ID(i + 1)
			if !slices.Equal(got[id], s.want) || !slices.Equal(lost[id], s.lost) {
				t.Errorf("%s: chunks %v, want %v; lost %v, want %v", s.name, got[id], s.want, lost[id], s.lost)
			}
		}
		if len(got[99]) != 0 {
			t.Errorf("nobody's data are still there: %v", got[99])
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
