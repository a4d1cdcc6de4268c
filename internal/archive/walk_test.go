package archive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/archive"
	"durablestreams/stream"
)

// words sort next to each other, and next to the end of every prefix.
func words() []string {
	list := []string{"\x00", "a", "a\x00", "a/", "a/b", "a\xff", "a\xff\xff", "a\xff\xffb", "b", "\xff", "\xff\xff"}
	slices.Sort(list)
	return list
}

func opened(t *testing.T) *archive.Archive {
	t.Helper()
	a, err := archive.Open(vfs.NewMem(), "archive", archive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestNamesAfter(t *testing.T) {
	a := opened(t)
	w := a.NewBatch()
	for i, p := range words() {
		s := stream.State{Meta: &stream.Meta{ID: stream.ID(i + 1), Path: stream.Path(p)}}
		w.PutName(s.Meta)
		w.PutRow(s.ID, archive.AppendRow(nil, &s, 1), stream.Never)
	}
	if err := w.Apply(); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range append(words(), "") {
		for _, after := range append(words(), "") {
			var want []string
			for _, p := range words() {
				if strings.HasPrefix(p, prefix) && p > after {
					want = append(want, p)
				}
			}
			for _, n := range []int{1, 2, 100} {
				var got []string
				page := []archive.Name{{Path: stream.Path(after)}}
				for len(page) > 0 {
					var err error
					if page, err = a.NamesAfter(nil, prefix, page[len(page)-1].Path, n); err != nil {
						t.Fatal(err)
					}
					for _, name := range page {
						got = append(got, string(name.Path))
						if words()[name.ID-1] != string(name.Path) {
							t.Errorf("%q leads to stream %d", name.Path, name.ID)
						}
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("prefix %q after %q, %d at once: %q, want %q", prefix, after, n, got, want)
				}
			}
		}
	}
}

func TestSmallRows(t *testing.T) {
	a := opened(t)
	w := a.NewBatch()
	for i, k := range words() {
		w.PutSmall([]byte(k), nil)
		w.PutSmall([]byte(k), fmt.Append(nil, i))
	}
	w.PutSmall([]byte("ab"), []byte("gone"))
	w.DeleteSmall([]byte("ab"))
	if err := w.Apply(); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range append(words(), "") {
		var got, want []string
		for i, k := range words() {
			if strings.HasPrefix(k, prefix) {
				want = append(want, fmt.Sprintf("%q=%d", k, i))
			}
		}
		rows, err := a.SmallRows([]byte(prefix))
		if err != nil {
			t.Fatal(err)
		}
		for {
			k, v, err := rows.Next()
			if err != nil {
				t.Fatal(err)
			}
			if k == nil {
				break
			}
			got = append(got, fmt.Sprintf("%q=%s", k, v))
		}
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q: %q, want %q", prefix, got, want)
		}
	}
}
