package salvage_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/salvage"
)

const dir = "db"

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func options(fs vfs.FS) *pebble.Options {
	o := &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, DisableWAL: true, Logger: quiet{}, DisableAutomaticCompactions: true,
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}}
	for i := range o.Levels {
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = 4 << 10
	}
	return o
}

func open(t testing.TB, fs vfs.FS) *pebble.DB {
	t.Helper()
	db, err := pebble.Open(dir, options(fs))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// filled gives a store with two levels, deletions, large and small values, and what
// is in it.
func filled(t testing.TB) (*vfs.MemFS, map[string]string) {
	t.Helper()
	fs := vfs.NewMem()
	db := open(t, fs)
	rng := rand.New(rand.NewPCG(5, 6))
	want := map[string]string{}
	for round := range 4 {
		for i := range 300 {
			key := fmt.Sprintf("key %04d", rng.IntN(600))
			value := strings.Repeat(strconv.Itoa(round*1000+i), rng.IntN(20)*rng.IntN(40))
			if err := db.Set([]byte(key), []byte(value), pebble.NoSync); err != nil {
				t.Fatal(err)
			}
			want[key] = value
			if i%7 == 0 {
				key := fmt.Sprintf("key %04d", rng.IntN(600))
				if err := db.Delete([]byte(key), pebble.NoSync); err != nil {
					t.Fatal(err)
				}
				delete(want, key)
			}
		}
		big := fmt.Sprint("big ", round)
		want[big] = strings.Repeat(big, 4<<10)
		if err := db.Set([]byte(big), []byte(want[big]), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			if err := db.Compact(context.Background(), []byte("a"), []byte("z"), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return fs, want
}

func content(t testing.TB, fs vfs.FS) map[string]string {
	t.Helper()
	db := open(t, fs)
	defer db.Close()
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	got := map[string]string{}
	for ok := it.First(); ok; ok = it.Next() {
		got[string(it.Key())] = string(it.Value())
	}
	if err := it.Error(); err != nil {
		t.Fatal(err)
	}
	return got
}

func tables(t testing.TB, fs vfs.FS) (paths []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, n := range names {
		if strings.HasSuffix(n, salvage.TableExt) {
			paths = append(paths, dir+"/"+n)
		}
	}
	return paths
}

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func writeFile(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// version is a key as of a time.
type version struct {
	key string
	seq uint64
}

func read(t testing.TB, fs vfs.FS, path string) (map[version]string, []salvage.Hole) {
	t.Helper()
	got := map[version]string{}
	holes, err := salvage.ReadTable(fs, path, func(p salvage.Point) error {
		value := string(p.Value)
		if p.Deleted {
			value = "deleted"
		}
		got[version{string(p.Key), p.Seq}] = value
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, holes
}

// The tables of a sound store hold, in the order of their sequence numbers, what the
// store holds.
func TestReadTable(t *testing.T) {
	fs, want := filled(t)
	newest := map[string]version{}
	all := map[version]string{}
	for _, path := range tables(t, fs) {
		got, holes := read(t, fs, path)
		if len(holes) > 0 {
			t.Errorf("%s: %v", path, holes)
		}
		for v, value := range got {
			all[v] = value
			if v.seq >= newest[v.key].seq {
				newest[v.key] = v
			}
		}
	}
	got := map[string]string{}
	for key, v := range newest {
		if all[v] != "deleted" {
			got[key] = all[v]
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the tables have %d keys, the store %d", len(got), len(want))
	}
}

// Whatever happens to a table: what is read of it was in it, what is not is said to
// be missing, and damage in one place leaves the rest.
func TestReadDamagedTable(t *testing.T) {
	fs, _ := filled(t)
	seed := uint64(1)
	if s := os.Getenv("DS_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	rounds := 150
	if n, err := strconv.Atoi(os.Getenv("DS_ROUNDS")); err == nil {
		rounds = 20 * n
	}
	kept := 0
	for _, path := range tables(t, fs) {
		whole, _ := read(t, fs, path)
		sound := readFile(t, fs, path)
		for range rounds {
			b := slices.Clone(sound)
			at := rng.IntN(len(b))
			what := fmt.Sprintf("%s, %d bytes, seed %d: ", path, len(b), seed)
			least := 0 // keys that must still be there
			switch rng.IntN(4) {
			case 0:
				b = b[:at]
				what += fmt.Sprintf("cut at %d", at)
				if at > len(sound)*3/4 {
					least = len(whole) / 4
				}
			case 1:
				clear(b[at:min(at+5000, len(b))])
				what += fmt.Sprintf("zeros from %d", at)
			default:
				b[at] ^= 1 << rng.IntN(8)
				what += fmt.Sprintf("a bit flipped at %d", at)
				least = len(whole) / 3
			}
			damaged := vfs.NewMem()
			if err := damaged.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, damaged, path, b)
			got, holes := read(t, damaged, path)
			for v, value := range got {
				if whole[v] != value {
					t.Fatalf("%s: %v reads %.40q, was %.40q", what, v, value, whole[v])
				}
			}
			if len(holes) == 0 && !bytes.Equal(b, sound) {
				t.Errorf("%s: no hole, %d of %d keys", what, len(got), len(whole))
			}
			if len(got) < least {
				t.Errorf("%s: only %d of %d keys; %v", what, len(got), len(whole), holes)
			}
			kept += len(got)
		}
	}
	if kept == 0 {
		t.Error("nothing was ever read")
	}
	if got, holes := read(t, vfs.NewMem(), "db/000001.sst"); len(got) != 0 || len(holes) != 1 {
		t.Errorf("no file: %v, %v", got, holes)
	}
}

// A store without some of its tables holds what the others hold, also where several
// virtual tables share a file.
func TestManifestWithout(t *testing.T) {
	fs, _ := filled(t)
	db := open(t, fs)
	for i := range 3 {
		from := fmt.Sprintf("key %04d", 100+100*i)
		if err := db.Excise(t.Context(), pebble.KeyRange{Start: []byte(from), End: []byte(from + "~")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := salvage.ReadManifest(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	files := m.Files()
	if m.Cut != nil || len(files) < 3 || len(files) > len(tables(t, fs)) {
		t.Fatalf("the manifest names %d files (cut: %v), there are %v", len(files), m.Cut, tables(t, fs))
	}
	for _, gone := range files {
		without, err := m.Without([]uint64{gone.Num})
		if err != nil {
			t.Fatal(err)
		}
		left := vfs.NewMem()
		if _, err := vfs.Clone(fs, left, dir, dir, vfs.CloneSync); err != nil {
			t.Fatal(err)
		}
		writeFile(t, left, dir+"/"+m.Name, without)
		if err := left.Remove(dir + "/" + salvage.TableName(gone.Num)); err != nil {
			t.Fatal(err)
		}
		got := content(t, left)
		if len(got) == 0 {
			t.Errorf("without %d: nothing is left", gone.Num)
		}
		if info, err := fs.Stat(dir + "/" + salvage.TableName(gone.Num)); err != nil || uint64(info.Size()) != gone.Size {
			t.Errorf("file %d has %v bytes, the manifest says %d", gone.Num, info, gone.Size)
		}
		if bytes.Compare(gone.From, gone.To) > 0 || len(gone.From) == 0 {
			t.Errorf("file %d is from %q to %q", gone.Num, gone.From, gone.To)
		}
	}
}

// A block that is damaged is refused before Pebble looks for the bit that has
// flipped, and only then.
func TestChecked(t *testing.T) {
	fs, want := filled(t)
	for _, path := range tables(t, fs) {
		b := readFile(t, fs, path)
		if i := bytes.Index(b, []byte(want["big 1"][:1000])); i > 0 {
			b[i+5000] ^= 3 // one bit would be found soon
			writeFile(t, fs, path, b)
		}
	}
	var on atomic.Bool
	for _, checks := range []bool{false, true} {
		on.Store(checks)
		corruptions := 0
		o := options(checkedFS{fs, &on})
		o.EventListener.DataCorruption = func(pebble.DataCorruptionInfo) { corruptions++ }
		db, err := pebble.Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := db.Get([]byte("big 1")); err == nil {
			t.Error("the damaged value is read")
		}
		if (corruptions == 0) != checks {
			t.Errorf("checking is %v, Pebble has seen damage %d times", checks, corruptions)
		}
		for key, value := range want {
			if key == "big 1" {
				continue
			}
			got, closer, err := db.Get([]byte(key))
			if err != nil || string(got) != value {
				t.Fatalf("%s: %v", key, err)
			}
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

type checkedFS struct {
	vfs.FS
	on *atomic.Bool
}

func (c checkedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, salvage.TableExt) {
		return f, err
	}
	return salvage.Checked(f, name, c.on)
}

func FuzzManifest(f *testing.F) {
	fs, _ := filled(f)
	m, err := salvage.ReadManifest(fs, dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(readFile(f, fs, dir+"/"+m.Name))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := vfs.NewMem()
		if err := fs.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, fs, dir+"/MANIFEST-000001", b)
		writeFile(t, fs, dir+"/marker.manifest.000001.MANIFEST-000001", nil)
		m, err := salvage.ReadManifest(fs, dir)
		if err != nil {
			return
		}
		var nums []uint64
		for _, file := range m.Files() {
			nums = append(nums, file.Num)
		}
		if _, err := m.Without(nums); err != nil {
			t.Fatal(err)
		}
	})
}
