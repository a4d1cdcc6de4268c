package backup_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/backup"
	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// What is backed up again and again is there as it was each time, and what has not
// changed is neither sent nor kept again.
func TestBackups(t *testing.T) {
	disk, to := dstest.NewDisk(), dstest.NewDisk()
	o := still()
	o.FlushInterval, o.TailMemory = time.Hour, 64<<20 // what is in the archive stays as it is
	e := dstest.OpenEngine(t, disk, o)
	putFile(t, disk, "data/keys/urls", "secret")
	putFile(t, disk, "data/keys/urls.new-1-2", "half")
	putFile(t, disk, "data/keys/webhook.lock", "")
	var sums backup.Sums
	fill(t, e, 0, 40)
	if err := e.Close(); err != nil { // a sound end: everything is in the archive
		t.Fatal(err)
	}
	e = dstest.OpenEngine(t, disk, o)
	first := take(t, disk, e, &sums, to)
	if first.Number != 1 || first.Bytes != first.Manifest.Bytes() || first.Files != len(first.Manifest.Files) {
		t.Errorf("the first: %+v", first)
	}
	fill(t, e, 40, 45)
	second := take(t, disk, e, &sums, to)
	if second.Number != 2 || second.Bytes > first.Bytes/2 || second.Manifest.LastRecord <= first.Manifest.LastRecord {
		t.Errorf("the second has sent %d of %d bytes; the first had %d", second.Bytes, second.Manifest.Bytes(), first.Bytes)
	}
	third := take(t, disk, e, &backup.Sums{}, to) // of a server that has just started
	if third.Bytes > first.Bytes/2 {
		t.Errorf("the third has sent %d of %d bytes", third.Bytes, third.Manifest.Bytes())
	}
	sound(t, to, 3)
	restore(t, to, 1, "one")
	restore(t, to, 2, "two")
	restore(t, to, 0, "three")
	wantStreams(t, to, "one", 40, 40, 44)
	wantStreams(t, to, "two", 45, 45)
	wantStreams(t, to, "three", 45)
	if files := to.Files("one/keys"); !slices.Equal(files, []string{"urls"}) || readFile(t, to, "one/keys/urls") != "secret" {
		t.Errorf("keys: %v", files)
	}
	if _, err := backup.Look(dstest.NewDisk(), dest); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no destination: %v", err)
	}
}

