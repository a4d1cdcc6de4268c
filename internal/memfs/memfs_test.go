package memfs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/memfs"
)

const category = vfs.WriteCategoryUnspecified

// After whatever has been done to files, what is used is what their sizes say, never
// more than there is.
func TestUsedIsWhatIsThere(t *testing.T) {
	const limit = 10_000
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		fs := memfs.New(limit)
		open := map[string]vfs.File{}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for range 300 {
			must(fs.MkdirAll("d", 0o755))
			name := fmt.Sprint([]string{"", "d/"}[rng.IntN(2)], "f", rng.IntN(4))
			other := fmt.Sprint("f", rng.IntN(4))
			var err error
			switch rng.IntN(9) {
			case 0:
				open[name], err = fs.Create(name, category)
			case 1:
				open[name], err = fs.OpenReadWrite(name, category)
			case 2:
				if err = fs.Rename(name, other); err == nil {
					open[other] = open[name]
					delete(open, name)
				}
			case 3:
				if open[other], err = fs.ReuseForWrite(name, other, category); err != nil {
					delete(open, other)
				}
				delete(open, name)
			case 4:
				err = fs.Remove(name) // an open file may be written all the same
			case 5:
				if rng.IntN(5) == 0 {
					err = fs.RemoveAll("d")
				}
			default:
				if f := open[name]; f != nil {
					p := make([]byte, rng.IntN(2000))
					if _, err = f.Write(p); rng.IntN(2) == 0 {
						_, err = f.WriteAt(p, int64(rng.IntN(2000)))
					}
				}
			}
			if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			var size int64
			for _, dir := range []string{"", "d"} {
				names, err := fs.List(dir)
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				for _, n := range names {
					info, err := fs.Stat(fs.PathJoin(dir, n))
					must(err)
					if !info.IsDir() {
						size += info.Size()
					}
				}
			}
			u, err := fs.GetDiskUsage("")
			must(err)
			if u.UsedBytes != uint64(size) || u.AvailBytes != uint64(limit-size) || u.TotalBytes != limit {
				t.Fatalf("seed %d: %+v, the files have %d bytes", seed, u, size)
			}
		}
	}
}

func TestNoSpace(t *testing.T) {
	fs := memfs.New(1000)
	f, err := fs.Create("a", category)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a byte too many: %v", err)
	}
	if _, err := f.WriteAt([]byte("x"), 999); err != nil {
		t.Errorf("a byte that is there: %v", err)
	}
	if err := fs.Remove("a"); err != nil {
		t.Fatal(err)
	}
	g, err := fs.Create("b", category)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(make([]byte, 1000)); err != nil {
		t.Errorf("after a removal: %v", err)
	}
}

// What has two names counts once, until it has none.
func TestLink(t *testing.T) {
	fs := memfs.New(1000)
	used := func(want uint64, when string) {
		t.Helper()
		if u, err := fs.GetDiskUsage(""); err != nil || u.UsedBytes != want {
			t.Errorf("%s: %d bytes used, want %d (%v)", when, u.UsedBytes, want, err)
		}
	}
	f, err := fs.Create("a", category)
	if err != nil {
		t.Fatal(err)
	}
	write := func(n int) {
		t.Helper()
		if _, err := f.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	write(100)
	if err := fs.Link("a", "b"); err != nil {
		t.Fatal(err)
	}
	if err := fs.Link("a", "b"); !errors.Is(err, os.ErrExist) {
		t.Errorf("link over a file: %v", err)
	}
	if err := fs.Link("none", "c"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("link of nothing: %v", err)
	}
	used(100, "two names")
	if err := fs.Remove("a"); err != nil {
		t.Fatal(err)
	}
	write(50)
	used(150, "one name")
	if err := fs.Rename("b", "c"); err != nil {
		t.Fatal(err)
	}
	used(150, "renamed")
	if err := fs.RemoveAll("c"); err != nil {
		t.Fatal(err)
	}
	used(0, "no name")
	write(50)
	used(0, "no name and written")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
