package inspect_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/inspect"
	"durablestreams/store"
	"durablestreams/stream"
)

type waiter chan error

func (w waiter) Complete(_ stream.Result, err error) { w <- err }

// filled gives a closed data directory with a stream, a fork of it and a
// deleted stream.
func filled(t *testing.T) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	e, err := store.Open(fs, "data", &store.Options{SegmentSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(c stream.Command) {
		t.Helper()
		w := make(waiter, 1)
		e.Apply(c, w)
		if err := <-w; err != nil {
			t.Fatal(err)
		}
	}
	apply(&stream.Create{Path: "chat/1", ContentType: "text/plain", Data: []byte("secret words")})
	snap, err := e.Stat("chat/1", false)
	if err != nil {
		t.Fatal(err)
	}
	apply(&stream.Create{Path: "chat/2", Fork: &stream.ForkRequest{SourcePath: "chat/1", Source: snap.ID, AtTail: true}})
	apply(&stream.Append{Path: "chat/2", ContentType: "text/plain", HasBody: true, Data: []byte("more"), Close: true})
	apply(&stream.Create{Path: "old", ContentType: "text/plain"})
	apply(&stream.Delete{Path: "old"})
	done := make(chan error, 1)
	e.PutRows([]store.Row{{Key: []byte("key\x00one"), Value: []byte("secret")}, {Key: []byte("none")}}, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestDirShowsEverythingButData(t *testing.T) {
	var text strings.Builder
	if err := inspect.Dir(&text, filled(t), "data", inspect.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"segment ", "create  stream 1  chat/1  12 bytes", "append  stream 2  4 bytes at 12  close",
		"delete  stream 3", "chat/2  text/plain  4 bytes", "fork of chat/1", "closed", "chunk of stream 1  12 bytes at 0",
		"record 6  rows  2 of them, 22 bytes\n", `row "key\x00one"  6 bytes`,
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "secret") {
		t.Error("output shows the data of a stream or row")
	}
	if strings.Contains(text.String(), "UNREADABLE") || strings.Contains(text.String(), "malformed") {
		t.Errorf("something cannot be read:\n%s", text.String())
	}
}

// A content type may hold what a terminal would obey.
func TestDirShowsNothingToObey(t *testing.T) {
	fs := vfs.NewMem()
	e, err := store.Open(fs, "data", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := make(waiter, 1)
	e.Apply(&stream.Create{Path: "a", ContentType: "text/plain; é=\"\u009b31m\u202e\x9b\x1b\nstream 2\ufffd\""}, w)
	if err := errors.Join(<-w, e.Close()); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := inspect.Dir(&text, fs, "data", inspect.Options{Parts: []inspect.Part{inspect.Streams}}); err != nil {
		t.Fatal(err)
	}
	if want := "é=\"\\u009b31m\\u202e\\x9b\\x1b\\nstream 2\ufffd\""; !strings.Contains(text.String(), want) || strings.Count(text.String(), "\n") != 1 {
		t.Errorf("%q, want %s in it", text.String(), want)
	}
}

func TestDirAsJSON(t *testing.T) {
	var out strings.Builder
	err := inspect.Dir(&out, filled(t), "data", inspect.Options{Parts: []inspect.Part{inspect.Streams}, JSON: true})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for line := range strings.Lines(out.String()) {
		var i struct {
			Type, Path string
			Forks      int
		}
		if err := json.Unmarshal([]byte(line), &i); err != nil || i.Type != "stream" {
			t.Fatalf("line %q: %v", line, err)
		}
		paths = append(paths, i.Path)
	}
	if !slices.Equal(paths, []string{"chat/1", "chat/2"}) {
		t.Fatalf("streams %v", paths)
	}
}

func TestDirRefusesWhatIsNotThere(t *testing.T) {
	for _, o := range []inspect.Options{{}, {Parts: []inspect.Part{"nonsense"}}} {
		fs := filled(t)
		dir := "data"
		if o.Parts == nil {
			dir = "nowhere"
		}
		if err := inspect.Dir(&strings.Builder{}, fs, dir, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestDirShowsTheNote(t *testing.T) {
	fs := filled(t)
	e, err := store.Open(fs, "data", nil) // it notes what is there
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := inspect.Dir(&text, fs, "data", inspect.Options{Parts: []inspect.Part{inspect.Journal}}); err != nil {
		t.Fatal(err)
	}
	if want := "\nnoted as durable up to record 6\n"; !strings.Contains(text.String(), want) {
		t.Errorf("output lacks %q:\n%s", want, text.String())
	}
}