// Two servers that were one once have files of the same names and not the same content.
func TestTwoLives(t *testing.T) {
	disk, to := dstest.NewDisk(), dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, still())
	fill(t, e, 0, 10)
	take(t, disk, e, &backup.Sums{}, to)
	other := dstest.NewDisk()
	if _, err := backup.RestoreTar(other, bytes.NewReader(tarOf(t, disk, e, &backup.Sums{}, nil)), dstest.Dir); err != nil {
		t.Fatal(err)
	}
	again := dstest.OpenEngine(t, other, still())
	for i := range 10 {
		dstest.MustApply(t, e, dstest.CreateText(stream.Path(fmt.Sprint("x/", i)), strings.Repeat("x", 9000)))
		dstest.MustApply(t, again, dstest.CreateText(stream.Path(fmt.Sprint("y/", i)), strings.Repeat("y", 9000)))
		take(t, disk, e, &backup.Sums{}, to)
		take(t, other, again, &backup.Sums{}, to)
	}
	sound(t, to, 21)
	shared := map[string]string{}
	differ := false
	d := open(t, to)
	defer done(t, d)
	list, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		for _, f := range entry.Manifest.Files {
			if f.Lasting {
				differ = differ || shared[f.Name] != "" && shared[f.Name] != f.SHA256
				shared[f.Name] = f.SHA256
			}
		}
	}
	if !differ {
		t.Error("no name had two contents: the test shows nothing")
	}
	for n, prefix := range map[int]string{20: "x", 21: "y"} {
		dir := fmt.Sprint("back", n)
		restore(t, to, n, dir)
		r, err := store.Open(to, dir, still())
		if err != nil {
			t.Fatal(err)
		}
		if got := dstest.MustRead(t, r, stream.Path(prefix+"/9")); got != strings.Repeat(prefix, 9000) {
			t.Errorf("backup %d has %.20q", n, got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A tar that ends early is no backup, wherever it ends.
func TestCutTar(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, still())
	fill(t, e, 0, 4)
	whole := tarOf(t, disk, e, &backup.Sums{}, nil)
	to := dstest.NewDisk()
	manifest := bytes.Index(whole, []byte("manifest.json"))
	for n := 0; n <= bytes.LastIndexByte(whole, '}'); n += 1 + len(whole)/120 {
		d := open(t, to)
		_, err := d.Take(bytes.NewReader(whole[:n]))
		if err == nil || n < manifest && !errors.Is(err, backup.ErrNoBackup) {
			t.Fatalf("cut at %d of %d: %v", n, len(whole), err)
		}
		if _, err := d.Find(0); err == nil {
			t.Fatalf("cut at %d: there is a backup", n)
		}
		if files := to.Files("backups/files"); slices.ContainsFunc(files, func(s string) bool { return strings.HasPrefix(s, "incoming") }) {
			t.Fatalf("cut at %d: left behind: %v", n, files)
		}
		done(t, d)
		dir := fmt.Sprint("restored", n)
		if _, err := backup.RestoreTar(to, bytes.NewReader(whole[:n]), dir); err == nil {
			t.Fatalf("cut at %d: restored", n)
		}
		if _, err := store.Open(to, dir, still()); !errors.Is(err, store.ErrRestoring) {
			t.Fatalf("cut at %d: what was half restored opens: %v", n, err)
		}
	}
	d := open(t, to)
	defer done(t, d)
	if _, err := d.Take(bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	sound(t, to, 1)
	restore(t, to, 0, "all")
	wantStreams(t, to, "all", 4)
}

// A tar in which something has changed on the way gives no backup, or the same one.
func TestChangedTar(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, still())
	fill(t, e, 0, 4)
	whole := tarOf(t, disk, e, &backup.Sums{}, nil)
	good := dstest.NewDisk()
	d := open(t, good)
	want, err := d.Take(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	done(t, d)
	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 300 {
		changed := bytes.Clone(whole)
		i := rng.IntN(len(changed))
		changed[i] ^= 1 << rng.IntN(8)
		to := dstest.NewDisk()
		d := open(t, to)
		taken, err := d.Take(bytes.NewReader(changed))
		done(t, d)
		if err != nil {
			refused++
			continue
		}
		if taken.Manifest.Sum != want.Manifest.Sum {
			t.Errorf("byte %d: another backup", i)
		}
		sound(t, to, 1)
	}
	if refused < 50 {
		t.Errorf("only %d of 300 were refused", refused)
	}
}

// Tars that no server sends.
func TestForgedTar(t *testing.T) {
	for name, h := range map[string]*tar.Header{
		"a name above":          {Name: "../x", Typeflag: tar.TypeReg},
		"a name above, later":   {Name: "archive/../../x", Typeflag: tar.TypeReg},
		"a folder for a name":   {Name: "archive/..", Typeflag: tar.TypeReg},
		"an absolute name":      {Name: "/archive/x", Typeflag: tar.TypeReg},
		"a file beside":         {Name: "RESTORE", Typeflag: tar.TypeReg},
		"a folder below":        {Name: "archive/x/y", Typeflag: tar.TypeReg},
		"another folder":        {Name: "other/x", Typeflag: tar.TypeReg},
		"a symbolic link":       {Name: "archive/x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		"a directory":           {Name: "archive/", Typeflag: tar.TypeDir},
		"a manifest of nothing": {Name: "manifest.json", Typeflag: tar.TypeReg},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			if err := errors.Join(w.WriteHeader(h), w.Close()); err != nil {
				t.Fatal(err)
			}
			to := dstest.NewDisk()
			d := open(t, to)
			defer done(t, d)
			if _, err := d.Take(bytes.NewReader(b.Bytes())); err == nil {
				t.Error("taken")
			}
			if _, err := backup.RestoreTar(to, bytes.NewReader(b.Bytes()), "r"); err == nil {
				t.Error("restored")
			}
			if files := slices.Concat(to.Files("backups/files"), to.Files("backups/manifests"), to.Files("r/archive")); len(files) > 0 {
				t.Errorf("written: %v", files)
			}
		})
	}
}

// The power goes at every step of a backup: it is there as a whole or not at all, those
// before it are not touched, and the next one succeeds.
func TestPowerCutDuringBackup(t *testing.T) {
	disk, to := dstest.NewDisk(), dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, still())
	fill(t, e, 0, 5)
	take(t, disk, e, &backup.Sums{}, to)
	fill(t, e, 5, 10)
	rng := rand.New(rand.NewPCG(3, 4))
	before, after := 0, 0
	for n := 0; ; n++ {
		at := to.Crash(rng, dstest.Loss{})
		d := open(t, at)
		have, err := d.Have()
		if err != nil {
			t.Fatal(err)
		}
		cut := dstest.ArmPowerCut(at, rng, dstest.RandomLoss(rng), n)
		if _, err := d.Take(bytes.NewReader(tarOf(t, disk, e, &backup.Sums{}, have))); err != nil {
			t.Fatal(err)
		}
		at.OnOp(nil)
		done(t, d)
		if !cut.Fired() {
			break
		}
		looked, err := backup.Look(cut.After, dest)
		if err != nil {
			t.Fatal(err)
		}
		list, err := looked.List()
		if err != nil || len(list) == 0 || len(list) > 2 {
			t.Fatalf("cut %d: %d backups, %v", n, len(list), err)
		}
		if len(list) == 1 {
			before++
		} else {
			after++
		}
		sound(t, cut.After, len(list))
		take(t, disk, e, &backup.Sums{}, cut.After)
		sound(t, cut.After, len(list)+1)
		restore(t, cut.After, 0, "r")
		wantStreams(t, cut.After, "r", 10)
	}
	if before < 5 || after == 0 {
		t.Errorf("%d cuts before the backup was there, %d after: too few", before, after)
	}
}

// The power goes at every step of a restore: what is left is refused by name, or whole.
func TestPowerCutDuringRestore(t *testing.T) {
	disk, to := dstest.NewDisk(), dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, still())
	putFile(t, disk, "data/keys/urls", "secret")
	fill(t, e, 0, 6)
	take(t, disk, e, &backup.Sums{}, to)
	rng := rand.New(rand.NewPCG(5, 6))
	refused, whole := 0, 0
	for n := 0; ; n++ {
		at := to.Crash(rng, dstest.Loss{})
		cut := dstest.ArmPowerCut(at, rng, dstest.RandomLoss(rng), n)
		restore(t, at, 1, "r")
		at.OnOp(nil)
		if !cut.Fired() {
			break
		}
		if len(cut.After.Files("r")) == 0 {
			continue // not begun
		}
		_, err := store.Check(cut.After, "r", nil)
		switch {
		case errors.Is(err, store.ErrRestoring):
			refused++
		case err != nil:
			t.Fatalf("cut %d: %v", n, err)
		default:
			whole++
			wantStreams(t, cut.After, "r", 6)
			if readFile(t, cut.After, "r/keys/urls") != "secret" {
				t.Error("the keys are not there")
			}
		}
	}
	if refused < 5 || whole == 0 {
		t.Errorf("%d were refused, %d whole: too few", refused, whole)
	}
}

