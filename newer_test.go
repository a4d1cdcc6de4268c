package durablestreams_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams"
	"durablestreams/auth"
	"durablestreams/internal/mirror"
)

// newerKind makes one kind of file or row of a data directory one of a newer program.
type newerKind struct {
	name string
	edit func(t *testing.T, dir string)
	row  bool   // it is in the archive
	says string // which the error begins with, somewhere
}

// newerKinds has every kind that has a version.
var newerKinds = []newerKind{
	{name: "journal segment", says: ".seg was written by a newer ds (format 2; this ds reads up to 1)", edit: func(t *testing.T, dir string) {
		segments, err := filepath.Glob(filepath.Join(dir, "journal", "*.seg"))
		if err != nil || len(segments) == 0 {
			t.Fatalf("%q, %v", segments, err)
		}
		editFile(t, dir, filepath.Join("journal", filepath.Base(segments[0])), func(b []byte) { b[8] = 2; b[60] ^= 1 }) // whatever its checksum covers
	}},
	{name: "journal head", says: "HEAD was written by a newer ds (format 2;", edit: func(t *testing.T, dir string) {
		editFile(t, dir, "journal/HEAD", func(b []byte) { reseal(b, 0, 64) })
	}},
	{name: "mirror", says: "(mirror) was written by a newer ds (format 2;", edit: func(t *testing.T, dir string) {
		editFile(t, dir, "mirror", func(b []byte) { reseal(b, 0, 128); reseal(b, 512, 128) })
	}},
	{name: "pebble", says: "the archive's Pebble store was written by a newer ds (format 999; this ds reads up to 24)", edit: func(t *testing.T, dir string) {
		marker, err := filepath.Glob(filepath.Join(dir, "archive/marker.format-version.*"))
		if err != nil || len(marker) != 1 {
			t.Fatalf("%q, %v", marker, err)
		}
		if err := os.Rename(marker[0], strings.TrimSuffix(marker[0], filepath.Ext(marker[0]))+".999"); err != nil {
			t.Fatal(err)
		}
	}},
	{name: "plan of a repair", says: "(REPAIR) was written by a newer ds (format 2;", edit: func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, "REPAIR"), []byte(`{"Format":2,"Steps":[]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}},
	{name: "webhook keys", says: "the key file was written by a newer ds (format 2;", edit: func(t *testing.T, dir string) {
		editFile(t, dir, "keys/webhook", func(b []byte) { copy(b, "ds webhook keys 2") })
	}},
	{name: "keys of signed URLs", says: "the key file was written by a newer ds (format 3;", edit: func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, "keys/urls"), []byte("ds key for signed URLs 3 what=ever\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}},
	{name: "archive", row: true, says: "the archive was written by a newer ds (format 2;", edit: newerRows("!", 0)},
	{name: "state", row: true, says: "the state of a stream was written by a newer ds (format 2;", edit: newerRows("s", 16)},
	{name: "producers", row: true, says: "the row of a stream's producers was written by a newer ds (format 2;", edit: newerRows("p", 0)},
	{name: "subscription", row: true, says: "a row of a subscription was written by a newer ds (format 2;", edit: newerRows("rsub/", 0, "/a")},
	{name: "link", row: true, says: "a row of a subscription was written by a newer ds (format 2;", edit: newerRows("rsub/", 0, "/l")},
	{name: "mark", row: true, says: "a row of a subscription was written by a newer ds (format 2;", edit: newerRows("rsub/", 0, "/m")},
	{name: "run", row: true, says: "a row of a subscription was written by a newer ds (format 2;", edit: newerRows("rsub/", 0, "/r")},
}

// reseal makes the version of a slot with a checksum at its end 2.
func reseal(b []byte, off, size int) {
	slot := b[off : off+size]
	slot[8] = 2
	binary.LittleEndian.PutUint32(slot[size-4:], crc32.Checksum(slot[:size-4], crc32.MakeTable(crc32.Castagnoli)))
}

func editFile(t *testing.T, dir, name string, edit func(b []byte)) {
	t.Helper()
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edit(b)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// newerRows makes all rows of a kind, which are there, newer: the byte at a place in
// their values, in the archive and in its second copy.
func newerRows(prefix string, at int, infix ...string) func(t *testing.T, dir string) {
	return rowsOfVersion(2, prefix, at, infix...)
}

func rowsOfVersion(version byte, prefix string, at int, infix ...string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		o := &pebble.Options{FormatMajorVersion: pebble.FormatNewest, DisableWAL: true, Logger: noLog{}}
		for i := range o.Levels {
			o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression } // as the archive's
		}
		db, err := pebble.Open(filepath.Join(dir, "archive"), o)
		if err != nil {
			t.Fatal(err)
		}
		copied, err := mirror.Open(vfs.Default, filepath.Join(dir, "mirror"))
		if err != nil {
			t.Fatal(err)
		}
		label := bytes.Clone(copied.Label())
		var ops mirror.Ops
		n := 0
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: append([]byte(prefix), 0xff)})
		if err != nil {
			t.Fatal(err)
		}
		for it.First(); it.Valid(); it.Next() {
			if len(infix) > 0 && !strings.Contains(string(it.Key()), infix[0]) {
				continue
			}
			n++
			value := bytes.Clone(it.Value())
			value[at] = version
			if string(it.Key()) == "!" {
				label = value
			}
			ops.Set(it.Key(), value)
			if err := db.Set(bytes.Clone(it.Key()), value, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
		if n == 0 {
			t.Fatalf("no rows %q %q", prefix, infix)
		}
		if err := errors.Join(it.Close(), db.Flush(), db.Close(), copied.Append(ops), copied.Commit(label), copied.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

type noLog struct{}

func (noLog) Infof(string, ...any)         {}
func (noLog) Errorf(string, ...any)        {}
func (noLog) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// contents gives all files but locks.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantSame(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for name, b := range before {
		if got, there := after[name]; !there || got != b {
			t.Errorf("%s has changed %s", what, name)
		}
	}
	for name := range after {
		if _, there := before[name]; !there {
			t.Errorf("%s has made %s", what, name)
		}
	}
}

// subscribed is the golden directory with a subscription that has rows of every kind.
func subscribed(t *testing.T) (dir string) {
	t.Helper()
	dir = unpack(t, "testdata/"+goldenName+".tar.gz")
	s := open(t, dir, &goldenOptions)
	for _, a := range []goldenRequest{
		{method: "POST", path: "__ds/subscriptions/pulled/streams", body: `{"streams":["text/late"]}`},
		{method: "POST", path: "users/ann", body: `["more"]`, headers: ofType("application/json")},
		{method: "POST", path: "text/open", body: "by p", headers: ofType("text/plain", producer("1", "1")...)},
	} {
		if got := a.answer(s); !strings.Contains(got, "\n20") {
			t.Fatal(got)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What comes now is in the journal only.
	s = open(t, dir, &goldenOptions)
	a := goldenRequest{method: "POST", path: "text/open", body: "by p again", headers: ofType("text/plain", producer("1", "2")...)}
	if got := a.answer(s); !strings.Contains(got, "\n20") {
		t.Fatal(got)
	}
	crashed := t.TempDir()
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := auth.NewURLKey()
	if err := os.WriteFile(filepath.Join(crashed, "keys/urls"), key.Text(), 0o600); err != nil {
		t.Fatal(err)
	}
	return crashed
}

// What a newer program has written is refused by name by everything that opens a data
// directory, and nothing is changed, also where there is damage beside it, which a repair
// would take out together with what it does not know.
func TestNewerVersion(t *testing.T) {
	base := subscribed(t)

	allowed := &auth.Options{File: filepath.Join(t.TempDir(), "access")}
	if err := os.WriteFile(allowed.File, []byte("anonymous read:**\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	damages := map[string]func(t *testing.T, dir string){
		"sound": func(*testing.T, string) {},
		"without a manifest": func(t *testing.T, dir string) {
			removeAll(t, dir, "archive/MANIFEST-*")
		},
		"without a manifest and a mirror": func(t *testing.T, dir string) {
			removeAll(t, dir, "archive/MANIFEST-*")
			removeAll(t, dir, "mirror")
		},
	}
	for _, kind := range newerKinds {
		for damage, do := range damages {
			if kind.name == "mirror" && strings.HasSuffix(damage, "mirror") {
				continue // nothing newer is left
			}
			t.Run(kind.name+"/"+damage, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
					t.Fatal(err)
				}
				kind.edit(t, dir)
				do(t, dir)
				before := contents(t, dir)
				refused := func(what string, err error) {
					t.Helper()
					if !errors.Is(err, durablestreams.ErrNewer) || errors.Is(err, durablestreams.ErrDamaged) || !strings.Contains(fmt.Sprint(err), kind.says) {
						t.Errorf("%s: %v, want %q", what, err, kind.says)
					}
				}
				_, err := durablestreams.Check(dir)
				refused("check", err)
				_, err = durablestreams.Repair(dir)
				refused("repair", err)
				wantSame(t, "check or repair", before, contents(t, dir))
				if damage != "sound" {
					return // the start is refused for that already
				}
				o := goldenOptions
				o.Access = allowed // or the keys of URLs would not be read
				s, err := durablestreams.Open(dir, &o)
				refused("open", err)
				if s != nil {
					t.Fatal("it opens")
				}
				if !kind.row {
					wantSame(t, "open", before, contents(t, dir))
				}
			})
		}
	}
}

func removeAll(t *testing.T, dir, pattern string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%q, %v", found, err)
	}
	for _, path := range found {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// What is no version at all is damage, which a check reports.
func TestCheckLooksAtSecretsAndSubscriptions(t *testing.T) {
	for want, edit := range map[string]func(t *testing.T, dir string){
		"keys/webhook: the key file is damaged": func(t *testing.T, dir string) {
			editFile(t, dir, "keys/webhook", func(b []byte) { b[len(b)-70] ^= 1 })
		},
		"keys/urls: the key file is damaged": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "keys/urls"), []byte("ds key for signed URLs 1 nothing\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		": malformed row": rowsOfVersion(0, "rsub/", 0, "/a"),
	} {
		dir := unpack(t, "testdata/"+goldenName+".tar.gz")
		edit(t, dir)
		report, err := durablestreams.Check(dir)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, p := range report.Problems {
			said += p.Where + ": " + p.What + "\n"
		}
		if !strings.Contains(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
	}
}
