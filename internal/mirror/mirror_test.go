package mirror_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/dstest"
	"durablestreams/internal/format"
	"durablestreams/internal/mirror"
)

const path = "data/rows"

func newDisk(t testing.TB) *dstest.Disk {
	t.Helper()
	disk := dstest.NewDisk()
	if err := disk.MkdirAll("data", 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := disk.OpenDir("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(root.Sync(), root.Close()); err != nil {
		t.Fatal(err)
	}
	return disk
}

func mustOpen(t testing.TB, fs vfs.FS) *mirror.Log {
	t.Helper()
	l, err := mirror.Open(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// content reads a copy.
func content(fs vfs.FS) (m map[string]string, label string, err error) {
	m = map[string]string{}
	b, err := mirror.Read(fs, path, func(op mirror.Op) error {
		if op.Deleted {
			delete(m, string(op.Key))
		} else {
			m[string(op.Key)] = string(op.Value)
		}
		return nil
	})
	return m, string(b), err
}

func wantContent(t testing.TB, fs vfs.FS, want map[string]string, label string) {
	t.Helper()
	got, l, err := content(fs)
	if err != nil || l != label || !maps.Equal(got, want) {
		t.Fatalf("the copy has %d keys as of %q (%v), want %d as of %q", len(got), l, err, len(want), label)
	}
}

// source is a set of keys with a copy that follows it.
type source struct {
	rng     *rand.Rand
	now     map[string]string   // as of the last change
	commits []map[string]string // as of each commit
	changed map[string]bool     // since the last commit
}

func newSource(seed uint64) *source {
	return &source{rng: rand.New(rand.NewPCG(seed, 1)), now: map[string]string{}, changed: map[string]bool{}}
}

// change makes up some changes.
func (s *source) change() (ops mirror.Ops, apply func()) {
	next := maps.Clone(s.now)
	for range 1 + s.rng.IntN(4) {
		key := fmt.Sprint("key", s.rng.IntN(20))
		s.changed[key] = true
		if s.rng.IntN(4) == 0 {
			ops.Delete([]byte(key))
			delete(next, key)
			continue
		}
		value := strings.Repeat(fmt.Sprint(s.rng.IntN(1000)), s.rng.IntN(300))
		ops.Set([]byte(key), []byte(value))
		next[key] = value
	}
	return ops, func() { s.now = next }
}

func (s *source) committed() {
	s.commits = append(s.commits, s.now)
	clear(s.changed)
}

func label(commits int) string { return fmt.Sprint("commit ", commits) }

// rewrite makes the copy anew from the source.
func (s *source) rewrite(l *mirror.Log) error {
	return l.Rewrite([]byte(label(len(s.commits)+1)), func(set func(key, value []byte) error) error {
		for k, v := range s.now {
			if err := set([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A copy whose source is cut off at any moment is as of the last commit, or of
// the one under way, and its pending keys name everything in which the source may
// have gone on.
func TestPowerCuts(t *testing.T) {
	for seed := range uint64(20) {
		disk := newDisk(t)
		s := newSource(seed)
		pictures := 0
		disk.OnOp(func(op dstest.Op) error {
			if len(s.commits) == 0 || !op.Changes() {
				return nil
			}
			pictures++
			loss := dstest.Loss{Keep: s.rng.IntN(3) * 50, Tear: s.rng.IntN(2) == 0}
			s.checkPicture(t, disk.Crash(s.rng, loss), fmt.Sprintf("seed %d, power cut at %s of %s", seed, op.Name, op.Path))
			return nil
		})
		l := mustOpen(t, disk)
		for range 60 {
			var err error
			switch dice := s.rng.IntN(12); {
			case dice == 0 || !l.Valid():
				if err = s.rewrite(l); err == nil {
					s.committed()
				}
			case dice < 4:
				if err = l.Commit([]byte(label(len(s.commits) + 1))); err == nil {
					s.committed()
				}
			case dice == 4: // a kill: everything written stays
				err = l.Close()
				l = mustOpen(t, disk)
				s.follow(t, l)
			default:
				ops, apply := s.change()
				if err = l.Append(ops); err == nil {
					apply()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		disk.OnOp(nil)
		if pictures < 100 {
			t.Fatalf("only %d pictures", pictures)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		wantContent(t, disk, s.commits[len(s.commits)-1], label(len(s.commits)))
	}
}

// follow does what an owner does after a crash: it brings the keys that the two
// may differ in up to date.
func (s *source) follow(t *testing.T, l *mirror.Log) {
	t.Helper()
	var ops mirror.Ops
	for _, key := range l.Pending() {
		if v, ok := s.now[string(key)]; ok {
			ops.Set(key, []byte(v))
		} else {
			ops.Delete(key)
		}
	}
	if err := l.Append(ops); err != nil {
		t.Fatal(err)
	}
}

// checkPicture looks at what a power cut has left. The source itself may have kept
// any of its changes; the copy has to reach the same state.
func (s *source) checkPicture(t *testing.T, disk *dstest.Disk, when string) {
	t.Helper()
	got, l, err := content(disk)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	n := len(s.commits)
	switch l {
	case label(n):
		if !maps.Equal(got, s.commits[n-1]) {
			t.Fatalf("%s: the copy is not as of its commit", when)
		}
	case label(n + 1):
		if !maps.Equal(got, s.now) {
			t.Fatalf("%s: the copy is not as of the commit under way", when)
		}
	default:
		t.Fatalf("%s: the copy is as of %q, want %q", when, l, label(n))
	}
	log := mustOpen(t, disk)
	pending := log.Pending()
	for key := range s.changed {
		applied := s.now[key] != s.commits[n-1][key]
		if applied && l == label(n) && !slices.ContainsFunc(pending, func(p []byte) bool { return string(p) == key }) {
			t.Fatalf("%s: %s was changed behind the commit and is not pending", when, key)
		}
	}
	s.follow(t, log)
	if err := log.Commit([]byte("after")); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	wantContent(t, disk, s.now, "after")
}

// committedCopy gives a disk with a copy of several commits.
func committedCopy(t testing.TB) (*dstest.Disk, map[string]string) {
	t.Helper()
	disk := newDisk(t)
	s := newSource(7)
	l := mustOpen(t, disk)
	for i := range 12 {
		if i%3 == 0 {
			ops, apply := s.change()
			apply()
			if i == 0 {
				if err := s.rewrite(l); err != nil {
					t.Fatal(err)
				}
				s.committed()
				continue
			}
			if err := errors.Join(l.Append(ops), l.Commit([]byte(label(len(s.commits)+1)))); err != nil {
				t.Fatal(err)
			}
			s.committed()
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return disk, s.commits[len(s.commits)-1]
}

// A byte that flips is noticed, or does no harm.
func TestFlippedBytes(t *testing.T) {
	disk, want := committedCopy(t)
	size := 0
	disk.Edit(path, func(b []byte) []byte { size = len(b); return b })
	damaged := 0
	for i := range size {
		d := disk.Crash(nil, dstest.Loss{})
		d.Edit(path, func(b []byte) []byte { b[i] ^= 1 << (i % 8); return b })
		got, l, err := content(d)
		if _, is := errors.AsType[*mirror.DamageError](err); is {
			damaged++
			continue
		}
		if err != nil || l == "commit 4" && !maps.Equal(got, want) {
			t.Fatalf("byte %d: as of %q, %d keys, %v", i, l, len(got), err)
		}
		if l == "commit 4" {
			continue
		}
		// The slots tell the commit before the last one: what is behind it looks like
		// what was never finished. The caller knows better, by the label.
		if l != "commit 3" {
			t.Fatalf("byte %d: as of %q", i, l)
		}
	}
	if damaged < 100 {
		t.Errorf("only %d of %d bytes count", damaged, size)
	}
	for _, both := range [][2]int{{3, 515}, {60, 600}} {
		d := disk.Crash(nil, dstest.Loss{})
		d.Edit(path, func(b []byte) []byte { b[both[0]] ^= 1; b[both[1]] ^= 1; return b })
		l, err := mirror.Open(d, path)
		if _, is := errors.AsType[*mirror.DamageError](err); !is || l.Valid() {
			t.Errorf("without a mark: %v", err)
		}
		if err := l.Rewrite(nil, func(set func(k, v []byte) error) error { return set([]byte("k"), nil) }); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wantContent(t, d, map[string]string{"k": ""}, "")
	}
}

// A copy that grows by changes becomes small again when it is written anew.
func TestRewriteShrinks(t *testing.T) {
	disk := newDisk(t)
	l := mustOpen(t, disk)
	s := newSource(3)
	if err := s.rewrite(l); err != nil {
		t.Fatal(err)
	}
	for i := 0; !l.Grown(); i++ {
		if i > 10_000 {
			t.Fatal("it never says that it has grown")
		}
		ops, apply := s.change()
		if err := errors.Join(l.Append(ops), l.Commit([]byte("x"))); err != nil {
			t.Fatal(err)
		}
		apply()
	}
	before := disk.Used()
	if err := s.rewrite(l); err != nil {
		t.Fatal(err)
	}
	if after := disk.Used(); after > before/4 || l.Grown() {
		t.Errorf("%d bytes before, %d after", before, after)
	}
	wantContent(t, disk, s.now, label(1))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, disk)
	if l.Grown() || string(l.Label()) != label(1) {
		t.Errorf("after reopening: grown %v, label %q", l.Grown(), l.Label())
	}
	if err := l.Drop(); err != nil {
		t.Fatal(err)
	}
	if l.Valid() || len(disk.Files("data")) != 0 {
		t.Errorf("dropped, and there is %v", disk.Files("data"))
	}
	if err := errors.Join(l.Append(mirror.Ops("not looked at")), l.Commit(nil), l.Close()); err != nil {
		t.Errorf("without a copy: %v", err)
	}
}

// A failed write leaves no copy that could be taken for a whole one.
func TestFailedWrites(t *testing.T) {
	for _, failing := range []string{"write", "sync"} {
		disk, want := committedCopy(t)
		l := mustOpen(t, disk)
		fails := errors.New("no")
		disk.OnOp(func(op dstest.Op) error {
			if op.Name == failing {
				return fails
			}
			return nil
		})
		var ops mirror.Ops
		ops.Set([]byte("new"), []byte("value"))
		if err := l.Append(ops); !errors.Is(err, fails) || l.Valid() {
			t.Errorf("append, failing %s: %v, valid %v", failing, err, l.Valid())
		}
		if err := l.Rewrite([]byte("new"), func(set func(k, v []byte) error) error { return set([]byte("k"), nil) }); !errors.Is(err, fails) {
			t.Errorf("rewrite, failing %s: %v", failing, err)
		}
		disk.OnOp(nil)
		wantContent(t, disk, want, "commit 4")
		if err := errors.Join(l.Drop(), l.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestVersion(t *testing.T) {
	disk, _ := committedCopy(t)
	disk.Edit(path, mirror.OtherVersion)
	for name, err := range map[string]error{
		"open": second(mirror.Open(disk, path)),
		"read": second(mirror.Read(disk, path, nil)),
	} {
		if v, ok := errors.AsType[*format.VersionError](err); !ok || v.Found != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzRead(f *testing.F) {
	disk, _ := committedCopy(f)
	disk.Edit(path, func(b []byte) []byte { f.Add(b); f.Add(mirror.OtherVersion(b)); return b })
	f.Fuzz(func(t *testing.T, b []byte) {
		disk := vfs.NewMem()
		if err := disk.MkdirAll("data", 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := disk.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		got, label, err := content(disk)
		l, openErr := mirror.Open(disk, path)
		if openErr != nil && err == nil {
			t.Fatalf("read but not opened: %v", openErr)
		}
		if openErr != nil {
			return
		}
		pending := len(l.Pending())
		if err := errors.Join(l.Commit(l.Label()), l.Close()); err != nil {
			t.Fatal(err)
		}
		if pending > 0 || err != nil { // they are committed now
			return
		}
		wantContent(t, disk, got, label)
	})
}