// What is damaged is named, by verify and by restore.
func TestDamage(t *testing.T) {
	disk, to := dstest.NewDisk(), dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, still())
	fill(t, e, 0, 5)
	taken := take(t, disk, e, &backup.Sums{}, to)
	var sums []string // of three files that have content
	for _, f := range taken.Manifest.Files {
		if f.Size > 0 && !slices.Contains(sums, f.SHA256) {
			sums = append(sums, f.SHA256)
		}
	}
	for name, c := range map[string]struct {
		file   string
		change func(d *dstest.Disk, path string)
		want   string
	}{
		"a bit":      {sums[0], func(d *dstest.Disk, p string) { d.Edit(p, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }) }, "checksum"},
		"cut":        {sums[1], func(d *dstest.Disk, p string) { d.Edit(p, func(b []byte) []byte { return b[:len(b)-1] }) }, "bytes, not"},
		"missing":    {sums[2], func(d *dstest.Disk, p string) { _ = d.Remove(p) }, "missing"},
		"a manifest": {"", func(d *dstest.Disk, p string) { d.Edit(p, func(b []byte) []byte { b[len(b)/3]++; return b }) }, "manifest is damaged"},
		"no JSON":    {"", func(d *dstest.Disk, p string) { d.Edit(p, func(b []byte) []byte { return b[:len(b)/2] }) }, "manifest is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			at := to.Crash(nil, dstest.Loss{})
			path := "backups/files/" + c.file
			if c.file == "" {
				path = "backups/manifests/" + taken.Name
			}
			c.change(at, path)
			d := open(t, at)
			defer done(t, d)
			damage, _, err := d.Verify()
			if err != nil || len(damage) != 1 || damage[0].Path != path || !strings.Contains(damage[0].What, c.want) || !slices.Equal(damage[0].Backups, []int{1}) {
				t.Errorf("verify: %+v, %v", damage, err)
			}
			entry, err := d.Find(1)
			if err == nil {
				err = d.Restore(entry, "r")
			}
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("restore: %v", err)
			}
			if name != "a bit" { // that would take reading everything
				if _, err := d.Prune(1); err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("prune: %v", err)
				}
			}
			if c.file == "" {
				return
			}
			if _, err := store.Open(at, "r", still()); !errors.Is(err, store.ErrRestoring) {
				t.Errorf("what was half restored opens: %v", err)
			}
			// A whole backup puts it right.
			if _, err := d.Take(bytes.NewReader(tarOf(t, disk, e, &backup.Sums{}, nil))); err != nil {
				t.Fatal(err)
			}
			if entry, err = d.Find(2); err == nil {
				err = d.Restore(entry, "r2")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Old backups go, and what only they needed.
func TestPrune(t *testing.T) {
	disk, to := dstest.NewDisk(), dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, still())
	var sums backup.Sums
	for i := range 5 {
		fill(t, e, 10*i, 10*i+10)
		take(t, disk, e, &sums, to)
	}
	d := open(t, to)
	defer done(t, d)
	if _, err := d.Take(bytes.NewReader(nil)); err == nil {
		t.Error("nothing is a backup")
	}
	before := len(to.Files("backups/files"))
	p, err := d.Prune(2)
	if err != nil || len(p.Backups) != 3 || p.Files == 0 || p.Files != before-len(to.Files("backups/files")) || p.Bytes == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	sound(t, to, 2)
	restore(t, to, 4, "r")
	wantStreams(t, to, "r", 40, 40)
	if _, err := d.Find(3); err == nil {
		t.Error("backup 3 is still there")
	}
	if p, err := d.Prune(2); err != nil || len(p.Backups) != 0 || p.Files != 0 {
		t.Errorf("again: %+v, %v", p, err)
	}
	if taken := take6(t, d, disk, e); taken.Number != 6 {
		t.Errorf("the next one is number %d", taken.Number)
	}
}

