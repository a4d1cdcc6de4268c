package store_test

import (
	"slices"
	"strings"
	"testing"

	"durablestreams/internal/dstest"
	"durablestreams/store"
)

// A start succeeds on a disk of which others have taken the last byte, again and
// again, and holds space for the next one.
func TestStartOnFullDisk(t *testing.T) {
	disk := dstest.NewDisk()
	disk.SetCapacity(32 << 20)
	o := still()
	o.OnFatal = func(err error) { t.Errorf("the engine gave up: %v", err) }
	e, err := store.Open(disk, dstest.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	dstest.MustApply(t, e, dstest.CreateText("a", strings.Repeat("a", 100<<10)))
	e.LookAtSpace()
	for i := range 6 {
		if !slices.Contains(disk.Files("data"), "ballast") {
			t.Fatalf("start %d holds no space", i)
		}
		if err := e.Close(); err != nil {
			t.Fatalf("close %d: %v", i, err)
		}
		disk.SetCapacity(disk.Used())
		if e, err = store.Open(disk, dstest.Dir, o); err != nil {
			t.Fatalf("start %d on a full disk: %v", i, err)
		}
		if got := len(dstest.MustRead(t, e, "a")); got != 100<<10 {
			t.Errorf("start %d: %d bytes", i, got)
		}
		e.LookAtSpace()
	}
	disk.SetCapacity(64 << 20)
	e.LookAtSpace()
	dstest.MustApply(t, e, dstest.Text("a", "on"))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	dstest.CheckDisk(t, disk)
}