func take6(t *testing.T, d *backup.Destination, disk *dstest.Disk, e *store.Engine) *backup.Taken {
	t.Helper()
	taken, err := d.Take(bytes.NewReader(tarOf(t, disk, e, &backup.Sums{}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// Two processes do not write to one destination, and a restore goes nowhere but into an
// empty directory. On a real disk, where keys are their owner's alone.
func TestRealFiles(t *testing.T) {
	disk := dstest.NewDisk()
	e := dstest.OpenEngine(t, disk, still())
	putFile(t, disk, "data/keys/urls", "secret")
	fill(t, e, 0, 3)
	base := t.TempDir()
	d, err := backup.Open(vfs.Default, base+"/b")
	if err != nil {
		t.Fatal(err)
	}
	defer done(t, d)
	if _, err := backup.Open(vfs.Default, base+"/b"); !errors.Is(err, backup.ErrInUse) {
		t.Errorf("a second process: %v", err)
	}
	taken, err := d.Take(bytes.NewReader(tarOf(t, disk, e, &backup.Sums{}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Restore(taken.Entry, base+"/r"); err != nil {
		t.Fatal(err)
	}
	if err := d.Restore(taken.Entry, base+"/r"); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("over what is there: %v", err)
	}
	wantStreams(t, vfs.Default, base+"/r", 3)
	for path, want := range map[string]os.FileMode{"r/keys": 0o700, "r/keys/urls": 0o600, "b": 0o700, "b/files": 0o700} {
		info, err := os.Stat(base + "/" + path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// A manifest that is read is written as the same bytes, and nothing else is one.
func FuzzParseManifest(f *testing.F) {
	disk := dstest.NewDisk()
	e, err := store.Open(disk, dstest.Dir, still())
	if err != nil {
		f.Fatal(err)
	}
	p, err := e.Picture(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	set, err := backup.NewSet(disk, dstest.Dir, p)
	if err != nil {
		f.Fatal(err)
	}
	var sums backup.Sums
	m, err := sums.Send(f.Context(), io.Discard, set, nil, "fuzz")
	if err := errors.Join(err, set.Close(), e.Close()); err != nil {
		f.Fatal(err)
	}
	b, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"format":1,"files":[{"name":"archive/../x","size":-1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := backup.ParseManifest(b)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := backup.ParseManifest(again); err != nil {
			t.Fatalf("written again it is none: %v", err)
		}
	})
}
